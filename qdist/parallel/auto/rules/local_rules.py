"""Operators whose local run is not just the operator on local parts: those that know the global shape, and those that
are run as several others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qdist.parallel.auto.placement.placements import Placement, Replicate, Shard, cuts, local_part, local_shape
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.tensor.vocabulary import vocab_parallel_cross_entropy
from qdist.tensor import Tensor, apply
from qdist.tensor.arrays import module_of
from qdist.tensor.random import keep_mask

__all__ = ["DECOMPOSED", "LOCAL_RULES", "Site"]


@dataclass(frozen=True)
class Site:
    """Where an operator runs: the mesh, its inputs' global shapes, and how inputs and outputs lie."""

    mesh: ProcessMesh
    shapes: tuple[tuple[int, ...] | None, ...]
    inputs: tuple[tuple[Placement, ...], ...]
    outputs: tuple[tuple[Placement, ...], ...]

    def cuts(self, position: int, dims: Any) -> bool:
        """Whether one of these dimensions of an input is cut."""
        return any(isinstance(p, Shard) and p.dim in dims for p in self.inputs[position])


def _reshape(site: Site, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    total = math.prod(site.shapes[0] or ())
    full = [total // max(-math.prod(shape), 1) if n == -1 else n for n in shape]
    return apply("reshape", x, shape=_own(site, full))


def _expand(site: Site, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return apply("expand", x, shape=_own(site, shape))


def _own(site: Site, shape: Any) -> tuple[int, ...]:
    return local_shape(shape, site.outputs[0], site.mesh.shape, site.mesh.place())


def _mean(site: Site, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    if not site.cuts(0, axis):
        return apply("mean", x, axis=axis, keepdims=keepdims)
    shape = site.shapes[0] or ()
    return apply("sum", x, axis=axis, keepdims=keepdims) * (1 / math.prod(shape[a] for a in axis))


def _dropout(site: Site, x: Tensor, p: float, ticket: Any) -> Tensor:
    """Every rank draws the whole mask and takes its part of it: the mask of a single process."""
    shape = site.shapes[0] or ()
    keep, factor = keep_mask(module_of(x._data), ticket, shape, p)
    own = local_part(keep, site.inputs[0], site.mesh.shape, site.mesh.place())
    return x * Tensor(own.astype(x.dtype) * x.dtype.type(factor))


def _embedding(site: Site, table: Tensor, indices: Tensor) -> Tensor:
    if not site.cuts(0, (0,)):
        return apply("embedding", table, indices)
    shape = site.shapes[0] or ()
    rows = [p if cuts(p, 0) else Replicate() for p in site.inputs[0]]
    held = local_part(np.arange(shape[0]), rows, site.mesh.shape, site.mesh.place())
    start, stop = int(held[0]), int(held[-1]) + 1
    wanted = _rows_of(indices._data, shape[0])
    here = (wanted >= start) & (wanted < stop)
    found = apply("embedding", table, Tensor((wanted - start) * here))
    return found * Tensor(here.reshape((*wanted.shape, *(1,) * (table.ndim - 1))).astype(table.dtype))


def _rows_of(indices: Any, count: int) -> Any:
    """Indices into a table of so many rows, negative ones counted from its end. Raises IndexError for others, which no
    rank would find, as the whole table does."""
    if indices.dtype.kind not in "iu":
        raise IndexError(f"embedding: indices are integers, not {indices.dtype}")
    wanted = indices.astype(np.int64)
    if wanted.size:
        low, high = int(wanted.min()), int(wanted.max())
        if low < -count or high >= count:
            raise IndexError(f"embedding: indices go from {low} to {high}, but the table has {count} rows")
    return wanted % count


def _cross_entropy(site: Site, logits: Tensor, targets: Tensor) -> Tensor:
    if not site.cuts(0, (1,)):
        return apply("cross_entropy", logits, targets)
    axis = next(i for i, p in enumerate(site.inputs[0]) if cuts(p, 1))
    return vocab_parallel_cross_entropy(logits, targets, site.mesh.group(axis), "none")


LOCAL_RULES: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "expand": _expand,
    "mean": _mean,
    "cross_entropy": _cross_entropy,
    "dropout": _dropout,
    "embedding": _embedding,
}


def _batch_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Statistics of the whole batch, wherever its rows are: two numbers a channel travel."""
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    mean = x.mean(axes)
    centred = x - mean.reshape(*shape)
    variance = (centred * centred).mean(axes)
    scale = weight / (variance + eps).sqrt()
    return centred * scale.reshape(*shape) + bias.reshape(*shape), mean, variance


DECOMPOSED: dict[str, Callable[..., Any]] = {"batch_norm": _batch_norm}
"""Operators that run as others when an input is a DistTensor."""
