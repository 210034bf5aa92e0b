"""Pauli strings that flip more qubits than can be close: other ranks' amplitudes are received in pieces.

A piece of this rank and the piece that the flips map it to are stored side by side. An additional index bit above the
bits inside of a piece selects one of them, and the strings become strings on those few bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import ObservableKernel
from qdist.circuit.pauli.masks import bit_count
from qdist.plan.observables.strings import Strings
from qdist.state.moves.exchange import partner_pieces, piece_size
from qdist.state.shards import Shards

__all__ = ["WideStrings", "wide_strings"]


@dataclass(frozen=True, slots=True)
class WideStrings:
    """Strings that flip the same bits outside of a piece."""

    flips: int
    """Mask of those bits."""
    plan: ObservableKernel
    """The kernels' plan for two pieces side by side."""

    def add_expectations(self, sv: Shards, values: NDArray[np.float64]) -> None:
        """Adds this rank's share of <psi|O|psi>. Takes memory for two pieces beside an exchange's buffers."""
        found = np.zeros_like(values)
        for doubled, _, both in self._pairs(sv):
            self.plan.add_expectations(both, doubled, found)
        # Every pair of pieces is counted twice, once by the owner of each.
        values += found / 2

    def apply(self, sv: Shards, weights: NDArray[np.float64], out: Shards, values: NDArray[np.float64] | None) -> None:
        """Adds the strings' products with the state, times the observables' weights, to ``out``."""
        found = None if values is None else np.zeros_like(values)
        start, _ = out.bounds(out.comm.rank)
        size = piece_size(sv)
        result = sv.backend.empty((2 * size,), sv.dtype)
        for doubled, first, both in self._pairs(sv):
            self.plan.apply(both, doubled, weights, result, False, found)
            out.local[first - start :][:size] += result[:size]
        if values is not None and found is not None:
            values += found / 2

    def _pairs(self, sv: Shards) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """(first index of the pair in the plan's bits, physical index of the own piece, both pieces in one array)"""
        both = sv.backend.empty((2, piece_size(sv)), sv.dtype)
        for first, own, other in partner_pieces(sv, self.flips):
            both[0], both[1] = own, other
            yield first << 1, first, both.reshape(-1)


def wide_strings(sv: Shards, strings: Strings) -> list[WideStrings]:
    """Strings, by masks of positions, grouped by the bits that they flip outside of a piece."""
    size = np.uint64(piece_size(sv))
    bits = int(size).bit_length() - 1
    outside = strings.x & ~(size - np.uint64(1))

    def compiled(flips: int) -> ObservableKernel:
        own = _on_two_pieces(strings.chosen(outside == flips), flips, bits)
        return sv.backend.observable(own, bits + 1, sv.dtype, products=True)

    return [WideStrings(int(flips), compiled(int(flips))) for flips in np.unique(outside)]


def _on_two_pieces(strings: Strings, flips: int, bits: int) -> Strings:
    """The strings with a new bit above the bits inside of a piece: 0 in the own piece, 1 in the other."""
    inside, one = np.uint64((1 << bits) - 1), np.uint64(1)
    x = strings.x & inside | one << np.uint64(bits)
    # The sign that the bits outside give the other piece differs from the own piece's by this parity.
    parity = (_bit_count(strings.z & np.uint64(flips)) & 1).astype(np.uint64)
    z = strings.z & inside | parity << np.uint64(bits) | (strings.z & ~inside) << one
    # The counts of Y in the old and the new masks differ by an even number: i^surplus is a sign.
    surplus = _bit_count(strings.x & strings.z) - _bit_count(x & z)
    return strings._replace(x=x, z=z, coefficients=strings.coefficients * (1 - surplus % 4))


def _bit_count(masks: NDArray[np.uint64]) -> NDArray[np.int64]:
    return bit_count(masks[:, None])
