"""Signals that ask a training to end: noted when they come, looked at between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Signals"]

_TAKEN = (signal.SIGTERM, signal.SIGUSR1)


class Signals:
    """A ``with`` block in which SIGTERM and SIGUSR1 are noted in ``asked`` (0: none) instead of ending the process.

    Handlers of the program's own stay. Outside the main thread nothing is taken: Python handles signals there alone.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in _TAKEN:
                if signal.getsignal(number) == signal.SIG_DFL:
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = number
