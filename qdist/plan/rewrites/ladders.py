"""Pauli rotations that flip more qubits than a tile holds, as narrow rotations between CX gates.

Conjugation with CX removes the X of its target: CX (X X) CX = X I. So a wide rotation is a rotation that flips a single
qubit, between two ladders of CX, of which only the targets must be close.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from qdist.circuit.matrices import pauli_matrix
from qdist.plan.operations import Operation

__all__ = ["narrowed"]


def narrowed(operation: Operation, most: int) -> list[Operation]:
    """The operation itself, or its decomposition where it flips more than ``most`` qubits."""
    if operation.kind != "rotation" or operation.mixes.bit_count() <= most:
        return [operation]
    letters = dict(zip(operation.targets, operation.letters))
    pivot, *others = [q for q, letter in letters.items() if letter in "XY"]
    sign = 1.0
    ladder = []
    for qubit in others:
        letters[pivot], letters[qubit], factor = _through_cx(letters[pivot], letters[qubit])
        sign *= factor
        ladder.append(Operation("flip", 1 << qubit, 1 << qubit, 1 << pivot, (qubit,), ((pivot, 1),)))
    kept = {q: letter for q, letter in letters.items() if letter != "I"}
    z_like = sum(1 << q for q, letter in kept.items() if letter == "Z") | sum(1 << q for q, _ in operation.controls)
    x_like = 1 << pivot if kept[pivot] == "X" else 0
    middle = Operation("rotation", 1 << pivot, x_like, z_like, tuple(kept), operation.controls, slots=operation.slots)
    middle.letters, middle.sign = "".join(kept.values()), operation.sign * sign
    return [*ladder, middle, *reversed(ladder)]


@cache
def _through_cx(control: str, target: str) -> tuple[str, str, float]:
    """CX (control target) CX: the letters it becomes, and the sign."""
    cx = np.eye(4)[[0, 3, 2, 1]]  # the control is the low bit
    moved = cx @ pauli_matrix(control + target) @ cx
    for a, b in product("IXYZ", repeat=2):
        overlap = np.trace(pauli_matrix(a + b) @ moved).real / 4
        if abs(overlap) > 0.5:
            return a, b, float(overlap)
    raise AssertionError("CX maps Pauli strings to Pauli strings")
