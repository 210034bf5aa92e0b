"""The numbers of a GPU program that follow from a circuit's angles: matrices, phase factors and phase angles.

Kernels read two arrays: reals (matrices and phase factors, in the program's precision) and turns (phase angles in fixed
point, as fractions of a full turn: sums of them wrap around exactly, and lose nothing however many there are).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.in_tile import Factors, reordered
from qdist.native import kernels
from qdist.plan.operations import Affine

__all__ = ["MIXED", "PARITY_ENTRIES", "Binding"]

MIXED = ((0, 3), (1, 2))
"""What a matrix on two bits that keeps parities mixes."""
PARITY_ENTRIES = [4 * row + column for mixed in MIXED for row in mixed for column in mixed]
"""Its entries, of sixteen."""


class Binding:
    """Collects what must be computed when angles are bound; ``freeze`` ends that, ``put_values`` does it."""

    def __init__(self, dtype: np.dtype, register_bits: int) -> None:
        self.real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        self.turn = np.dtype(np.uint32 if dtype == np.complex64 else np.uint64)
        self._settings = 1 << register_bits
        self.size = 0
        """Places in reals so far."""
        self._constants: list[tuple[int, NDArray[Any]]] = []
        self._matrices = kernels.MatrixList()
        self._entries: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
        self._affine: list[Affine] = []
        self._tables: list[int] = []
        self._terms: list[tuple[int, int, int, int]] = []
        self._rotations: list[tuple[int, int, int, bool]] = []
        self._cores: list[tuple[int, ...]] = []

    def constant(self, numbers: Sequence[complex]) -> int:
        """A place in reals for complex numbers that never change: (real, imaginary) in turn."""
        at = self.place(2 * len(numbers))
        self.constants(at, np.asarray(numbers, np.complex128).view(np.float64))
        return at

    def constants(self, at: int, numbers: NDArray[np.float64]) -> None:
        """Puts real numbers that never change at a place."""
        self._constants.append((at, numbers))

    def matrix(
        self,
        num_bits: int,
        factors: Factors,
        order: Sequence[int],
        at: int,
        entries: str = "complex",
        adjoint: bool = False,
        everywhere: bool = False,
    ) -> None:
        """Puts a matrix, or its adjoint, at a place, row by row. Bit k of its index is bit order[k] of the factors'
        product.

        entries: "complex", "real" (the real parts alone), "imag": of a matrix on one bit that is imaginary off the
        diagonal the real one S^-1 U S, with S = diag(1, i); or "parity": of a matrix on two bits those that mix 00 with
        11, then those that mix 01 with 10, unless it is made ``lean``. everywhere: it has no conditions, so that it may
        make up for what the rounding of others does to the norm; such matrices are given in the order in which they
        run.
        """
        first = self._matrices.size
        # Those that keep parities make up for each other.
        self._matrices.add(num_bits, factors, everywhere and entries != "parity")
        places = reordered(order)
        source = 2 * (first + (places.T if adjoint else places).ravel())
        if entries == "parity":
            self._cores.append((at, 0, int(adjoint), *(source[PARITY_ENTRIES] // 2).tolist()))
            return
        sign = np.ones(len(source))
        if entries == "imag":
            source[1:3] += 1
            sign[1:3] = (1, -1) if adjoint else (-1, 1)
        elif entries == "complex":
            source = np.stack([source, source + 1], axis=1).ravel()
            sign = np.stack([sign, -sign if adjoint else sign], axis=1).ravel()
        self._entries.append((at + np.arange(len(source)), source, sign))

    def lean(self, number: int) -> None:
        """Makes a matrix that keeps parities, number ``number`` of them, one that hands on a phase: see
        native/src/program/lean_numbers.hpp. They are given in the order in which they run, and the last is not lean.
        Of an adjoint, whose phases come first, the numbers are those of its transpose, whose phases come last."""
        at, _, adjoint, *entries = self._cores[number]
        if adjoint:
            entries = [entries[k] for k in (0, 2, 1, 3, 4, 6, 5, 7)]
        self._cores[number] = (at, 1, adjoint, *entries)

    def angle(self, affine: Affine) -> int:
        """A place in turns, the phase angles in fixed point, for an angle."""
        self._affine.append(affine)
        return len(self._affine) - 1

    def phase_table(self, terms: Sequence[tuple[int, int, Affine]]) -> int:
        """A place in reals for a phase factor for each setting of the registers: the product of those whose
        (mask, value) the setting has."""
        at = self.place(2 * self._settings)
        for mask, value, affine in terms:
            self._terms.append((len(self._tables), mask, value, self.angle(affine)))
        self._tables.append(at)
        return at

    def rotation(self, affine: Affine, num_y: int, everywhere: bool = False) -> int:
        """A place in reals for cos(a/2) and for the complex factor -i sin(a/2) i^num_y. everywhere: as for a matrix."""
        at = self.place(3)
        self._rotations.append((at, self.angle(affine), num_y, everywhere))
        return at

    def place(self, count: int) -> int:
        """A place in reals for so many numbers. The kernel reads four at a time."""
        at = self.size
        self.size += -(-count // 4) * 4
        return at

    def freeze(self) -> None:
        """Nothing is added after this."""
        self.size = max(self.size, 1)
        constants = np.zeros(self.size)
        for at, numbers in self._constants:
            constants[at : at + len(numbers)] = numbers
        none = [np.zeros(0, np.int64)]
        parts = [(k, slot, c) for k, (_, slots) in enumerate(self._affine) for slot, c in slots]
        self._numbers = kernels.DeviceNumbers(
            self._matrices,
            constants,
            np.concatenate(none + [to for to, _, _ in self._entries]),
            np.concatenate(none + [source for _, source, _ in self._entries]),
            np.concatenate([np.zeros(0), *(sign for _, _, sign in self._entries)]),
            np.array([constant for constant, _ in self._affine], np.float64),
            np.array([owner for owner, _, _ in parts], np.int64),
            np.array([slot for _, slot, _ in parts], np.int64),
            np.array([c for _, _, c in parts], np.float64),
            self._settings,
            np.array(self._tables, np.int64),
            np.array(self._terms, np.int64).reshape(-1, 4),
            np.array(self._rotations, np.int64).reshape(-1, 4),
            np.array(self._cores, np.int64).reshape(-1, 3 + len(PARITY_ENTRIES)),
        )

    @property
    def num_turns(self) -> int:
        return len(self._affine)

    def values(self, angles: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """(reals, turns) for each row of the circuit's angles."""
        found = np.empty((len(angles), self.size), self.real), np.empty((len(angles), self.num_turns), self.turn)
        self.put_values(angles, *found)
        return found

    def put_values(self, angles: NDArray[np.float64], reals: NDArray[Any], turns: NDArray[Any]) -> None:
        """Writes the numbers for each row of the circuit's angles to the rows of reals and turns."""
        if self.real == np.float32:
            self._numbers.in_single(angles, reals, turns)
        else:
            self._numbers.in_double(angles, reals, turns)
