"""Ranks, placements and everything that makes a program distributed, under Paddle's names."""

from ....comm import init as _init
from ....parallel.auto import Partial, Replicate, Shard, reshard, shard_op, shard_tensor
from . import auto_parallel, fleet, sharding
from .auto_parallel import DistModel, Engine, ProcessMesh, Strategy, to_static
from .communication import (
    ReduceOp,
    all_gather,
    all_reduce,
    barrier,
    broadcast,
    broadcast_object_list,
    get_rank,
    get_world_size,
    new_group,
    recv,
    reduce,
    reduce_scatter,
    send,
)

__all__ = [
    "DistModel",
    "Engine",
    "Partial",
    "ProcessMesh",
    "ReduceOp",
    "Replicate",
    "Shard",
    "Strategy",
    "all_gather",
    "all_reduce",
    "auto_parallel",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "fleet",
    "get_rank",
    "get_world_size",
    "init_parallel_env",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reshard",
    "send",
    "shard_op",
    "shard_tensor",
    "sharding",
    "to_static",
]


def init_parallel_env() -> None:
    """Connect the ranks of the job; what needs them does so by itself."""
    _init()
