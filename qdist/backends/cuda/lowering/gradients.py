"""What the sums of an adjoint sweep mean for a circuit's angles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.binding import MIXED
from qdist.backends.in_tile import Factors, reordered
from qdist.circuit.gate import FORMULAS
from qdist.native import kernels

__all__ = ["Gradients"]


class Gradients:
    """Numbers sums as they are asked for; ``freeze`` ends that, ``add`` makes derivatives of them."""

    def __init__(self) -> None:
        self.num_sums = 0
        self._linear: list[tuple[int, int, float]] = []
        self._matrices = kernels.MatrixList()
        self._entries: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def places(self, count: int) -> int:
        """So many sums; returns the number of the first."""
        first = self.num_sums
        self.num_sums += count
        return first

    def linear(self, coefficients: Mapping[int, float]) -> int:
        """A sum that the derivative by each of these angles has so many times."""
        at = self.places(1)
        self._linear += [(at, slot, c) for slot, c in coefficients.items()]
        return at

    def real_rotation(self, factors: Factors, at: int) -> None:
        """Sum number ``at`` is that of a real matrix on one bit: Re(T_01 - T_10)."""
        if [formula for formula, *_ in factors] == [FORMULAS["ry"]]:
            # dU U^-1 is half the antisymmetric matrix that the sum is of.
            self._linear.append((at, factors[0][1][0], 1.0))
            return
        # dU U^-1 of real rotations is real and antisymmetric: what else is in T changes nothing.
        self._entries.append((np.array([2 * (self._matrices.size + 1)]), np.array([at])))
        self._matrices.add(1, factors)

    def imag_rotation(self, factors: Factors, at: int) -> None:
        """Sum number ``at`` is the same of S^-1 T S, where the block turns about X: the other way about Y."""
        self._linear += [(at, slots[0], -1.0) for _, slots, *_ in factors]

    def transition(self, factors: Factors, order: Sequence[int]) -> int:
        """The entries of a transition matrix, real and imaginary parts in turn, row by row. Bit k of its index is bit
        order[k] of the factors' product."""
        entries = 2 * reordered(order).ravel()
        return self._matrix(factors, len(order), np.stack([entries, entries + 1], axis=1).ravel())

    def core_transition(self, factors: Factors, order: Sequence[int]) -> int:
        """What a unitary matrix on two bits that keeps parities needs of it: dU U^-1 is anti-Hermitian, so that only
        that part of T counts. Of 00 and 11, then of 01 and 10: Im T_00, Im T_11, and T_10 - conj(T_01) as T_10."""
        entries = 2 * reordered(order)
        chosen = [
            entries[row, column] + part
            for a, b in MIXED
            for row, column, part in ((a, a, 1), (b, b, 1), (b, a, 0), (b, a, 1))
        ]
        return self._matrix(factors, len(order), np.array(chosen))

    def _matrix(self, factors: Factors, num_bits: int, places: NDArray[np.int64]) -> int:
        """Sums that are these numbers of a transition matrix."""
        at = self.places(len(places))
        self._entries.append((2 * self._matrices.size + places, at + np.arange(len(places))))
        self._matrices.add(num_bits, factors)
        return at

    def freeze(self) -> None:
        """Nothing is added after this."""
        empty = [np.zeros(0, np.int64)]
        self._to = np.concatenate(empty + [to for to, _ in self._entries])
        self._from = np.concatenate(empty + [source for _, source in self._entries])
        self._sums, self._slots = (np.array([part[j] for part in self._linear], np.int64) for j in (0, 1))
        self._coefficients = np.array([part[2] for part in self._linear])

    @property
    def linear_parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] | None:
        """(angle, sum, coefficient) of what the derivatives are made of, where they are linear in the sums whatever the
        angles are; else None."""
        return None if self._matrices.size else (self._slots, self._sums, self._coefficients)

    def add(self, sums: NDArray[np.float64], angles: NDArray[np.float64], gradient: NDArray[np.float64]) -> None:
        """Adds 2 Re <bra|d ket> by each angle to ``gradient``, given all sums and the angles' values."""
        gradient += np.bincount(self._slots, self._coefficients * sums[self._sums], minlength=len(gradient))
        if self._matrices.size:
            transitions = np.zeros(self._matrices.size, np.complex128)
            transitions.view(np.float64)[self._to] = sums[self._from]
            self._matrices.add_gradients(transitions, angles, gradient)
