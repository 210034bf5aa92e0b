"""Forks of a rank: a child is no rank, so what it asks of the others is refused instead of waited for.

MPI, NCCL and the guard's thread do not live on in a forked process (a worker that loads data, say), while the objects
that stand for them do. A call on them there would wait for ever, or take a message that is meant for the parent.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Protocol

from qdist.comm.work import in_flight

__all__ = ["finalize_in_parent_alone", "refuse_in_forks"]


class CanBeCutOff(Protocol):
    """Something that talks to other ranks."""

    def cut_off(self) -> None:
        """In a forked child: from now on every communication raises CommError."""


_endpoints: weakref.WeakSet[CanBeCutOff] = weakref.WeakSet()


def refuse_in_forks(endpoint: CanBeCutOff) -> None:
    """From now on, forked children of this process find ``endpoint`` cut off from the other ranks."""
    _endpoints.add(endpoint)


def _cut_off() -> None:
    for endpoint in list(_endpoints):
        endpoint.cut_off()
    for started in list(in_flight):
        started.cut_off()


os.register_at_fork(after_in_child=_cut_off)


def finalize_in_parent_alone() -> None:
    """Has MPI finalised at the end of this process, and of none that is forked from it. Before mpi4py.MPI is imported.

    mpi4py itself does so at the end of forked children too, where MPI_Finalize waits for the other ranks for ever.
    """
    if "mpi4py.MPI" in sys.modules:
        return
    import mpi4py

    if mpi4py.rc.finalize is None:  # Nobody has said otherwise.
        mpi4py.rc.finalize = False
        atexit.register(_finalize, os.getpid())


def _finalize(process: int) -> None:
    if os.getpid() != process or "mpi4py.MPI" not in sys.modules:  # It may not have been loaded: no MPI was found.
        return
    from mpi4py import MPI

    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()
