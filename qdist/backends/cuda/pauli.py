"""Sums of Pauli strings on a GPU: expectation values, and products with a state or with the states of a batch.

Strings whose flips lie within a tile's bits share a pass over the state (pauli_tiles.py). What flips more bits than a
tile has is gathered from memory, string by string.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.checks import check_first, check_mask, check_size
from qdist.backends.cuda.measuring import add_up, beside, blocks, count, empty, inner, launch, run, totals
from qdist.backends.cuda.pauli_tiles import TilePass, apply_pass, pass_value, tile_passes

__all__ = ["PauliPlan"]

_WIDTHS = (2, 4, 16)
"""Strings that a pass for expectation values can take: there is a kernel for each of these numbers."""


class PauliPlan:
    """Pauli strings, by masks of bit positions, arranged in passes over a shard of 2**bits amplitudes.

    No x mask reaches beyond the shard. Strings of several observables that flip the same bits share a pass for their
    values, up to 16 of them; those of one observable share passes over tiles.
    """

    def __init__(
        self,
        bits: int,
        x: NDArray[np.uint64],
        z: NDArray[np.uint64],
        coefficients: NDArray[np.complex128],
        observable: NDArray[np.int64],
        observables: int,
    ) -> None:
        for array in (z, coefficients, observable):
            check_size(len(array), len(x), "z, coefficients and observable")
        for mask in x.tolist():
            check_mask(mask, bits, "the flips of a string")
        if len(observable) and not 0 <= observable.min() <= observable.max() < observables:
            raise ValueError(f"the number of an observable must be from 0 to {observables - 1}")
        self.observables = observables
        self._bits = bits
        self._x, self._z, self._coefficients, self._observable = x, z, coefficients, observable
        self._num_y = np.array([(int(a) & int(b)).bit_count() for a, b in zip(x, z)], np.int64)
        self._factors = coefficients * np.array([1, 1j, -1, -1j])[self._num_y % 4]
        self._kept: Any = None
        self._groups: list[tuple[int, NDArray[np.int64]]] = []
        most = _WIDTHS[-1]
        for flips in np.unique(x):
            own = np.flatnonzero(x == flips)
            self._groups += [(int(flips), own[k : k + most]) for k in range(0, len(own), most)]

    @property
    def passes(self) -> int:
        passes, wide, _ = self._passes(np.ones(self.observables))
        return len(passes) + len(np.unique(self._x[wide]))

    def add_expectations(self, shard: Any, first: int, out: NDArray[np.float64]) -> None:
        self._check(shard, first)
        check_size(out.size, self.observables, "out")
        groups, queued = self._groups, []
        if self.observables == 1:
            passes, wide, _ = self._passes(np.ones(1))
            if len(passes) < len(groups):
                queued = [pass_value(one, shard, first) for one in passes]
                groups = [(flips, own) for flips, own in groups if own[0] in wide]
        # Everything is queued before anything is waited for, and all values come together.
        found = totals(queued + [self._group_sums(shard, first, flips, own) for flips, own in groups])
        for value in found[: len(queued)]:
            out[0] += value.sum()
        for (flips, own), sums in zip(groups, found[len(queued) :]):
            num_y = self._num_y[own]
            # i^num_y of the real part, i^(num_y + 1) of the imaginary one; both pairs of a flip count.
            sign = np.where((num_y + 1) // 2 % 2, -1.0, 1.0) * (2 if flips else 1)
            values = sign * sums[: len(own)]
            np.add.at(out, self._observable[own], self._coefficients[own].real * values)

    def _group_sums(self, shard: Any, first: int, flips: int, own: NDArray[np.int64]) -> Any:
        half = shard.size // 2 if flips else shard.size
        width = next(w for w in _WIDTHS if w >= len(own))
        sums = empty(shard, (blocks(half), width))
        odd = sum(1 << k for k, num_y in enumerate(self._num_y[own]) if num_y & 1)
        launch(
            f"pauli_values_{width}",
            shard,
            half,
            shard,
            np.uint64(half),
            np.uint64(first),
            np.uint64(flips),
            np.int32(flips.bit_length() - 1),
            beside(shard, self._z[own]),
            np.uint32(odd),
            count(own),
            sums,
            module="pauli",
        )
        return sums

    def apply(
        self,
        shard: Any,
        first: int,
        weights: NDArray[np.float64],
        out: Any,
        add: bool,
        values: NDArray[np.float64] | None,
    ) -> None:
        self._check(shard, first)
        check_size(out.size, shard.size, "out")
        check_size(len(weights), self.observables, "weights")
        if values is not None:
            check_size(values.size, self.observables, "values")
        passes, wide, factors = self._passes(weights)
        alone = values is not None and not add and self._has_value_in_product(weights)
        found = _apply_passes(passes, shard, first, add, out, alone and not len(wide))
        add = add or bool(passes)
        if len(wide) or not add:
            x, z, numbers = _on_device(shard, self._x[wide], self._z[wide], factors[wide].view(np.float64))
            sizes = np.uint64(shard.size), np.uint64(first)
            more = x, z, numbers, count(wide), np.int32(add), out
            launch("apply_paulis", shard, shard.size, shard, *sizes, *more, module="pauli")
        if values is None:
            return
        if alone:
            product = inner(shard, out).real if found is None else float(found.get().sum())
            values[0] += product / weights[0]
        else:
            self.add_expectations(shard, first, values)

    def queues(self, weights: NDArray[np.float64]) -> bool:
        if not self._has_value_in_product(weights):
            return False
        passes, wide, _ = self._passes(weights)
        return bool(passes) and not len(wide)

    def queue(
        self, shard: Any, weights: NDArray[np.float64], out: Any, product: Any, constant: float = 0.0, value: Any = None
    ) -> None:
        self._check(shard, 0)
        check_size(out.size, shard.size, "out")
        passes, _, _ = self._passes(weights)
        add_up(shard, _apply_passes(passes, shard, 0, False, out, True), product, constant, value)

    def _has_value_in_product(self, weights: NDArray[np.float64]) -> bool:
        """One observable alone has, and the last pass completes it. It is divided by its weight again: one that is
        close to zero, or huge, would take its digits along."""
        return self.observables == 1 and bool(1e-6 < abs(weights[0]) < 1e6)

    def _check(self, shard: Any, first: int) -> None:
        """A shard of the size that the plan is for."""
        check_size(shard.size, 1 << self._bits, "the shard")
        check_first(first, shard.size)

    def _passes(self, weights: NDArray[np.float64]) -> tuple[list[TilePass], NDArray[np.int64], NDArray[np.complex128]]:
        """What ``tile_passes`` says for these weights, and the strings' factors; kept until other weights come."""
        key = np.asarray(weights, np.float64).tobytes()
        kept = self._kept  # Read once: another thread may put those of its own weights there.
        if kept is None or kept[0] != key:
            factors = self._factors * np.asarray(weights)[self._observable]
            chosen = np.flatnonzero(factors)
            passes, wide = tile_passes(self._bits, self._x[chosen], self._z[chosen], factors[chosen])
            self._kept = kept = key, (passes, chosen[wide], factors)
        return kept[1]

    def apply_rows(self, kets: Any, weights: NDArray[np.float64], bras: Any, values: NDArray[np.float64]) -> None:
        rows, size = kets.shape
        self._check_rows(kets, weights)
        self._check_rows(kets, values)
        check_size(bras.size, kets.size, "the bras")
        if not rows:
            return
        x, z, factors, observable, numbers = _on_device(
            kets, self._x, self._z, self._factors.view(np.float64), self._observable.astype(np.int32), weights
        )
        more = x, z, factors, observable, count(self._x), numbers, np.int32(self.observables), bras
        run("apply_rows", kets, (blocks(size), rows), kets, np.uint64(size), *more, module="pauli")
        self.add_values(kets, values)

    def _check_rows(self, kets: Any, numbers: NDArray[np.float64]) -> None:
        """Rows of the size that the plan is for, and a number for each of them and each observable."""
        check_size(kets.shape[1], 1 << self._bits, "a row of kets")
        if numbers.shape != (len(kets), self.observables):
            raise ValueError(f"{len(kets)} rows have {self.observables} numbers each; got shape {numbers.shape}")

    def add_values(self, kets: Any, values: NDArray[np.float64]) -> None:
        rows, size = kets.shape
        self._check_rows(kets, values)
        if not len(self._x) or not rows:
            return
        x, z, factors = _on_device(kets, self._x, self._z, self._factors.view(np.float64))
        found = empty(kets, (rows, len(self._x)))
        run("term_values", kets, (len(self._x), rows), kets, np.uint64(size), x, z, factors, found, module="pauli")
        np.add.at(values.T, self._observable, found.get().T)


def _apply_passes(passes: list[TilePass], shard: Any, first: int, add: bool, out: Any, wanted: bool) -> Any:
    """``apply_pass`` of all of them; the last one completes what is wanted."""
    found = None
    for k, one in enumerate(passes):
        found = apply_pass(one, shard, first, add or k > 0, out, wanted and k + 1 == len(passes))
    return found


def _on_device(shard: Any, *arrays: NDArray[Any]) -> list[Any]:
    return [beside(shard, np.ascontiguousarray(a)) for a in arrays]
