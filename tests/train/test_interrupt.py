import os
import signal
import threading

import pytest

from permutogeo.train import interrupt
from permutogeo.train.interrupt import InterruptHandler


def send(number):
    os.kill(os.getpid(), number)


def test_the_first_signal_is_recorded(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    with InterruptHandler() as handler:
        assert not handler.requested
        send(signal.SIGINT)
        send(signal.SIGINT)  # forwarded by torchrun
        assert handler.requested
        with pytest.raises(KeyboardInterrupt, match="after 3 steps"):
            handler.raise_interrupt("stopped after 3 steps")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_later_signal_raises(monkeypatch):
    monkeypatch.setattr(interrupt, "_SAME_SECONDS", 0.0)
    with InterruptHandler():
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match="at once"):
            send(signal.SIGINT)


def test_sigterm_exits_with_its_number():
    with InterruptHandler() as handler:
        send(signal.SIGTERM)
        with pytest.raises(SystemExit) as stop:
            handler.raise_interrupt("")
    assert stop.value.code == 143


def test_other_threads_leave_signals_alone():
    before = signal.getsignal(signal.SIGINT)

    def run():
        with InterruptHandler() as handler:
            assert signal.getsignal(signal.SIGINT) is before and not handler.requested

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
