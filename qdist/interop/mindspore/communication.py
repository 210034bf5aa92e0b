"""Ranks."""

from __future__ import annotations

from ... import comm
from ...comm.bootstrap.named_backend import world_over

__all__ = ["get_group_size", "get_rank", "init"]


def init(backend_name: str = "mpi") -> None:
    """Connect the ranks of the job over "mpi" or "nccl"."""
    world_over(backend_name)


def get_rank() -> int:
    """This rank."""
    return comm.init().rank


def get_group_size() -> int:
    """How many ranks there are."""
    return comm.init().size
