"""Uninitialised arrays whose memory is used again when they are gone: to get new pages takes as long as a sweep.

Memory that waits for its next use is the system's to take back whenever it runs short (MADV_FREE).
"""

from __future__ import annotations

import mmap
from collections import deque
from contextlib import suppress
from ctypes import addressof, c_char
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.memory import aligned_empty

__all__ = ["SMALLEST", "empty"]

SMALLEST = 1 << 22
"""Bytes. The memory of smaller arrays malloc keeps itself."""

_MOST_FREE = 4
"""Free pieces of memory that are kept, the last ones."""

_LARGEST = 1 << 32
"""Bytes. Larger pieces go back to the system at once: a state of which a machine holds few is seldom made anew."""

_HUGE_PAGE = 1 << 21

_free: deque[mmap.mmap] = deque(maxlen=_MOST_FREE)


def empty(shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of any content at an address that is a multiple of 64; of 4 MiB and more it begins a huge page."""
    count = shape if isinstance(shape, int) else prod(shape)
    nbytes = count * dtype.itemsize
    if nbytes < SMALLEST or not hasattr(mmap, "MADV_FREE"):
        return aligned_empty(count, dtype).reshape(shape)
    size = nbytes + _HUGE_PAGE
    owner = _Owner(_taken(size) or _new(size), nbytes)
    return np.asarray(owner).view(dtype).reshape(shape)


class _Owner:
    """What an array and all its views hold on to; its memory is free when the last of them is gone."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: mmap.mmap, nbytes: int) -> None:
        self._memory = memory
        at = addressof(c_char.from_buffer(memory))
        begin = -(-at // _HUGE_PAGE) * _HUGE_PAGE
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (nbytes,), "data": (begin, False)}

    # Defaults, since the module's names may be gone when the interpreter ends.
    def __del__(
        self, free: deque[mmap.mmap] = _free, advice: int = getattr(mmap, "MADV_FREE", 0), largest: int = _LARGEST
    ) -> None:
        if len(self._memory) > largest:
            return
        try:
            self._memory.madvise(advice)
        except OSError:  # A system that cannot take it back would lose it for good.
            return
        free.append(self._memory)


def _taken(size: int) -> mmap.mmap | None:
    """Free memory of this size. Threads may look at once: each piece is in one's hands or in the queue."""
    for _ in range(len(_free)):
        with suppress(IndexError):
            memory = _free.popleft()
            if len(memory) == size:
                return memory
            _free.append(memory)
    return None


def _new(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
