"""GPU memory that ranks of a node show each other (CUDA IPC): trades of CuPy arrays that need no way over the host.

Each process has a window, of some slots, that others can read. What is sent is copied to a slot, the other rank is told
which, copies it from there, and says when it has. Ranks that cannot see each other's windows go through pinned memory.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from qdist.comm.transport import Request, Transport

if TYPE_CHECKING:
    from qdist.comm.communicator import Communicator

__all__ = ["LARGEST", "SLOTS", "SMALLEST", "Window", "share_gpus"]

LARGEST = 1 << 25
"""Bytes of a slot: larger messages go through pinned memory."""
SMALLEST = 1 << 21
"""So do messages of fewer bytes: a GPU that two processes share takes about half a millisecond to turn from one to the
other, and a way over the host carries this much in that time (benchmarks/gpu_notes.md)."""
SLOTS = 3
"""Messages that can be under way before one must have been read: two of an exchange, and one that is about to begin."""

_TAG = 32_766
"""Of the word that a slot has been read: next to the tag of exchanges, out of the way of a program's own."""
_DEFAULT = 4
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
        """Words that are expected, and the memory where each will say which slot was read."""

    def serves(self, world_rank: int, nbytes: int) -> bool:
        """Whether messages of this size go to and come from a rank by windows."""
        return self.views.get(world_rank) is not None and SMALLEST <= nbytes <= LARGEST

    def has_room(self) -> bool:
        """Whether a slot is free; never blocks."""
        for word in list(self._unread):
            if word[0].test():
                self._release(word)
        return bool(self._free)

    def offer(self, x: Any, inner: Transport, rank: int, stream: Any) -> int:
        """Copies an array to a slot, as soon as one is free, and gives its number. The copy is complete."""
        while not self.has_room():
            word = self._unread[0]
            word[0].wait()
            self._release(word)
        slot = self._free.pop()
        self._runtime.memcpyAsync(self._own + slot * LARGEST, x.data.ptr, x.nbytes, _DEFAULT, stream.ptr)
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
        self._runtime.memcpyAsync(out.data.ptr, view + slot * LARGEST, out.nbytes, _DEFAULT, stream.ptr)
        stream.synchronize()
        told = inner.send(np.array([slot]), rank, _TAG, False)
        assert told is not None
        return told

    def _release(self, word: tuple[Request, np.ndarray]) -> None:
        self._unread = [other for other in self._unread if other is not word]
        self._free.add(int(word[1][0]))


def share_gpus(comm: Communicator) -> None:
    """Lets ranks of one node trade CuPy arrays through each other's windows, where CUDA can; all ranks call.

    Changes nothing where NCCL or a CUDA-aware MPI carries them, and does its work once.
    """
    from qdist.comm.pinned import PinnedTransport

    transport = comm._device or comm._device_over_host
    if not isinstance(transport, PinnedTransport) or transport.window is not None:
        return
    me = comm.group[comm.rank]
    window, handle = _own_window(me)
    offers = comm.all_gather_object((comm.node, handle))
    for world_rank, (node, offered) in zip(comm.group, offers):
        if world_rank not in window.views:
            visible = world_rank != me and node == comm.node and None not in (handle, offered)
            window.views[world_rank] = _seen(offered, world_rank) if visible else None
    # Both must see each other.
    seen = comm.all_gather_object([rank for rank, view in window.views.items() if view is not None])
    for world_rank, its_views in zip(comm.group, seen):
        if me not in its_views:
            window.views[world_rank] = None
    transport.meet(window, comm.group)


@cache
def _own_window(world_rank: int) -> tuple[Window, bytes | None]:
    """This process's window, which begins with its rank, and the handle that others open it by; None without IPC."""
    import cupy

    runtime = cupy.cuda.runtime
    try:
        memory = cupy.cuda.Memory(SLOTS * LARGEST)
        number = np.array([world_rank])
        runtime.memcpy(memory.ptr, number.ctypes.data, number.nbytes, _DEFAULT)
        return Window(memory.ptr, runtime, memory), runtime.ipcGetMemHandle(memory.ptr)
    except (runtime.CUDARuntimeError, MemoryError):
        return Window(0, runtime), None


def _seen(handle: bytes, world_rank: int) -> int | None:
    """Where this process sees another's window; None where it does not: in another container, on a GPU out of reach."""
    import cupy

    runtime = cupy.cuda.runtime
    try:
        view = runtime.ipcOpenMemHandle(handle)
    except runtime.CUDARuntimeError:
        return None
    number = np.array([-1])
    runtime.memcpy(number.ctypes.data, view, number.nbytes, _DEFAULT)
    return view if number[0] == world_rank else None
