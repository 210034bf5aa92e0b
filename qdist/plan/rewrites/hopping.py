"""fSim and XX + YY gates as Pauli rotations and phases.

exp(-i t/2 (XX + YY)) is RXX(t) RYY(t), one block of rotations with equal flips, which leaves 00 and 11 alone: a matrix
of two qubits would take four times as much. Next to matrices of one qubit, which it takes in, the matrix is better.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from qdist.circuit.gate import standard_name
from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Affine, Operation

__all__ = ["with_hopping_apart"]

_GATES = ("fsim", "xx_plus_yy")


def with_hopping_apart(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations, those gates as rotations where they stand among phases, moves and rotations alone."""
    if not any(map(_is_hopping, operations)):
        return list(operations)
    on: defaultdict[int, list[int]] = defaultdict(list)
    for k, operation in enumerate(operations):
        if operation.kind != "diagonal":
            for q in qubits_of(operation.mixes):
                on[q].append(k)
    beside_matrix = set()
    for own in on.values():
        for first, second in pairwise(own):
            for one, other in ((first, second), (second, first)):
                if _is_matrix(operations[other]):
                    beside_matrix.add(one)
    result: list[Operation] = []
    for k, operation in enumerate(operations):
        apart = _is_hopping(operation) and k not in beside_matrix
        result += _rotations(operation) if apart else [operation]
    return result


def _is_hopping(operation: Operation) -> bool:
    return (
        operation.kind == "dense"
        and not operation.controls
        and operation.gate is not None
        and standard_name(operation.gate) in _GATES
    )


def _is_matrix(operation: Operation) -> bool:
    """Whether it is a matrix that would become one with such a gate."""
    return operation.kind == "dense" and not operation.controls and not _is_hopping(operation)


def _rotations(operation: Operation) -> list[Operation]:
    assert operation.gate is not None, "a gate of the table"
    first, second = operation.targets
    angle, phase = operation.slots
    if operation.gate.name == "fsim":
        return [*_hop(operation, angle, 1.0), _phases((first, second), (0.0, ((phase, -1.0),)))]
    there: Affine = (0.0, ((phase, 1.0),))
    back: Affine = (0.0, ((phase, -1.0),))
    return [_phases((first,), there), *_hop(operation, angle, 0.5), _phases((first,), back)]


def _hop(operation: Operation, slot: int, sign: float) -> list[Operation]:
    """exp(-i sign t/2 (XX + YY))"""
    mask, targets = operation.mixes, operation.targets
    return [
        Operation("rotation", mask, x_like, 0, targets, slots=(slot,), letters=letters, sign=sign)
        for letters, x_like in (("XX", mask), ("YY", 0))
    ]


def _phases(qubits: tuple[int, ...], angle: Affine) -> Operation:
    return Operation("diagonal", 0, 0, sum(1 << q for q in qubits), terms=[(tuple(sorted(qubits)), angle)])
