"""Constant two-qubit matrices with a quarter fewer multiplications, where they follow each other on their qubits.

Of U = (A1 x A0) core (C1 x C0) the A go to the next matrix on their qubit. What then stands before a core is a turn
between two phases: those on its left join the core, those on its right the matrix before, and the turn, without its
cosine, is one multiplication and addition a real number. So a *pair* is two turns and a core: 2 + 2 + 8 multiplications
an amplitude, not 16. A matrix that has no neighbour on one of its sides stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.cuda.cartan import Matrix, cartan, turned

__all__ = ["Pairs"]

_NOT = np.array([[0, 1], [1, 0]], complex)
_INNER = np.array([[0, 0], [0, 3], [3, 0], [3, 3], [1, 1], [1, 2], [2, 1], [2, 2]])
"""The entries of a core that are not 0, in the order that the kernel reads them."""


@dataclass(slots=True)
class _Gate:
    qubits: tuple[int, int]
    """Of bit 0 of the matrix's index, and of bit 1."""
    matrix: Matrix
    before: list[int]
    """The number of the matrix before it on each qubit; -1 where something else is."""
    after: list[int]

    @property
    def is_inner(self) -> bool:
        return min(*self.before, *self.after) >= 0


class Pairs:
    """The constant two-qubit matrices of a program, in the order in which they run."""

    def __init__(self) -> None:
        self._gates: list[_Gate] = []
        self._last: dict[int, int] = {}

    def touch(self, qubits: int) -> None:
        """Something else happens to the qubits of a mask."""
        for q in [q for q in self._last if qubits >> q & 1]:
            del self._last[q]

    def add(self, qubits: tuple[int, int], matrix: Matrix) -> int:
        """A matrix whose index has the first qubit as bit 0; returns its number."""
        number = len(self._gates)
        before = [self._last.get(q, -1) for q in qubits]
        for q, other in zip(qubits, before):
            if other >= 0:
                earlier = self._gates[other]
                earlier.after[earlier.qubits.index(q)] = number
            self._last[q] = number
        self._gates.append(_Gate(qubits, matrix, before, [-1, -1]))
        return number

    def numbers(self) -> list[tuple[bool, NDArray[np.float64]]]:
        """For each matrix whether it became a pair, and what the kernel reads: both turns, two unused numbers and the
        core's entries, or all 16 entries; complex numbers as their two parts."""
        if not self._gates:
            return []
        high, low, cores, first_high, first_low = cartan(np.array([gate.matrix for gate in self._gates]))
        left, right = np.stack([low, high], axis=1), np.stack([first_low, first_high], axis=1)
        turns = np.zeros((len(self._gates), 2))
        carried: dict[int, Matrix] = {}
        done: list[Matrix] = []
        for k, gate in enumerate(self._gates):
            before = [carried.pop(q, np.eye(2)) for q in gate.qubits]
            if not gate.is_inner:
                done.append(gate.matrix @ np.kron(before[1], before[0]))
                continue
            core = cores[k]
            for bit in (0, 1):
                p, cosine, sine, q = turned(right[k, bit] @ before[bit])
                if sine > cosine:
                    # The turn by a right angle less, then a flip, which passes the core: a tangent is at most 1.
                    p, cosine, sine = np.array([p[1], -p[0]]), sine, -cosine
                    flip = _on(bit, _NOT)
                    core, left[k, bit] = flip @ core @ flip, left[k, bit] @ _NOT
                turns[k, bit] = sine / cosine
                core = core @ _on(bit, np.diag(cosine * p))
                other = gate.before[bit]
                place = self._gates[other].qubits.index(gate.qubits[bit])
                done[other] = _on(place, np.diag(q)) @ done[other]
                carried[gate.qubits[bit]] = left[k, bit]
            done.append(core)
        return [
            (True, np.concatenate([turns[k], np.zeros(2), matrix[tuple(_INNER.T)].view(np.float64)]))
            if gate.is_inner
            else (False, np.ascontiguousarray(matrix).ravel().view(np.float64))
            for k, (gate, matrix) in enumerate(zip(self._gates, done))
        ]


def _on(bit: int, matrix: NDArray[Any]) -> NDArray[Any]:
    """A one-qubit matrix on one of two qubits."""
    return np.kron(matrix, np.eye(2)) if bit else np.kron(np.eye(2), matrix)
