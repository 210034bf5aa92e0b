"""What the launcher told this process through its environment: which rank it is, of how many."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from qdist.comm.errors import CommError

__all__ = ["Launch", "launch_of_this_process", "launched_by", "remember", "without_launcher"]


@dataclass(frozen=True, slots=True)
class Launch:
    """A process's number in its job, and who gave it."""

    by: str
    rank: int
    size: int
    is_mpi: bool
    """Whether the launcher speaks to an MPI library, so that MPI_Init alone brings the ranks together."""


# (launcher, variable of the rank, variable of the size, whether MPI can start from it). Order matters: an MPI launcher
# inside a Slurm allocation is what the process was really started by, and scripts that set RANK for torch come last.
_LAUNCHERS = (
    ("Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", True),
    ("MPICH's mpirun", "PMI_RANK", "PMI_SIZE", True),
    ("MVAPICH's mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", True),
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", True),
    ("RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", False),
)


def without_launcher(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which no launcher but RANK and WORLD_SIZE tells which rank a process is: srun, say, may have
    started a launcher, whose ranks are not srun's."""
    names = {name for _, rank, size, is_mpi in _LAUNCHERS if is_mpi for name in (rank, size)}
    return {name: value for name, value in environ.items() if name not in names}


def launched_by(environ: Mapping[str, str]) -> Launch | None:
    """The launcher that started this process as one of several, or None. Raises CommError for values that are none."""
    for by, rank_name, size_name, is_mpi in _LAUNCHERS:
        if rank_name not in environ or size_name not in environ:
            continue
        try:
            rank, size = int(environ[rank_name]), int(environ[size_name])
        except ValueError:
            rank, size = -1, -1
        if not 0 <= rank < size:
            raise CommError(
                f"{rank_name}={environ[rank_name]!r} and {size_name}={environ[size_name]!r} are not a rank and a size: "
                "the rank must be in 0..size-1"
            )
        if size > 1 or is_mpi:
            return Launch(by, rank, size, is_mpi)
    return None


_remembered: Launch | None = None


def remember(launch: Launch) -> None:
    """This process has joined a job as this rank, by means of its own: no variable tells of it."""
    global _remembered
    _remembered = launch


def launch_of_this_process() -> Launch | None:
    """How this process became a rank, or None. Raises CommError for variables whose values are none."""
    return _remembered or launched_by(os.environ)
