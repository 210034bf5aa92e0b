"""Hadamard gates as sums and differences, and phases of amplitudes that conditions pick, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

import qdist as qd
from qdist.circuit import PauliSum
from qdist.state import reference

N = 13
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


def check(circuit: qd.Circuit, dtype: str) -> None:
    tolerance = 1e-12 if dtype == "complex128" else 2e-6
    got = qd.Program(circuit, dtype=dtype).run().amplitudes()
    np.testing.assert_allclose(got, reference.state(circuit, np.zeros(0)), atol=tolerance)


def tilted(n: int = N) -> qd.Circuit:
    """No amplitude of its state is zero, and no two are alike."""
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.ry(0.3 + 0.1 * q, q).rz(0.7 - 0.2 * q, q)
    return circuit


@both
@pytest.mark.parametrize("seed", range(8))
def test_hadamard_gates_among_others(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    circuit = tilted()
    for _ in range(80):
        a, b, c = (int(q) for q in rng.permutation(N)[:3])
        x = float(rng.uniform(-3, 3))
        match rng.integers(8):
            case 0 | 1 | 2:
                for q in rng.permutation(N)[: rng.integers(1, 6)]:
                    circuit.h(int(q))
            case 3:
                circuit.ry(x, a).h(b).ry(x, c)
            case 4:
                circuit.rx(x, a).h(b).rz(x, b)
            case 5:
                circuit.h(a).cz(a, b).h(b).h(a)
            case 6:
                circuit.unitary(-np.array([[1, 1], [1, -1]]) / np.sqrt(2), [a])  # the other sign
            case _:
                circuit.mcp(x, [a, b], c).h(c)
    check(circuit, dtype)


@both
@pytest.mark.parametrize("layers", [1, 2, 40])
def test_layers_of_hadamard_gates(layers: int, dtype: str) -> None:
    """So many that their common factor is brought in before it underflows."""
    circuit = tilted()
    for _ in range(layers):
        circuit.h(range(N)).cz(0, N - 1).s(4)
    check(circuit, dtype)


@both
def test_gradients_beside_hadamard_gates(dtype: str) -> None:
    theta = qd.ParameterVector("t", 2 * N)
    circuit = qd.Circuit(N)
    for q in range(N):
        circuit.h(q).ry(theta[q], q).h((q + 5) % N).rx(theta[N + q], q)
    circuit.h(range(N)).mcp(0.4, [2, 7], 11).h(range(N))
    values = np.random.default_rng(0).uniform(-2, 2, 2 * N)
    observable = PauliSum({"Z0 Z5": 1.0, "X3": -0.4, "Y12 Z1": 0.8})
    found = qd.Program(circuit, dtype=dtype).value_and_grad(observable, values)[1]
    program = qd.Program(circuit, dtype="complex128")
    step = 1e-5
    for k in (0, 3, 7, 12, 13, 19, 25):
        moved = np.array([values, values])
        moved[:, k] += (step, -step)
        more, less = (program.expectation(observable, row) for row in moved)
        assert found[k] == pytest.approx((more - less) / (2 * step), abs=1e-8 if dtype == "complex128" else 2e-6)


@both
@pytest.mark.parametrize("seed", range(6))
def test_phases_under_many_conditions(seed: int, dtype: str) -> None:
    """On bits of a tile, among them those within a vector, and outside of it; of either value."""
    rng = np.random.default_rng(seed)
    circuit = tilted(N + 1)
    for _ in range(25):
        count = int(rng.integers(3, 8))
        *controls, target = (int(q) for q in rng.permutation(N + 1)[:count])
        state = int(rng.integers(1 << len(controls)))
        circuit.mcp(float(rng.uniform(-3, 3)), controls, target, ctrl_state=state)
        circuit.h(int(rng.integers(N + 1)))
    check(circuit, dtype)


@both
@pytest.mark.parametrize("seed", range(3))
def test_diagonals_entry_by_entry(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    circuit = tilted(N + 1)
    for _ in range(10):
        qubits = [int(q) for q in rng.permutation(N + 1)[:4]]
        entries = np.exp(1j * rng.uniform(-3, 3, (2, 16)))
        circuit.unitary(np.diag(entries[0]), qubits).h(qubits[0]).diagonal(entries[1], qubits).h(qubits[1])
    check(circuit, dtype)
