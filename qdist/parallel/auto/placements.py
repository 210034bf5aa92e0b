"""Placements: how a tensor lies on one axis of a mesh, and which part of it a rank then holds.

A tensor on a mesh of k axes has k placements. The first axis cuts first: with [Shard(0), Shard(0)] on a 2 x 4 mesh the
rows fall into two halves, and each half into four parts. Parts differ in length by at most one; the longer come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Partial", "Placement", "Replicate", "Shard", "local_region", "local_shape", "part", "placements_of"]


@dataclass(frozen=True)
class Placement:
    """The base of Shard, Replicate and Partial."""


@dataclass(frozen=True)
class Shard(Placement):
    """Every rank of the axis holds a slice along dimension `dim`."""

    dim: int

    def __repr__(self) -> str:
        return f"S({self.dim})"


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


def local_region(
    shape: Sequence[int], placements: Sequence[Placement], degrees: Sequence[int], coordinates: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Where, in every dimension, the part of the rank at `coordinates` starts and stops."""
    region = [(0, n) for n in shape]
    for placement, degree, place in zip(placements, degrees, coordinates):
        if isinstance(placement, Shard):
            low, high = region[placement.dim]
            start, stop = part(high - low, degree, place)
            region[placement.dim] = (low + start, low + stop)
    return tuple(region)


def local_shape(
    shape: Sequence[int], placements: Sequence[Placement], degrees: Sequence[int], coordinates: Sequence[int]
) -> tuple[int, ...]:
    """The shape of the part of the rank at `coordinates`."""
    return tuple(stop - start for start, stop in local_region(shape, placements, degrees, coordinates))


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
            entry = Shard(entry.dim % ndim)
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
