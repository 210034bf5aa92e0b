"""Pauli rotations in registers: their tables against the reference, and how many phases they need. No GPU needed."""

import numpy as np
import pytest
from excitations import DOUBLE
from test_back_tables import check as check_gradient
from test_tables import check, tables_of

import qdist as qd
from qdist.backends.cuda.lowering.directions import Directions, register_flips
from qdist.backends.cuda.lowering.patterns import multiples
from qdist.backends.cuda.lowering.records.tiles import MODES
from qdist.backends.cuda.lowering.tile import Shape, rank, shape_of

N = 8
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


def rotations(n: int, count: int, seed: int, widest: int = 6) -> qd.Circuit:
    """Of all widths and placements, some of Z alone, some controlled, between a few other gates."""
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(n).h(range(n))
    for k, angle in enumerate(qd.ParameterVector("t", count)):
        width = int(rng.integers(1, widest + 1))
        letters = "Z" * width if k % 7 == 3 else "".join(rng.choice(list("XYZ"), width))
        qubits = rng.permutation(n).tolist()
        if k % 11 == 5:
            gate = qd.circuit.pauli_rotation_gate(letters).controlled()
            circuit.append(gate, qubits[: width + 1], [angle])
        else:
            circuit.pauli_rotation(angle, letters, qubits[:width])
        if k % 5 == 4:
            circuit.cx(*qubits[:2]).ry(0.3, qubits[0]).cz(*qubits[1:3])
    return circuit


def check_in_all_shapes(circuit: qd.Circuit, dtype: str, seed: int) -> None:
    params = np.random.default_rng(seed).uniform(-6, 6, circuit.num_parameters)
    check(circuit, dtype, params=params)
    for sizes in ((6, 4, 2), (8, 3, 2), (7, 5, 1)):
        check(circuit, dtype, Shape(np.dtype(dtype).itemsize, *sizes), params)


@both
@pytest.mark.parametrize("seed", range(6))
def test_rotations_of_all_widths(seed: int, dtype: str) -> None:
    check_in_all_shapes(rotations(N, 30, seed), dtype, seed)


@both
@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_rotations(seed: int, dtype: str) -> None:
    check_gradient(rotations(6, 24, 20 + seed, widest=4), dtype)


def excitations(n: int, count: int, seed: int, parameters: int = 1) -> qd.Circuit:
    """Double excitations with Z letters between the flips; parameters: of each, whose multiples its angles are."""
    rng = np.random.default_rng(seed)
    circuit, theta = qd.Circuit(n).h(range(n)), qd.ParameterVector("t", count * parameters)
    for k in range(count):
        qubits = rng.permutation(n)[: 4 + int(rng.integers(1, n - 3))].tolist()
        flips, more = qubits[:4], qubits[4:]
        for j, letters in enumerate(DOUBLE):
            angle = theta[k * parameters + j % parameters] * float(rng.normal())
            circuit.pauli_rotation(angle + (0.3 if j == 2 else 0.0), letters + "Z" * len(more), flips + more)
        if k % 3 == 2:
            circuit.cx(*flips[:2]).ry(0.4, flips[1])
    return circuit


@both
@pytest.mark.parametrize("seed", range(4))
def test_rotations_with_the_same_flips_are_one(seed: int, dtype: str) -> None:
    check_in_all_shapes(excitations(N, 6, seed), dtype, seed)


@both
@pytest.mark.parametrize("parameters", [1, 2, 8])
def test_gradients_of_rotations_with_the_same_flips(parameters: int, dtype: str) -> None:
    check_gradient(excitations(6, 5, 7, parameters), dtype)


def test_angles_that_are_multiples_of_others() -> None:
    t, u = qd.ParameterVector("t", 2)
    circuit = qd.Circuit(2).rz(0.3, 0).rx(2 * t, 0).rx(t + u, 0).rx(0.5 * t + 1, 1).rx(-2 * t - 2 * u, 1).rz(u, 0)
    assert multiples(circuit.affine()) == {1: (1, 1.0), 2: (2, 1.0), 3: (1, 0.25), 4: (2, -2.0), 5: (5, 1.0)}


def test_rotations_with_few_flips_share_a_phase() -> None:
    """Two double excitations: sixteen rotations, two flips, one operation each."""
    circuit = qd.Circuit(10)
    for letters in DOUBLE:
        circuit.pauli_rotation(0.1, letters + "Z", [2, 4, 6, 9, 5])
    for letters in DOUBLE:
        circuit.pauli_rotation(0.2, letters, [1, 3, 4, 8])
    (tables,) = tables_of(circuit, "complex64", shape_of(np.dtype("complex64")))
    phases = tables.arrays()["phases"]
    # One that loads, one with all rotations, one that stores; without barriers but those between them.
    assert phases["end_op"].tolist() == [0, 2, 2]
    assert set(phases["mode"].tolist()) == {MODES["shared"]}
    assert not phases["exclusive"].any()


@pytest.mark.parametrize("shape", [shape_of(np.dtype("complex64")), Shape(16, 11, 4, 3)], ids=["kept", "free"])
def test_directions_and_thread_bits_reach_every_amplitude(shape: Shape) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        directions = Directions(shape)
        taken = [flip for flip in map(int, rng.integers(0, 1 << 11, 9)) if directions.takes(flip)]
        columns, pivots = directions.complete(11)
        lanes = [1 << b for b in range(11) if b not in pivots]
        assert len(columns) == shape.registers
        assert len(lanes) + len(columns) == 11 == rank(columns + lanes)
        if shape.kept:
            assert columns[-1] == 1
        masks = register_flips(shape.registers, shape.kept)
        for flip in taken:
            mask = masks[directions.number(flip)]
            assert np.bitwise_xor.reduce([c for k, c in enumerate(columns) if mask >> k & 1] or [0]) == flip
