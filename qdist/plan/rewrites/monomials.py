"""Matrices with one entry a row, as what moves amplitudes and what turns their phases.

iSwap is a SWAP and phases, CY a CX and phases, DCX two CX, a Toffoli gate up to relative phases a Toffoli gate and
phases. Moves cost no arithmetic and become one with others, and so do phases, but the matrix of such a gate takes as
much as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from qdist.circuit.data_gates import diagonal_gate
from qdist.circuit.gate import Gate
from qdist.circuit.gates import GATES
from qdist.plan.operations import Operation, gate_operation

__all__ = ["as_moves"]

_ROUNDING = 1e-12
_MOST = 4
"""Qubits: wider ones are rare, and permutations by tables."""

_Parts = tuple[tuple[Gate, tuple[int, ...]], ...]
"""Gates, and which of the qubits each acts on."""


def as_moves(operation: Operation) -> list[Operation]:
    """An operation as moves of amplitudes and phases, if it is a constant matrix with one entry a row; else itself."""
    if operation.kind != "dense" or operation.matrix is None or operation.changes_norm:
        return [operation]
    matrix = np.asarray(operation.matrix)
    if len(operation.targets) > _MOST or np.count_nonzero(matrix) != len(matrix):
        return [operation]
    parts = _parts(matrix.tobytes(), len(matrix), len(operation.controls))
    if parts is None:
        return [operation]
    controls = tuple(q for q, _ in operation.controls)
    state = sum(value << k for k, (_, value) in enumerate(operation.controls))
    found = []
    for gate, places in parts:
        own = gate.controlled(len(controls), state) if controls else gate
        found.append(gate_operation(own, controls + tuple(operation.targets[k] for k in places), range(0)))
    return found


@lru_cache(maxsize=256)
def _parts(entries: bytes, size: int, num_controls: int) -> _Parts | None:
    """The gates that a matrix of as many entries as rows is the product of; None if it is no such product, or a move
    already."""
    matrix = np.frombuffer(entries, complex).reshape(size, size)
    if not np.allclose(abs(matrix).sum(axis=0), 1, 0, _ROUNDING):
        return None
    goes_to = [int(row) for row in np.argmax(abs(matrix), axis=0)]
    phases = matrix.sum(axis=1)
    moves = _moves(goes_to, size.bit_length() - 1)
    # Under a condition only the flip of one bit is a move of its own.
    if moves is None or (num_controls and (len(moves) > 1 or size > 2)):
        return None
    if np.allclose(phases, 1, 0, _ROUNDING):
        return moves if len(moves) > 1 else None
    places = tuple(range(size.bit_length() - 1))
    return *moves, (diagonal_gate(phases), places)


def _moves(goes_to: Sequence[int], bits: int) -> _Parts | None:
    """Gates that bring every index j to goes_to[j]; None if they are neither X, CX and SWAP nor one X under
    conditions."""
    moved = [j for j, to in enumerate(goes_to) if j != to]
    if len(moved) == 2 and bits > 2:
        first, second = moved
        if (first ^ second).bit_count() != 1:
            return None
        target = (first ^ second).bit_length() - 1
        controls = tuple(k for k in range(bits) if k != target)
        state = sum((first >> k & 1) << position for position, k in enumerate(controls))
        return ((GATES["x"].controlled(len(controls), state), (*controls, target)),)
    offset = goes_to[0]
    columns = [goes_to[1 << k] ^ offset for k in range(bits)]
    for j, to in enumerate(goes_to):
        image = offset
        for k in range(bits):
            image ^= columns[k] if j >> k & 1 else 0
        if image != to:
            return None
    flips = tuple((GATES["x"], (k,)) for k in range(bits) if offset >> k & 1)
    return *_linear(columns, bits), *flips


def _linear(columns: list[int], bits: int) -> _Parts:
    """CX and SWAP gates for an invertible map of bits over GF(2): bit k alone goes to columns[k]."""
    if all(column.bit_count() == 1 for column in columns):
        swaps = []
        places = [column.bit_length() - 1 for column in columns]
        for k in range(bits):
            while places[k] != k:
                other = places[k]
                swaps.append((GATES["swap"], (k, other)))
                places[k], places[other] = places[other], places[k]
        return tuple(swaps)
    # CX(control, target) adds row control to row target: elimination gives them last first.
    rows = [sum((columns[k] >> row & 1) << k for k in range(bits)) for row in range(bits)]
    steps: list[tuple[Gate, tuple[int, ...]]] = []

    def add(control: int, target: int) -> None:
        rows[target] ^= rows[control]
        steps.append((GATES["cx"], (control, target)))

    for k in range(bits):
        if not rows[k] >> k & 1:
            add(next(row for row in range(k + 1, bits) if rows[row] >> k & 1), k)
        for row in range(bits):
            if row != k and rows[row] >> k & 1:
                add(k, row)
    return tuple(reversed(steps))
