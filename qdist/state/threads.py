"""OpenMP threads of the kernels on several ranks: the ranks of a node share its cores."""

from __future__ import annotations

import os
from threading import local

from qdist.comm import Communicator
from qdist.native import kernels

__all__ = ["share_cores"]

_at_start = kernels.max_threads()
_this_thread = local()  # OpenMP's number of threads belongs to the thread that sets it.


def share_cores(comm: Communicator) -> None:
    """Gives the kernels this rank's share of its node's cores, once a thread, before its first state on several ranks.

    Without it every rank would start a thread for every core. Where OMP_NUM_THREADS is set, or somebody has set the
    kernels' threads already, that stays.
    """
    if comm.local_size == 1 or hasattr(_this_thread, "shares"):
        return
    _this_thread.shares = True
    if "OMP_NUM_THREADS" not in os.environ and kernels.max_threads() == _at_start:
        kernels.set_threads(comm.cores)
