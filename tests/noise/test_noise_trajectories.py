"""Trajectories against exact density matrices: Pauli frames, waiting times, error bars, equal ones computed once."""

import numpy as np
import pytest
from kraus_reference import density, expectation, noisy_circuit

import qdist as qd
from qdist.backends.errors import StateError
from qdist.noise import jump_rows
from qdist.noise.frames import Frames
from qdist.noise.jumps import Jumps
from qdist.program import batches
from qdist.program.program import Program

DTYPES = ("complex64", "complex128")


def compiled(circuit: qd.Circuit, device: str, dtype: str = "complex128", **options) -> qd.noise.NoisyProgram:
    return qd.noise.compile(circuit, device=device, dtype=dtype, **options)


@pytest.mark.parametrize(("kind", "way"), [("pauli", Frames), ("kraus", Jumps)])
def test_means_are_those_of_the_density_matrix(kind: str, way: type, device: str) -> None:
    circuit, observable, values = noisy_circuit(kind)
    program = compiled(circuit, device)
    assert isinstance(program._drawn, way)
    listed = [observable, "Z2", "X0 Z1"]
    found = program.expectations(listed, values, shots=8000, seed=5)
    for k, one in enumerate(listed):
        exact = expectation(circuit, qd.PauliSum(one), values)
        # Four standard errors: 1 in 16,000 seeds would fail.
        assert abs(found[k] - exact) < 4 * found.standard_error[k]
        assert 0 < found.standard_error[k] < 0.02
    single = program.expectation(observable, values, shots=8000, seed=5)
    assert abs(single - found[0]) < 1e-12
    assert single == program.expectation(observable, values, shots=8000, seed=5)
    assert single != program.expectation(observable, values, shots=8000, seed=6)
    assert (
        abs(compiled(circuit, device, "complex64").expectation(observable, values, shots=8000, seed=5) - single) < 1e-4
    )


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("damped", [False, True])
@pytest.mark.parametrize("strings", ["X", "Z", "XY", "XZ", "YXZ"])
def test_channels_that_never_leave_a_qubit_alone(strings: str, damped: bool, dtype: str) -> None:
    # The first operator is then an error too, or (of a probability of 1) has nothing left of it.
    paulis = {"X": np.array([[0, 1], [1, 0]]), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1, -1])}
    weights = np.arange(1, len(strings) + 1) / sum(range(1, len(strings) + 1))
    channels = [
        qd.noise.kraus([np.sqrt(w) * paulis[s] for s, w in zip(strings, weights)]),
        qd.noise.pauli_channel(dict(zip(strings, weights))),
    ]
    rng = np.random.default_rng(3)
    isometry, _ = np.linalg.qr(rng.normal(size=(8, 4)) + 1j * rng.normal(size=(8, 4)))
    for channel in channels:
        circuit = qd.Circuit(3).ry(0.7, 0).append(channel, 0)
        if damped:
            circuit.kraus(isometry.reshape(2, 4, 4), 1, 2)
        circuit.rx(0.4, 0)
        program = compiled(circuit, "cpu", dtype)
        assert isinstance(program._drawn, Jumps if damped else Frames)
        found = program.expectations(["X0", "Y0", "Z0"], shots=2000, seed=1)
        for k, letter in enumerate("XYZ"):
            exact = expectation(circuit, qd.PauliSum(f"{letter}0"))
            assert abs(found[k] - exact) < 4 * found.standard_error[k] + 1e-5
        probabilities = np.diag(density(circuit)).real
        counted = np.bincount(program.sample(2000, seed=2), minlength=8)
        assert np.all(np.abs(counted - 2000 * probabilities) < 4 * np.sqrt(2000 * probabilities) + 1)


def test_what_is_too_improbable_for_single_precision_never_happens() -> None:
    """150 errors of a probability of 3/4: that none happens is 1e-90, whose root is 0 in float32."""
    circuit = qd.Circuit(13).ry(0.3, range(13))
    for _ in range(150):
        circuit.depolarizing(1, 0)
    circuit.amplitude_damping(0.1, 1).cx(0, 1)
    single, double = (
        compiled(circuit, "cpu", dtype).expectation("Z1", shots=1, seed=1) for dtype in ("complex64", "complex128")
    )
    assert single == pytest.approx(double, abs=1e-5)


@pytest.mark.parametrize("kind", ["pauli", "kraus"])
def test_error_bars_cover_the_exact_value_as_often_as_they_should(kind: str) -> None:
    circuit = qd.Circuit(3).ry(1.9, 0).cx(0, 1).rx(1.6, 2).cz(1, 2)
    for q in range(3):
        circuit.depolarizing(0.3, q) if kind == "pauli" else circuit.amplitude_damping(0.4, q)
    circuit.ry(0.4, 1).cx(1, 2)
    observable = qd.PauliSum({"Z0 Z1": 0.8, "X2": 0.5, "Z1": -0.3})
    exact = expectation(circuit, observable)
    program = compiled(circuit, "cpu")
    runs = [program.expectation(observable, shots=200, seed=seed) for seed in range(1000)]
    scores = np.array([(run - exact) / run.standard_error for run in runs])
    # 68.3 and 95.4 in a hundred, within four standard deviations of such a share of 1,000.
    assert abs((np.abs(scores) < 1).mean() - 0.683) < 0.059
    assert abs((np.abs(scores) < 2).mean() - 0.954) < 0.027
    assert abs(scores.mean()) < 0.13


@pytest.mark.parametrize("kind", ["pauli", "kraus"])
def test_samples_follow_the_density_matrix(kind: str, device: str) -> None:
    circuit, _, values = noisy_circuit(kind)
    shots = 8000
    found = np.bincount(compiled(circuit, device).sample(shots, values, seed=2), minlength=8)
    expected = shots * density(circuit, values).diagonal().real
    # Chi squared of 7 degrees of freedom is below 29.9 for all but 1 in 10,000 seeds.
    assert ((found - expected) ** 2 / expected).sum() < 29.9
    again = compiled(circuit, device).sample(shots, values, seed=2, qubits=[2, 0])
    assert np.bincount(again, minlength=4)[1] == found[4] + found[6]


def test_readout_errors_and_classical_bits(device: str) -> None:
    circuit = qd.Circuit(2, 1).x(0).bit_flip(0.2, 0).readout_error((0.1, 0.3), 0).measure(0, 0)
    program = compiled(circuit, device)
    ones = 0.8 * 0.7 + 0.2 * 0.1
    counts = program.counts(10000, seed=4)
    assert set(counts) == {"0", "1"}
    assert abs(counts["1"] - 10000 * ones) < 4 * np.sqrt(10000 * ones * (1 - ones))
    found = program.expectation("Z0", shots=10000, seed=4)
    assert abs(found - (1 - 2 * ones)) < 4 * found.standard_error


@pytest.mark.parametrize("kind", ["pauli", "kraus"])
def test_gradients_of_trajectories(kind: str, device: str) -> None:
    circuit, observable, values = noisy_circuit(kind)
    exact = qd.noise.compile(circuit, method="density_matrix", dtype="complex128", device=device)
    _, gradient = exact.value_and_grad(observable, values)
    program = compiled(circuit, device)
    parts = [program.value_and_grad(observable, values, shots=60, seed=seed) for seed in range(24)]
    found = np.array([part for _, part in parts])
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - gradient) < 4.5 * error + 1e-12).all()
    value, _ = parts[3]
    again = program.expectation(observable, values, shots=60, seed=3)
    assert value == again if device == "cpu" else abs(value - again) < 1e-12  # A GPU runs another kernel.
    rows, gradients = program.value_and_grad(observable, np.array([values, values]), shots=60, seed=3)
    assert rows[0] == value
    np.testing.assert_array_equal(gradients[0], found[3])
    assert rows[1] != value  # Other trajectories.


def test_gradients_of_pauli_trajectories_are_those_of_the_seeds_mean() -> None:
    circuit, observable, values = noisy_circuit("pauli")
    program = compiled(circuit, "cpu")
    _, gradient = program.value_and_grad(observable, values, shots=50, seed=1)
    step = 1e-5
    for k in range(len(values)):
        up, down = (
            program.expectation(observable, values + s * step * np.eye(6)[k], shots=50, seed=1) for s in (1, -1)
        )
        assert abs(gradient[k] - (up - down) / (2 * step)) < 1e-8


@pytest.mark.parametrize("num_qubits", [3, 6])
def test_rows_and_tree_are_the_same_trajectories(num_qubits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, observable, values = noisy_circuit("kraus", num_qubits)
    in_rows = compiled(circuit, "cpu")
    monkeypatch.setattr(jump_rows, "fits", lambda programs: False)
    one_by_one = compiled(circuit, "cpu")
    assert in_rows._drawn._in_rows
    assert not one_by_one._drawn._in_rows
    for seed in range(3):
        a, b = (p._drawn.values([observable], values, 40, np.random.default_rng(seed)) for p in (in_rows, one_by_one))
        np.testing.assert_allclose(a, b, atol=1e-10)
    assert np.array_equal(in_rows.sample(50, values, seed=1), one_by_one.sample(50, values, seed=1))
    _, gradient = in_rows.value_and_grad(observable, values, shots=20, seed=2)
    np.testing.assert_allclose(one_by_one.value_and_grad(observable, values, shots=20, seed=2)[1], gradient, atol=1e-10)


def test_rows_in_parts_are_the_same_trajectories(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, observable, values = noisy_circuit("kraus")
    program = compiled(circuit, "cpu")
    whole = program.expectation(observable, values, shots=50, seed=1)
    monkeypatch.setattr(jump_rows, "_MOST_AMPLITUDES", 8 * 7)
    assert abs(program.expectation(observable, values, shots=50, seed=1) - whole) < 1e-12


def test_equal_trajectories_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    a = qd.ParameterVector("a", 4)
    circuit = qd.Circuit(4)
    for q in range(4):
        circuit.ry(a[q], q).depolarizing(0.001, q)
    circuit.cx(0, 1).cx(1, 2).rz(a[0], 2).depolarizing(0.001, 2)
    program = compiled(circuit, "cpu")
    plans, rows = [], []
    compile_once, values = Program.__init__, batches.output_values
    monkeypatch.setattr(Program, "__init__", lambda *x, **y: (plans.append(1), compile_once(*x, **y))[1])
    monkeypatch.setattr(batches, "output_values", lambda p, o, theta: (rows.append(len(theta)), values(p, o, theta))[1])
    program.expectation("Z0 Z3", np.ones(4), shots=5000, seed=0)
    assert not plans  # Errors are drawn before anything is planned, and need no plan of their own.
    assert sum(rows) < 12  # Two of the errors before rz anticommute with it: few sets of signs in 5,000 trajectories.
    # Without a gate that could tell errors apart, all trajectories are one.
    clifford = qd.Circuit(3).h(0).depolarizing(0.5, 0).cx(0, 1).depolarizing(0.5, 1).cx(1, 2).s(2).depolarizing(0.5, 2)
    rows.clear()
    found = compiled(clifford, "cpu").expectation("Z0 Z1", shots=1000, seed=0)
    assert sum(rows) == 1
    assert abs(found - expectation(clifford, qd.PauliSum("Z0 Z1"))) < 4 * found.standard_error


def test_jumps_run_once_where_nobody_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = qd.Circuit(3).h([0, 1, 2]).amplitude_damping(1e-9, [0, 1, 2]).cx(0, 1).amplitude_damping(1e-9, 1)
    program = compiled(circuit, "cpu")
    runs = []
    run = Program.run_each
    monkeypatch.setattr(Program, "run_each", lambda p, v, states: (runs.append(len(states)), run(p, v, states))[1])
    program.expectation("X0", shots=10000, seed=0)
    assert runs == [1, 1]  # Two layers of one row.


def test_states_too_large_for_rows(device: str) -> None:
    circuit = qd.Circuit(13)
    for q in range(13):
        circuit.ry(0.1 * q + 0.2, q)
    circuit.cx(0, 12).amplitude_damping(0.5, 12).depolarizing(0.2, 0)
    rho = density(qd.Circuit(2).ry(0.2, 0).ry(1.4, 1).cx(0, 1).amplitude_damping(0.5, 1).depolarizing(0.2, 0))
    exact = float((rho.diagonal().real * [1, -1, -1, 1]).sum())
    program = compiled(circuit, device, "complex64")
    found = program.expectation("Z0 Z12", shots=300, seed=3)
    assert abs(found - exact) < 4 * found.standard_error
    signs = 1 - 2 * (np.bitwise_count(program.sample(300, seed=3) & 0b1000000000001) & 1).astype(int)
    assert abs(signs.mean() - exact) < 4 / np.sqrt(300)
    pauli = qd.Circuit(13).ry(0.7, 0).depolarizing(0.3, 0).ry(0.2, 0)
    samples = compiled(pauli, device, "complex64").sample(2000, seed=1, qubits=[0])
    exact = density(qd.Circuit(1).ry(0.7, 0).depolarizing(0.3, 0).ry(0.2, 0))[1, 1].real
    assert abs(samples.mean() - exact) < 4 * np.sqrt(exact / 2000)


@pytest.mark.parametrize(("num_qubits", "layers", "strength"), [(14, 3, 0.05), (13, 20, 0.002), (6, 20, 0.002)])
def test_both_precisions_draw_the_same_trajectories(num_qubits: int, layers: int, strength: float, device: str) -> None:
    circuit = qd.Circuit(num_qubits)
    for layer in range(layers):
        for q in range(num_qubits):
            circuit.ry(0.3 + 0.1 * q + 0.2 * layer, q)
        for q in range(layer % 2, num_qubits - 1, 2):
            circuit.cx(q, q + 1)
        for q in range(num_qubits):
            circuit.depolarizing(strength, q).amplitude_damping(strength / 2, q)
    single, double = (
        compiled(circuit, device, dtype).expectation("Z0 Z1", shots=60, seed=1) for dtype in ("complex64", "complex128")
    )
    assert abs(single - double) < 1e-5
    if num_qubits == 6:
        exact = compiled(circuit, device, "complex64", method="density_matrix").expectation("Z0 Z1")
        assert abs(single - exact) < 4 * single.standard_error


def test_samples_of_many_states_in_a_call_are_those_of_one_by_one(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    program = compiled(qd.Circuit(13).ry(0.7, 0).h(4).depolarizing(0.3, 0).depolarizing(0.5, 4).ry(0.2, 0).t(4), device)
    calls = []
    whole = Program.run_rows
    monkeypatch.setattr(Program, "run_rows", lambda self, theta: calls.append(len(theta)) or whole(self, theta))
    together = program.sample(50, seed=4)
    assert len(calls) == 1
    assert calls[0] > 1
    monkeypatch.setattr(batches, "_MOST_QUBITS", 12)
    np.testing.assert_array_equal(program.sample(50, seed=4), together)
    assert len(calls) == 1


def test_circuits_without_noise_parameters_or_gates(device: str) -> None:
    ideal = qd.Circuit(2).h(0).cx(0, 1)
    found = compiled(ideal, device).expectation("Z0 Z1", shots=10, seed=0)
    assert abs(found - 1) < 1e-12
    assert found.standard_error < 1e-12
    assert abs(compiled(qd.Circuit(1).bit_flip(1.0, 0), device).expectation("Z0", shots=10, seed=0) + 1) < 1e-12
    assert abs(compiled(qd.Circuit(1).x(0).amplitude_damping(1.0, 0), device).expectation("Z0", shots=10) - 1) < 1e-12
    assert compiled(qd.Circuit(2), device).counts(5, seed=0) == {"00": 5}
    assert compiled(qd.Circuit(2).bit_flip(0.1, 0), device).expectation({"": 2.0}, shots=5, seed=0) == 2
    assert compiled(ideal, device).sample(0).shape == (0,)
    _, gradient = compiled(ideal.copy().bit_flip(0.1, 0), device).value_and_grad("Z0", shots=5, seed=0)
    assert gradient.shape == (0,)
    a = qd.Parameter("a")
    assert repr(compiled(qd.Circuit(1).rx(a, 0).bit_flip(0.1, 0), device)) == (
        "<NoisyProgram: 1 qubits, 1 channels, trajectories>"
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.expectation("Z0"), r"gives a mean over runs: say how many, shots=1000; method='density_matrix'"),
        (lambda p: p.expectation("Z0", shots=0), r"shots=0: a mean needs at least one"),
        (lambda p: p.expectation("Z0", shots=2.5), r"2.5"),
        (lambda p: p.density_matrix(), r"density_matrix\(\) is for method='density_matrix'"),
        (lambda p: p.probabilities(), r"probabilities\(\) is for method='density_matrix'"),
        (lambda p: p.value_and_grad("Z0"), r"say how many"),
    ],
)
def test_wrong_questions_to_trajectories(ask, message: str) -> None:
    with pytest.raises(StateError, match=message):
        ask(compiled(qd.Circuit(2).h(0).bit_flip(0.1, 0), "cpu"))
