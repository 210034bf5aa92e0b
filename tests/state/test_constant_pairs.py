"""Constant two-qubit matrices that follow each other hand parts of them on, and the circuit is what it was."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import qdist as qd
from qdist.backends.cpu.executor import _pairs
from qdist.state import reference

N = 11
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
su = qd.library.random_circuits.random_su
SPECIAL = {
    "iswap": np.array([[1, 0, 0, 0], [0, 0, 1j, 0], [0, 1j, 0, 0], [0, 0, 0, 1]]),
    "phases": np.diag([1, 1j, -1, 1j]),
    "turned swap": 1j * np.eye(4)[[0, 2, 1, 3]],
    "product": np.kron(su(2, seed=1), su(2, seed=2)),
    "phase": np.exp(0.7j) * np.eye(4),
    "flips": np.kron([[0, 1j], [1, 0]], [[0, 1], [1j, 0]]),
}


def number_of_pairs(program: qd.Program) -> int:
    blocks = [block for segment in program.plan.segments for _, some in segment.stages for block in some]
    return sum(is_pair for is_pair, _ in _pairs(blocks, program.circuit.affine()).values())


def check(circuit: qd.Circuit, dtype: str, values: np.ndarray | None = None) -> qd.Program:
    given = values if values is not None else np.zeros(0)
    program = qd.Program(circuit, dtype=dtype)
    state = program.run(given)
    tolerance = 1e-13 if dtype == "complex128" else 1e-6
    np.testing.assert_allclose(state.amplitudes(), reference.state(circuit, given), atol=tolerance)
    return program


@both
@pytest.mark.parametrize("seed", range(3))
def test_matrices_on_any_two_qubits(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(N)
    for k in range(80):
        a, b = rng.permutation(N)[:2].tolist()
        circuit.unitary(su(4, seed=100 * seed + k), [a, b])
    assert number_of_pairs(check(circuit, dtype)) > 30


@both
def test_every_two_bits_of_a_tile(dtype: str) -> None:
    """The inner one of three matrices on the same two qubits and others is a pair, wherever its bits are."""
    for a, b in permutations(range(8), 2):
        c = next(q for q in range(8) if q not in (a, b))
        circuit = qd.Circuit(8).h(range(8)).t(range(8))
        for k, (p, q) in enumerate([(a, c), (b, c), (a, b), (b, c), (a, c), (a, b)]):
            circuit.unitary(su(4, seed=10 * a + b + 100 * k), [p, q])
        assert number_of_pairs(check(circuit, dtype)) > 0


@both
@pytest.mark.parametrize("name", SPECIAL)
def test_matrices_whose_parts_have_no_cosine(name: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    circuit = qd.Circuit(6).h(range(6)).t(range(6))
    for k in range(60):
        a, b = rng.permutation(6)[:2].tolist()
        circuit.unitary(SPECIAL[name] if k % 3 else su(4, seed=k), [a, b])
    check(circuit, dtype)


@both
def test_other_gates_between(dtype: str) -> None:
    rng = np.random.default_rng(6)
    theta = qd.ParameterVector("t", 8)
    circuit = qd.Circuit(N).h(range(N))
    for k in range(120):
        a, b, c = rng.permutation(N)[:3].tolist()
        match rng.integers(10):
            case 0:
                circuit.rx(theta[k % 8], a)
            case 1:
                circuit.cx(a, b).ccx(a, b, c)
            case 2:
                circuit.rzz(theta[k % 8], a, b)
            case 3:
                circuit.rxx(theta[k % 8], a, b)
            case _:
                circuit.fsim(0.3 + k, 0.2 * k, a, b).u(0.1 * k, 0.2, 0.3, a)
    values = rng.uniform(-2, 2, 8)
    program = check(circuit, dtype, values)
    assert number_of_pairs(program) > 0
    # Derivatives go back through the matrices as they are after handing on.
    observable = qd.PauliSum({"Z0 Z3": 1.0, "X5": 0.5})
    _, gradient = program.value_and_grad(observable, values)
    wanted = reference.gradient(circuit, observable, values)
    np.testing.assert_allclose(gradient, wanted, atol=2e-6 if dtype == "complex64" else 1e-12)


@both
def test_real_matrices_stay_real(dtype: str) -> None:
    """Their kernel does half the work."""
    rng = np.random.default_rng(7)
    circuit = qd.Circuit(N).h(range(N))
    for _ in range(40):
        q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
        circuit.unitary(q, rng.permutation(N)[:2].tolist())
    assert number_of_pairs(check(circuit, dtype)) == 0


def test_norms_of_long_runs_are_kept() -> None:
    rng = np.random.default_rng(8)
    circuit = qd.Circuit(14)
    for k in range(700):
        circuit.unitary(su(4, seed=k), rng.permutation(14)[:2].tolist())
    for dtype, tolerance in (("complex64", 2e-6), ("complex128", 1e-12)):
        state = qd.Program(circuit, dtype=dtype).run([])
        amplitudes = state.amplitudes().astype(complex)
        assert abs(np.vdot(amplitudes, amplitudes).real - 1) < tolerance


@both
def test_a_matrix_that_is_not_unitary_stays_whole(dtype: str) -> None:
    circuit = qd.Circuit(3).h(range(3))
    almost = su(4, seed=1) * (1 + 1e-9)
    for pair in ([0, 1], [1, 2], [0, 2], [0, 1], [1, 2], [0, 2]):
        circuit.unitary(almost, pair)
    assert number_of_pairs(check(circuit, dtype)) == 0
