"""Constant two-qubit matrices with a quarter fewer multiplications, where they follow each other on their qubits.

Of U = (A1 x A0) core (C1 x C0) the A go to the next matrix on their qubit. What then stands before a core is a real
rotation between two phases: those on its left join the core, those on its right the matrix before, and the rotation,
without its cosine, is one multiplication and addition a real number. The core is two matrices of 2 by 2, each a real
one between phases. Without its cosine a phase is 1 + i tangent, two multiplications and additions an amplitude; the
real matrix has the cosines, and one phase in six, that of a whole pair, goes to the next matrix. So a *pair* is two
rotations and a core: 2 + 2 + 6.5 multiplications an amplitude, not 16. A matrix that has no neighbour on one of its
sides stays as it is.

The core of an *exchange* (iSwap, fSim with theta = pi/2, Swap with phases) gives 01 the amplitude of 10 and the other
way round, and leaves 00 and 11 theirs, each with a factor: 2 + 2 + 3.5 multiplications.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cartan import Matrix, cartan, zyz

__all__ = ["Form", "Pairs"]

_MIXED = ([0, 3], [1, 2])
"""What the two matrices of a core mix."""
_FLIPPED = [1, 0, 3, 2]
"""An index with bit 0 flipped."""
_ROUNDING = 1e-13
_SMALLEST = 1e-15
"""Of a phase's cosine, so that its tangent fits into single precision: it is right to as much."""


class Form(IntEnum):
    """What becomes of a matrix."""

    WHOLE = 0
    PAIR = 1
    EXCHANGE = 2


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
        """Whether it becomes a pair: it has all neighbours, and is unitary up to rounding, as users' need not be."""
        error = np.abs(self.matrix @ self.matrix.conj().T - np.eye(4)).max()
        return min(*self.before, *self.after) >= 0 and bool(error < _ROUNDING)


class Pairs:
    """The constant two-qubit matrices of a program, in the order in which they run."""

    def __init__(self) -> None:
        self._gates: list[_Gate] = []
        self._last: dict[int, int] = {}
        self._qubit: dict[int, int] = {}

    def touch(self, positions: int) -> None:
        """Something else happens to the qubits at the positions of a mask."""
        for q in [q for q in self._last if positions >> q & 1]:
            del self._last[q]

    def move(self, sources: Mapping[int, int]) -> None:
        """Qubits change places: each of these positions now holds what another one held."""
        found = {to: self._last[source] for to, source in sources.items() if source in self._last}
        self._last = {p: k for p, k in self._last.items() if p not in sources} | found
        self._qubit |= {to: self._qubit.get(source, source) for to, source in sources.items()}

    def add(self, positions: tuple[int, int], matrix: Matrix) -> None:
        """The next matrix, whose index has the qubit at the first position as bit 0."""
        number = len(self._gates)
        before = [self._last.get(p, -1) for p in positions]
        first, second = (self._qubit.get(p, p) for p in positions)
        for p, q, other in zip(positions, (first, second), before):
            if other >= 0:
                earlier = self._gates[other]
                earlier.after[earlier.qubits.index(q)] = number
            self._last[p] = number
        self._gates.append(_Gate((first, second), matrix, before, [-1, -1]))

    def numbers(self, exchanges: bool = False) -> list[tuple[Form, NDArray[np.float64]]]:
        """For each matrix what became of it, and what the kernel reads: 16 numbers (``_numbers``, or
        ``_exchange_numbers`` where such are asked for), or all entries as their two parts."""
        if not self._gates:
            return []
        matrices = np.array([gate.matrix for gate in self._gates])
        inner = np.array([gate.is_inner for gate in self._gates])
        before = np.array([gate.before for gate in self._gates])
        place = np.array([self._places(gate) for gate in self._gates])
        handed = (before >= 0) & inner[before]
        # The others have no such decomposition, and singular ones would not come to an end.
        high, low, cores, first_high, first_low = cartan(np.where(inner[:, None, None], matrices, np.eye(4)))
        exchanged = np.zeros(len(matrices), bool)
        if exchanges:
            # A core that exchanges 00 and 11 instead is one of the other kind between flips of bit 0.
            turned = _exchanges(cores[:, _FLIPPED][:, :, _FLIPPED])[:, None, None]
            cores = np.where(turned, cores[:, _FLIPPED][:, :, _FLIPPED], cores)
            low, first_low = np.where(turned, low[:, :, ::-1], low), np.where(turned, first_low[:, ::-1], first_low)
            exchanged = inner & _exchanges(cores)
        left, right = np.stack([low, high], axis=1), np.stack([first_low, first_high], axis=1)
        carried = np.where(handed[..., None, None], left[before, place], np.eye(2))
        flips = self._flips(right @ carried, inner, handed, exchanged)
        # Of an exchange a flip on one bit leaves on the other.
        behind = np.where(exchanged[:, None], flips[:, ::-1], flips)
        # A flip behind a matrix exchanges the columns of what it hands on.
        carried = np.where((handed & behind[before, place])[..., None, None], carried[..., ::-1], carried)
        p, cosine, sine, q = zyz(right @ carried)
        # A rotation by more than pi/4 is one by pi/2 less, and a flip that commutes through the core.
        p = np.where(flips[..., None], p[..., ::-1] * [1, -1], p)
        cosine, sine = np.where(flips, sine, cosine), np.where(flips, -cosine, sine)
        rows, columns = (np.arange(4) ^ (some @ [1, 2])[:, None] for some in (behind, flips))
        cores = np.take_along_axis(np.take_along_axis(cores, rows[:, :, None], 1), columns[:, None, :], 2)
        cores = cores * _joined(p * cosine[..., None])[:, None, :]
        whole = matrices @ np.einsum("nij,nkl->nikjl", carried[:, 1], carried[:, 0]).reshape(-1, 4, 4)
        phases = np.ones((len(matrices), 2, 2), complex)
        phases[before[inner], place[inner]] = q[inner]
        done = np.where(inner[:, None, None], cores, whole) * _joined(phases)[:, :, None]
        tangents = np.where(cosine > 0, sine / np.where(cosine > 0, cosine, 1), 0)
        found, handed_on = np.zeros((len(matrices), 16)), np.ones(len(matrices), complex)
        left_out = np.ones(len(matrices), complex)
        for some, numbers in ((inner & ~exchanged, _numbers), (exchanged, _exchange_numbers)):
            found[some], left_out[some] = numbers(tangents[some], done[some])
        for k in np.flatnonzero(inner).tolist():
            handed_on[self._gates[k].after[0]] *= handed_on[k] * left_out[k]
        done = np.ascontiguousarray(done * handed_on[:, None, None])
        forms = [Form(form) for form in (inner * np.where(exchanged, Form.EXCHANGE, Form.PAIR)).tolist()]
        return [
            (form, numbers if form else matrix.ravel().view(np.float64))
            for form, numbers, matrix in zip(forms, found, done)
        ]

    def _places(self, gate: _Gate) -> list[int]:
        """Which bit of the matrix before it each qubit is."""
        both = zip(gate.qubits, gate.before)
        return [self._gates[k].qubits.index(q) if k >= 0 else 0 for q, k in both]

    def _flips(
        self, rotations: Matrix, inner: NDArray[np.bool_], handed: NDArray[np.bool_], exchanged: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Whether each rotation is taken as one by pi/2 less: a flip before it exchanges its sine and cosine."""
        flips = (np.abs(rotations[..., 1, 0]) > np.abs(rotations[..., 0, 0])) & inner[:, None]
        for k in np.flatnonzero(inner).tolist():
            gate = self._gates[k]
            for bit, (other, place) in enumerate(zip(gate.before, self._places(gate))):
                if handed[k, bit] and flips[other, place ^ int(exchanged[other])]:
                    flips[k, bit] = not flips[k, bit]
        return flips


def _numbers(tangents: NDArray[np.float64], cores: Matrix) -> tuple[NDArray[np.float64], Matrix]:
    """What the kernel reads of pairs, and the phases that it leaves out. tangents: (count, 2), cores: (count, 4, 4).

    The tangents of both rotations and of the phases before the real matrices, these for 00 and 11 and for 01 and 10,
    and the tangents after them: of 11, 01 and 10, and an unused number.
    """
    blocks = np.stack([cores[:, some][:, :, some] for some in _MIXED], axis=1)
    scale = np.sqrt(np.abs(blocks[..., 0, 0] * blocks[..., 1, 1] - blocks[..., 0, 1] * blocks[..., 1, 0]))
    left, cosine, sine, right = zyz(blocks / scale[..., None, None])
    phase = left[:, 0, 0]
    (rows, after), (columns, before) = _tangents(left / phase[:, None, None]), _tangents(right)
    real = np.stack([np.stack([cosine, -sine], axis=-1), np.stack([sine, cosine], axis=-1)], axis=-2)
    real = real * (scale[..., None] * rows)[..., :, None] * columns[..., None, :]
    last = [after[:, 0, 1], after[:, 1, 0], after[:, 1, 1], np.zeros(len(tangents))]
    return np.concatenate([tangents, before[:, :, 1], real.reshape(-1, 8), np.stack(last, axis=1)], axis=1), phase


def _exchanges(cores: Matrix) -> NDArray[np.bool_]:
    """Whether cores exchange 01 and 10 and leave 00 and 11 where they are, up to factors."""
    return np.abs(cores[:, [0, 3, 1, 2], [3, 0, 1, 2]]).max(axis=1) < _ROUNDING


def _exchange_numbers(tangents: NDArray[np.float64], cores: Matrix) -> tuple[NDArray[np.float64], Matrix]:
    """The same of exchanges: the tangents of both rotations, the factor of 00, which is real, an unused number, and
    both parts of what 01 gets of 10, 10 of 01, and 11 of itself."""
    scale = np.abs(cores[:, 0, 0])
    phase = cores[:, 0, 0] / np.where(scale > 0, scale, 1)
    factors = cores[:, [1, 2, 3], [2, 1, 3]] / np.where(scale > 0, phase, 1)[:, None]
    first = np.concatenate([tangents, np.stack([scale, np.zeros_like(scale)], axis=1)], axis=1)
    parts = np.stack([factors.real, factors.imag], axis=2).reshape(len(cores), 6)
    return np.concatenate([first, parts, np.zeros((len(cores), 6))], axis=1), phase


def _tangents(phases: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(cosine, tangent) of each phase."""
    cosine = np.where(np.abs(phases.real) < _SMALLEST, _SMALLEST, phases.real)
    return cosine, phases.imag / cosine


def _joined(factors: NDArray[Any]) -> NDArray[Any]:
    """The products of factors for bit 0 and bit 1 of an index: shape (count, 2, 2) in, (count, 4) out."""
    return (factors[:, 1, :, None] * factors[:, 0, None, :]).reshape(-1, 4)
