"""Collectives on Tensors: each runs one collective forward and its conjugate in the backward pass.

A tensor is either *equal* on all ranks of a group, or every rank has its own *part*: a slice along one axis, or one
term of a sum. The names are those of the Megatron papers (arXiv 1909.08053, 2205.05198).

    function        forward                         backward                        Megatron
    copy            nothing                         all_reduce                      f
    reduce          all_reduce                      nothing                         f-bar
    scatter         own slice of an equal tensor    all_gather
    gather          all_gather                      own slice of an equal gradient
    all_gather      all_gather                      reduce_scatter                  g
    reduce_scatter  reduce_scatter                  all_gather                      g-bar
    all_to_all      all_to_all                      all_to_all the other way round

`gather` is for results that all ranks use in the same way, so that each has the whole gradient already; `all_gather`
for inputs that each rank uses in its own way, so that the gradients still have to be added up. With one rank every
function gives its input back. Slices are equal: a length that the group does not divide raises ValueError.

Half precision travels as it is, also where it is added up (`half_sums`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qdist.comm import Communicator
from qdist.parallel import half_sums
from qdist.tensor import Rule, Tensor, apply
from qdist.tensor.arrays import Array
from qdist.tensor.functional import as_tensor
from qdist.tensor.methods import normal_axis

__all__ = ["all_gather", "all_to_all", "copy", "gather", "reduce", "reduce_scatter", "scatter"]


def copy(x: Any, comm: Communicator) -> Tensor:
    """x as it is, equal on all ranks; its gradient is the sum of the ranks' gradients."""
    return _apply(_COPY, x, comm)


def reduce(x: Any, comm: Communicator) -> Tensor:
    """The sum of the ranks' x, equal on all ranks."""
    return _apply(_REDUCE, x, comm)


def scatter(x: Any, comm: Communicator, axis: int) -> Tensor:
    """This rank's slice of x along `axis`; x is equal on all ranks."""
    return _apply(_SCATTER, x, comm, axis=_divided("scatter", x, comm, axis))


def gather(x: Any, comm: Communicator, axis: int) -> Tensor:
    """The ranks' x, joined along `axis`, for a use that is the same on all ranks."""
    return _apply(_GATHER, x, comm, axis=_axis(x, axis))


def all_gather(x: Any, comm: Communicator, axis: int) -> Tensor:
    """The ranks' x, joined along `axis`, for a use that differs from rank to rank."""
    return _apply(_ALL_GATHER, x, comm, axis=_axis(x, axis))


def reduce_scatter(x: Any, comm: Communicator, axis: int) -> Tensor:
    """This rank's slice along `axis` of the sum of the ranks' x."""
    return _apply(_REDUCE_SCATTER, x, comm, axis=_divided("reduce_scatter", x, comm, axis))


def all_to_all(x: Any, comm: Communicator, split: int, join: int) -> Tensor:
    """Slice x along the axis `split`, give slice r to rank r and join what comes along the axis `join`."""
    split = _divided("all_to_all", x, comm, split)
    return _apply(_ALL_TO_ALL, x, comm, split=split, join=_axis(x, join))


# The same on arrays, for rules that do their own communication -------------------------------------------------------


def slice_of(x: Array, rank: int, size: int, axis: int) -> Array:
    """Slice `rank` of `size` equal ones along `axis`: a view."""
    length = x.shape[axis] // size
    return x[(slice(None),) * axis + (slice(rank * length, (rank + 1) * length),)]


def join_rows(rows: Array, axis: int) -> Array:
    """What all_gather gave, (size, ...), joined along `axis` of the parts."""
    moved = rows.transpose(*range(1, axis + 1), 0, *range(axis + 1, rows.ndim))
    # Not -1, which says nothing where a rank has no rows.
    return moved.reshape(*moved.shape[:axis], rows.shape[0] * rows.shape[axis + 1], *moved.shape[axis + 2 :])


def as_rows(x: Array, size: int, axis: int) -> Array:
    """x cut along `axis` into `size` equal slices, one a row of the leading axis: what reduce_scatter takes."""
    cut = x.reshape(*x.shape[:axis], size, x.shape[axis] // size, *x.shape[axis + 1 :])
    return cut.transpose(axis, *range(axis), *range(axis + 1, cut.ndim))


def _joined(x: Array, comm: Communicator, axis: int) -> Array:
    return join_rows(comm.all_gather(x), axis)


def _summed_slice(x: Array, comm: Communicator, axis: int) -> Array:
    return half_sums.reduce_scatter(as_rows(x, comm.size, axis), comm)


def _turned(x: Array, comm: Communicator, split: int, join: int) -> Array:
    return join_rows(comm.all_to_all(as_rows(x, comm.size, split)), join)


_COPY = Rule(
    "copy_to_group",
    lambda xp, x, *, comm: (x, ()),
    lambda xp, g, saved, needs, *, comm: (half_sums.all_reduce(g, comm),),
    view=True,
    moves=True,
)
_REDUCE = Rule(
    "reduce_from_group",
    lambda xp, x, *, comm: (half_sums.all_reduce(x, comm), ()),
    lambda xp, g, saved, needs, *, comm: (g,),
    moves=True,
)
_SCATTER = Rule(
    "scatter_to_group",
    lambda xp, x, *, comm, axis: (slice_of(x, comm.rank, comm.size, axis), ()),
    lambda xp, g, saved, needs, *, comm, axis: (_joined(g, comm, axis),),
    view=True,
    moves=True,
)
_GATHER = Rule(
    "gather_from_group",
    lambda xp, x, *, comm, axis: (_joined(x, comm, axis), ()),
    lambda xp, g, saved, needs, *, comm, axis: (slice_of(g, comm.rank, comm.size, axis),),
    moves=True,
)
_ALL_GATHER = Rule(
    "all_gather",
    lambda xp, x, *, comm, axis: (_joined(x, comm, axis), ()),
    lambda xp, g, saved, needs, *, comm, axis: (_summed_slice(g, comm, axis),),
    moves=True,
)
_REDUCE_SCATTER = Rule(
    "reduce_scatter",
    lambda xp, x, *, comm, axis: (_summed_slice(x, comm, axis), ()),
    lambda xp, g, saved, needs, *, comm, axis: (_joined(g, comm, axis),),
    moves=True,
)
_ALL_TO_ALL = Rule(
    "all_to_all",
    lambda xp, x, *, comm, split, join: (_turned(x, comm, split, join), ()),
    lambda xp, g, saved, needs, *, comm, split, join: (_turned(g, comm, join, split),),
    moves=True,
)


def _apply(rule: Rule, x: Any, comm: Communicator, **attributes: int) -> Tensor:
    return as_tensor(x) if comm.size == 1 else apply(rule, x, comm=comm, **attributes)


def _axis(x: Any, axis: int) -> int:
    return normal_axis(axis, as_tensor(x).ndim)


def _divided(name: str, x: Any, comm: Communicator, axis: int) -> int:
    shape: Sequence[int] = as_tensor(x).shape
    axis = normal_axis(axis, len(shape))
    if shape[axis] % comm.size:
        raise ValueError(
            f"{name}: axis {axis} of shape {tuple(shape)} has length {shape[axis]}, which {comm.size} ranks do not "
            "divide; pad it, or take a group whose size divides it"
        )
    return axis
