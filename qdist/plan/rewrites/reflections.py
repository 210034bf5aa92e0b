"""Phases of pi between two matrices of a qubit, as X gates under conditions.

H, a phase of pi where x, y and z are 1, and H on z again is an X on z where x and y are 1; so compilers write a
Toffoli gate, and a CX for hardware that has CZ. More generally, M Z M' with a matrix M' that turns the axis Z into the
plane of X and Y is an X between two phases, times M M'. Where that product only moves and turns amplitudes, neither of
the matrices is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Operation
from qdist.plan.rewrites.constants import Matrix, as_operations, constant_matrix, flip, phases

__all__ = ["with_reflections"]

_ROUNDING = 1e-12
_Tests = tuple[tuple[int, int], ...]


def with_reflections(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations, with X gates in the place of such matrices and phases; all others stay as they are."""
    placed: list[list[Operation]] = [[operation] for operation in operations]
    opened: dict[int, _Opened] = {}
    for place, operation in enumerate(operations):
        matrix = None if operation.kind == "diagonal" else constant_matrix(operation)
        if matrix is not None:
            (qubit,) = operation.targets
            if qubit not in opened:
                opened[qubit] = _Opened(qubit, _Row(matrix, [place]))
            elif (conditions := opened[qubit].add_matrix(matrix, place, placed)) is not None:
                # What was a phase of those qubits too is none any more.
                for other in (qubit, *conditions):
                    opened.pop(other, None)
            continue
        for qubit in qubits_of(operation.all):
            if qubit in opened and not opened[qubit].takes(operation, place):
                del opened[qubit]
    return [operation for own in placed for operation in own]


def _phase(angle: float) -> Matrix:
    return np.diag([1.0, np.exp(1j * angle)])


@dataclass(slots=True)
class _Row:
    """Matrices of a qubit and phases of it alone, as one matrix, and the phases that follow."""

    matrix: Matrix
    places: list[int]
    phases: list[int] = field(default_factory=list)
    """Places of the phases between the matrices."""
    after: list[int] = field(default_factory=list)
    alone: float = 0.0
    """The sum of those that follow, of this qubit alone."""
    reflects: bool = False
    """Whether one that follows is of other qubits too."""

    def add(self, matrix: Matrix, place: int) -> None:
        self.matrix = matrix @ _phase(self.alone) @ self.matrix
        self.places.append(place)
        self.phases += self.after
        self.after, self.alone = [], 0.0


@dataclass(slots=True)
class _Opened:
    """A row of a qubit's matrices; behind phases of several qubits, a second one."""

    qubit: int
    first: _Row
    second: _Row | None = None

    def add_matrix(self, matrix: Matrix, place: int, placed: list[list[Operation]]) -> set[int] | None:
        """Adds a matrix. Where no matrix is left with it, puts X gates into the places of the phases, and gives the
        qubits of their conditions; else None."""
        if self.second is not None:
            self.second.add(matrix, place)
        elif self.first.reflects:
            self.second = _Row(matrix, [place])
        else:
            self.first.add(matrix, place)
        return None if self.second is None else self._close(self.second, placed)

    def takes(self, operation: Operation, place: int) -> bool:
        """Whether it is a phase of the qubit alone, or one of pi where others are 1 or 0 too."""
        if operation.kind != "diagonal":
            return False
        alone, reflects = 0.0, False
        for tests, (angle, slots) in operation.phases:
            if self.qubit not in (q for q, _ in tests):
                continue
            others = _without(tests, self.qubit)
            if slots or (others and (not _is_half_turn(angle) or (self.qubit, 1) not in tests)):
                return False
            alone += 0.0 if others else angle
            reflects = reflects or bool(others)
        if reflects and self.second is not None:
            self.first, self.second = self.second, None
        row = self.second or self.first
        row.after.append(place)
        row.alone += alone
        row.reflects = row.reflects or reflects
        return True

    def _close(self, second: _Row, placed: list[list[Operation]]) -> set[int] | None:
        first = self.first
        axis = first.matrix.conj().T @ np.diag([1.0, -1.0]) @ first.matrix
        product = second.matrix @ _phase(first.alone) @ first.matrix
        moves = abs(product[0, 0]) < _ROUNDING
        if abs(axis[0, 0]) > _ROUNDING or not (moves or abs(product[0, 1]) < _ROUNDING):
            return None
        for place in (*first.places, *second.places):
            placed[place] = []
        for place in (*first.phases, *first.after, *second.phases):
            placed[place] = [part for own in placed[place] for part in self._divided(own)]
        # X becomes the axis between two phases.
        turn = float(np.angle(axis[1, 0]))
        placed[first.places[0]] = phases(self.qubit, 0.0, -turn)
        placed[second.places[-1]] = as_operations(self.qubit, product @ _phase(turn))
        return {q for place in first.after for o in placed[place] if o.kind != "diagonal" for q, _ in o.controls}

    def _divided(self, operation: Operation) -> list[Operation]:
        """A diagonal without the qubit's own phases, and X gates for those of pi. What does not have the qubit, as X
        gates that were phases of another one, stays."""
        if operation.kind != "diagonal" or not operation.z_like >> self.qubit & 1:
            return [operation]
        terms = [(product, affine) for product, affine in operation.terms if self.qubit not in product]
        wide = [(tests, affine) for tests, affine in operation.wide if (self.qubit, 1) not in tests]
        flips = [
            flip(self.qubit, tuple((q, 1) for q in product if q != self.qubit))
            for product, _ in operation.terms
            if self.qubit in product and len(product) > 1
        ]
        flips += [
            flip(self.qubit, _without(tests, self.qubit)) for tests, _ in operation.wide if (self.qubit, 1) in tests
        ]
        mask = sum(
            1 << q for q in {q for product, _ in terms for q in product} | {q for tests, _ in wide for q, _ in tests}
        )
        rest = [replace(operation, z_like=mask, terms=terms, wide=wide)] if terms or wide else []
        return [*rest, *flips]


def _without(tests: _Tests, qubit: int) -> _Tests:
    return tuple(test for test in tests if test[0] != qubit)


def _is_half_turn(angle: float) -> bool:
    return abs(np.exp(1j * angle) + 1) < _ROUNDING
