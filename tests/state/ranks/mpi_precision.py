"""Long circuits in complex64, and large angles in complex128, on several ranks; run on every rank at once."""

import os
from fractions import Fraction

import numpy as np
import pytest

import qdist as qd
from qdist.state import reference

N, BOUND = 9, 1e-6
TURN = 4 * Fraction("3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348")


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


def excitations(count: int) -> qd.Circuit:
    """Rotations of a reference state, as in a coupled-cluster ansatz, and the same rotations of all qubits between."""
    rng = np.random.default_rng(4)
    theta = qd.ParameterVector("t", 24)
    circuit = qd.Circuit(N).x([0, 1, 2, 3])
    for k in range(count):
        letters = "".join(rng.choice(list("XYZ"), 4))
        circuit.pauli_rotation(theta[k % 24], letters, rng.permutation(N)[:4].tolist())
        circuit.ry(0.0123, k % N)
    return circuit


@pytest.mark.parametrize("size", [1e-3, 5e-2])
def test_norms_energies_and_gradients_of_a_long_circuit(comm: qd.comm.Communicator, size: float) -> None:
    circuit = excitations(200)
    values = np.random.default_rng(5).normal(0, size, 24)
    energy = qd.library.heisenberg_xxz(N) + qd.PauliSum({"I": -20.0, "X0 Y8 Z3": 0.7})
    program = qd.compile(circuit, comm=comm)
    wanted, by_double = qd.compile(circuit, dtype="complex128").value_and_grad(energy, values)
    assert program.run(values).norm() == pytest.approx(1, abs=BOUND)
    value, gradient = program.value_and_grad(energy, values)
    assert value == pytest.approx(wanted, rel=BOUND)
    assert np.linalg.norm(gradient - by_double) <= 2 * BOUND * np.linalg.norm(by_double)


@pytest.mark.parametrize("angles", [(0.0123, 0.0234), (0.7, 0.9)], ids=["short steps", "long steps"])
def test_rounding_errors_of_repeated_gates_do_not_add_up_in_the_norm(
    comm: qd.comm.Communicator, angles: tuple[float, float]
) -> None:
    circuit = qd.Circuit(N)
    for _ in range(60):
        for q in range(N - 1):
            circuit.rzz(angles[0], q, q + 1)
        circuit.rx(angles[1], range(N))
    assert qd.simulate(circuit, comm=comm).norm() == pytest.approx(1, abs=BOUND)


def test_large_angles_are_exact_wherever_their_qubits_are(comm: qd.comm.Communicator) -> None:
    """Those of folded gates at the beginning, of far phases, and of what is summed in one block among them."""
    angles = np.random.default_rng(6).uniform(-1e9, 1e9, (6, N))

    def circuit(angles: np.ndarray) -> qd.Circuit:
        made = qd.Circuit(N)
        for q in range(N):
            made.u(angles[0][q], angles[1][q], angles[2][q], q)
        for q in range(N):
            made.rz(angles[3][q], q).p(angles[4][q], q).rzz(angles[5][q], q, (q + 1) % N)
        return made.h(range(N))

    exact = [[Fraction(a) for a in row] for row in angles.tolist()]
    reduced = np.array([[float(a - TURN * round(a / TURN)) for a in row] for row in exact])
    state = qd.simulate(circuit(angles), comm=comm, dtype="complex128")
    np.testing.assert_allclose(state.amplitudes(), reference.state(circuit(reduced)), atol=1e-12)
