"""The numbers of a GPU program that follow from a circuit's angles: matrices, phase tables, and angles as turns.

Kernels read two arrays: reals (matrices and phase factors, in the program's precision) and turns (angles as fractions
of a full turn, in fixed point: sums of them wrap around exactly, and lose nothing however many there are).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.native import kernels
from qdist.plan.operations import Affine

__all__ = ["Binding", "Factors", "reordered"]

Factors = list[tuple[int, list[int], list[int], list[complex]]]
"""(formula, angle slots, bits of the product, constant matrix)"""


class Binding:
    """Collects what must be computed when angles are bound; ``freeze`` ends that, ``values`` does it."""

    def __init__(self, dtype: np.dtype, register_bits: int) -> None:
        self.real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        self.turn = np.dtype(np.uint32 if dtype == np.complex64 else np.uint64)
        self._settings = np.arange(1 << register_bits)
        self.size = 0
        """Places in reals so far."""
        self._constants: list[tuple[int, NDArray[Any]]] = []
        self._matrices = kernels.MatrixList()
        self._entries: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
        self._affine: list[Affine] = []
        self._tables: list[int] = []
        self._terms: list[tuple[int, int, int, int]] = []
        self._rotations: list[tuple[int, int, int]] = []

    def constant(self, numbers: Sequence[complex]) -> int:
        """A place in reals for complex numbers that never change: (real, imaginary) in turn."""
        at = self.place(2 * len(numbers))
        self._constants.append((at, np.asarray(numbers, np.complex128).view(np.float64)))
        return at

    def matrix(
        self, num_bits: int, factors: Factors, order: Sequence[int], at: int, real: bool = False, adjoint: bool = False
    ) -> None:
        """Puts a matrix, or its adjoint, at a place, row by row. Bit k of its index is bit order[k] of the factors'
        product.

        real: the real parts alone.
        """
        first = self._matrices.size
        self._matrices.add(num_bits, factors)
        entries = reordered(order)
        source = 2 * (first + (entries.T if adjoint else entries).ravel())
        sign = np.ones(len(source))
        if not real:
            source = np.stack([source, source + 1], axis=1).ravel()
            sign = np.stack([sign, -sign if adjoint else sign], axis=1).ravel()
        self._entries.append((at + np.arange(len(source)), source, sign))

    def angle(self, affine: Affine) -> int:
        """A place in turns for an angle."""
        self._affine.append(affine)
        return len(self._affine) - 1

    def phase_table(self, terms: Sequence[tuple[int, int, Affine]]) -> int:
        """A place in reals for a phase factor for each setting of the registers: the product of those whose
        (mask, value) the setting has."""
        at = self.place(2 * len(self._settings))
        for mask, value, affine in terms:
            self._terms.append((len(self._tables), mask, value, self.angle(affine)))
        self._tables.append(at)
        return at

    def rotation(self, affine: Affine, num_y: int) -> int:
        """A place in reals for cos(a/2) and for the complex factor -i sin(a/2) i^num_y."""
        at = self.place(3)
        self._rotations.append((at, self.angle(affine), num_y))
        return at

    def place(self, count: int) -> int:
        """A place in reals for so many numbers. The kernel reads four at a time."""
        at = self.size
        self.size += -(-count // 4) * 4
        return at

    def freeze(self) -> None:
        """Nothing is added after this."""
        self._template = np.zeros(max(self.size, 1), self.real)
        for at, numbers in self._constants:
            self._template[at : at + len(numbers)] = numbers
        empty = [np.zeros(0, np.int64)]
        self._to = np.concatenate(empty + [to for to, _, _ in self._entries])
        self._from = np.concatenate(empty + [source for _, source, _ in self._entries])
        self._sign = np.concatenate([np.zeros(0), *(sign for _, _, sign in self._entries)])
        self._offsets = np.array([constant for constant, _ in self._affine], np.float64)
        parts = [(k, slot, c) for k, (_, slots) in enumerate(self._affine) for slot, c in slots]
        self._owner, self._slot = (np.array([p[j] for p in parts], np.int64) for j in (0, 1))
        self._coefficient = np.array([p[2] for p in parts], np.float64)
        rows, masks, values, angles = np.array(self._terms, np.int64).reshape(-1, 4).T
        self._holds = (self._settings & masks[:, None]) == values[:, None]
        self._term_angles = angles
        # A table's terms stand together, and it has at least one.
        self._first_terms = np.searchsorted(rows, np.arange(len(self._tables)))
        width = 2 * len(self._settings)
        self._table_places = np.array(self._tables, np.int64)[:, None] + np.arange(width)
        self._rotation_data = np.array(self._rotations, np.int64).reshape(-1, 3).T

    def values(self, angles: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """(reals, turns) for each row of the circuit's angles."""
        rows = len(angles)
        reals = np.tile(self._template, (rows, 1))
        if len(self._to):
            matrices = np.empty((rows, self._matrices.size), np.complex128)
            for row, own in zip(angles, matrices):
                self._matrices.at(row, own)
            reals[:, self._to] = matrices.view(np.float64)[:, self._from] * self._sign
        sums = np.tile(self._offsets, (rows, 1))
        if len(self._owner):
            # One bincount for all rows: each has its own range of bins.
            bins = self._owner + len(self._offsets) * np.arange(rows)[:, None]
            weights = self._coefficient * angles[:, self._slot]
            sums += np.bincount(bins.ravel(), weights.ravel(), sums.size).reshape(sums.shape)
        if len(self._tables):
            terms = sums[:, self._term_angles, None] * self._holds
            phases = np.add.reduceat(terms, self._first_terms, axis=1)
            reals[:, self._table_places] = np.exp(1j * phases).view(np.float64)
        if self._rotations:
            at, angle, num_y = self._rotation_data
            half = sums[:, angle] / 2
            factor = -1j * np.sin(half) * np.array([1, 1j, -1, -1j])[num_y & 3]
            reals[:, at], reals[:, at + 1], reals[:, at + 2] = np.cos(half), factor.real, factor.imag
        return reals, self._turns(sums)

    def _turns(self, angles: NDArray[np.float64]) -> NDArray[Any]:
        fraction = angles / (2 * np.pi)
        fraction -= np.round(fraction)
        bits = 8 * self.turn.itemsize
        signed = np.int32 if bits == 32 else np.int64
        # Just below a half turn, so that rounding cannot reach past the largest integer.
        largest = float(np.nextafter(2.0 ** (bits - 1), 0)) if bits == 64 else 2.0**31 - 1
        scaled = np.clip(np.rint(fraction * 2.0**bits), -(2.0 ** (bits - 1)), largest)
        return np.ascontiguousarray(scaled.astype(signed)).view(self.turn)


def reordered(order: Sequence[int]) -> NDArray[np.int64]:
    """For each entry of a matrix whose index has bit order[k] of another's as bit k: its place in the other."""
    index = np.arange(1 << len(order))
    old = np.zeros_like(index)
    for k, bit in enumerate(order):
        old |= (index >> k & 1) << bit
    return old[:, None] << len(order) | old[None, :]
