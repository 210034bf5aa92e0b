"""Exact density matrices as states of 2n qubits, against Kraus operators in NumPy."""

import numpy as np
import pytest
from kraus_reference import density, expectation, noisy_circuit
from own_gate import OnlyItsMatrix

import qdist as qd
from qdist.backends.errors import StateError
from qdist.circuit import GATES, CircuitError
from qdist.noise.doubled import conjugate
from qdist.program.compiled import LONG
from qdist.state.statevector import StateVector


def exact(circuit: qd.Circuit, device: str, dtype: str = "complex128", **options) -> qd.noise.NoisyProgram:
    return qd.noise.compile(circuit, method="density_matrix", device=device, dtype=dtype, **options)


@pytest.mark.parametrize("name", sorted(GATES))
def test_conjugates_of_all_gates(name: str) -> None:
    gate = GATES[name]
    angles = tuple(0.3 + 0.7 * k for k in range(gate.num_params))
    for one in (gate, gate.controlled(2, 1)):
        other, changed = conjugate(one, angles)
        np.testing.assert_allclose(other.matrix(*changed), one.matrix(*angles).conj(), atol=1e-14)


def test_conjugates_of_gates_that_carry_data() -> None:
    rng = np.random.default_rng(0)
    unitary, _ = np.linalg.qr(rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)))
    phases = np.exp(1j * rng.normal(size=4))
    circuit = qd.Circuit(3).unitary(unitary, [0, 2]).diagonal(phases, [1, 2]).pauli_rotation(0.4, "XYZ", [0, 1, 2])
    circuit.permutation([2, 0, 3, 1], [0, 1])
    for gate, _, params, *_ in circuit:
        other, changed = conjugate(gate, params)
        np.testing.assert_allclose(other.matrix(*changed), gate.matrix(*params).conj(), atol=1e-14)


@pytest.mark.parametrize("qubits", [1, 2])
@pytest.mark.parametrize("controls", [0, 1])
@pytest.mark.parametrize("name", ["mine", "s"])
def test_gates_that_have_no_inverse_have_density_matrices(qubits: int, controls: int, name: str, device: str) -> None:
    gate = OnlyItsMatrix(name, qd.library.random_su(1 << qubits, 5)).controlled(controls, 0)
    theta = qd.Parameter("theta")
    plain = qd.Circuit(3).h([0, 1, 2]).rx(theta, 0).append(gate, range(gate.num_qubits))
    noisy = plain.copy().amplitude_damping(0.3, 0)
    found = exact(noisy, device)
    np.testing.assert_allclose(found.density_matrix([0.4]), density(noisy, [0.4]), atol=1e-12)
    value, gradient = found.value_and_grad("X0 Z1", [0.4])
    ends = [expectation(noisy, qd.PauliSum("X0 Z1"), [0.4 + step]) for step in (1e-4, -1e-4)]
    assert abs(value - found.expectation("X0 Z1", [0.4])) < 1e-12
    assert abs(gradient[0] - (ends[0] - ends[1]) / 2e-4) < 1e-7


@pytest.mark.parametrize(("dtype", "atol"), [("complex128", 1e-13), ("complex64", 1e-6)])
@pytest.mark.parametrize("kind", ["pauli", "kraus"])
def test_density_matrices_are_those_of_kraus_operators(kind: str, dtype: str, atol: float, device: str) -> None:
    circuit, observable, values = noisy_circuit(kind)
    circuit.reset(1).ry(0.4, 1)
    rho = density(circuit, values)
    program = exact(circuit, device, dtype)
    np.testing.assert_allclose(program.density_matrix(values), rho, atol=atol)
    np.testing.assert_allclose(program.probabilities(values), rho.diagonal().real, atol=atol)
    assert abs(program.expectation(observable, values) - expectation(circuit, observable, values)) < 10 * atol
    rows = np.array([values, 2 * values])
    found = program.expectations([observable, "Z0"], rows)
    assert found.shape == (2, 2)
    np.testing.assert_allclose(found[1, 0], expectation(circuit, observable, rows[1]), atol=10 * atol)
    assert np.array_equal(program.expectation("Z0", rows), found[:, 1])


@pytest.mark.parametrize("kind", ["pauli", "kraus"])
def test_gradients_are_differences_of_the_reference(kind: str, device: str) -> None:
    circuit, observable, values = noisy_circuit(kind)
    program = exact(circuit, device)
    value, gradient = program.value_and_grad(observable, values)
    assert abs(value - expectation(circuit, observable, values)) < 1e-12
    step = 1e-5
    for k in range(len(values)):
        around = [expectation(circuit, observable, values + s * step * np.eye(6)[k]) for s in (1, -1)]
        assert abs(gradient[k] - (around[0] - around[1]) / (2 * step)) < 1e-8
    both, gradients = program.value_and_grad(observable, np.array([values, values + 0.1]))
    assert both.shape == (2,)
    np.testing.assert_allclose(gradients[0], gradient, atol=1e-14)
    np.testing.assert_allclose(
        exact(circuit, device, "complex64").value_and_grad(observable, values)[1], gradient, atol=1e-5
    )


def test_damping_that_destroys_everything_can_be_differentiated(device: str) -> None:
    # The superoperators have no inverse at all.
    a, b = qd.Parameter("a"), qd.Parameter("b")
    circuit = qd.Circuit(2).ry(a, 0).depolarizing(1.0, 0).cx(0, 1).ry(b, 1).amplitude_damping(1.0, 1).rx(b, 1)
    value, gradient = exact(circuit, device).value_and_grad("Z1", [0.3, 0.8])
    assert abs(value - np.cos(0.8)) < 1e-12
    np.testing.assert_allclose(gradient, [0, -np.sin(0.8)], atol=1e-12)


def test_long_circuits_in_single_precision_keep_the_trace_and_not_the_norm(device: str) -> None:
    # Long unitary circuits are brought back to norm 1, and vec(rho) has the purity for a squared norm.
    circuit = qd.Circuit(3)
    for k in range(LONG):
        circuit.ry(0.1 + 0.01 * k, k % 3).cx(k % 3, (k + 1) % 3)
        if k % 50 == 0:
            circuit.depolarizing(0.2, k % 3)
    rho = exact(circuit, device, "complex64").density_matrix()
    assert abs(np.trace(rho) - 1) < 2e-5
    np.testing.assert_allclose(rho, density(circuit), atol=2e-5)


def test_readout_errors_change_what_is_read_and_not_the_state(device: str) -> None:
    circuit = qd.Circuit(2).x(0).ry(0.7, 1).readout_error((0.1, 0.3), 0).readout_error(0.2, 1)
    program = exact(circuit, device)
    # Qubit 0 is 1, and read so with probability 0.7.
    assert abs(program.expectation("Z0") - (0.3 - 0.7)) < 1e-12
    z1 = np.cos(0.7)
    assert abs(program.expectation("Z1") - 0.6 * z1) < 1e-12
    assert abs(program.expectation("Z0 Z1") - (-0.4) * 0.6 * z1) < 1e-12
    assert abs(program.expectation({"Z0 Z1": 2.0, "": 0.5}) - (0.5 - 0.8 * 0.6 * z1)) < 1e-12
    np.testing.assert_allclose(program.probabilities().sum(), 1)
    assert abs(program.probabilities()[1] + program.probabilities()[3] - 1) < 1e-12
    samples = program.sample(20000, seed=1, qubits=[0])
    assert abs(samples.mean() - 0.7) < 5 * np.sqrt(0.21 / 20000)


def test_counts_are_of_classical_bits(device: str) -> None:
    circuit = qd.Circuit(2, 2).x(0).bit_flip(0.25, 0).measure(0, 1)
    counts = exact(circuit, device).counts(10000, seed=0)
    assert set(counts) == {"00", "10"}
    assert abs(counts["10"] - 7500) < 5 * np.sqrt(10000 * 0.1875)
    assert exact(circuit, device).counts(10000, seed=0) == counts
    assert sum(exact(qd.Circuit(1).bit_flip(0.5, 0), device).counts(10, seed=0).values()) == 10


def test_what_does_not_fit_names_the_other_method(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        MemoryError, match=r"a density matrix of 29 qubits, .*; method='trajectories' runs states of 29"
    ):
        exact(qd.Circuit(29).depolarizing(0.1, 0), "cpu")
    with pytest.raises(CircuitError, match=r"32 qubits are too many for a density matrix.* method='trajectories'"):
        exact(qd.Circuit(32).depolarizing(0.1, 0), "cpu")
    a = qd.Parameter("a")
    program = exact(qd.Circuit(2).ry(a, 0).bit_flip(0.1, 0).ry(a, 0).bit_flip(0.1, 0), "cpu")

    def none_left(*args, **kwargs) -> None:
        raise MemoryError(f"{args[4]} states do not fit")

    monkeypatch.setattr(StateVector, "check_room", none_left)
    with pytest.raises(MemoryError, match=r"4 density matrices, which a gradient stores.*4 states do not fit"):
        program.value_and_grad("Z0", [0.3])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.expectation("Z0", shots=10), r"shots= is for method='trajectories'"),
        (lambda p: p.expectation("Z0", seed=1), r"seed= is for method='trajectories'"),
        (lambda p: p.value_and_grad("Z0", shots=10), r"shots= is for method='trajectories'"),
        (lambda p: p.expectation("Z5"), r"5"),
        (lambda p: p.expectation({"Z0": 1j}), r"Hermitian"),
        (lambda p: p.sample(-1), r"-1"),
    ],
)
def test_wrong_questions(ask, message: str) -> None:
    with pytest.raises((StateError, CircuitError), match=message):
        ask(exact(qd.Circuit(2).h(0).bit_flip(0.1, 0), "cpu"))


@pytest.mark.parametrize("method", ["trajectories", "density_matrix"])
@pytest.mark.parametrize("channel", [None, qd.noise.depolarizing(0.1)])
def test_no_qubits_are_refused(method: str, channel: object) -> None:
    model = None if channel is None else qd.noise.NoiseModel().add(channel)
    with pytest.raises(StateError, match="the number of qubits must be an int from 1 to 62; got 0"):
        qd.noise.compile(qd.Circuit(0), model, method=method)


def test_mistyped_arguments_name_the_right_one() -> None:
    with pytest.raises(TypeError, match="did you mean 'method'"):
        qd.noise.compile(qd.Circuit(1), metod="density_matrix")
    with pytest.raises(StateError, match="there are 'trajectories', 'density_matrix'"):
        qd.noise.compile(qd.Circuit(1), method="density")
    with pytest.raises(TypeError, match="did you mean 'shots'"):
        qd.noise.compile(qd.Circuit(1)).expectation("Z0", shot=10)


@pytest.mark.parametrize(
    ("circuit", "message"),
    [
        (qd.Circuit(11).initialize(np.eye(2**11)[5]), "are initialised together, which under noise is a matrix on 11"),
        (qd.Circuit(1).readout_error(0.1, 0).readout_error(0.1, 0), "qubit 0 has two readout errors"),
    ],
)
@pytest.mark.parametrize("method", ["trajectories", "density_matrix"])
def test_circuits_that_cannot_have_noise_yet(circuit: qd.Circuit, message: str, method: str) -> None:
    with pytest.raises(CircuitError, match=message):
        qd.noise.compile(circuit, method=method)
