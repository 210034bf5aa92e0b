"""Circuits that measure: at the end it disturbs nothing, mid-circuit the state is that of one outcome, and says so."""

import numpy as np
import pytest

import qdist as qd
from qdist.backends.errors import StateError
from qdist.state import reference


def ghz(n: int) -> qd.Circuit:
    circuit = qd.Circuit(n).h(0)
    for q in range(n - 1):
        circuit.cx(q, q + 1)
    return circuit


def ansatz(n: int = 4) -> tuple[qd.Circuit, np.ndarray]:
    circuit = qd.library.hardware_efficient(n, 2)
    return circuit, np.random.default_rng(1).normal(size=circuit.num_parameters)


def coin() -> qd.Circuit:
    """Qubit 1 is 1 where qubit 0 was found in 1: with probability 0.3."""
    circuit = qd.Circuit(2, 2).ry(2 * np.arcsin(np.sqrt(0.3)), 0).measure(0, 0)
    with circuit.if_(0, 1):
        circuit.x(1)
    return circuit.measure(1, 1)


# At the end -----------------------------------------------------------------------------------------------------------


def test_counts_of_a_state_are_those_of_the_classical_bits() -> None:
    state = qd.simulate(ghz(3).measure_all())
    counts = state.counts(1000, seed=1)
    assert set(counts) == {"000", "111"}
    assert abs(counts["000"] - 500) < 100
    assert not state.is_random
    # Wherever the bits are, in copies too, and once more by qubits.
    spread = qd.simulate(qd.Circuit(2, 5).x(0).measure(0, 3).measure(1, 0)).copy()
    assert spread.counts(10) == {"01000": 10}
    assert spread.counts(10, qubits=[0, 1]) == {"01": 10}
    assert spread.sample(3).tolist() == [1, 1, 1]
    np.testing.assert_allclose(spread.probabilities(), [0, 1, 0, 0], atol=1e-6)
    # A circuit that measures nothing has none, whatever ran in the same memory before.
    assert qd.compile(qd.Circuit(2).x(1)).run(out=spread).counts(4) == {"10": 4}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_states_values_and_gradients_are_those_without_the_measurements(dtype: str) -> None:
    circuit, params = ansatz()
    plain, measured = (qd.compile(c, dtype=dtype) for c in (circuit, circuit.copy().barrier().measure_all()))
    observable = qd.PauliSum({"Z0": 1.0, "X1 X2": 0.5, "Y3": -0.3})
    batch = np.stack([params, 2 * params])
    state = qd.StateVector(4, dtype)
    for seed in range(3):
        got, want = measured.run(params, seed=seed), plain.run(params)
        np.testing.assert_array_equal(got.amplitudes(), want.amplitudes())
        np.testing.assert_array_equal(measured.run(params, out=state).amplitudes(), want.amplitudes())
    assert measured.expectation(observable, params) == plain.expectation(observable, params)
    for method in ("adjoint", "parameter-shift", "finite-difference"):
        for values in (params, batch):
            got, want = (p.value_and_grad(observable, values, method=method) for p in (measured, plain))
            np.testing.assert_array_equal(got[0], want[0])
            np.testing.assert_array_equal(got[1], want[1])
    np.testing.assert_array_equal(measured.expectation(observable, batch), plain.expectation(observable, batch))
    np.testing.assert_array_equal(measured.jacobian([observable], batch), plain.jacobian([observable], batch))
    np.testing.assert_array_equal(measured.run_batch(batch), plain.run_batch(batch))
    outputs = [qd.Probabilities([1, 3]), qd.Variance(observable)]
    got, want = (p.vjp(outputs, params, [np.arange(4.0), 2.0]) for p in (measured, plain))
    np.testing.assert_array_equal(got[1], want[1])


def test_a_layer_of_a_measured_circuit_is_that_of_the_circuit() -> None:
    circuit, params = ansatz()
    layers = [
        qd.nn.QuantumLayer(c, ["Z0", "X1"], weights=circuit.parameters, initial=params, dtype="complex128")
        for c in (circuit, circuit.copy().measure_all())
    ]
    outputs = [layer() for layer in layers]
    np.testing.assert_array_equal(outputs[0].numpy(), outputs[1].numpy())
    for out in outputs:
        out.sum().backward()
    np.testing.assert_array_equal(layers[0].weights.grad.numpy(), layers[1].weights.grad.numpy())


def test_bits_are_a_fair_draw_that_a_seed_repeats() -> None:
    circuit = qd.Circuit(3, 4).h(0).cx(0, 1).x(2)
    circuit.measure(0, 3).measure(1, 1).measure(2, 0)
    program = qd.compile(circuit)
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(200):
        program.run(seed=seed)
        seen[program.bits] = seen.get(program.bits, 0) + 1
        if seed < 5:
            first = program.bits
            program.run(seed=seed)
            assert program.bits == first
    assert set(seen) == {(1, 0, 0, 0), (1, 1, 0, 1)}
    assert abs(seen[1, 0, 0, 0] - 100) < 40


def test_a_qubit_that_is_measured_twice_and_bits_that_are_written_twice() -> None:
    circuit = qd.Circuit(2, 3).h(0).x(1).measure(0, 0).measure(0, 2).measure(0, 1).measure(1, 1)
    counts = qd.compile(circuit).counts(400, seed=2)
    assert set(counts) == {"010", "111"}
    exact = {"".join(map(str, bits[::-1])): p for p, bits, _ in reference.branches(circuit)}
    assert set(counts) == set(exact)


def test_a_measurement_before_gates_on_other_qubits_disturbs_nothing_either() -> None:
    circuit = qd.Circuit(2, 1).h(0).cx(0, 1).measure(0, 0).barrier().ry(0.4, 1)
    program = qd.compile(circuit, dtype="complex128")
    assert not program.is_random
    want = reference.state(circuit.remove_final_measurements())
    np.testing.assert_allclose(program.run(seed=1).amplitudes(), want, atol=1e-14)
    assert abs(program.counts(1000, seed=3)["0"] - 500) < 100


def test_resets_of_qubits_that_are_still_zero_leave_a_circuit_unitary(monkeypatch) -> None:
    theta = qd.Parameter("theta")
    program = qd.compile(qd.Circuit(2, 2).reset([0, 1]).ry(theta, 0).cx(0, 1).measure_all(), dtype="complex128")
    assert not program.is_random
    value, gradient = program.value_and_grad("Z1", [0.4])
    assert value == pytest.approx(np.cos(0.4), abs=1e-14)
    assert gradient[0] == pytest.approx(-np.sin(0.4), abs=1e-14)
    # With a given start the resets count.
    start = qd.StateVector.from_amplitudes(np.full(4, 0.5), "complex128")
    state = program.run([0.4], initial=start, seed=1)
    assert state.is_random
    assert state.expectation("Z1") == pytest.approx(np.cos(0.4), abs=1e-12)


def test_the_state_of_a_circuit_that_was_compiled_is_sampled_without_compiling_again(monkeypatch) -> None:
    from qdist.program import source as program_module

    program = qd.compile(ghz(4).measure_all())
    monkeypatch.setattr(program_module, "make_plan", None)
    assert sum(program.counts(100, seed=0).values()) == 100
    assert program.counts(100, seed=0) == program.counts(100, seed=0)


# On the way -----------------------------------------------------------------------------------------------------------


def test_a_state_of_one_outcome_says_so() -> None:
    program = qd.compile(coin(), dtype="complex128")
    assert program.is_random
    state = program.run(seed=3)
    for one in (state, state.copy()):
        assert one.is_random
        assert "one outcome" in repr(one)
        with pytest.raises(StateError, match=r"compile\(circuit\)\.counts\(shots\)"):
            one.counts(10)
    # Of that outcome everything is known.
    assert state.counts(10, qubits=[0, 1]) == {"11" if program.bits[0] else "00": 10}
    assert state.expectation("Z1") == pytest.approx(1 - 2 * program.bits[0], abs=1e-12)
    # It stays so in what is made of it, and no longer where something else ran.
    unitary = qd.compile(qd.Circuit(2).h(0), dtype="complex128")
    assert unitary.run(initial=state).is_random
    assert not unitary.run(out=state).is_random
    assert "outcome" not in repr(state)


@pytest.mark.parametrize("circuit", [coin(), qd.Circuit(2).h(0).cx(0, 1).reset(0)], ids=["measures", "resets"])
def test_expectation_values_of_random_circuits_are_refused_or_averaged(circuit: qd.Circuit) -> None:
    program = qd.compile(circuit, dtype="complex128")
    with pytest.raises(StateError, match="shots=1000"):
        program.expectation("Z1")
    with pytest.raises(StateError, match="shots=1000"):
        program.expectation("Z1", np.zeros((2, 0)))
    for call in (program.value_and_grad, lambda o: program.jacobian([o]), lambda o: program.vjp([o], None, [1.0])):
        with pytest.raises(StateError, match="only unitary circuits"):
            call("Z1")
    want = reference.expectation(circuit, qd.PauliSum("Z1"))
    got = program.expectation("Z1", shots=1500, seed=4)
    assert abs(got - want) < 5 / np.sqrt(1500)
    assert got == program.expectation("Z1", shots=1500, seed=4)
    assert program.expectation("Z1", np.zeros((2, 0)), shots=20, seed=5).shape == (2,)
    with pytest.raises(StateError, match="at least one run"):
        program.expectation("Z1", shots=0)


def test_shots_where_all_runs_are_the_same_are_measurements_of_their_state() -> None:
    found = qd.compile(ghz(2).measure_all()).expectation("Z0 Z1", shots=100)
    assert (found, found.standard_error) == (pytest.approx(1), pytest.approx(0, abs=1e-12))


def test_counts_of_a_circuit_that_resets_on_the_way_are_over_runs() -> None:
    # Qubit 1 is a fair coin after qubit 0 was reset, and one run would show one side of it.
    counts = qd.compile(qd.Circuit(2).h(0).cx(0, 1).reset(0)).counts(300, seed=1)
    assert set(counts) == {"00", "10"}
    assert abs(counts["00"] - 150) < 50


def test_bits_measured_on_the_way_and_at_the_end_belong_together() -> None:
    counts = qd.compile(coin()).counts(600, seed=7)
    assert set(counts) == {"00", "11"}
    assert abs(counts["11"] - 180) < 60


@pytest.mark.parametrize("begin", ["initialize", "reset"])
def test_what_measures_a_given_state_is_refused_where_no_seed_is_taken(begin: str) -> None:
    theta = qd.Parameter("theta")
    circuit = qd.Circuit(2)
    prepared = circuit.initialize([0.6, 0.8], [0]) if begin == "initialize" else circuit.reset(0)
    program = qd.compile(prepared.ry(theta, 1).cx(1, 0).ry(0.3, 1), dtype="complex128")
    layer = qd.nn.QuantumLayer(circuit, ["Z1"], weights=[theta], amplitudes=True, initial=[0.4], dtype="complex128")
    bell, zero = np.array([1, 0, 0, 1]) / np.sqrt(2), np.array([0.6, 0, 0.8, 0])
    calls = [
        lambda start: program.value_and_grad("Z1", [0.4], initial=start)[0],
        lambda start: program.vjp(["Z1"], [0.4], [1.0], initial=start)[0][0],
        lambda start: program.vjp(["Z1"], [[0.4]], [np.ones(1)], initial=[start])[0][0][0],
        lambda start: layer(qd.Tensor(start[None])).data[0, 0],
    ]
    for call in calls:
        with pytest.raises(StateError, match=rf"{begin} of qubit 0.* with a random outcome"):
            call(bell)
        # A qubit that is 0 is found in 0.
        turned = qd.Circuit(2).initialize(np.kron(zero[::2], [0.6, 0.8] if begin == "initialize" else [1, 0]))
        turned.ry(0.4, 1).cx(1, 0).ry(0.3, 1)
        assert call(zero) == pytest.approx(qd.simulate(turned, dtype="complex128").expectation("Z1"), abs=1e-12)


def test_a_batch_from_given_states_has_no_measurements_on_the_way() -> None:
    program = qd.compile(coin().h(0), dtype="complex128")
    with pytest.raises(StateError, match="cannot run as a batch"):
        program.run_batch([], initial=[np.array([1.0, 0, 0, 0])])
