"""The reference simulator against facts that do not come from it: known states, identities, Qiskit."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import circuits, random_unitary

from qdist.circuit import GATES, Circuit, CircuitError, Parameter, ParameterVector, PauliSum
from qdist.state import reference

few = settings(max_examples=40, deadline=None, derandomize=True)
ROOT = math.sqrt(0.5)


def random_state(num_qubits: int, seed: int) -> np.ndarray:
    return random_unitary(1 << num_qubits, seed)[0]


def random_hermitian(size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
    return matrix + matrix.conj().T


# Known states and identities.


def test_qubit_zero_is_the_lowest_bit() -> None:
    for qubit in range(3):
        assert np.flatnonzero(reference.state(Circuit(3).x(qubit))).tolist() == [1 << qubit]
    assert np.flatnonzero(reference.state(Circuit(3).x(2).cx(2, 0))).tolist() == [0b101]


def test_bell_states() -> None:
    np.testing.assert_allclose(reference.state(Circuit(2).h(0).cx(0, 1)), [ROOT, 0, 0, ROOT], atol=1e-15)
    singlet = Circuit(2).x([0, 1]).h(0).cx(0, 1)
    np.testing.assert_allclose(reference.state(singlet), [0, -ROOT, ROOT, 0], atol=1e-15)


def test_ghz_state() -> None:
    circuit = Circuit(5).h(0)
    for q in range(4):
        circuit.cx(q, q + 1)
    expected = np.zeros(32)
    expected[[0, 31]] = ROOT
    np.testing.assert_allclose(reference.state(circuit), expected, atol=1e-15)


def test_w_state() -> None:
    """One excitation shared equally, by the cascade of controlled rotations."""
    circuit = Circuit(4).x(0)
    for q in range(3):
        circuit.cry(2 * math.acos(math.sqrt(1 / (4 - q))), q, q + 1).cx(q + 1, q)
    expected = np.zeros(16)
    expected[[1, 2, 4, 8]] = 0.5
    np.testing.assert_allclose(reference.state(circuit), expected, atol=1e-15)


def test_fourier_transform_is_the_fourier_matrix() -> None:
    num_qubits = 4
    circuit = Circuit(num_qubits)
    for q in reversed(range(num_qubits)):
        circuit.h(q)
        for lower in range(q):
            circuit.cp(math.pi / (1 << (q - lower)), lower, q)
    for q in range(num_qubits // 2):
        circuit.swap(q, num_qubits - 1 - q)
    size = 1 << num_qubits
    fourier = np.exp(2j * np.pi * np.outer(np.arange(size), np.arange(size)) / size) / math.sqrt(size)
    np.testing.assert_allclose(reference.unitary(circuit), fourier, atol=1e-14)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Circuit(1).h(0).x(0).h(0), Circuit(1).z(0)),
        (Circuit(1).s(0).s(0), Circuit(1).z(0)),
        (Circuit(1).t(0).t(0), Circuit(1).s(0)),
        (Circuit(1).sx(0).sx(0), Circuit(1).x(0)),
        (Circuit(1).rz(0.3, 0).gphase(0.15), Circuit(1).p(0.3, 0)),
        (Circuit(1).u(0.3, 0.4, 0.5, 0), Circuit(1).rz(0.5, 0).ry(0.3, 0).rz(0.4, 0).gphase(0.45)),
        (Circuit(1).r(0.3, 0.4, 0), Circuit(1).rz(-0.4, 0).rx(0.3, 0).rz(0.4, 0)),
        (Circuit(2).h(1).cx(0, 1).h(1), Circuit(2).cz(0, 1)),
        (Circuit(2).h([0, 1]).cx(0, 1).h([0, 1]), Circuit(2).cx(1, 0)),
        (Circuit(2).cx(0, 1).cx(1, 0).cx(0, 1), Circuit(2).swap(0, 1)),
        (Circuit(2).cx(0, 1).cx(1, 0), Circuit(2).dcx(0, 1)),
        (Circuit(2).cx(0, 1).rz(0.3, 1).cx(0, 1), Circuit(2).rzz(0.3, 0, 1)),
        (Circuit(2).h([0, 1]).rzz(0.3, 0, 1).h([0, 1]), Circuit(2).rxx(0.3, 0, 1)),
        (Circuit(2).rxx(-math.pi / 2, 0, 1).ryy(-math.pi / 2, 0, 1), Circuit(2).iswap(0, 1)),
        (Circuit(2).rxx(0.35, 0, 1).ryy(0.35, 0, 1).cp(-0.2, 0, 1), Circuit(2).fsim(0.35, 0.2, 0, 1)),
        (Circuit(2).rzx(math.pi / 4, 0, 1).x(0).rzx(-math.pi / 4, 0, 1), Circuit(2).ecr(0, 1)),
        (Circuit(3).ccx(0, 1, 2).ccx(0, 2, 1).ccx(0, 1, 2), Circuit(3).cswap(0, 1, 2)),
        (Circuit(3).h(2).ccz(0, 1, 2).h(2), Circuit(3).ccx(0, 1, 2)),
        (Circuit(3).x(0).ccx(0, 1, 2).x(0), Circuit(3).mcx([0, 1], 2, "10")),
        (Circuit(2).pauli_rotation(0.3, "XZ", [0, 1]), Circuit(2).rzx(0.3, 0, 1)),
    ],
)
def test_textbook_identities(left: Circuit, right: Circuit) -> None:
    np.testing.assert_allclose(reference.unitary(left), reference.unitary(right), atol=1e-14)


@few
@given(circuits(max_qubits=3, max_gates=6))
def test_unitary_is_the_product_of_embedded_matrices(circuit: Circuit) -> None:
    """Each gate's matrix, put into the full space entry by entry."""
    expected = np.eye(1 << circuit.num_qubits, dtype=complex)
    for gate, qubits, params, *_ in circuit:
        small, embedded = gate.matrix(*params), np.zeros_like(expected)
        rest = sum(1 << q for q in range(circuit.num_qubits) if q not in qubits)
        for row in range(len(expected)):
            for column in range(len(expected)):
                if (row ^ column) & rest == 0:
                    i = sum((row >> q & 1) << k for k, q in enumerate(qubits))
                    j = sum((column >> q & 1) << k for k, q in enumerate(qubits))
                    embedded[row, column] = small[i, j]
        expected = embedded @ expected
    np.testing.assert_allclose(reference.unitary(circuit), expected, atol=1e-12)
    np.testing.assert_allclose(reference.state(circuit), expected[:, 0], atol=1e-12)


def test_random_circuits_equal_qiskits() -> None:
    quantum_info = pytest.importorskip("qiskit.quantum_info")
    qiskit = pytest.importorskip("qiskit")
    shared = [
        gate
        for name, gate in GATES.items()
        if hasattr(qiskit.QuantumCircuit, name) and gate.name == name and gate.num_qubits <= 4
    ]
    assert len(shared) > 35
    rng = np.random.default_rng(11)
    for _ in range(5):
        circuit, theirs = Circuit(4), qiskit.QuantumCircuit(4)
        for index in rng.integers(len(shared), size=40):
            gate = shared[index]
            angles = rng.uniform(-3, 3, gate.num_params).tolist()
            qubits = rng.permutation(4)[: gate.num_qubits].tolist()
            for target in (circuit, theirs):
                getattr(target, gate.name)(*angles, *qubits)
        np.testing.assert_allclose(reference.unitary(circuit), quantum_info.Operator(theirs).data, atol=1e-12)
        amplitudes = quantum_info.Statevector(theirs).data
        np.testing.assert_allclose(reference.state(circuit), amplitudes, atol=1e-12)


def test_data_gates_and_qubit_order_equal_qiskits() -> None:
    quantum_info = pytest.importorskip("qiskit.quantum_info")
    qiskit = pytest.importorskip("qiskit")
    library = pytest.importorskip("qiskit.circuit.library")
    unitary, phases = random_unitary(4, 3), np.exp(1j * np.arange(8))
    theirs = qiskit.QuantumCircuit(4)
    theirs.append(library.UnitaryGate(unitary), [3, 1])
    theirs.append(library.DiagonalGate(list(phases)), [2, 0, 1])
    pauli = quantum_info.Pauli("XZY").to_matrix()
    rotation = math.cos(0.15) * np.eye(8) - 1j * math.sin(0.15) * pauli
    theirs.append(library.UnitaryGate(rotation), [0, 3, 2])
    ours = Circuit(4).unitary(unitary, [3, 1]).diagonal(phases, [2, 0, 1])
    ours.pauli_rotation(0.3, "XZY", [0, 3, 2])
    np.testing.assert_allclose(reference.unitary(ours), quantum_info.Operator(theirs).data, atol=1e-12)


def test_gates_as_wide_as_the_state() -> None:
    """Their matrices would take gigabytes; the states they give are known."""
    n = 13
    ghz = np.zeros(1 << n)
    ghz[0], ghz[-1] = ROOT, ROOT
    circuit = Circuit(n).initialize(ghz)
    flipped = reference.state(circuit.copy().mcx(range(n - 1), n - 1))
    assert np.flatnonzero(np.abs(flipped) > 0.1).tolist() == [0, (1 << (n - 1)) - 1]
    turned = reference.state(circuit.copy().pauli_rotation(math.pi / 2, "X" * n, range(n)))
    np.testing.assert_allclose(turned[[0, -1]], ghz[0] * ROOT * (1 - 1j) * np.ones(2), atol=1e-14)
    shifted = reference.state(circuit.copy().permutation(np.roll(np.arange(1 << n), -1), range(n)))
    np.testing.assert_allclose(shifted[[1, 0]], [ROOT, ROOT])
    phases = np.exp(1j * np.arange(1 << n))
    np.testing.assert_allclose(reference.state(circuit.copy().diagonal(phases, range(n))), phases * ghz)


# Initial states.


def test_initial_states() -> None:
    plus, one = [ROOT, ROOT], [0, 1]
    np.testing.assert_allclose(reference.state(Circuit(3).initialize("110")), np.eye(8)[6])
    np.testing.assert_allclose(reference.state(Circuit(3).initialize(1, [2, 0])), np.eye(8)[4])
    product = reference.state(Circuit(2).initialize([plus, one]))
    np.testing.assert_allclose(product, [0, 0, ROOT, ROOT])
    given_state = random_state(2, 3)
    ordered = reference.state(Circuit(3).initialize(given_state, [1, 2]))
    np.testing.assert_allclose(ordered, np.kron(given_state, [1, 0]))
    turned = reference.state(Circuit(2).initialize(given_state, [1, 0]))
    np.testing.assert_allclose(turned, given_state[[0, 2, 1, 3]])
    np.testing.assert_allclose(
        reference.state(Circuit(2).h(0), initial=given_state),
        reference.unitary(Circuit(2).h(0)) @ given_state,
    )


def test_initialize_discards_what_was_there() -> None:
    circuit = Circuit(2).h(0).ry(0.7, 1).initialize(1, 0)
    expected = np.kron([math.cos(0.35), math.sin(0.35)], [0, 1])
    np.testing.assert_allclose(reference.state(circuit), expected, atol=1e-15)


# Measurement and classical control.


def test_measurement_branches_are_exact() -> None:
    circuit = Circuit(2, 2).ry(2 * math.asin(math.sqrt(0.3)), 0).cx(0, 1).measure(0, 1)
    zero, one = reference.branches(circuit)
    assert (zero.clbits, one.clbits) == ((0, 0), (0, 1))
    assert zero.probability == pytest.approx(0.7)
    assert one.probability == pytest.approx(0.3)
    np.testing.assert_allclose(zero.state, [1, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(one.state, [0, 0, 0, 1], atol=1e-15)


def test_certain_outcomes_do_not_branch() -> None:
    circuit = Circuit(2, 1).x(0).measure(0, 0).reset(0)
    assert len(reference.branches(circuit)) == 1
    np.testing.assert_allclose(reference.state(circuit), [1, 0, 0, 0])


def teleportation(theta: float, phi: float) -> Circuit:
    circuit = Circuit(3, 2).u(theta, phi, 0.0, 0)
    circuit.h(1).cx(1, 2)
    circuit.cx(0, 1).h(0).measure([0, 1], [0, 1])
    with circuit.if_(1, 1):
        circuit.x(2)
    with circuit.if_(0, 1):
        circuit.z(2)
    return circuit


def test_teleportation_delivers_the_state_in_every_branch() -> None:
    theta, phi = 0.9, 0.4
    sent = np.array([math.cos(theta / 2), np.exp(1j * phi) * math.sin(theta / 2)])
    outcomes = reference.branches(teleportation(theta, phi))
    assert [outcome.probability for outcome in outcomes] == pytest.approx([0.25] * 4)
    for _, clbits, state in outcomes:
        np.testing.assert_allclose(state.reshape(2, 4)[:, clbits[0] + 2 * clbits[1]], sent, atol=1e-14)


def test_else_branches_and_register_conditions() -> None:
    circuit = Circuit(2, 2).x(0).measure(0, 0)
    with circuit.if_([1, 0], 0b10) as else_:
        circuit.x(1)
    with else_:
        circuit.x(0)
    np.testing.assert_allclose(reference.state(circuit), np.eye(4)[3])


def test_reset_of_an_entangled_qubit_leaves_a_mixture() -> None:
    outcomes = reference.branches(Circuit(2).h(0).cx(0, 1).reset(0))
    assert [outcome.probability for outcome in outcomes] == pytest.approx([0.5, 0.5])
    assert [int(np.argmax(np.abs(outcome.state))) for outcome in outcomes] == [0, 2]
    assert len(reference.branches(Circuit(2).h(0).reset(0))) == 1


@few
@given(circuits(max_qubits=3, max_gates=10, num_clbits=2))
def test_branches_are_normalised_and_complete(circuit: Circuit) -> None:
    outcomes = reference.branches(circuit)
    assert sum(outcome.probability for outcome in outcomes) == pytest.approx(1.0)
    for outcome in outcomes:
        assert np.linalg.norm(outcome.state) == pytest.approx(1.0)


@few
@given(circuits(max_qubits=3, max_gates=10, num_clbits=2), st.integers(0, 1000))
def test_a_run_is_one_of_the_branches_and_repeats_with_its_seed(circuit: Circuit, seed: int) -> None:
    run = reference.run(circuit, seed=seed)
    assert any(
        outcome.clbits == run.clbits and np.allclose(outcome.state, run.state)
        for outcome in reference.branches(circuit)
    )
    again = reference.run(circuit, seed=seed)
    assert again.clbits == run.clbits
    np.testing.assert_array_equal(again.state, run.state)


def test_runs_have_the_probabilities_of_the_branches() -> None:
    circuit = Circuit(2, 2).ry(1.0, 0).measure(0, 0)
    with circuit.if_(0, 1):
        circuit.h(1)
    circuit.measure(1, 1)
    rng = np.random.default_rng(3)
    shots = 2000
    counts = Counter(reference.run(circuit, seed=rng).clbits for _ in range(shots))
    for probability, clbits, _ in reference.branches(circuit):
        deviation = math.sqrt(probability * (1 - probability) / shots)
        assert abs(counts[clbits] / shots - probability) < 5 * deviation


def test_random_outcomes_have_no_single_state() -> None:
    with pytest.raises(CircuitError, match="can end in 2 ways; use run"):
        reference.state(Circuit(1, 1).h(0).measure(0, 0))
    with pytest.raises(CircuitError, match="measure has no unitary"):
        reference.unitary(Circuit(1, 1).measure(0, 0))


# Probabilities, samples, expectations.


def test_probabilities_are_indexed_with_the_first_qubit_lowest() -> None:
    state = random_state(3, 5)
    weights = np.abs(state) ** 2
    expected = np.zeros(4)
    for index, weight in enumerate(weights):
        expected[(index >> 2 & 1) | (index & 1) << 1] += weight
    np.testing.assert_allclose(reference.probabilities(state, [2, 0]), expected)
    np.testing.assert_allclose(reference.probabilities(state), weights)
    np.testing.assert_allclose(reference.probabilities(state, []), [1.0])
    with pytest.raises(CircuitError, match="from 0 to 2"):
        reference.probabilities(state, [3])


def test_samples_follow_the_probabilities() -> None:
    state = random_state(2, 6)
    shots = 20000
    found = np.bincount(reference.sample(state, shots, seed=1), minlength=4) / shots
    expected = np.abs(state) ** 2
    assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected / shots))
    np.testing.assert_array_equal(reference.sample(state, 10, seed=2), reference.sample(state, 10, seed=2))


def test_expectations_of_matrices_and_pauli_sums_agree() -> None:
    state = random_state(3, 7)
    observable = PauliSum({"X0 Y2": 0.5, "Z1": -1.0, "ZZZ": 0.25, "": 2.0})
    matrix = np.zeros((8, 8), dtype=complex)
    x, y, z, one = (GATES[name].matrix() for name in ("x", "y", "z", "id"))
    for coefficient, factors in ((0.5, (y, one, x)), (-1, (one, z, one)), (0.25, (z, z, z)), (2, (one,) * 3)):
        matrix += coefficient * np.kron(np.kron(factors[0], factors[1]), factors[2])
    expected = (state.conj() @ matrix @ state).real
    assert reference.expectation(state, matrix) == pytest.approx(expected)
    assert reference.expectation(state, observable) == pytest.approx(expected)
    assert reference.expectation(state, matrix.tolist()) == pytest.approx(expected)


def test_expectation_after_measurement_is_the_average() -> None:
    z = np.diag([1.0, -1.0])
    circuit = Circuit(1, 1).ry(0.8, 0)
    assert reference.expectation(circuit, z) == pytest.approx(math.cos(0.8))
    assert reference.expectation(circuit.measure(0, 0), z) == pytest.approx(math.cos(0.8))
    assert reference.expectation(circuit, np.array([[0, 1], [1, 0]])) == pytest.approx(0.0)


def test_wrong_arguments_are_refused_with_the_reason() -> None:
    t = Parameter("t")
    with pytest.raises(CircuitError, match="no value is given for parameter t"):
        reference.state(Circuit(1).rx(t, 0))
    with pytest.raises(CircuitError, match=r"shape \(2,\); got \(4,\)"):
        reference.state(Circuit(1), initial=np.eye(4)[0])
    with pytest.raises(CircuitError, match="not Hermitian"):
        reference.expectation([ROOT, ROOT], np.array([[0, 1j], [1j, 0]]))
    with pytest.raises(CircuitError, match=r"shape \(2, 2\); got \(4, 4\)"):
        reference.expectation([1, 0], np.eye(4))
    with pytest.raises(CircuitError, match="observable acts on 3 qubits; the state has 1"):
        reference.expectation([1, 0], PauliSum({"X2": 1.0}))
    with pytest.raises(CircuitError, match=r"shape \(2\*\*n,\); got \(3,\)"):
        reference.probabilities(np.ones(3))
    with pytest.raises(CircuitError, match="up to 20 qubits here; the circuit has 30"):
        reference.state(Circuit(30))
    with pytest.raises(CircuitError, match="up to 12 qubits here; the circuit has 13"):
        reference.unitary(Circuit(13))
    with pytest.raises(CircuitError, match="parameter t must be a number; got s"):
        reference.state(Circuit(1).rx(t, 0), {t: Parameter("s")})


# Derivatives.

PARAMETERS = (Parameter("a"), *ParameterVector("v", 2))


def finite_difference(function: object, theta: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """Fourth-order central differences, one row a parameter."""
    rows = []
    for shift in np.eye(len(theta)) * step:
        near = function(theta + shift) - function(theta - shift)  # type: ignore[operator]
        far = function(theta + 2 * shift) - function(theta - 2 * shift)  # type: ignore[operator]
        rows.append((8 * near - far) / (12 * step))
    return np.array(rows)


@few
@given(circuits(max_qubits=3, max_gates=8, parameters=PARAMETERS), st.integers(0, 100))
def test_gradient_equals_finite_differences(circuit: Circuit, seed: int) -> None:
    theta = np.random.default_rng(seed).uniform(-3, 3, circuit.num_parameters)
    observable = random_hermitian(1 << circuit.num_qubits, seed)
    found = reference.gradient(circuit, observable, theta)
    expected = finite_difference(lambda t: reference.expectation(circuit, observable, t), theta)
    np.testing.assert_allclose(found, expected.reshape(-1), atol=1e-7)


@few
@given(circuits(max_qubits=3, max_gates=8, parameters=PARAMETERS), st.integers(0, 100))
def test_state_jacobian_equals_finite_differences(circuit: Circuit, seed: int) -> None:
    theta = np.random.default_rng(seed).uniform(-3, 3, circuit.num_parameters)
    jacobian = reference.state_jacobian(circuit, theta)
    assert jacobian.shape == (1 << circuit.num_qubits, circuit.num_parameters)
    expected = finite_difference(lambda t: reference.state(circuit, t), theta)
    np.testing.assert_allclose(jacobian.T, expected.reshape(jacobian.T.shape), atol=1e-8)


def test_gradient_equals_the_parameter_shift_rule() -> None:
    v = ParameterVector("v", 3)
    circuit = Circuit(2).ry(v[0], 0).rx(v[1], 1).cx(0, 1).rzz(v[2], 0, 1).h(0).ry(0.3, 1)
    observable = PauliSum({"Z0": 1.0, "X0 Y1": 0.5})
    theta = np.array([0.4, -0.9, 1.3])
    shifts = np.eye(3) * math.pi / 2

    def energy(values: np.ndarray) -> float:
        return reference.expectation(circuit, observable, values)

    expected = [(energy(theta + shift) - energy(theta - shift)) / 2 for shift in shifts]
    np.testing.assert_allclose(reference.gradient(circuit, observable, theta), expected, atol=1e-14)


def test_gradient_of_one_parameter_in_many_gates() -> None:
    a = Parameter("a")
    circuit = Circuit(1).ry(a, 0).ry(2 * a + 0.1, 0).ry(-a / 2, 0)
    # In total ry(2.5 a + 0.1), whose <Z> is a cosine.
    assert reference.gradient(circuit, np.diag([1, -1]), {a: 0.7})[0] == pytest.approx(-2.5 * math.sin(1.85))


def test_gradient_starts_from_given_states() -> None:
    a = Parameter("a")
    circuit = Circuit(1).initialize([ROOT, ROOT]).rz(a, 0)
    x = np.array([[0, 1], [1, 0]])
    assert reference.gradient(circuit, x, [0.3])[0] == pytest.approx(-math.sin(0.3))
    plain = Circuit(1).rz(a, 0)
    assert reference.gradient(plain, x, [0.3], initial=[ROOT, ROOT])[0] == pytest.approx(-math.sin(0.3))


def test_circuits_that_measure_are_not_differentiated() -> None:
    a = Parameter("a")
    with pytest.raises(CircuitError, match="measure cannot be differentiated"):
        reference.gradient(Circuit(1, 1).rx(a, 0).measure(0, 0), np.eye(2), [0.1])
    with pytest.raises(CircuitError, match="initialize cannot be differentiated"):
        reference.gradient(Circuit(1).rx(a, 0).initialize(1), np.eye(2), [0.1])


def test_no_qubits_at_all() -> None:
    circuit = Circuit(0).gphase(0.3)
    np.testing.assert_allclose(reference.state(circuit), [np.exp(0.3j)])
    np.testing.assert_allclose(reference.unitary(circuit), [[np.exp(0.3j)]])
