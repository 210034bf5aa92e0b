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
from numpy.typing import NDArray

from qdist.circuit.gates import GATES
from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Affine, Operation, gate_operation

__all__ = ["with_reflections"]

_ROUNDING = 1e-12
_Matrix = NDArray[np.complex128]
_Tests = tuple[tuple[int, int], ...]


def with_reflections(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations, with X gates in the place of such matrices and phases; all others stay as they are."""
    placed: list[list[Operation]] = [[operation] for operation in operations]
    opened: dict[int, _Opened] = {}
    for place, operation in enumerate(operations):
        if (matrix := _constant_matrix(operation)) is not None:
            (qubit,) = operation.targets
            first = opened.pop(qubit, None)
            conditions = None if first is None else first.close(matrix, place, placed)
            if conditions is None:
                opened[qubit] = _Opened(qubit, matrix, place)
            else:
                # What was a phase of theirs too is none any more.
                for other in conditions:
                    opened.pop(other, None)
            continue
        for qubit in qubits_of(operation.all):
            first = opened.get(qubit)
            if first is not None and not first.takes(operation, place):
                del opened[qubit]
    return [operation for own in placed for operation in own]


def _constant_matrix(operation: Operation) -> _Matrix | None:
    """Of one qubit, whatever the circuit's angles are."""
    if operation.kind != "dense" or operation.controls or operation.slots or operation.parts or operation.matrix is None:
        return None
    return np.asarray(operation.matrix, np.complex128) if len(operation.targets) == 1 else None


@dataclass(slots=True)
class _Opened:
    """A matrix of a qubit, and the phases since, none of which mixes it."""

    qubit: int
    matrix: _Matrix
    place: int
    alone: float = 0.0
    """The sum of the phases of this qubit alone."""
    phases: list[int] = field(default_factory=list)
    reflects: bool = False

    def takes(self, operation: Operation, place: int) -> bool:
        """Whether it is a phase of the qubit alone, or one of pi where others are 1 or 0 too."""
        if operation.kind != "diagonal":
            return False
        of_all = [tuple((q, 1) for q in product) for product, _ in operation.terms]
        affines = [affine for _, affine in (*operation.terms, *operation.wide)]
        alone = 0.0
        for tests, (angle, slots) in zip([*of_all, *(tests for tests, _ in operation.wide)], affines):
            if self.qubit not in (q for q, _ in tests):
                continue
            others = _without(tests, self.qubit)
            if slots or (others and (not _is_half_turn(angle) or (self.qubit, 1) not in tests)):
                return False
            alone += 0.0 if others else angle
            self.reflects = self.reflects or bool(others)
        self.alone += alone
        self.phases.append(place)
        return True

    def close(self, last: _Matrix, place: int, placed: list[list[Operation]]) -> set[int] | None:
        """Puts X gates into the places of the phases up to another matrix, and gives the qubits of their conditions;
        None, and nothing done, if that leaves a matrix."""
        axis = self.matrix.conj().T @ np.diag([1.0, -1.0]) @ self.matrix
        product = last @ np.diag([1.0, np.exp(1j * self.alone)]) @ self.matrix
        moves = abs(product[0, 0]) < _ROUNDING
        if not self.reflects or abs(axis[0, 0]) > _ROUNDING or not (moves or abs(product[0, 1]) < _ROUNDING):
            return None
        turn = float(np.angle(axis[1, 0]))
        placed[self.place] = self._phases(0.0, -turn)
        for number in self.phases:
            placed[number] = [part for own in placed[number] for part in self._divided(own)]
        # What the product does, behind the phases that turn X into the axis.
        zero, one = (product[1, 0], product[0, 1]) if moves else (product[0, 0], product[1, 1])
        common = float(np.angle(zero))
        own = self._phases(common, float(np.angle(one)) - common + turn)
        placed[place] = [*own, _flip(self.qubit, ())] if moves else own
        return {q for number in self.phases for o in placed[number] if o.kind != "diagonal" for q, _ in o.controls}

    def _phases(self, common: float, of_one: float) -> list[Operation]:
        terms: list[tuple[tuple[int, ...], Affine]] = [((), (common, ())), ((self.qubit,), (of_one, ()))]
        kept = [(bits, affine) for bits, affine in terms if abs(np.exp(1j * affine[0]) - 1) > _ROUNDING]
        return [Operation("diagonal", 0, 0, 1 << self.qubit, terms=kept)] if kept else []

    def _divided(self, operation: Operation) -> list[Operation]:
        """A diagonal without the qubit's own phases, and X gates for those of pi. What does not have the qubit, as X
        gates that were phases of another one, stays."""
        if operation.kind != "diagonal" or not operation.z_like >> self.qubit & 1:
            return [operation]
        terms = [(product, affine) for product, affine in operation.terms if self.qubit not in product]
        wide = [(tests, affine) for tests, affine in operation.wide if (self.qubit, 1) not in tests]
        flips = [
            _flip(self.qubit, tuple((q, 1) for q in product if q != self.qubit))
            for product, _ in operation.terms
            if self.qubit in product and len(product) > 1
        ]
        flips += [_flip(self.qubit, _without(tests, self.qubit)) for tests, _ in operation.wide if (self.qubit, 1) in tests]
        mask = sum(1 << q for q in {q for product, _ in terms for q in product} | {q for tests, _ in wide for q, _ in tests})
        rest = [replace(operation, z_like=mask, terms=terms, wide=wide)] if terms or wide else []
        return [*rest, *flips]


def _without(tests: _Tests, qubit: int) -> _Tests:
    return tuple(test for test in tests if test[0] != qubit)


def _is_half_turn(angle: float) -> bool:
    return abs(np.exp(1j * angle) + 1) < _ROUNDING


def _flip(target: int, tests: _Tests) -> Operation:
    gate = GATES["x"]
    if tests:
        gate = gate.controlled(len(tests), sum(value << k for k, (_, value) in enumerate(tests)))
    return gate_operation(gate, [*(q for q, _ in tests), target], range(0))
