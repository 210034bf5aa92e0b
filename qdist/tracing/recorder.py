"""What a rank did, as it did it: a list of events on one clock."""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import Any, NamedTuple

__all__ = ["Event", "Recorder"]

MOST = 1_000_000
"""Events of a rank that are kept: some hundred megabytes of a file."""


class Event(NamedTuple):
    """One thing that took time. Times are nanoseconds of ``time.perf_counter_ns``."""

    name: str
    category: str
    """run, bind, plan, stage, pack, exchange, message, wait, measure, train, file; or gpu, which has its own track."""
    start: int
    end: int
    thread: int
    args: dict[str, Any]
    """bytes and flops, where it has any; for messages who else takes part."""


class Recorder:
    """Takes the events of all threads of this process."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.left_out = 0
        self.origin = time.perf_counter_ns()
        self.collectives = 0
        """How many were recorded: calls that go by without being seen show in this."""
        self.under_way: dict[int, dict[str, Any]] = {}
        """Of messages in the background, by their record: what their wait is for."""
        self._numbers = count(1)

    def number(self) -> int:
        """Another one every time."""
        return next(self._numbers)

    def add(self, name: str, category: str, start: int, end: int, args: dict[str, Any], thread: int = 0) -> None:
        """Keeps an event; thread: 0 for the one that calls."""
        if len(self.events) >= MOST:
            self.left_out += 1
            return
        self.events.append(Event(name, category, start, end, thread or threading.get_ident(), args))
