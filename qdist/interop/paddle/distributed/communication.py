"""Collectives and messages under Paddle's names: they change the tensor that they are given.

A rank that is not in the group does nothing, and is warned.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ....comm import Communicator, init
from ....tensor import Tensor, no_grad
from ....tensor.arrays import module_of

__all__ = [
    "NotAMember",
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "get_rank",
    "get_world_size",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "send",
]


class ReduceOp:
    """What all_reduce and its like do with the ranks' numbers."""

    SUM = "sum"
    AVG = "avg"
    MAX = "max"
    MIN = "min"
    PROD = "product"


class NotAMember:
    """What new_group gives to ranks that are not in the group."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = tuple(ranks)

    def __repr__(self) -> str:
        return f"<the group of ranks {list(self.ranks)}, of which this one is none>"


Group = Communicator | NotAMember | None
"""What new_group gave; all ranks when None."""


def get_rank(group: Group = None) -> int:
    """This rank, of the job or of a group; -1 if it is not in the group."""
    return -1 if isinstance(group, NotAMember) else _ranks(group).rank


def get_world_size(group: Group = None) -> int:
    """How many ranks there are, in the job or in a group; -1 if this one is not in the group."""
    return -1 if isinstance(group, NotAMember) else _ranks(group).size


def new_group(ranks: Sequence[int]) -> Communicator | NotAMember:
    """A group of these ranks, for the calls that take a group. All ranks call; those not in it get a stand-in."""
    members = list(ranks)
    return init().new_group(members) or NotAMember(members)


def all_reduce(tensor: Tensor, op: str = "sum", group: Group = None) -> None:
    """The sum, mean ("avg"), "max", "min" or "product" of all ranks' tensors, on every rank."""
    comm = _member(group, "all_reduce")
    if comm is not None:
        _assign(tensor, comm.all_reduce(tensor.data, op))


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Group = None) -> None:
    """All ranks' tensors are appended to tensor_list."""
    comm = _member(group, "all_gather")
    if comm is not None:
        tensor_list.extend(Tensor(row.copy()) for row in comm.all_gather(tensor.data))


def broadcast(tensor: Tensor, src: int, group: Group = None) -> None:
    """The tensor of rank `src` on every rank."""
    comm = _member(group, "broadcast")
    if comm is not None:
        _assign(tensor, comm.broadcast(tensor.data, src))


def broadcast_object_list(object_list: list[Any], src: int, group: Group = None) -> None:
    """The objects of rank `src`'s list, pickled, in every rank's list, which has as many.

    Raises ValueError on ranks whose list has another length.
    """
    comm = _member(group, "broadcast_object_list")
    if comm is None:
        return
    given = comm.broadcast_object(list(object_list), src)
    if len(given) != len(object_list):
        raise ValueError(f"broadcast_object_list: {len(given)} objects come for a list of {len(object_list)}")
    object_list[:] = given


def reduce(tensor: Tensor, dst: int, op: str = "sum", group: Group = None) -> None:
    """What all_reduce gives, on rank `dst` alone."""
    comm = _member(group, "reduce")
    made = None if comm is None else comm.reduce(tensor.data, dst, op)
    if made is not None:
        _assign(tensor, made)


def reduce_scatter(tensor: Tensor, tensor_list: Sequence[Tensor], op: str = "sum", group: Group = None) -> None:
    """`tensor` becomes the sum over ranks of the entry of tensor_list that has this rank's number.

    Raises ValueError for entries that are not of the tensor's shape and dtype.
    """
    comm = _member(group, "reduce_scatter")
    if comm is None:
        return
    if len(tensor_list) != comm.size:
        raise ValueError(f"reduce_scatter: {len(tensor_list)} tensors for {comm.size} ranks")
    for given in tensor_list:
        if given.shape != tensor.shape or given.dtype != tensor.dtype:
            raise ValueError(
                f"reduce_scatter: tensor_list holds {given.dtype}{list(given.shape)}, the tensor is "
                f"{tensor.dtype}{list(tensor.shape)}: they must be alike"
            )
    _assign(tensor, comm.reduce_scatter(module_of(tensor.data).stack([given.data for given in tensor_list]), op))


def send(tensor: Tensor, dst: int, group: Group = None) -> None:
    """Send to rank `dst`, which calls recv."""
    comm = _member(group, "send")
    if comm is not None:
        comm.send(tensor.data, dst)


def recv(tensor: Tensor, src: int, group: Group = None) -> None:
    """Receive what rank `src` sends."""
    comm = _member(group, "recv")
    if comm is not None:
        comm.recv(tensor.data, src)


def barrier(group: Group = None) -> None:
    """Wait until all ranks are here."""
    comm = _member(group, "barrier")
    if comm is not None:
        comm.barrier()


def _ranks(group: Communicator | None) -> Communicator:
    return init() if group is None else group


def _member(group: Group, call: str) -> Communicator | None:
    if isinstance(group, NotAMember):
        warnings.warn(f"{call}: this rank is not in {group!r} and does nothing", stacklevel=3)
        return None
    return _ranks(group)


def _assign(tensor: Tensor, values: Any) -> None:
    with no_grad():
        tensor.assign(values)
