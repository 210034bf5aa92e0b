"""Amplitudes that a new state is filled with: given ones, and those of a product of one-qubit states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdist.backends.errors import StateError
from qdist.state.shards import Shards

__all__ = ["check_filled", "checked_factors", "fill", "fill_with_product"]

_INDEX_CHUNK = 1 << 20
"""Amplitudes whose logical indices are computed at a time."""


def fill(sv: Shards, amplitudes: NDArray[Any]) -> None:
    """Takes this rank's share of all amplitudes, given in logical order."""
    start, end = sv.bounds(sv.comm.rank)
    if sv.layout.is_identity:
        sv.local[:] = sv.backend.moved(amplitudes[start:end])
        return
    for first in range(start, end, _INDEX_CHUNK):
        physical = np.arange(first, min(first + _INDEX_CHUNK, end))
        own = sv.backend.moved(amplitudes[sv.layout.to_logical(physical)])
        sv.local[first - start :][: len(physical)] = own


def check_filled(sv: Shards, amplitudes: NDArray[Any]) -> None:
    """Raises StateError where these amplitudes are not finite or all zero; the state has been filled with them."""
    norm = sv.norm()
    if not math.isfinite(norm):
        where = np.flatnonzero(~np.isfinite(amplitudes))
        bad = f"amplitude {where[0]} is {amplitudes[where[0]]}" if len(where) else f"their squares overflow {sv.dtype}"
        raise StateError(f"amplitudes must be finite: {bad}")
    if norm == 0:
        raise StateError("amplitudes must not all be zero: that is no state")


def checked_factors(factors: ArrayLike) -> NDArray[Any]:
    """One pair of amplitudes a qubit; raises StateError for other shapes and for what is no state."""
    try:
        array = np.asarray(factors)
    except ValueError:
        raise StateError("a product state needs a pair of amplitudes for each qubit: not all are pairs") from None
    if array.dtype.kind not in "biufc" or array.ndim != 2 or array.shape[1] != 2:
        raise StateError(f"a product state of n qubits needs factors of shape (n, 2); got shape {array.shape}")
    if not np.isfinite(array).all() or not array.any(axis=1).all():
        bad = int(np.flatnonzero(~np.isfinite(array).all(axis=1) | ~array.any(axis=1))[0])
        raise StateError(f"factors must be finite and not zero; that of qubit {bad} is {array[bad].tolist()}")
    return array


def fill_with_product(sv: Shards, factors: NDArray[Any]) -> None:
    """Takes this rank's share of the product of factors[q] for every qubit q."""
    # Close factors are multiplied in the shard's own precision, in place.
    by_position = factors.astype(np.complex128)[list(sv.layout.qubits)]
    close, far = by_position[: sv.shard_bits].astype(sv.dtype), by_position[sv.shard_bits :]
    for first, shard in sv.shards():
        bits = first >> sv.shard_bits
        shard[0] = math.prod((complex(pair[bits >> k & 1]) for k, pair in enumerate(far)), start=1 + 0j)
        for k, (zero, one) in enumerate(close):
            half = 1 << k
            np.multiply(shard[:half], one, out=shard[half : 2 * half])
            shard[:half] *= zero
