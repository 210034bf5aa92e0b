"""Reduced states, shots, functions of parameters, gates of one's own: the same on the ranks of this job and alone."""

import os

import numpy as np
import pytest

import qdist as qd
from qdist.backends.errors import StateError
from qdist.plan import Layout
from qdist.state import StateVector
from qdist.state.measuring import shadows

COMM = qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)
N = 8
a, b = qd.Parameter("a"), qd.Parameter("b")
H = qd.PauliSum({"Z0 Z7": 0.8, "X0 X6": -0.5, "Y1 Y7": 0.6, "Z2": 0.2, "X5": 0.4, "": 1.5})


def circuit() -> qd.Circuit:
    made = qd.Circuit(N).h(range(N)).ry(a * b, 7).cx(7, 0).rx(np.sin(b), 6).cx(6, 1)
    made.append(qd.generator_gate("twist", np.array([[1, 1j], [-1j, 0.5]])), [7], [a])
    return made.cx(0, 5).rz(a, 5).ry(1.1, range(2, 6))


@pytest.fixture(scope="module", params=["identity", "reversed"])
def pair(request: pytest.FixtureRequest) -> tuple[StateVector, StateVector]:
    """A state on all ranks, and the same alone."""
    layout = Layout(range(N)) if request.param == "identity" else Layout(range(N)[::-1])
    rng = np.random.default_rng(1)
    ket = rng.normal(size=1 << N) + 1j * rng.normal(size=1 << N)
    ket /= np.linalg.norm(ket)
    return StateVector.from_amplitudes(ket, comm=COMM, layout=layout), StateVector.from_amplitudes(ket)


def test_reduced_states(pair) -> None:
    shared, alone = pair
    for qubits in ([0], [7, 2], [1, 7, 6]):
        np.testing.assert_allclose(shared.density_matrix(qubits), alone.density_matrix(qubits), atol=1e-13)
        assert shared.entropy(qubits) == pytest.approx(alone.entropy(qubits), abs=1e-11)
        assert shared.purity(qubits) == pytest.approx(alone.purity(qubits), abs=1e-12)
        np.testing.assert_allclose(shared.schmidt_values(qubits), alone.schmidt_values(qubits), atol=1e-12)
    assert shared.mutual_information(0, 7) == pytest.approx(alone.mutual_information(0, 7), abs=1e-11)
    if shared.shard_bits < N:
        with pytest.raises(StateError, match="use fewer ranks, or fewer qubits"):
            shared.density_matrix(range(shared.shard_bits + 1))


def test_comparison_and_amplitudes_by_bit_strings(pair) -> None:
    shared, alone = pair
    assert shared == shared.copy().relayout(Layout([1, 0, *range(2, N)]))
    assert shared != StateVector(N, "complex128", COMM)
    assert shared.astype("complex64") == shared
    strings = ["00000000", "10000001"]
    np.testing.assert_array_equal(shared.amplitudes(strings), alone.amplitudes(strings))


def test_the_same_seed_gives_the_same_shots(pair) -> None:
    shared, alone = pair
    for options in ({}, {"readout_error": 0.05}):
        one, other = (s.expectations([H, "Z3"], shots=300, seed=4, **options) for s in pair)
        np.testing.assert_allclose(one, other, atol=1e-12)
        np.testing.assert_allclose(one.standard_error, other.standard_error, atol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        for most in (20, 0):  # Gathered, and turned where it is.
            patch.setattr(shadows, "_GATHERED", most)
            np.testing.assert_array_equal(shared.shadow(40, seed=1).bits, alone.shadow(40, seed=1).bits)
    assert len(set(COMM.all_gather_object(float(shared.expectation(H, shots=50))))) == 1


def test_programs_with_functions_and_gates_of_ones_own() -> None:
    values = {"a": 0.4, "b": 0.7}
    shared, alone = (qd.compile(circuit(), comm=c, dtype="complex128") for c in (COMM, None))
    np.testing.assert_allclose(shared.run(values).amplitudes(), alone.run(values).amplitudes(), atol=1e-12)
    for one, other in zip(shared.value_and_grad(H, values), alone.value_and_grad(H, values)):
        np.testing.assert_allclose(one, other, atol=1e-11)
    theta = [[0.4, 0.7], [0.1, 0.2]]
    for one, other in zip(shared.value_and_grad(H, theta), alone.value_and_grad(H, theta)):
        np.testing.assert_allclose(one, other, atol=1e-11)
    estimate = [float(p.expectation(H, values, shots=200, seed=3)) for p in (shared, alone)]
    assert estimate[0] == pytest.approx(estimate[1], abs=1e-12)
    np.testing.assert_array_equal(shared.sample(20, values, seed=1), alone.sample(20, values, seed=1))


def test_batches_of_initial_states() -> None:
    rng = np.random.default_rng(2)
    starts = rng.normal(size=(2, 1 << N)) + 1j * rng.normal(size=(2, 1 << N))
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    shared, alone = (qd.compile(circuit(), comm=c, dtype="complex128") for c in (COMM, None))
    theta = [[0.4, 0.7], [0.1, 0.2]]
    np.testing.assert_allclose(
        shared.run_batch(theta, initial=starts), alone.run_batch(theta, initial=starts), atol=1e-12
    )
    for one, other in zip(
        shared.value_and_grad(H, theta, initial=starts), alone.value_and_grad(H, theta, initial=starts)
    ):
        np.testing.assert_allclose(one, other, atol=1e-11)


def test_the_columns_of_a_matrix_are_shared_out() -> None:
    small = qd.Circuit(3).h(0).cx(0, 2).rx(a, 1)
    np.testing.assert_allclose(small.to_matrix([0.3], comm=COMM), small.to_matrix([0.3]), atol=1e-14)


def test_layers_with_shots_and_amplitudes() -> None:
    w = qd.ParameterVector("w", 2)
    body = qd.Circuit(N).ry(w[0], 7).cx(7, 0).rz(w[1], 0).h(0)
    x = np.random.default_rng(3).normal(size=(2, 1 << N))
    found = []
    for comm in (COMM, None):
        options = {"weights": w, "dtype": "complex128", "comm": comm, "device": "cpu"}
        embedded = qd.nn.QuantumLayer(body, ["Z0", "X7"], amplitudes=True, initial=[0.3, 0.4], **options)
        given = qd.Tensor(x, requires_grad=True)
        embedded(given).sum().backward()
        noisy = qd.nn.QuantumLayer(body, ["Z0"], shots=50, seed=1, **options)
        noisy().sum().backward()
        found.append((given.grad.data, embedded.weights.grad.data, noisy().data, noisy.weights.grad.data))
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, atol=1e-11)
