"""Shots of which each measures the qubits in bases of its own.

Qubits are measured one after the other, the highest first, each in half of the amplitudes that the one before has left.
What shots have had in common so far, bases and outcomes, is computed once for all of them; when little is left, the
rows of many shots are halved together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.native import kernels

__all__ = ["LETTERS", "measured"]

LETTERS = "XYZ"
"""The bases, by their numbers."""

_FEW = 1 << 12
"""Amplitudes of all shots together that are left to a table: halving them takes no longer than dividing the shots."""

_TOGETHER = 1 << 18
"""Amplitudes of rows that wait until they are halved together."""

_SECOND = np.array([1.0, -1.0j, 0.0])
"""f of each basis whose outcomes 0 and 1 leave zero + f * one and zero - f * one of a qubit's halves. Z leaves one."""

_Z = LETTERS.index("Z")


def measured(amplitudes: NDArray[np.complexfloating], bases: NDArray[np.uint8], key: int) -> NDArray[np.int64]:
    """Bit q of shot k is the outcome of qubit q in basis ``bases[k, q]``: 1 where -1 was found.

    amplitudes: of the state, in logical order; not all zero. key: of the random numbers, one for each shot and qubit,
    the same with which ``measure.drawn`` decides.
    """
    shots, qubits = bases.shape
    rows = _Rows(bases, key)
    # What an outcome leaves is computed when its turn comes, so that there is one array of each length at a time.
    first: Callable[[], NDArray[Any]] = partial(np.asarray, amplitudes)
    waiting = [(first, np.arange(shots), qubits)] if shots else []
    while waiting:
        left_over, some, left = waiting.pop()
        whole = left_over()
        if not left or len(some) << left <= _FEW:
            rows.add(whole, some, left)
            continue
        zero, one = np.split(whole, 2)
        weights = _weights(kernels.squared_norm(zero), kernels.squared_norm(one), kernels.inner(zero, one))
        kinds = bases[some, left - 1]
        bits = rows.decide(weights, kinds.astype(np.int64), some, left)
        for kind in range(len(LETTERS)):
            for bit in (0, 1):
                chosen = some[(kinds == kind) & (bits == bit)]
                if len(chosen):
                    waiting.append((partial(_projected, zero, one, kind, bit), chosen, left - 1))
    rows.finish()
    return rows.outcomes


def _projected(zero: NDArray[Any], one: NDArray[Any], kind: int, bit: int) -> NDArray[Any]:
    """What an outcome leaves, up to its norm."""
    if kind == _Z:
        return one if bit else zero
    return zero + zero.dtype.type((1 - 2 * bit) * _SECOND[kind]) * one


def _weights(zero: Any, one: Any, overlap: Any) -> NDArray[np.float64]:
    """In proportion to the probabilities: (bases, 2, ...), from the halves' squared norms and <zero|one>."""
    mean, x, y = (zero + one) / 2, np.real(overlap), np.imag(overlap)
    return np.maximum([[mean + x, mean - x], [mean + y, mean - y], [zero, one]], 0.0)


class _Rows:
    """Amplitudes that are left of single shots, a row each, and what has been found of all of them."""

    def __init__(self, bases: NDArray[np.uint8], key: int) -> None:
        self._bases, self._key = bases, key
        self._waiting: dict[int, list[tuple[NDArray[Any], NDArray[np.int64]]]] = {}
        self._size = 0
        self.outcomes = np.zeros(len(bases), np.int64)

    def decide(
        self, weights: NDArray[np.float64], rows: NDArray[np.int64], shots: NDArray[np.int64], left: int
    ) -> NDArray[np.int64]:
        """Draws and notes the highest qubit that is left. rows: which of the weights, (rows, 2), each shot has."""
        trees = np.zeros((len(weights), 4))
        trees[:, 2:] = weights
        bits = np.empty(len(shots), np.int64)
        kernels.descend(trees.reshape(-1), 1, rows, shots, self._key, self._bases.shape[1] - left, bits)
        self.outcomes[shots] |= bits << left - 1
        return bits

    def add(self, whole: NDArray[Any], shots: NDArray[np.int64], left: int) -> None:
        """The amplitudes of the qubits that are left of each of these shots."""
        if left:
            # A copy: a view would keep all that it is a part of.
            self._waiting.setdefault(left, []).append((np.array(whole, np.complex128), shots))
            self._size += len(shots) << left
        if self._size > _TOGETHER:
            self.finish()

    def finish(self) -> None:
        """Measures what is left of all rows that wait."""
        most = max(self._waiting, default=0)
        table, shots = np.zeros((0, 1 << most), np.complex128), np.zeros(0, np.int64)
        for left in range(most, 0, -1):
            new = self._waiting.pop(left, [])
            added = (np.broadcast_to(whole, (len(some), len(whole))) for whole, some in new)
            table = np.concatenate([table, *added], dtype=np.complex128)
            shots = np.concatenate([shots, *(some for _, some in new)])
            zero, one = np.split(table, 2, axis=1)
            first, second = (np.einsum("ij,ij->i", half.conj(), half).real for half in (zero, one))
            weights = _weights(first, second, np.einsum("ij,ij->i", zero.conj(), one))
            kinds, numbers = self._bases[shots, left - 1], np.arange(len(shots))
            bits = self.decide(weights[kinds, :, numbers], numbers, shots, left)
            of_zero = np.where(kinds == _Z, 1 - bits, 1)
            of_one = np.where(kinds == _Z, bits, (1 - 2 * bits) * _SECOND[kinds])
            table = of_zero[:, None] * zero + of_one[:, None] * one
        self._size = 0
