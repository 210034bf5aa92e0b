"""The world over a backend that somebody names: it, or an error that says how to get it."""

from __future__ import annotations

from qdist.comm.bootstrap.initialize import init
from qdist.comm.communicator import Communicator
from qdist.comm.errors import CommError

__all__ = ["world_over"]


def world_over(backend: str, rank: int | None = None, world_size: int | None = None) -> Communicator:
    """The communicator of all ranks of this job over ``mpi`` or ``nccl``. Where no launcher started this process, and
    ``mpi`` is asked for, it talks to itself without MPI.

    Raises ValueError for another backend, and CommError where the world runs over another one already.
    """
    if backend not in ("mpi", "nccl"):
        raise ValueError(f"backend={backend!r}: use 'mpi' or 'nccl'")
    comm = init("auto" if backend == "mpi" else backend, rank=rank, world_size=world_size)
    if backend == "mpi" and comm.backend == "nccl":
        raise CommError(
            "qdist.comm is initialised already, with backend='nccl' and not 'mpi': call qdist.comm.shutdown() on all "
            "ranks first"
        )
    return comm
