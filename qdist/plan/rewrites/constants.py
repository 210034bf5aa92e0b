"""Matrices of one qubit that no angle changes: what operations are, and operations that are such a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qdist.circuit.data_gates import UnitaryGate
from qdist.circuit.gates import GATES
from qdist.plan.operations import Affine, Operation, gate_operation

__all__ = ["Matrix", "as_operations", "constant_matrix", "flip", "phases"]

Matrix = NDArray[np.complex128]

_ROUNDING = 1e-12


def constant_matrix(operation: Operation) -> Matrix | None:
    """Of a gate of one qubit without conditions, whatever the circuit's angles are; None for others, and for matrices
    that need not be unitary."""
    if operation.controls or operation.all.bit_count() != 1 or operation.changes_norm:
        return None
    if operation.kind == "flip":
        return np.array([[0, 1], [1, 0]], np.complex128)
    if operation.kind == "dense" and operation.matrix is not None:
        return np.asarray(operation.matrix, np.complex128)
    if operation.kind != "diagonal" or operation.reads or operation.wide:
        return None
    common = sum(angle for product, (angle, _) in operation.terms if not product)
    own = sum(angle for product, (angle, _) in operation.terms if product)
    return np.diag(np.exp([1j * common, 1j * (common + own)]))


def as_operations(qubit: int, matrix: Matrix) -> list[Operation]:
    """A matrix as phases, as phases and X, or as what it is."""
    if abs(matrix[0, 0]) < _ROUNDING:
        return [*_turns(qubit, matrix[1, 0], matrix[0, 1]), flip(qubit, ())]
    if abs(matrix[0, 1]) < _ROUNDING:
        return _turns(qubit, matrix[0, 0], matrix[1, 1])
    real, imaginary = (np.where(np.abs(part) < _ROUNDING, 0.0, part) for part in (matrix.real, matrix.imag))
    return [gate_operation(UnitaryGate(real + 1j * imaginary), [qubit], range(0))]


def _turns(qubit: int, of_zero: complex, of_one: complex) -> list[Operation]:
    common = float(np.angle(of_zero))
    return phases(qubit, common, float(np.angle(of_one)) - common)


def phases(qubit: int, common: float, of_one: float) -> list[Operation]:
    """One of all amplitudes, and one of those with a 1; nothing where both are whole turns."""
    terms: list[tuple[tuple[int, ...], Affine]] = [((), (common, ())), ((qubit,), (of_one, ()))]
    kept = [(bits, affine) for bits, affine in terms if abs(np.exp(1j * affine[0]) - 1) > _ROUNDING]
    return [Operation("diagonal", 0, 0, 1 << qubit, terms=kept)] if kept else []


def flip(target: int, tests: tuple[tuple[int, int], ...]) -> Operation:
    """X where these qubits have these values."""
    gate = GATES["x"]
    if tests:
        gate = gate.controlled(len(tests), sum(value << k for k, (_, value) in enumerate(tests)))
    return gate_operation(gate, [*(q for q, _ in tests), target], range(0))
