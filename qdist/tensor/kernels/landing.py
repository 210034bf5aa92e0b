"""Numbers on their way from a GPU to the host, through page-locked memory.

A sum in float32 is one number, most often a loss that is about to be read. The kernel that computes it also writes it
to the host, and whoever asks for it waits for that kernel alone, where a copy would wait for all that was queued since:
a training step has its loss while the GPU is still at the gradient. The number and a ticket are one word, written and
read as a whole, so that the ticket tells whose number it is. Of each thread the last sum is found there; others are
copied.
"""

from __future__ import annotations

import sys
from functools import cache
from itertools import count
from threading import local
from typing import Any
from weakref import ref

import numpy as np

from qdist.native import kernels

from ..arrays import Array, several_gpus

__all__ = ["NOWHERE", "announce", "only_number"]

NOWHERE = 0, 0
"""The address and the ticket of a number that stays on the GPU."""

_WORDS = 1024
"""Sums of all threads that may be on their way."""

_PATIENCE = 0.1
"""Seconds that a number is waited for. Then it is copied, and CUDA says what is wrong, if anything is."""

_next_ticket = count(1).__next__


class _OfThread(local):
    def __init__(self) -> None:
        self.awaited: tuple[Any, int, int] | None = None
        """The array of the last sum, weakly, with its address and ticket."""
        self._known: dict[np.dtype, tuple[Any, int]] = {}

    def room(self, dtype: np.dtype) -> tuple[Any, int]:
        """Memory for a copied number, as an array, and its address."""
        found = self._known.get(dtype)
        if found is None:
            import cupyx

            memory = cupyx.empty_pinned(dtype.itemsize, np.uint8)
            found = self._known[dtype] = memory.view(dtype), memory.ctypes.data
        return found


_of_thread = _OfThread()


@cache
def _words() -> tuple[Any, int]:
    """Memory for numbers with their tickets, which are never 0, and its address. It stays until the process ends, since
    kernels that nobody waits for write there."""
    import cupyx

    words = cupyx.empty_pinned(_WORDS, np.uint64)
    words[:] = 0
    return words, words.ctypes.data


def announce(array: Array, stream: Any) -> tuple[int, int]:
    """The address and the ticket for a kernel that computes a number in float32. stream: where it is queued. A graph
    that records it would run it again and again with one ticket: there the number stays on the GPU."""
    if several_gpus() or (stream.ptr and stream.is_capturing()):
        return NOWHERE
    number = _next_ticket()
    ticket = number % 0xFFFFFFFF + 1
    at = _words()[1] + 8 * (number % _WORDS)
    _of_thread.awaited = ref(array), at, ticket
    return at, ticket


def only_number(array: Array, unchanged: bool = False) -> Any:
    """The element of an array that has one, as a Python number. unchanged: whether nothing can have written to the
    array since the operation that made it."""
    if isinstance(array, np.ndarray) or several_gpus():
        return array.item()
    awaited = _of_thread.awaited
    if unchanged and awaited is not None and awaited[0]() is array:
        found = kernels.landed(awaited[1], awaited[2], _PATIENCE)
        if found is not None:
            return found
    cuda = sys.modules["cupy"].cuda
    number, at = _of_thread.room(array.dtype)
    stream = cuda.get_current_stream()
    cuda.runtime.memcpyAsync(at, array.data.ptr, number.nbytes, cuda.runtime.memcpyDeviceToHost, stream.ptr)
    stream.synchronize()
    return number.item()
