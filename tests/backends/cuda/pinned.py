"""Page-locked memory and graphs for stand-ins of CuPy: copies are made at once, and so is what is launched, unless a
stream records it."""

import ctypes
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

from qdist.backends.cuda import staging

_recorded: list[list[Callable[[], None]]] = []
"""What the stream that records has been given so far."""


def launched(call: Callable[[], None]) -> None:
    """Does what a launch does, now or whenever the graph that records it is launched."""
    if _recorded:
        _recorded[-1].append(call)
    else:
        call()


class Stream:
    def __init__(self, non_blocking: bool, replayed: Callable[[list[Callable[[], None]]], None]) -> None:
        self._replayed = replayed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None: ...

    def begin_capture(self) -> None:
        _recorded.append([])

    def end_capture(self) -> Any:
        calls = _recorded.pop()
        return SimpleNamespace(launch=lambda: self._replayed(calls))


def _replay(calls: list[Callable[[], None]]) -> None:
    for call in calls:
        call()


def add_pinned(
    cuda: Any,
    monkeypatch: pytest.MonkeyPatch,
    copied: Callable[[int], None] = lambda kind: None,
    replayed: Callable[[list[Callable[[], None]]], None] = _replay,
) -> None:
    """Gives ``cupy.cuda`` what staging.py and graphs.py use, and memory without an array around it; ``copied`` is
    called for each copy with its kind, ``replayed`` with what a graph has recorded when it is launched."""

    def copy(to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        def made() -> None:
            copied(kind)
            ctypes.memmove(to, source, nbytes)

        launched(made)

    def alloc(nbytes: int) -> Any:
        # What was there before means nothing: as a double, NaN.
        memory = np.full(nbytes, 0xFF, np.uint8)
        return SimpleNamespace(ptr=memory.ctypes.data, mem=memory)

    cuda.alloc = alloc
    cuda.Event = lambda disable_timing: SimpleNamespace(synchronize=lambda: None, record=lambda stream: None)
    cuda.Stream = lambda non_blocking: Stream(non_blocking, replayed)
    cuda.get_current_stream = lambda: SimpleNamespace(ptr=0, synchronize=lambda: None)
    cuda.runtime.memcpyHostToDevice, cuda.runtime.memcpyDeviceToHost, cuda.runtime.memcpyAsync = 1, 2, copy
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(empty_pinned=lambda size, dtype: np.empty(size, dtype)))
    monkeypatch.setattr(staging, "_of_thread", staging._OfThread())
