"""Collectives and messages under Paddle's names: they change the tensor that they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....comm import Communicator, init
from ....tensor import Tensor, no_grad

__all__ = [
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


def get_rank(group: Communicator | None = None) -> int:
    """This rank, of the job or of a group."""
    return _ranks(group).rank


def get_world_size(group: Communicator | None = None) -> int:
    """How many ranks there are."""
    return _ranks(group).size


def new_group(ranks: Sequence[int]) -> Communicator | None:
    """A group of these ranks; None on the others. All ranks call it."""
    return init().new_group(list(ranks))


def all_reduce(tensor: Tensor, op: str = "sum", group: Communicator | None = None) -> None:
    """The sum, mean ("avg"), "max", "min" or "product" of all ranks' tensors, on every rank."""
    _assign(tensor, _ranks(group).all_reduce(tensor.data, op))


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Communicator | None = None) -> None:
    """All ranks' tensors are appended to tensor_list."""
    tensor_list.extend(Tensor(row.copy()) for row in _ranks(group).all_gather(tensor.data))


def broadcast(tensor: Tensor, src: int, group: Communicator | None = None) -> None:
    """The tensor of rank `src` on every rank."""
    _assign(tensor, _ranks(group).broadcast(tensor.data, src))


def broadcast_object_list(object_list: list[Any], src: int, group: Communicator | None = None) -> None:
    """The objects of rank `src`'s list, pickled, in every rank's list, which has as many.

    Raises ValueError on ranks whose list has another length.
    """
    given = _ranks(group).broadcast_object(list(object_list), src)
    if len(given) != len(object_list):
        raise ValueError(f"broadcast_object_list: {len(given)} objects come for a list of {len(object_list)}")
    object_list[:] = given


def reduce(tensor: Tensor, dst: int, op: str = "sum", group: Communicator | None = None) -> None:
    """What all_reduce gives, on rank `dst` alone."""
    made = _ranks(group).reduce(tensor.data, dst, op)
    if made is not None:
        _assign(tensor, made)


def reduce_scatter(
    tensor: Tensor, tensor_list: Sequence[Tensor], op: str = "sum", group: Communicator | None = None
) -> None:
    """`tensor` becomes the sum over ranks of the entry of tensor_list that has this rank's number."""
    comm = _ranks(group)
    if len(tensor_list) != comm.size:
        raise ValueError(f"reduce_scatter: {len(tensor_list)} tensors for {comm.size} ranks")
    rows = Tensor(tensor_list[0].numpy()[None].repeat(comm.size, 0))
    for row, given in zip(rows.data, tensor_list):
        row[...] = given.data
    _assign(tensor, comm.reduce_scatter(rows.data, op))


def send(tensor: Tensor, dst: int, group: Communicator | None = None) -> None:
    """Send to rank `dst`, which calls recv."""
    _ranks(group).send(tensor.data, dst)


def recv(tensor: Tensor, src: int, group: Communicator | None = None) -> None:
    """Receive what rank `src` sends."""
    _ranks(group).recv(tensor.data, src)


def barrier(group: Communicator | None = None) -> None:
    """Wait until all ranks are here."""
    _ranks(group).barrier()


def _ranks(group: Communicator | None) -> Communicator:
    return init() if group is None else group


def _assign(tensor: Tensor, values: Any) -> None:
    with no_grad():
        tensor.assign(values)
