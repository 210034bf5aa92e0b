"""GPU memory that ranks of a node show each other (CUDA IPC): trades of CuPy arrays without a copy through the host.

Each process has a window, of some slots, that others can read. What is sent is copied to a slot, the other rank is told
which, copies it from there, and says when it has. Ranks that cannot see each other's windows go through pinned memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.comm.transports.transport import Request, Transport

__all__ = ["LARGEST", "MEMCPY_DEFAULT", "SLOTS", "SMALLEST", "Window"]

LARGEST = 1 << 25
"""Bytes of a slot: larger messages go through pinned memory."""
SMALLEST = 1 << 21
"""So do messages of fewer bytes: a GPU that two processes share takes about half a millisecond to switch between
their contexts, and host memory carries this much in that time (benchmarks/gpu_notes.md)."""
SLOTS = 3
"""Messages that can be under way before one must have been read: two of an exchange, and one that is about to begin."""

_TAG = 32_766
"""Of the acknowledgement that a slot has been read: next to the tag of exchanges, out of the way of a program's own."""
MEMCPY_DEFAULT = 4
"""cudaMemcpyDefault: the addresses tell which way."""


class Window:
    """This process's window, and where it sees those of others.

    own: its address. runtime: CuPy's, or what stands in for it. memory: what must live as long as others may read it.
    """

    def __init__(self, own: int, runtime: Any, memory: Any = None) -> None:
        self._own, self._runtime, self._memory = own, runtime, memory
        self.views: dict[int, int | None] = {}
        """The addresses of others' windows, by their ranks in the world; None for those that cannot be seen."""
        self._free = set(range(SLOTS))
        self._unread: list[tuple[Request, np.ndarray]] = []
        """Acknowledgements that are expected, and the memory where each will say which slot was read."""

    def serves(self, world_rank: int, nbytes: int) -> bool:
        """Whether messages of this size go to and come from a rank by windows."""
        return self.views.get(world_rank) is not None and SMALLEST <= nbytes <= LARGEST

    def has_room(self) -> bool:
        """Whether a slot is free; never blocks."""
        for acknowledgement in list(self._unread):
            if acknowledgement[0].test():
                self._release(acknowledgement)
        return bool(self._free)

    def offer(self, x: Any, inner: Transport, rank: int, stream: Any) -> int:
        """Copies an array to a slot, as soon as one is free, and gives its number. The copy is complete."""
        while not self.has_room():
            acknowledgement = self._unread[0]
            acknowledgement[0].wait()
            self._release(acknowledgement)
        slot = self._free.pop()
        self._runtime.memcpyAsync(self._own + slot * LARGEST, x.data.ptr, x.nbytes, MEMCPY_DEFAULT, stream.ptr)
        stream.synchronize()
        which = np.empty(1, np.int64)
        request = inner.recv(which, rank, _TAG, False)
        assert request is not None
        self._unread.append((request, which))
        return slot

    def take(self, out: Any, inner: Transport, rank: int, world_rank: int, slot: int, stream: Any) -> Request:
        """Copies a slot of another's window to an array, and tells it so. The copy is complete."""
        view = self.views[world_rank]
        assert view is not None
        self._runtime.memcpyAsync(out.data.ptr, view + slot * LARGEST, out.nbytes, MEMCPY_DEFAULT, stream.ptr)
        stream.synchronize()
        told = inner.send(np.array([slot]), rank, _TAG, False)
        assert told is not None
        return told

    def _release(self, acknowledgement: tuple[Request, np.ndarray]) -> None:
        self._unread = [other for other in self._unread if other is not acknowledgement]
        self._free.add(int(acknowledgement[1][0]))
