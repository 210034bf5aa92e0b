"""Whether the ranks of a mesh hold the same global value, of which each is about to keep its part."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from qdist.nn.agreement import is_due, measures, tolerance
from qdist.nn.module import Parameter
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.tensor import Tensor
from qdist.tensor.arrays import Array
from qdist.tensor.versions import digest

__all__ = ["digest_of", "first_value", "same_value"]


def digest_of(arrays: Sequence[Array]) -> int:
    """31 bits that follow from the shapes, dtypes and values of these arrays."""
    return zlib.crc32(repr([(x.shape, str(x.dtype), digest(x)) for x in arrays]).encode()) >> 1


def same_value(x: Tensor, mesh: ProcessMesh) -> Tensor:
    """x, which the ranks of the mesh have to hold alike: they differ by no more than rounding.

    A Parameter is compared once; of other tensors the 1st, 2nd, 4th ... 64th that the mesh meets and every 64th from
    there on. 8 bytes travel unless something differs. Collective over the mesh's ranks; the others need not call.

    Raises ValueError, on every rank of the mesh, where their values differ. A mesh that `takes_first` warns instead,
    and from then on gives the first rank's value of every tensor outside the graph.
    """
    if mesh.size == 1 or mesh.coordinates is None:
        return x
    data = not x.requires_grad and not isinstance(x, Parameter)
    if not (mesh.differed and data):
        if not _is_due(x, mesh) or _agree(x._data, mesh):
            return x
        found = _difference(x, mesh)
        if found is None:
            return x
        if not (mesh.takes_first and data and found.kind == "values"):
            raise ValueError(
                f"ranks {found.ranks[0]} and {found.ranks[1]} have different {found.kind} of one tensor, of which each "
                "would take a part of its own: give every rank of the mesh the same whole tensor (the same seed, no "
                "sampler)"
            )
        mesh.differed = True
        warnings.warn(
            f"ranks {found.ranks[0]} and {found.ranks[1]} have different values of one tensor (does the dataset draw "
            "its items without a seed?): from now on those of the mesh's first rank are used",
            stacklevel=2,
        )
    return Tensor(first_value(x._data, mesh))


class _Difference(NamedTuple):
    ranks: tuple[int, int]
    kind: str


def _difference(x: Tensor, mesh: ProcessMesh) -> _Difference | None:
    """The first two ranks that hold something else, and what; None where it is rounding."""
    entries = _from_all((mesh.comm.group[mesh.comm.rank], x.shape, str(x.dtype), *measures(x._data)), mesh)
    first, shape, dtype, value, _ = entries[0]
    scale = max(entry[4] for entry in entries)
    for rank, its_shape, its_dtype, its_value, _ in entries:
        if (its_shape, its_dtype) != (shape, dtype):
            return _Difference((first, rank), f"shapes or types ({shape}, {its_shape})")
        if abs(its_value - value) > tolerance(dtype) * scale:
            return _Difference((first, rank), "values")
    return None


def _is_due(x: Tensor, mesh: ProcessMesh) -> bool:
    if isinstance(x, Parameter):
        known = mesh.compared.get(id(x)) is x
        mesh.compared[id(x)] = x
        return not known
    mesh.met += 1
    return is_due(mesh.met)


def first_value(values: Array, mesh: ProcessMesh) -> Array:
    """The values of the mesh's first rank, for all of its ranks; they travel where some differ."""
    if mesh.size == 1 or _agree(values, mesh):
        return values
    for axis in range(len(mesh.shape)):
        values = mesh.group(axis).broadcast(values)
    return values


def _agree(values: Array, mesh: ProcessMesh) -> bool:
    mine = digest_of([values])
    extremes = np.array([mine, -mine], np.int32)
    if mesh.partial:
        for axis in range(len(mesh.shape)):
            extremes = mesh.group(axis).all_reduce(extremes, "max")
    else:
        extremes = mesh.comm.all_reduce(extremes, "max")
    return bool(extremes[0] == -extremes[1])


def _from_all(entry: Any, mesh: ProcessMesh) -> list[Any]:
    """The entry of every rank of the mesh, in the same order on all of them."""
    entries = [entry]
    for axis in reversed(range(len(mesh.shape))):
        entries = [e for theirs in mesh.group(axis).all_gather_object(entries) for e in theirs]
    return entries
