"""Pauli strings on the CPU: which tiles they are worked on in, and whether values come the way products do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.native import kernels
from qdist.plan.observables.strings import Strings

__all__ = ["CpuObservable", "value_as_product"]

_VALUE_TILE_BITS = 12
"""Expectation values of several observables read each part of a tile a few times: it stays in the first cache."""

_LEAST_BITS, _MOST_FLIPS = 14, 64
"""Where values come the way products do: tables take as long as small states, and those of many flips are too large."""


class CpuObservable:
    """See ``ObservableKernel``. Calls for one shard go to the native plan without a detour."""

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
    """Whether a value is best computed the way a product with a state is: that of one observable with few different
    flips, where a state is large enough for the tables that this takes."""
    if strings.num_observables != 1 or num_bits < _LEAST_BITS:
        return False
    flips = np.unique(strings.x)
    return bool(flips.any()) and len(flips) <= _MOST_FLIPS


def _product_tile_bits(num_bits: int, dtype: np.dtype[Any]) -> int:
    """Products read a tile more often than it comes and goes: it may be larger, and passes fewer, up to what stays in
    the second cache and leaves many tiles for threads."""
    largest = (1 << 19).bit_length() - dtype.itemsize.bit_length()
    return max(_VALUE_TILE_BITS, min(largest, num_bits - 5))
