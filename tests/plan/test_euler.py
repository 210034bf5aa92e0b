"""Matrices of one qubit as rotations between phases: the same circuit, and only where the phases join others."""

from __future__ import annotations

import numpy as np
import pytest

import qdist as qd
from qdist.plan import fastest
from qdist.plan.cost import is_real
from qdist.state import reference

N = 9
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


def complex_matrices(circuit: qd.Circuit) -> int:
    """Dense blocks that take four times a rotation's arithmetic."""
    blocks = [b for b in qd.Program(circuit).plan.blocks if b.kind == "dense"]
    rotations = {"rx", "ry"}
    return sum(not is_real(b) and not {o.gate.name for o in b.operations if o.gate} <= rotations for b in blocks)


def random_circuit(seed: int) -> tuple[qd.Circuit, np.ndarray]:
    rng = np.random.default_rng(seed)
    theta = qd.ParameterVector("t", 12)
    circuit = qd.Circuit(N)
    for k in range(150):
        a, b = rng.permutation(N)[:2].tolist()
        x, y, z = (
            theta[int(i)] * float(c) + float(d)
            for i, c, d in zip(rng.integers(12, size=3), rng.normal(size=3), rng.normal(size=3))
        )
        match rng.integers(14):
            case 0 | 1:
                circuit.u(x, y, z, a)
            case 2:
                circuit.u2(x, y, a)
            case 3:
                circuit.r(x, y, a)
            case 4:
                circuit.unitary(qd.library.random_circuits.random_su(2, seed=k) * np.exp(1j * k), [a])
            case 5:
                circuit.sx(a).t(a)
            case 6 | 7 | 8:
                circuit.cz(a, b)
            case 9:
                circuit.cp(x, a, b)
            case 10:
                circuit.rzz(x, a, b)
            case 11:
                circuit.cx(a, b)
            case 12:
                circuit.rxx(x, a, b)
            case _:
                circuit.fsim(x, y, a, b)
    return circuit, rng.uniform(-2, 2, 12)


@both
@pytest.mark.parametrize("seed", range(6))
def test_states_and_gradients(seed: int, dtype: str) -> None:
    circuit, values = random_circuit(seed)
    program = qd.Program(circuit, dtype=dtype)
    tolerance = 1e-12 if dtype == "complex128" else 3e-6
    np.testing.assert_allclose(program.run(values).amplitudes(), reference.state(circuit, values), atol=tolerance)
    observable = qd.PauliSum({"Z0 X1": 1.0, "Y3": 0.5, "Z2 Z4": -0.7})
    _, gradient = program.value_and_grad(observable, values)
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, values), atol=3 * tolerance)


@pytest.mark.parametrize("constant", [False, True])
def test_between_phases_no_complex_matrix_is_left(monkeypatch: pytest.MonkeyPatch, constant: bool) -> None:
    monkeypatch.setattr(fastest, "with_pairs_joined", lambda *_: None)
    theta = qd.ParameterVector("t", 3 * N)
    circuit = qd.Circuit(N)
    for layer in range(4):
        for q in range(N):
            angles = (0.1 + q, 0.2 + layer, 0.3) if constant else theta[3 * q : 3 * q + 3]
            circuit.u(*angles, q)
        for q in range(layer % 2, N - 1, 2):
            circuit.cz(q, q + 1)
    # Products of two, on the first and the last qubit, which every second layer of phases leaves out.
    assert complex_matrices(circuit) == 3


def test_matrices_of_two_qubits_take_those_of_one_in() -> None:
    circuit = qd.Circuit(N)
    for layer in range(4):
        circuit.u(0.3, 0.2 + layer, 0.1, range(N))
        for q in range(layer % 2, N - 1, 2):
            circuit.fsim(0.4, 0.5, q, q + 1)
    alone = qd.Circuit(N)
    for layer in range(4):
        for q in range(layer % 2, N - 1, 2):
            alone.fsim(0.4, 0.5, q, q + 1)
    blocks = qd.Program(circuit).plan.blocks
    assert {b.kind for b in blocks} == {"dense"}
    assert len(blocks) <= len(qd.Program(alone).plan.blocks) + 2


@pytest.mark.parametrize(
    "matrix",
    [
        np.eye(2) * 1j,
        np.diag([1, 1j]),
        np.array([[0, 1j], [1, 0]]),
        np.array([[1e-13, 1], [1j, 1e-13]]),
        np.array([[1, 1j], [1j, 1]]) / np.sqrt(2),
        np.exp(0.3j) * np.array([[1, 1], [1j, -1j]]) / np.sqrt(2),
    ],
)
def test_constant_matrices_with_nothing_to_rotate(matrix: np.ndarray) -> None:
    circuit = qd.Circuit(3).h(range(3)).cz(0, 1).unitary(matrix, [0]).cz(0, 2).unitary(matrix, [2]).cz(1, 2)
    np.testing.assert_allclose(
        qd.Program(circuit, dtype="complex128").run([]).amplitudes(), reference.state(circuit), atol=1e-12
    )
