"""Programs whose init() fails on one rank: ``python failing_init.py WHAT``, run by test_init_failures.py."""

import os
import sys
import time
import types

import numpy as np

import qdist.comm as qc
from qdist.comm.bootstrap import initialize
from qdist.comm.standalone import mpich_segments


def tell_segments() -> None:
    """The files of shared memory that MPI has named: at the end there must be none."""
    for path, _ in mpich_segments.segments():
        sys.stdout.write(f"segment {path}\n")
    sys.stdout.flush()


def wrong_communicator(rank: int, caught: bool) -> None:
    from mpi4py import MPI

    tell_segments()
    try:
        qc.init(comm="no communicator" if rank == 1 else MPI.COMM_WORLD, timeout=60)
    except TypeError:
        if not caught:
            raise
        sys.exit(0)


def gpu_is_missing_on_one_rank(rank: int) -> None:
    """NCCL cannot be had on rank 1: all ranks learn that, and go on without."""
    nccl = types.ModuleType("qdist.comm.transports.nccl")

    class NcclTransport:
        @staticmethod
        def prepare(rank: int, place: object) -> bytes:
            if rank == 1:
                raise qc.CommError("this process sees no GPU")
            return b"id"

    nccl.NcclTransport = NcclTransport  # type: ignore[attr-defined]
    sys.modules["qdist.comm.transports.nccl"] = nccl
    for _ in range(2):
        try:
            qc.init("nccl", timeout=60)
        except qc.CommError as error:
            sys.stdout.write(f"rank {rank}: {error}\n")
    assert not qc.is_initialized()
    sys.stdout.write(f"fine {int(qc.init('mpi', timeout=60).all_reduce(np.array(1)))}\n")


def never_comes(rank: int) -> None:
    from mpi4py import MPI

    tell_segments()
    if rank == 1:
        time.sleep(60)
    qc.init(comm=MPI.COMM_WORLD, timeout=1)


def breaks_half_way(rank: int) -> None:
    def failing() -> bool:
        raise OSError("out of descriptors")

    if rank == 1:
        initialize.cuda_aware = failing
    qc.init(timeout=60)


def unpickles_nothing(rank: int) -> None:
    from mpi4py import MPI

    def refuse(*arguments: object) -> object:
        raise AssertionError("init() pickled or unpickled something")

    MPI.pickle.__init__(refuse, refuse)
    sys.stdout.write(f"fine {qc.init(timeout=60).size}\n")


def main(what: str) -> None:
    rank = int(next(os.environ[v] for v in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK") if v in os.environ))
    match what:
        case "comm":
            wrong_communicator(rank, caught=False)
        case "comm-caught":
            wrong_communicator(rank, caught=True)
        case "nccl":
            gpu_is_missing_on_one_rank(rank)
        case "late":
            never_comes(rank)
        case "half-way":
            breaks_half_way(rank)
        case "pickle":
            unpickles_nothing(rank)


main(sys.argv[1])
