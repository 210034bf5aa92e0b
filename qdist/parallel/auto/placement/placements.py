"""Placements: how a tensor lies on one axis of a mesh, and which part of it a rank then holds.

A tensor on a mesh of k axes has k placements. The first axis cuts first: with [Shard(0), Shard(0)] on a 2 x 4 mesh the
rows fall into two halves, and each half into four parts. Parts differ in length by at most one; the longer come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "cut",
    "cuts",
    "joined",
    "local_part",
    "local_shape",
    "opened",
    "part",
    "placements_of",
]


@dataclass(frozen=True)
class Placement:
    """The base of Shard, Replicate and Partial."""


@dataclass(frozen=True)
class Shard(Placement):
    """Every rank of the axis holds a slice along dimension `dim`.

    Attributes:
        dim: which.
        blocks: the dimension is so many equal blocks, one behind the other, and a rank holds a slice of each: 3 for the
            rows of a weight that makes queries, keys and values at once, so that each rank has whole heads of all.
            Another axis may not cut the same dimension then.
    """

    dim: int
    blocks: int = 1

    def __repr__(self) -> str:
        return f"S({self.dim})" if self.blocks == 1 else f"S({self.dim}/{self.blocks})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Every rank of the axis holds the whole."""

    def __repr__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Every rank of the axis holds one term of a sum."""

    def __repr__(self) -> str:
        return "P"


def part(length: int, parts: int, index: int) -> tuple[int, int]:
    """Where part `index` of `parts` starts and stops."""
    short, longer = divmod(length, parts)
    start = index * short + min(index, longer)
    return start, start + short + (index < longer)


def local_shape(
    shape: Sequence[int], placements: Sequence[Placement], degrees: Sequence[int], coordinates: Sequence[int]
) -> tuple[int, ...]:
    """The shape of the part of the rank at `coordinates`."""
    own = list(shape)
    for placement, degree, place in zip(placements, degrees, coordinates):
        if isinstance(placement, Shard):
            start, stop = part(own[placement.dim] // placement.blocks, degree, place)
            own[placement.dim] = placement.blocks * (stop - start)
    return tuple(own)


def local_part(array: Any, placements: Sequence[Placement], degrees: Sequence[int], coordinates: Sequence[int]) -> Any:
    """The part of a whole array of the rank at `coordinates`, which may be a view of it."""
    for placement, degree, place in zip(placements, degrees, coordinates):
        if isinstance(placement, Shard):
            array = cut(array, placement, degree, place)
    return array


def cut(array: Any, shard: Shard, parts: int, index: int) -> Any:
    """Part `index` of `parts` of an array, along one dimension."""
    if shard.blocks > 1:
        return joined(cut(opened(array, shard), Shard(shard.dim + 1), parts, index), shard)
    start, stop = part(array.shape[shard.dim], parts, index)
    return array[(slice(None),) * shard.dim + (slice(start, stop),)]


def opened(array: Any, shard: Shard) -> Any:
    """An array with the dimension that consists of blocks written as two: blocks, and what is in one."""
    return array.reshape(*array.shape[: shard.dim], shard.blocks, -1, *array.shape[shard.dim + 1 :])


def joined(array: Any, shard: Shard) -> Any:
    """The opposite of `opened`."""
    return array.reshape(*array.shape[: shard.dim], -1, *array.shape[shard.dim + 2 :])


def cuts(placement: Placement, dim: int) -> bool:
    """Whether a placement cuts this dimension."""
    return isinstance(placement, Shard) and placement.dim == dim


def placements_of(given: Any, mesh: Any, ndim: int) -> tuple[Placement, ...]:
    """What a user wrote, as one placement for each mesh axis.

    Args:
        given: one placement a mesh axis; or, as in "dims mapping", one axis name or None a tensor dimension.
        mesh: a ProcessMesh.
        ndim: dimensions of the tensor.

    Raises:
        TypeError, ValueError: for anything else, a dimension out of range or an axis used twice.
    """
    entries = list(given)
    if all(entry is None or isinstance(entry, str) for entry in entries):
        entries = _from_mapping(entries, mesh, ndim)
    if len(entries) != len(mesh.shape):
        raise ValueError(f"{given}: {len(entries)} placement(s) for a mesh of {len(mesh.shape)} axes {mesh.dim_names}")
    result: list[Placement] = []
    for entry in entries:
        if not isinstance(entry, Placement):
            raise TypeError(f"{entry!r} is no placement: use Shard(dim), Replicate() or Partial()")
        if isinstance(entry, Shard):
            if not -ndim <= entry.dim < ndim:
                raise ValueError(f"Shard({entry.dim}): the tensor has {ndim} dimension(s)")
            if entry.blocks < 1:
                raise ValueError(f"Shard({entry.dim}, blocks={entry.blocks}): at least 1 block")
            entry = Shard(entry.dim % ndim, entry.blocks)
        result.append(entry)
    return tuple(result)


def _from_mapping(mapping: Sequence[str | None], mesh: Any, ndim: int) -> list[Placement]:
    if len(mapping) != ndim:
        raise ValueError(f"{list(mapping)}: name an axis or None for each of the tensor's {ndim} dimensions")
    result: list[Placement] = [Replicate()] * len(mesh.shape)
    for dim, name in enumerate(mapping):
        if name is None:
            continue
        if name not in mesh.dim_names:
            raise ValueError(f"the mesh has no axis {name!r}: it has {', '.join(mesh.dim_names)}")
        axis = mesh.dim_names.index(name)
        if result[axis] != Replicate():
            raise ValueError(f"{list(mapping)}: axis {name!r} can cut only one dimension")
        result[axis] = Shard(dim)
    return result
