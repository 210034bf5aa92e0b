"""Forks of a rank: a child is no rank, so what it asks of the others is refused instead of waited for.

MPI, NCCL and the guard's thread do not live on in a forked process (a worker that loads data, say), while the objects
that stand for them do. A call on them there would wait for ever, or take a message that is meant for the parent.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from qdist.comm.errors import CommError
from qdist.comm.work import in_flight

if TYPE_CHECKING:
    from qdist.comm.endpoint import Endpoint
    from qdist.comm.transport import Transport

__all__ = ["ForkedTransport", "finalize_in_parent_alone", "refuse_in_forks"]

_endpoints: weakref.WeakSet[Endpoint] = weakref.WeakSet()

_SAFE = ("solo", "counting")
"""Transports that are this process's memory and nothing else."""


def refuse_in_forks(endpoint: Endpoint) -> None:
    """From now on, forked children of this process find ``endpoint`` cut off from the other ranks."""
    _endpoints.add(endpoint)


class ForkedTransport:
    """In the place of a transport in a forked child: every primitive raises CommError."""

    direct: dict[str, Any]

    def __init__(self, transport: Transport) -> None:
        self.name, self.rank, self.size, self.direct = transport.name, transport.rank, transport.size, {}

    def __getattr__(self, primitive: str) -> Any:
        if primitive.startswith("_"):
            raise AttributeError(primitive)
        return self._refuse

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise CommError(
            f"this process was forked from rank {self.rank} and is no rank itself: it cannot communicate. Load data in "
            "forked workers, but leave collectives and states over several ranks to the ranks; or start workers with "
            "multiprocessing's 'spawn' (for PyTorch: DataLoader(multiprocessing_context='spawn'))"
        )

    def close(self) -> None:
        """Nothing of the parent's is freed here."""


def _cut_off() -> None:
    for endpoint in list(_endpoints):
        if endpoint._host.name in _SAFE:
            continue
        endpoint._host = ForkedTransport(endpoint._host)
        endpoint._device = None if endpoint._device is None else ForkedTransport(endpoint._device)
        endpoint.__dict__.pop("_device_over_host", None)
        # The table of calls is in memory that the parent shares with the other ranks.
        endpoint._agreement = endpoint._direct_sum = endpoint._direct_all_to_all = None
        endpoint._guard.forget_parent()
    for started in list(in_flight):
        if started._request is not None:
            started._request = ForkedTransport(started._call.comm._host)


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
    if os.getpid() != process:
        return
    from mpi4py import MPI

    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()
