"""Threads of the kernels on several ranks: the ranks of a node share its cores."""

from __future__ import annotations

import os

from ..comm import Communicator
from ..native import kernels

__all__ = ["share_cores"]

_at_start = kernels.max_threads()
_shared = False


def share_cores(comm: Communicator) -> None:
    """Gives the kernels this rank's share of its node's cores, once, before the first state on several ranks.

    Without it every rank would start a thread for every core. Where OMP_NUM_THREADS is set, or somebody has set the
    kernels' threads already, that stays.
    """
    global _shared
    if comm.local_size == 1 or _shared:
        return
    _shared = True
    if "OMP_NUM_THREADS" not in os.environ and kernels.max_threads() == _at_start:
        kernels.set_threads(comm.cores)
