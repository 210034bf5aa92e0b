"""GPU memory that ranks of one node open for each other (CUDA IPC), made and found: all ranks call share_gpus."""

from __future__ import annotations

from functools import cache

import numpy as np

from qdist.comm.communicator import Communicator
from qdist.comm.transports import window
from qdist.comm.transports.pinned import PinnedTransport
from qdist.comm.transports.window import Window

__all__ = ["share_gpus"]


def share_gpus(comm: Communicator) -> None:
    """Lets ranks of one node trade CuPy arrays through each other's windows, where CUDA can; all ranks call.

    Changes nothing where NCCL or a CUDA-aware MPI carries them, and does its work once.
    """
    transport = comm._device or comm._device_over_host
    if not isinstance(transport, PinnedTransport) or transport.window is not None:
        return
    me = comm.group[comm.rank]
    own, handle = _own_window(me)
    offers = comm.all_gather_object((comm.node, handle))
    for world_rank, (node, offered) in zip(comm.group, offers):
        if world_rank not in own.views:
            visible = world_rank != me and node == comm.node and None not in (handle, offered)
            own.views[world_rank] = _seen(offered, world_rank) if visible else None
    # Both must see each other.
    seen = comm.all_gather_object([rank for rank, view in own.views.items() if view is not None])
    for world_rank, its_views in zip(comm.group, seen):
        if me not in its_views:
            own.views[world_rank] = None
    transport.meet(own, comm.group)


@cache
def _own_window(world_rank: int) -> tuple[Window, bytes | None]:
    """This process's window, which begins with its rank, and the handle that others open it by; None without IPC."""
    import cupy

    runtime = cupy.cuda.runtime
    try:
        memory = cupy.cuda.Memory(window.SLOTS * window.LARGEST)
        number = np.array([world_rank])
        runtime.memcpy(memory.ptr, number.ctypes.data, number.nbytes, window.MEMCPY_DEFAULT)
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
    runtime.memcpy(number.ctypes.data, view, number.nbytes, window.MEMCPY_DEFAULT)
    return view if number[0] == world_rank else None
