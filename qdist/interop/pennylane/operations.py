"""PennyLane's operations, told apart and taken apart: which run as they are, what they are made of, what they share.

An operation runs natively if the gate table has it, if it is the inverse or a controlled form of one that runs
natively, or if it is given by a matrix. PennyLane decomposes all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pennylane as qml
from pennylane.operation import Operator, StatePrepBase
from pennylane.ops import Adjoint, Controlled

from qdist.circuit.gates import diagonal_gate, initialize_gate, unitary_gate

from .gates import FIXED, RULES, Part, controlled, inverse

__all__ = [
    "all_in_table",
    "amplitudes_of",
    "decomposition",
    "forgets_control_values",
    "gives_amplitudes",
    "is_amplitudes",
    "is_native",
    "num_angles",
    "parts",
    "signature",
    "signatures",
]

_BY_MATRIX = (qml.QubitUnitary, qml.BlockEncode, qml.SISWAP)
"""Operations that are matrices, or have one that is shorter than their decomposition."""

_TABLE = frozenset(FIXED.keys() | RULES.keys())
_SIMPLE = _TABLE - {qml.PauliRot, qml.MultiControlledX, qml.FermionicDoubleExcitation}
"""Operations of which their type and their wires say all but the angles."""

MOST_MATRIX_WIRES = 10
"""A matrix of so many wires has 16 MiB."""


def all_in_table(ops: Sequence[Operator]) -> bool:
    """Whether all operations have a row in the table of gates, so that their parameters are angles; in no time for
    most tapes, which have few types of them."""
    return _TABLE.issuperset(map(type, ops))


def is_native(op: Operator) -> bool:
    """Whether the operation runs without being decomposed."""
    kind = type(op)
    if kind in FIXED or kind in RULES or kind is qml.DiagonalQubitUnitary:
        return True
    if isinstance(op, Adjoint | Controlled):
        return is_native(op.base)
    if isinstance(op, StatePrepBase):
        return False  # Where it is the first operation, nobody asks.
    small = len(op.wires) <= MOST_MATRIX_WIRES
    return small and (isinstance(op, _BY_MATRIX) or (op.has_matrix and not op.has_decomposition))


def decomposition(op: Operator) -> list[Operator]:
    """What an operation is made of that is not left as it is."""
    if isinstance(op, Controlled) and forgets_control_values(op):
        return [Controlled(op.base, op.control_wires, op.control_values, op.work_wires)]
    return op.decomposition()


def forgets_control_values(op: Operator) -> bool:
    """Whether PennyLane, where it binds new parameters (those of one row of a batch, or NumPy's numbers for a
    framework's), makes another operation of it, whose controls are all 1."""
    if isinstance(op, Adjoint):
        return forgets_control_values(op.base)
    return isinstance(op, qml.ControlledQubitUnitary) and not all(op.control_values)


def is_amplitudes(op: Operator) -> bool:
    """Whether the operation, the first of a tape, gives the amplitudes that it starts from."""
    return isinstance(op, StatePrepBase) and not isinstance(op, qml.BasisState)


def gives_amplitudes(ops: Sequence[Operator]) -> bool:
    """Whether a tape's first operation has as its only parameter the amplitudes that the tape begins with."""
    return bool(ops) and isinstance(ops[0], qml.StatePrep)


def num_angles(op: Operator) -> int:
    """How many parameters the operation has, if they are angles; 0 where they are data, such as a matrix."""
    kind = type(op)
    if kind in FIXED:
        return 0
    if kind in RULES:
        return op.num_params
    return num_angles(op.base) if isinstance(op, Adjoint | Controlled) else 0


def signatures(ops: Sequence[Operator]) -> tuple[Hashable, ...]:
    """Each operation's signature; most of them are seen here, without a call for each."""
    return tuple([(kind, op.wires.labels) if (kind := type(op)) in _SIMPLE else signature(op) for op in ops])


def signature(op: Operator) -> Hashable:
    """What operations have in common that differ in the values of their angles alone."""
    kind = type(op)
    if kind in _SIMPLE:
        return kind, op.wires.labels
    if kind is qml.PauliRot:
        return kind, op.wires.labels, op.hyperparameters["pauli_word"]
    if kind is qml.MultiControlledX:
        return kind, op.wires.labels, tuple(op.control_values)
    if kind is qml.FermionicDoubleExcitation:
        return kind, op.wires.labels, len(op.hyperparameters["wires1"])
    if isinstance(op, Adjoint):
        return Adjoint, signature(op.base)
    if isinstance(op, Controlled):
        return Controlled, op.control_wires.labels, tuple(op.control_values), signature(op.base)
    data = amplitudes_of(op) if isinstance(op, StatePrepBase) else matrix_of(op)
    digest = hashlib.blake2b(np.ascontiguousarray(data).tobytes(), digest_size=16)
    return kind, op.wires.labels, digest.digest()


def parts(op: Operator, angles: Sequence[Any]) -> list[Part]:
    """What the operation is made of, first part first; ``angles``: what stands for its parameters, if those are angles.

    Wires are PennyLane's labels. A basis state, which must come first, is an initialisation.
    """
    kind = type(op)
    if kind in FIXED:
        return [(FIXED[kind], tuple(op.wires), ())]
    if kind in RULES:
        return RULES[kind](op, angles)
    if isinstance(op, Adjoint):
        return [inverse(part) for part in reversed(parts(op.base, angles))]
    if isinstance(op, Controlled):
        return [controlled(part, op) for part in parts(op.base, angles)]
    # The first qubit of our matrices is the lowest bit of the index, PennyLane's first wire is the highest.
    wires = tuple(reversed(op.wires))
    if isinstance(op, StatePrepBase):
        state = amplitudes_of(op).astype(np.complex128).reshape(-1)
        return [(initialize_gate(state, len(wires)), wires, ())]
    if kind is qml.DiagonalQubitUnitary:
        return [(diagonal_gate(matrix_of(op)), wires, ())]
    return [(unitary_gate(matrix_of(op)), wires, ())]


def matrix_of(op: Operator) -> np.ndarray:
    """The matrix in the order of the operation's wires, or the diagonal of a DiagonalQubitUnitary."""
    if type(op) is qml.DiagonalQubitUnitary:
        matrix = op.data[0]
    else:
        matrix = op.matrix() if op.has_matrix else op.sparse_matrix()
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(qml.math.unwrap([matrix])[0])


def amplitudes_of(op: StatePrepBase, order: Sequence[Any] | None = None) -> np.ndarray:
    """The amplitudes that the operation prepares, of its own wires or of all in this order; dense if it has a sparse
    vector."""
    state = op.state_vector(wire_order=order)
    return state.toarray() if hasattr(state, "toarray") else np.asarray(qml.math.unwrap([state])[0])
