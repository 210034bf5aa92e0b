"""What the sums of an adjoint sweep mean for a circuit's angles."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.binding import MIXED
from qdist.backends.cuda.lowering.records.tiles import TWO_SUMS
from qdist.backends.in_tile import Factors, reordered
from qdist.circuit.gate import FORMULAS
from qdist.native import kernels

__all__ = ["Core", "Gradients", "core_of"]

_ROUNDING = 1e-9
_EVEN, _ODD = 0x0F, 0xF0
"""Of the eight numbers of a Core those of 00 and 11, and those of 01 and 10."""
_MIXING = np.array([[(row ^ column) in (1, 2) for column in range(4)] for row in range(4)])
"""Entries of a matrix on two bits that mix parities."""


@dataclass(frozen=True, slots=True)
class Core:
    """What the derivatives of a matrix on two bits need of the transition matrix T, where that is nothing that mixes
    parities. As they are of unitary matrices only the anti-Hermitian part of T counts. So these are eight numbers: of
    00 and 11, then of 01 and 10, Im T_00, Im T_11, and the real and the imaginary part of T_10 - conj(T_01)."""

    before: bool
    """Whether T is that before the matrix, U^-1 T U, and not the one after it."""
    needed: int
    """The numbers that are needed, as bits."""

    @property
    def is_few(self) -> bool:
        """At most one of each four: the kernel then adds up two numbers instead of eight."""
        return all((self.needed & half).bit_count() <= 1 for half in (_EVEN, _ODD))

    @property
    def flags(self) -> int:
        """As the kernel takes it."""
        return self.needed | self.is_few * TWO_SUMS

    @property
    def numbers(self) -> list[int]:
        """Those that the kernel adds up."""
        if not self.is_few:
            return list(range(8))
        return [max((self.needed & half).bit_length() - 1, first) for half, first in ((_EVEN, 0), (_ODD, 4))]

    @property
    def cost(self) -> int:
        """Multiplications and additions for four amplitudes."""
        return sum(2 if k % 4 < 2 else 4 for k in range(8) if self.needed >> k & 1)


def core_of(factors: Factors, order: Sequence[int], trainable: Collection[int]) -> Core | None:
    """What the derivatives of a matrix on two bits by its trainable angles need, whatever the angles are; None if they
    need more. Bit k of the index of T is bit order[k] of the factors' product."""
    slots = sorted({slot for _, own, *_ in factors for slot in own})
    numbered = ((f, tuple(slots.index(s) for s in own), tuple(bits), tuple(m)) for f, own, bits, m in factors)
    return _core_of(tuple(numbered), tuple(order), tuple(slot in trainable for slot in slots))


@lru_cache(4096)
def _core_of(factors: tuple[Any, ...], order: tuple[int, ...], trainable: tuple[bool, ...]) -> Core | None:
    """The same with slots that are numbered: stages ask for the same again and again."""
    matrices, wanted = kernels.MatrixList(), list(trainable)
    matrices.add(2, [(formula, list(own), list(bits), list(matrix)) for formula, own, bits, matrix in factors])
    # What vanishes at numbers without any pattern vanishes at all of them.
    rng = np.random.default_rng(0)
    angles, unitary = rng.uniform(0.3, 2.8, len(wanted)), np.empty(16, np.complex128)
    matrices.at(angles, unitary)
    own = unitary.reshape(4, 4)
    mixing = np.zeros((4, 4), np.complex128)
    mixing[_MIXING] = rng.normal(size=8) + 1j * rng.normal(size=8)

    def is_needed(transition: NDArray[np.complex128], before: bool) -> bool:
        gradient = np.zeros(len(wanted))
        after = own @ transition @ own.conj().T if before else transition
        matrices.add_gradients(np.ascontiguousarray(after).ravel(), angles, gradient)
        return bool((np.abs(gradient[wanted]) > _ROUNDING).any())

    found = []
    for before in (False, True):
        if not is_needed(mixing, before):
            parts = np.eye(32)[_core_numbers(order)].view(np.complex128).reshape(8, 4, 4)
            found.append(Core(before, sum(1 << k for k, part in enumerate(parts) if is_needed(part, before))))
    return min(found, key=lambda core: core.cost, default=None)


def _core_numbers(order: Sequence[int]) -> list[int]:
    """Where the eight numbers of a Core are among the real and imaginary parts of the entries of T."""
    entries = 2 * reordered(order)
    return [
        int(entries[row, column]) + part
        for a, b in MIXED
        for row, column, part in ((a, a, 1), (b, b, 1), (b, a, 0), (b, a, 1))
    ]


class Gradients:
    """Numbers sums as they are asked for; ``freeze`` ends that, ``add`` makes derivatives of them."""

    def __init__(self) -> None:
        self.num_sums = 0
        self._linear: list[tuple[int, int, float]] = []
        self._matrices = kernels.MatrixList()
        self._entries: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._before: list[int] = []

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

    def core_transition(self, factors: Factors, order: Sequence[int], core: Core) -> int:
        """The numbers of it that a Core has."""
        if core.before:
            self._before.append(self._matrices.size)
        numbers = _core_numbers(order)
        return self._matrix(factors, len(order), np.array([numbers[k] for k in core.numbers]))

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
        self._undone = np.array(self._before, np.int64)[:, None, None] + np.arange(16).reshape(4, 4)

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
            if len(self._undone):
                # T after a block, of which the sums have U^-1 T U.
                entries = np.empty(self._matrices.size, np.complex128)
                self._matrices.at(angles, entries)
                unitary = entries[self._undone]
                own = unitary @ transitions[self._undone] @ unitary.conj().swapaxes(1, 2)
                transitions[self._undone] = own
            self._matrices.add_gradients(transitions, angles, gradient)
