"""Parameters that ranks hold copies of must be equal on all of them: who trains them otherwise is told, with the name.

A digest of 8 bytes is compared, which is cheap enough to do now and then while a model trains. Where digests differ,
the parameters are compared by numbers: ranks on unlike processors round differently, which is no mistake.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..comm import Communicator
from ..tensor import after_backward
from ..tensor.arrays import Array, is_half, to_device
from ..tensor.autograd import leaves
from ..tensor.versions import digest
from .module import Parameter

__all__ = ["Agreement", "agree", "is_due", "measures", "tolerance"]

_EVERY = 64
_TOLERANCE = {"float16": 1e-2, "bfloat16": 1e-1, "float32": 1e-4, "complex64": 1e-4}


def is_due(count: int) -> bool:
    """Whether the count-th time is one to compare at: 1, 2, 4 ... 64, and every 64th from there on."""
    return count % _EVERY == 0 or (count < _EVERY and count & (count - 1) == 0)


def agree(named: Iterable[tuple[str, Parameter]], comm: Communicator, way_out: str) -> None:
    """Raises ValueError, on every rank, for the first parameter whose values differ between ranks of `comm`.

    Args:
        named: parameters with their names, in the same order on every rank; those that ranks hold parts of are left
            out.
        way_out: how the error ends.

    Collective over `comm`. Differences that rounding explains are none.
    """
    parameters = [(name, p) for name, p in named if p.replicated and p.partition is None and p.dispatch is None]
    mine = zlib.crc32(repr([digest(p._data) for _, p in parameters]).encode())
    highest, lowest = comm.all_reduce(np.array([mine, -mine], np.int64), "max")
    if highest == -lowest:
        return
    everyone = comm.all_gather_object([(name, p.shape, str(p.dtype), *measures(p._data)) for name, p in parameters])
    if any([entry[:3] for entry in theirs] != [entry[:3] for entry in everyone[0]] for theirs in everyone):
        return  # Ranks whose rows take other ways through the model: there is nothing to compare.
    for entries in zip(*everyone):
        name, shape, dtype, _, _ = entries[0]
        values = np.array([entry[3] for entry in entries])
        scale = max(entry[4] for entry in entries)
        apart = np.abs(values - values[0])
        rank = int(apart.argmax())
        if not apart[rank] <= tolerance(dtype) * scale:
            raise ValueError(
                f"{name} of shape {shape} has different values on rank {comm.group[0]} and rank {comm.group[rank]}, "
                f"which must agree (they are {apart[rank] / scale if scale else apart[rank]:.1e} apart): {way_out}"
            )


def tolerance(dtype: str) -> float:
    """How far apart, beside their norm, rounding may bring values of this dtype on unlike processors."""
    return _TOLERANCE.get(dtype, 1e-10)


def measures(values: Array) -> tuple[complex, float]:
    """A sum of all values, weighted by random numbers that depend on their places, and their norm."""
    flat = to_device(values, "cpu").reshape(-1)
    flat = flat.astype(np.float32) if is_half(flat.dtype) else flat
    weights = np.random.default_rng(flat.size).normal(size=flat.size)
    return complex(np.vdot(weights, flat)), float(np.linalg.norm(flat))


class Agreement:
    """Compares, now and then, the parameters that backward passes reach together with a layer that ranks share."""

    def __init__(self, comm: Communicator, way_out: str) -> None:
        self.comm, self._way_out, self._passes = comm, way_out, 0

    def follow(self, gradient: Any) -> None:
        """A hook for a tensor: the backward pass under way is one to compare at its end, if it is time."""
        after_backward(self._compare)

    def _compare(self) -> None:
        self._passes += 1
        if is_due(self._passes):
            agree(_labelled(leaves()), self.comm, self._way_out)


def _labelled(tensors: Sequence[Any]) -> Iterator[tuple[str, Parameter]]:
    return ((p.label, p) for p in tensors if isinstance(p, Parameter))
