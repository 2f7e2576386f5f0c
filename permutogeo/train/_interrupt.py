"""Ctrl-C that waits for the end of a step."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Both the terminal and torchrun pass a Ctrl-C on: the second within this time is the same.
_SAME_SECONDS = 1.0


class Interrupt:
    """Remembers a first Ctrl-C, or a request to terminate; a second one raises at once."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self._since = 0.0
        self._before: dict[int, object] = {}

    @property
    def asked(self) -> bool:
        """Whether to end soon."""
        return self._signal is not None

    def end(self, message: str) -> NoReturn:
        """What the signal would have done at once."""
        if self._signal == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)
        raise KeyboardInterrupt(message)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._signal is None:
            self._signal, self._since = number, now
        elif now - self._since > _SAME_SECONDS:
            self.end("stopped at once")

    def __enter__(self) -> Interrupt:
        # Python lets only its main thread receive signals.
        if threading.current_thread() is threading.main_thread():
            self._before = {n: signal.signal(n, self._remember) for n in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
