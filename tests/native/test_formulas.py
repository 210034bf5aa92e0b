"""What the kernels know of gates with angles, against every row of the gate table."""

from __future__ import annotations

import numpy as np
import pytest

import qdist as qd
from qdist.circuit import GATES, Gate
from qdist.circuit.gate import FORMULAS
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
    # Those that come with their numbers are of none.
    first, *others, phases, rotation = kernels.formulas
    assert (first, phases, rotation) == (
        ("constant", 0, 0, False),
        ("phases", 0, 1, False),
        ("rotation", 0, 1, False),
    )
    for number, (name, bits, angles, is_real) in enumerate(others, 1):
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


def test_phases_that_come_with_their_numbers() -> None:
    """exp(i t D) on two bits of three in another order, beside a constant, and its derivative."""
    rng = np.random.default_rng(4)
    numbers, angle = rng.normal(size=4), np.array([0.0, 0.83])
    found = kernels.MatrixList()
    found.add(2, [(0, [], [0], [0, 1, 1, 0]), (FORMULAS["phases"], [1], [1, 0], numbers.astype(complex).tolist())])
    matrix = np.zeros(16, np.complex128)
    found.at(angle, matrix)
    # Bit 0 of the numbers' index is bit 1 of the matrix's.
    diagonal = np.exp(1j * angle[1] * numbers)[[0, 2, 1, 3]]
    np.testing.assert_allclose(matrix.reshape(4, 4), diagonal[:, None] * np.eye(4)[[1, 0, 3, 2]], atol=1e-14)
    transition = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))
    gradient = np.zeros(2)
    found.add_gradients(transition.ravel(), angle, gradient)
    expected = 2 * (1j * numbers[[0, 2, 1, 3]] * transition.diagonal()).sum().real
    np.testing.assert_allclose(gradient, [0, expected], atol=1e-13)
    with pytest.raises(ValueError, match="a diagonal"):
        found.add(2, [(FORMULAS["phases"], [1], [0, 1], [1, 2])])


@pytest.mark.parametrize("letters", ["X", "ZX", "YZ", "XY"])
@pytest.mark.parametrize("under", [None, 0, 1])
def test_rotations_that_come_with_their_generators(letters: str, under: int | None) -> None:
    """exp(-i t/2 G), of which G is 0 where a condition does not hold; and its derivative."""
    rng = np.random.default_rng(5)
    generator = np.eye(1)
    for letter in letters:
        generator = np.kron(generator, qd.circuit.GATES[letter.lower()].matrix())
    if under is not None:
        generator = np.kron(np.diag([1 - under, under]), generator)
    size = len(generator)
    bits = list(range(size.bit_length() - 1))
    found = kernels.MatrixList()
    found.add(len(bits), [(FORMULAS["rotation"], [0], bits, generator.astype(complex).ravel().tolist())])
    values, vectors = np.linalg.eigh(generator)

    def exact(t: float) -> np.ndarray:
        return (vectors * np.exp(-0.5j * t * values)) @ vectors.conj().T

    for angle in (0.83, 1e-12):
        matrix = np.zeros(size * size, np.complex128)
        found.at(np.array([angle]), matrix)
        np.testing.assert_allclose(matrix.reshape(size, size), exact(angle), atol=1e-14)
        # Small angles keep their digits: tangents are as small.
        off = matrix.reshape(size, size)[~np.eye(size, dtype=bool)]
        wanted = (-1j * np.sin(angle / 2) * generator)[~np.eye(size, dtype=bool)]
        if under is None:
            np.testing.assert_allclose(off, wanted, rtol=1e-13)
        transition = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
        gradient = np.zeros(1)
        found.add_gradients(transition.ravel(), np.array([angle]), gradient)
        expected = 2 * np.trace(-0.5j * generator @ transition).real
        np.testing.assert_allclose(gradient, [expected], atol=1e-12)
    with pytest.raises(ValueError, match="a generator"):
        found.add(len(bits), [(FORMULAS["rotation"], [0], bits, [1, 2])])


@pytest.mark.parametrize("formula", ["phases", "rotation"])
def test_matrices_of_the_same_angle_and_other_numbers_are_not_the_same(formula: str) -> None:
    """Matrices of equal formulas and angles are computed once; those that differ in the numbers they come with are
    two."""
    numbers = {"phases": [[0, 1], [0, 2]], "rotation": [[0, 1, 1, 0], [0, -1j, 1j, 0]]}[formula]
    together, apart, angle = kernels.MatrixList(), [], np.array([0.7])
    for own in numbers:
        factors = [(FORMULAS["rx"], [0], [0], []), (FORMULAS[formula], [0], [0], own)]
        together.add(1, factors)
        alone = kernels.MatrixList()
        alone.add(1, factors)
        entries = np.zeros(4, np.complex128)
        alone.at(angle, entries)
        apart.append(entries)
    both = np.zeros(8, np.complex128)
    together.at(angle, both)
    assert not np.allclose(*apart)
    np.testing.assert_array_equal(both, np.concatenate(apart))
