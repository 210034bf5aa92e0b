"""Pauli strings on the CPU: tile sizes, and which expectation values are computed by the kernel of products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.native import kernels
from qdist.plan.observables.strings import Strings

__all__ = ["CpuObservable", "value_as_product"]

_VALUE_TILE_BITS = 12
"""Expectation values of several observables read each part of a tile a few times: it stays in the L1 cache."""

_LEAST_BITS = 14
"""Values by the kernel of products: of states no smaller, or its tables cost as much as the state."""

_TABLE_BYTES = 1 << 26
"""Room for the tables of products, where the shard itself is no larger. They have up to 8 bytes for each X mask and
each row of 8 amplitudes of a tile."""


class CpuObservable:
    """See ``ObservableKernel``. Calls for one shard go directly to the native plan."""

    __slots__ = ("_plan", "add_expectations", "apply")

    def __init__(self, strings: Strings, num_bits: int, dtype: np.dtype[Any], products: bool) -> None:
        as_product = not products and value_as_product(strings, num_bits, dtype)
        tile = _product_tile_bits(strings, num_bits, dtype) if products or as_product else _VALUE_TILE_BITS
        self._plan = kernels.PauliPlan(num_bits, *strings, tile, as_product)
        self.add_expectations, self.apply = self._plan.add_expectations, self._plan.apply

    @property
    def passes(self) -> int:
        return self._plan.passes

    def apply_rows(
        self, kets: NDArray[Any], weights: NDArray[np.float64], bras: NDArray[Any], values: NDArray[np.float64]
    ) -> None:
        kernels.apply_batch(self._plan, kets, weights, bras, values)

    def queues(self, weights: NDArray[np.float64]) -> bool:
        return False

    def queue(self, *arguments: Any) -> None:
        raise NotImplementedError("the host computes at once: ask queues() first")

    def add_values(self, kets: NDArray[Any], values: NDArray[np.float64]) -> None:
        for ket, row in zip(kets, values):
            self.add_expectations(ket, 0, row)


def value_as_product(strings: Strings, num_bits: int, dtype: np.dtype[Any]) -> bool:
    """Whether a value is best computed by the kernel of products, which skips amplitudes on which the strings of one X
    mask cancel: for one observable that flips anything, and states large enough to pay for its tables."""
    if strings.num_observables != 1 or num_bits < _LEAST_BITS or not strings.x.any():
        return False
    tile = _product_tile_bits(strings, num_bits, dtype)
    return _table_bytes(strings, tile) <= _room(num_bits, dtype)


def _product_tile_bits(strings: Strings, num_bits: int, dtype: np.dtype[Any]) -> int:
    """Products read a tile more often than it is loaded and stored: larger tiles make fewer passes, as long as they
    fit the L2 cache, there are many tiles for threads, and tables do not become larger than the state."""
    largest = (1 << 19).bit_length() - dtype.itemsize.bit_length()
    tile = max(_VALUE_TILE_BITS, min(largest, num_bits - 5))
    while tile > _VALUE_TILE_BITS and _table_bytes(strings, tile) > _room(num_bits, dtype):
        tile -= 1
    return tile


def _table_bytes(strings: Strings, tile_bits: int) -> int:
    """At most so many, since zeros take none."""
    return len(np.unique(strings.x)) << tile_bits


def _room(num_bits: int, dtype: np.dtype[Any]) -> int:
    return max(_TABLE_BYTES, dtype.itemsize << num_bits)
