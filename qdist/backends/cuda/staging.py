"""Numbers on their way to a GPU: through page-locked memory, so that the host does not wait for them to arrive."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_BYTES", "Kept", "Staging", "staging"]

_SLOTS = 4
"""Uploads that may be under way at a time."""
MOST_BYTES = 1 << 22
"""Of an upload; larger ones take longer than they are waited for."""


class Staging:
    """Uploads of one thread to the current GPU. ``room`` is where the numbers are written, ``send`` queues their
    copy."""

    def __init__(self) -> None:
        self._slots: list[tuple[NDArray[np.uint8], Any, int] | None] = [None] * _SLOTS
        self._next = 0
        self._room: NDArray[np.uint8] = np.zeros(0, np.uint8)

    def room(self, nbytes: int) -> NDArray[np.uint8]:
        """So many bytes of the host, until ``send``; they begin at a multiple of 16."""
        import cupy
        import cupyx

        if nbytes > MOST_BYTES:
            self._room = np.empty(nbytes, np.uint8)
            return self._room
        slot = self._slots[self._next]
        if slot is not None:
            slot[1].synchronize()
        if slot is None or len(slot[0]) < nbytes:
            memory = cupyx.empty_pinned(1 << max(12, (nbytes - 1).bit_length()), np.uint8)
            slot = self._slots[self._next] = memory, cupy.cuda.Event(disable_timing=True), memory.ctypes.data
        self._room = slot[0][:nbytes]
        return self._room

    def send(self, there: Any = None) -> Any:
        """The bytes on the GPU, in new memory or in ``there``, before what is queued next."""
        import cupy

        nbytes = len(self._room)
        if there is None:
            there = cupy.empty(nbytes, np.uint8)
        if nbytes > MOST_BYTES:
            there.set(self._room)
            return there
        self.send_parts((there.data.ptr, nbytes))
        return there

    def send_parts(self, *parts: tuple[int, int]) -> None:
        """Copies the bytes, at most ``MOST_BYTES``, to several places on the GPU, one after the other: (address,
        number of bytes) each."""
        import cupy

        slot = self._slots[self._next]
        assert slot is not None, "room comes first"
        _, event, at = slot
        runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream()
        for there, nbytes in parts:
            runtime.memcpyAsync(there, at, nbytes, runtime.memcpyHostToDevice, stream.ptr)
            at += nbytes
        event.record(stream)
        self._next = (self._next + 1) % _SLOTS


_PER_THREAD = 2
"""The address of the stream that every thread has for itself."""


class Kept:
    """Memory of the current GPU that calls use one after the other, in the same place."""

    def __init__(self, nbytes: int) -> None:
        import cupy

        self._array = cupy.empty(nbytes, np.uint8)
        self._last: tuple[int, int] | None = None

    def taken(self) -> Any:
        """The memory, once what another stream has queued before is done with it."""
        import cupy

        stream = cupy.cuda.get_current_stream().ptr
        user = stream, threading.get_ident() if stream == _PER_THREAD else 0
        if self._last is not None and self._last != user:
            cupy.cuda.runtime.deviceSynchronize()
        self._last = user
        return self._array


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.by_device: dict[int, Staging] = {}


_of_thread = _OfThread()


def staging(device: int) -> Staging:
    """That of this thread for GPU number ``device``."""
    found = _of_thread.by_device.get(device)
    if found is None:
        found = _of_thread.by_device[device] = Staging()
    return found
