"""Addresses of schedulers; test_jobs.py runs on one."""

import os
import socket

import pytest

from permutogeo.cluster import check_scheduler, dask_pool


def test_names_of_schedulers():
    assert check_scheduler("local") == os.cpu_count()
    assert check_scheduler("local:3") == 3
    for address in ("tcp://10.0.0.1:8786", "tls://node-1.cluster:1", "host:8786", "tcp://[::1]:80"):
        assert check_scheduler(address) is None
    for wrong in ("", "locals", "local:-1", "host", "tcp://host", "host:0", "host:99999", "a b:1"):
        with pytest.raises(ValueError, match="Expected 'local', 'local:N' or the address"):
            check_scheduler(wrong)
    with pytest.raises(ValueError, match="at least one worker"):
        check_scheduler("local:0")


def test_a_scheduler_that_does_not_answer(monkeypatch):
    """A port that is open and silent: an error after the timeout, not a wait for ever."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_pool, "SCHEDULER_SECONDS", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with (
            pytest.raises(ConnectionError, match=rf"Expected a Dask scheduler at '{address}'"),
            dask_pool.open_client(address),
        ):
            pass


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with (
        pytest.raises(ImportError, match=r"pip install 'permutogeo\[cluster\]'"),
        dask_pool.open_client("local:1"),
    ):
        pass
