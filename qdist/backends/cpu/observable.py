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

_LEAST_BITS, _MOST_FLIPS = 14, 64
"""Limits for values by the kernel of products: its tables cost as much as a small state, and grow with the flips."""


class CpuObservable:
    """See ``ObservableKernel``. Calls for one shard go directly to the native plan."""

    __slots__ = ("_plan", "add_expectations", "apply")

    def __init__(self, strings: Strings, num_bits: int, dtype: np.dtype[Any], products: bool) -> None:
        as_product = not products and value_as_product(strings, num_bits)
        tile = _product_tile_bits(num_bits, dtype) if products or as_product else _VALUE_TILE_BITS
        self._plan = kernels.PauliPlan(num_bits, *strings, tile, as_product)
        self.add_expectations, self.apply = self._plan.add_expectations, self._plan.apply

    @property
    def passes(self) -> int:
        return self._plan.passes

    def apply_rows(
        self, kets: NDArray[Any], weights: NDArray[np.float64], bras: NDArray[Any], values: NDArray[np.float64]
    ) -> None:
        kernels.apply_batch(self._plan, kets, weights, bras, values)

    def add_values(self, kets: NDArray[Any], values: NDArray[np.float64]) -> None:
        for ket, row in zip(kets, values):
            self.add_expectations(ket, 0, row)


def value_as_product(strings: Strings, num_bits: int) -> bool:
    """Whether a value is best computed by the kernel of products: for one observable with few different X masks, and
    states large enough to pay for its tables."""
    if strings.num_observables != 1 or num_bits < _LEAST_BITS:
        return False
    flips = np.unique(strings.x)
    return bool(flips.any()) and len(flips) <= _MOST_FLIPS


def _product_tile_bits(num_bits: int, dtype: np.dtype[Any]) -> int:
    """Products read a tile more often than it is loaded and stored: larger tiles make fewer passes, as long as they
    fit the L2 cache and there are many tiles for threads."""
    largest = (1 << 19).bit_length() - dtype.itemsize.bit_length()
    return max(_VALUE_TILE_BITS, min(largest, num_bits - 5))
