"""What the kernels know of gates with angles, against every row of the gate table."""

from __future__ import annotations

import numpy as np
import pytest

import qdist as qd
from qdist.circuit import GATES, Gate
from qdist.native import kernels
from qdist.plan.operations import Operation, operations

ROWS = sorted({gate.base for gate in GATES.values() if gate.num_params}, key=lambda gate: gate.name)
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
with_formula = pytest.mark.parametrize("row", [row for row in ROWS if row.formula], ids=lambda row: row.name)


def planned(row: Gate, angles: np.ndarray) -> list[Operation]:
    # One control, so that also a gate on no qubit has one; none of the angles is one that a gate is simpler at.
    circuit = qd.Circuit(row.num_qubits + 1)
    circuit.append(row.controlled(), range(row.num_qubits + 1), angles.tolist())
    return list(operations(circuit))


def test_every_formula_is_of_a_row() -> None:
    named = {row.name: row for row in ROWS}
    assert kernels.formulas[0] == ("constant", 0, 0, False)
    for number, (name, bits, angles, is_real) in enumerate(kernels.formulas[1:], 1):
        row = named[name]
        assert (row.formula, row.num_qubits, row.num_params, row.is_real) == (number, bits, angles, is_real)


@every_row
def test_every_row_with_angles_is_something_that_kernels_run(row: Gate) -> None:
    angles = np.random.default_rng(3).uniform(-6, 6, row.num_params)
    for operation in planned(row, angles):
        assert operation.reads == set(range(row.num_params))
        if operation.kind == "dense":
            assert operation.gate is row
            assert row.formula
        elif operation.kind == "rotation":
            assert operation.letters == row.pauli
        else:
            assert operation.kind == "diagonal"
            assert row.is_diagonal
    assert row.is_identity == (not planned(row, angles))


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_diagonal and not row.is_identity], ids=lambda r: r.name)
def test_phases_of_diagonal_rows(row: Gate) -> None:
    angles = np.random.default_rng(5).uniform(-6, 6, row.num_params)
    expected = row.controlled().diagonal(*angles)
    (operation,) = planned(row, angles)
    phases = np.zeros(len(expected))
    for index in range(len(expected)):
        parts = [(all(index >> q & 1 for q in product), affine) for product, affine in operation.terms]
        parts += [(all(index >> q & 1 == value for q, value in tests), affine) for tests, affine in operation.wide]
        for holds, (constant, terms) in parts:
            phases[index] += holds * (constant + sum(c * angles[slot] for slot, c in terms))
    np.testing.assert_allclose(np.exp(1j * phases), expected, atol=1e-14)


@with_formula
def test_values_of_formulas(row: Gate) -> None:
    for seed in range(5):
        angles = np.random.default_rng(seed).uniform(-6, 6, row.num_params)
        found = np.zeros(4**row.num_qubits, np.complex128)
        matrices(row).at(angles, found)
        np.testing.assert_allclose(found, row.matrix(*angles).ravel(), atol=1e-14)


@with_formula
def test_derivatives_of_formulas(row: Gate) -> None:
    """The gradient 2 Re Tr(dU U^-1 T) at T = U E, for E with a single entry of 1 or i, is twice a part of dU's."""
    angles = np.random.default_rng(11).uniform(-6, 6, row.num_params)
    matrix, size = row.matrix(*angles), 1 << row.num_qubits
    derivatives = np.zeros((row.num_params, size, size), np.complex128)
    for p in range(size):
        for q in range(size):
            for unit, part in ((1, 1), (-1j, 1j)):
                entry = np.zeros((size, size), np.complex128)
                entry[q, p] = unit
                gradient = np.zeros(row.num_params)
                matrices(row).add_gradients((matrix @ entry).ravel(), angles, gradient)
                derivatives[:, p, q] += part * gradient / 2
    for k in range(row.num_params):
        np.testing.assert_allclose(derivatives[k], row.derivative(k, *angles), atol=1e-13)


def matrices(row: Gate) -> kernels.MatrixList:
    found = kernels.MatrixList()
    found.add(row.num_qubits, [(row.formula, list(range(row.num_params)), list(range(row.num_qubits)), [])])
    return found
