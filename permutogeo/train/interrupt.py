"""Deferred handling of Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# The terminal and torchrun both forward a Ctrl-C: two within this time are one.
_SAME_SECONDS = 1.0


class InterruptHandler:
    """Context manager that records the first SIGINT or SIGTERM; a second one raises at once."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self._received_at = 0.0
        self._previous: dict[int, object] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal was received."""
        return self._signal is not None

    def raise_interrupt(self, message: str) -> NoReturn:
        """Raise the exception of the received signal."""
        if self._signal == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)
        raise KeyboardInterrupt(message)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._signal is None:
            self._signal, self._received_at = number, now
        elif now - self._received_at > _SAME_SECONDS:
            self.raise_interrupt("stopped at once")

    def __enter__(self) -> InterruptHandler:
        # Only the main thread of Python can receive signals.
        if threading.current_thread() is threading.main_thread():
            self._previous = {n: signal.signal(n, self._handle) for n in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
