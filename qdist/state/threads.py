"""Threads of the kernels: as many as were asked for; else the ranks of a node share its cores."""

from __future__ import annotations

from threading import local

from qdist.comm import Communicator, is_initialized, world
from qdist.native import kernels
from qdist.native.asked_threads import asked_threads

__all__ = ["set_kernel_threads", "share_cores"]

_at_start = kernels.max_threads()
_chosen: int | None = None
_this_thread = local()  # The kernels' number of threads belongs to the thread that sets it.


def set_kernel_threads(count: int) -> None:
    """Threads of this thread's kernels from now on, and of other threads' from their next program or state on. Raises
    ValueError for a number that is none of threads."""
    global _chosen
    kernels.set_threads(count)
    _chosen = count
    _this_thread.shares = True


def share_cores(comm: Communicator | None) -> None:
    """Gives the kernels this rank's share of its node's cores, once a thread, before its first program or state; None
    stands for the job's ranks, if there are any: they share cores whether or not they split a state.

    Without it every rank would start a thread for every core. Where OMP_NUM_THREADS asks for a number, or somebody has
    set the kernels' threads already, that stays.
    """
    if hasattr(_this_thread, "shares"):
        return
    if _chosen is not None:
        _this_thread.shares = True
        kernels.set_threads(_chosen)
        return
    if comm is None:
        if not is_initialized():
            return
        comm = world()
    if comm.local_size == 1:
        return
    _this_thread.shares = True
    if not asked_threads() and kernels.max_threads() == _at_start:
        kernels.set_threads(comm.cores)
