"""Noise around measurements in the middle and gates under their outcomes, against density matrices of every outcome."""

import numpy as np
import pytest
from kraus_reference import outcomes

import qdist as qd
from qdist.backends.errors import StateError
from qdist.circuit import CircuitError
from qdist.noise import jump_rows
from qdist.noise.noisy import Noisy

METHODS = ("trajectories", "density_matrix")


def repetition_code(p: float, rounds: int) -> qd.Circuit:
    """Three qubits that hold one against bit flips: syndromes by two more qubits, corrections, and resets."""
    circuit = qd.Circuit(5, 5).ry(1.2, 0).cx(0, 1).cx(0, 2)
    for _ in range(rounds):
        circuit.bit_flip(p, [0, 1, 2]).cx(0, 3).cx(1, 3).cx(1, 4).cx(2, 4).measure([3, 4], [0, 1])
        for qubit, syndrome in ((0, 1), (1, 3), (2, 2)):
            with circuit.if_([0, 1], syndrome):
                circuit.x(qubit)
        circuit.reset([3, 4])
    return circuit.measure([0, 1, 2], [2, 3, 4])


def branching(seed: int) -> tuple[qd.Circuit, np.ndarray]:
    """Bits that are written twice, tested together and nested, unequal ones, channels and resets under a condition,
    bits that nothing is measured into, and misread ones."""
    rng = np.random.default_rng(seed)
    t = qd.ParameterVector("t", 4)
    c = qd.Circuit(3, 4).ry(t[0], 0).amplitude_damping(0.2, 0).crx(t[1], 0, 1).depolarizing(0.1, 0, 1)
    c.readout_error([0.1, 0.25], 0).readout_error(0.05, 1).measure(0, 0).measure(1, 2)
    with c.if_(0, 1):
        c.rx(t[2] * t[0], 2).bit_flip(0.2, 2)
        with c.if_([2, 1], 1):
            c.u(t[3], 0.2, t[1], 1).reset(0).amplitude_damping(0.3, 1)
    c.ry(0.7, 0).measure(0, 0)
    with c.if_([0, 2], 2):
        c.cy(2, 0).phase_damping(0.3, 2).gphase(0.4)
    with c.if_(1, 1):
        c.x([0, 1, 2])
    text = 'OPENQASM 3; include "stdgates.inc"; qubit[3] q; bit[4] c; if (c != 5) { h q[1]; } else { y q[2]; }'
    c.compose(qd.Circuit.from_qasm(text), inplace=True)
    return c, rng.normal(size=4)


def values_of(circuit: qd.Circuit, observable: qd.PauliSum, params: object) -> float:
    rho = sum(outcomes(circuit, params).values())
    return float(np.trace(observable.to_matrix(circuit.num_qubits) @ rho).real)


@pytest.mark.parametrize("seed", [0, 1])
def test_density_matrices_are_the_sum_over_all_outcomes(seed: int, device: str) -> None:
    circuit, params = branching(seed)
    found = qd.noise.compile(circuit, method="density_matrix", dtype="complex128", device=device)
    rho = sum(outcomes(circuit, params).values())
    np.testing.assert_allclose(found.density_matrix(params), rho, atol=1e-12)
    np.testing.assert_allclose(found.probabilities(params), rho.diagonal().real, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_classical_bits_are_counted_as_they_were_read(method: str, device: str) -> None:
    circuit, params = branching(2)
    circuit.measure(2, 3).measure(1, 2)
    expected = {bits: 20000 * np.trace(rho).real for bits, rho in outcomes(circuit, params).items()}
    found = qd.noise.compile(circuit, method=method, device=device).counts(20000, params, seed=4)
    likely = {"".join(map(str, bits[::-1])): count for bits, count in expected.items() if count > 1e-9}
    assert len(likely) > 6
    assert set(found) <= set(likely)
    # Chi squared of up to 15 degrees of freedom is below 44.3 for all but 1 in 10,000 seeds.
    assert sum((found.get(bits, 0) - count) ** 2 / count for bits, count in likely.items()) < 44.3


def test_trajectories_have_the_mean_over_all_outcomes(device: str) -> None:
    circuit, params = branching(3)
    circuit = circuit.with_instructions([i for i in circuit if i.gate.kind != "readout"])
    observable = qd.PauliSum({"Z0 Z1": 1.0, "X2": 0.6, "Y1 Z2": -0.4})
    found = qd.noise.compile(circuit, device=device).expectation(observable, params, shots=4000, seed=1)
    # Four standard errors: 1 in 16,000 seeds would fail.
    assert abs(found - values_of(circuit, observable, params)) < 4 * found.standard_error


def test_gradients_go_through_branches(device: str) -> None:
    circuit, params = branching(4)
    circuit = circuit.with_instructions([i for i in circuit if i.gate.kind != "readout"])
    observable = qd.PauliSum({"Z0 Z1": 1.0, "X2": 0.6, "Y1 Z2": -0.4})
    exact = qd.noise.compile(circuit, method="density_matrix", dtype="complex128", device=device)
    _, gradient = exact.value_and_grad(observable, params)
    steps = 1e-5 * np.eye(4)
    differences = [
        (values_of(circuit, observable, params + h) - values_of(circuit, observable, params - h)) / 2e-5 for h in steps
    ]
    np.testing.assert_allclose(gradient, differences, atol=1e-8)
    _, estimate = qd.noise.compile(circuit, device=device).value_and_grad(observable, params, shots=4000, seed=3)
    np.testing.assert_allclose(estimate, gradient, atol=0.1)


def test_gradients_of_branches_are_refused_with_the_way_to_them() -> None:
    t = qd.Parameter("t")
    circuit = qd.Circuit(2, 1).ry(t, 0).measure(0, 0).rx(t, 1)
    with circuit.if_(0, 1):
        circuit.ry(t, 1)
    rows = np.array([[0.4], [1.1]])
    program = qd.compile(circuit)
    with pytest.raises(
        StateError, match=r"qdist.noise.compile\(circuit\).value_and_grad\(observable, params, shots=1000\)"
    ):
        program.value_and_grad("Z1", [0.4])
    with pytest.raises(StateError, match=r"expectation\(observable, rows, shots=1000\)"):
        program.run_batch(rows)
    observable, number = qd.PauliSum({"Z1": 1.0}), 2000
    means, gradients = qd.noise.compile(circuit).value_and_grad(observable, rows, shots=number, seed=1)
    found = program.expectation(observable, rows, shots=number, seed=2)
    for mean, gradient, estimate, row in zip(means, gradients, found, rows):
        steps = (values_of(circuit, observable, row + h) for h in (1e-5, -1e-5))
        np.testing.assert_allclose(gradient, np.subtract(*steps) / 2e-5, atol=0.1)
        exact = values_of(circuit, observable, row)
        # Five standard errors, of means whose spread is below 1.
        assert max(abs(mean - exact), abs(estimate - exact)) < 5 / np.sqrt(number)


@pytest.mark.parametrize("noise", ["kraus", "pauli"])
def test_states_are_prepared_at_the_beginning_and_in_the_middle(noise: str, device: str) -> None:
    rng = np.random.default_rng(5)
    state = rng.normal(size=4) + 1j * rng.normal(size=4)
    state /= np.linalg.norm(state)
    circuit = qd.Circuit(3, 1).initialize(state, [2, 0]).initialize([0, 1j], 1).rx(0.4, [0, 1])
    circuit.amplitude_damping(0.2, 0) if noise == "kraus" else circuit.depolarizing(0.2, 0, 1)
    whole = qd.Circuit(3).initialize(2, [0, 1]).ry(0.3, 0).bit_flip(0.1, 1)
    circuit.cx(0, 2).measure(2, 0).initialize([[0.6, 0.8], [0.8j, -0.6]], [1, 2]).cx(2, 0)
    with circuit.if_(0, 1):
        circuit.initialize(state[::-1], [1, 0])
    for one in (circuit, whole):
        rho = sum(outcomes(one).values())
        found = qd.noise.compile(one, method="density_matrix", dtype="complex128", device=device)
        np.testing.assert_allclose(found.density_matrix(), rho, atol=1e-12)
        observable = qd.PauliSum({"Z0 Z1": 1.0, "X2": 0.6, "Y1 Z2": -0.4})
        mean = qd.noise.compile(one, device=device).expectation(observable, shots=4000, seed=2)
        # Four standard errors: 1 in 16,000 seeds would fail.
        assert abs(mean - values_of(one, observable, None)) < 4 * mean.standard_error


def tried_again(noise: str) -> qd.Circuit:
    """An ancilla is prepared until it is read as 0, three times at most; another bit is written where two others say
    so, and one where no bit can be 1."""
    circuit = qd.Circuit(3, 5).ry(0.8, 0).cx(0, 1).readout_error([0.1, 0.2], 1).ry(1.1, 2).cx(2, 1).measure(1, 0)
    for _ in range(2):
        circuit.amplitude_damping(0.2, 0) if noise == "kraus" else circuit.depolarizing(0.2, 0)
        with circuit.if_(0, 1):
            circuit.reset(1).ry(0.9, 1).cx(0, 1).measure(1, 0)
    circuit.ry(0.7, 0).measure(2, 1).cx(0, 2)
    with circuit.if_([1, 0], 1) as unequal:
        circuit.measure(0, 2)
    with unequal:
        circuit.measure(1, 2).rx(0.4, 2)
    with circuit.if_(3, 1):
        circuit.measure(0, 3)
    with circuit.if_(3, 0):
        circuit.measure(0, 4)
    return circuit.ry(0.3, range(3)).measure(2, 1)


@pytest.mark.parametrize("noise", ["kraus", "pauli"])
@pytest.mark.parametrize("method", METHODS)
def test_measurements_under_conditions_write_where_the_conditions_hold(noise: str, method: str, device: str) -> None:
    circuit = tried_again(noise)
    program = qd.noise.compile(circuit, method=method, dtype="complex128", device=device)
    expected = {bits: 20000 * np.trace(rho).real for bits, rho in outcomes(circuit).items()}
    likely = {"".join(map(str, bits[::-1])): count for bits, count in expected.items() if count > 1e-9}
    found = program.counts(20000, seed=9)
    assert len(likely) == 16
    assert set(found) <= set(likely)
    # Chi squared of 15 degrees of freedom is below 44.3 for all but 1 in 10,000 seeds.
    assert sum((found.get(bits, 0) - count) ** 2 / count for bits, count in likely.items()) < 44.3
    if method == "density_matrix":
        rho = sum(outcomes(circuit.remove_final_measurements()).values())
        np.testing.assert_allclose(program.density_matrix(), rho, atol=1e-12)


@pytest.mark.parametrize("noise", ["kraus", "pauli"])
def test_outcomes_that_nothing_tests_are_counted_too(noise: str, device: str) -> None:
    # Two bits are written twice, on other qubits; bit 2 is tested, and bit 4 is measured again at the end.
    circuit = qd.Circuit(3, 5).h([0, 1]).ry(0.4, 2).depolarizing(0.1, 0, 1).readout_error([0.1, 0.2], 1)
    circuit.measure([0, 1, 2], [0, 1, 4]).rx(0.8, [0, 1, 2]).measure(2, 2)
    with circuit.if_(2, 1):
        circuit.h(1)
    circuit.amplitude_damping(0.3, 1) if noise == "kraus" else circuit.bit_flip(0.3, 1)
    circuit.cx(1, 0).ry(0.5, 2).measure([2, 1], [0, 1]).rx(0.9, [1, 2]).measure(0, 4)
    program = qd.noise.compile(circuit, device=device)
    assert program._noisy.circuit.num_qubits == 4  # Bit 2 alone takes a qubit.
    expected = {bits: 20000 * np.trace(rho).real for bits, rho in outcomes(circuit).items()}
    likely = {"".join(map(str, bits[::-1])): count for bits, count in expected.items() if count > 1e-9}
    found = program.counts(20000, seed=8)
    assert set(found) <= set(likely)
    assert len(likely) == 16
    # Chi squared of 15 degrees of freedom is below 44.3 for all but 1 in 10,000 seeds.
    assert sum((found.get(bits, 0) - count) ** 2 / count for bits, count in likely.items()) < 44.3


@pytest.mark.parametrize("noise", ["kraus", "pauli"])
@pytest.mark.parametrize("method", METHODS)
def test_each_measurement_of_a_qubit_at_the_end_is_misread_by_itself(noise: str, method: str) -> None:
    circuit = qd.Circuit(2, 4).ry(1.1, 0).cx(0, 1).readout_error([0.2, 0.3], 0)
    circuit.amplitude_damping(0.2, 0) if noise == "kraus" else circuit.bit_flip(0.2, 0)
    circuit.measure([0, 1, 0, 1], [2, 1, 0, 3])
    expected = {bits: 20000 * np.trace(rho).real for bits, rho in outcomes(circuit).items()}
    likely = {"".join(map(str, bits[::-1])): count for bits, count in expected.items() if count > 1e-9}
    found = qd.noise.compile(circuit, method=method).counts(20000, seed=3)
    assert len(likely) == 8
    assert set(found) <= set(likely)
    # Chi squared of 7 degrees of freedom is below 29.9 for all but 1 in 10,000 seeds.
    assert sum((found.get(bits, 0) - count) ** 2 / count for bits, count in likely.items()) < 29.9


def test_rows_and_tree_have_the_same_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = qd.Circuit(4, 6).h(range(4)).amplitude_damping(0.2, range(4)).readout_error(0.1, 1)
    circuit.measure([0, 1, 2], [0, 3, 1]).rx(0.7, [0, 1]).cx(1, 2).depolarizing(0.2, 2, 3).measure([1, 2], [1, 4])
    with circuit.if_([4, 3], 1):
        circuit.h(3)
    circuit.ry(0.3, [1, 2]).measure(3, 5)
    in_rows = qd.noise.compile(circuit, dtype="complex128", device="cpu")
    monkeypatch.setattr(jump_rows, "fits", lambda programs: False)
    one_by_one = qd.noise.compile(circuit, dtype="complex128", device="cpu")
    assert in_rows._drawn._in_rows
    assert not one_by_one._drawn._in_rows
    for seed in range(3):
        counts = in_rows.counts(200, seed=seed)
        assert counts == one_by_one.counts(200, seed=seed)
        assert len(counts) > 10


def test_records_of_many_rounds_take_no_more_qubits() -> None:
    rounds, p = 35, 0.04
    circuit = qd.Circuit(3, 2 * rounds)
    for k in range(rounds):
        circuit.bit_flip(p, [0, 1]).cx(0, 2).cx(1, 2).measure(2, 2 * k).reset(2).h(2).measure(2, 2 * k + 1).reset(2)
    program = qd.noise.compile(circuit)
    assert program._noisy.circuit.num_qubits == 3
    counts = program.counts(200, seed=2)
    bits = np.array([[int(bit) for bit in text[::-1]] for text, count in counts.items() for _ in range(count)])
    parities = bits[:, ::2]
    changes = parities[:, 1:] ^ parities[:, :-1]
    change = 2 * p * (1 - p)
    # Four standard errors of the means: of changes of the parity, and of the coins.
    assert abs(changes.mean() - change) < 4 * np.sqrt(change * (1 - change) / changes.size)
    assert abs(bits[:, 1::2].mean() - 0.5) < 4 * 0.5 / np.sqrt(bits[:, 1::2].size)


@pytest.mark.parametrize("method", METHODS)
def test_a_code_corrects_single_errors(method: str) -> None:
    # One round leaves what was sent unless two bits or three flip.
    p, rounds, shots = 0.1, 2, 4000
    wrong = 3 * p**2 * (1 - p) + p**3
    kept = (1 + (1 - 2 * wrong) ** rounds) / 2
    one = np.sin(0.6) ** 2
    mean = one * kept + (1 - one) * (1 - kept)
    counts = qd.noise.compile(repetition_code(p, rounds), method=method).counts(shots, seed=6)
    ones = sum(count for bits, count in counts.items() if bits[:3].count("1") >= 2) / shots
    assert abs(ones - mean) < 4 * np.sqrt(mean * (1 - mean) / shots)


def test_a_model_adds_noise_to_gates_that_run() -> None:
    circuit = qd.Circuit(2, 1).h(0).measure(0, 0)
    with circuit.if_(0, 1):
        circuit.x(1)
    model = qd.noise.NoiseModel().add(qd.noise.bit_flip(0.25), "x")
    exact = qd.noise.compile(circuit, model, method="density_matrix", dtype="complex128")
    np.testing.assert_allclose(exact.probabilities(), [0.5, 0.125, 0, 0.375], atol=1e-12)


def test_the_else_of_a_register_takes_a_gate_a_bit() -> None:
    circuit = qd.Circuit(3, 4)
    for clbit in range(4):
        circuit.ry(0.6 + clbit, 0).measure(0, clbit)
    with circuit.if_([3, 0, 2, 1], 9) as unequal:
        circuit.rx(0.7, 1)
    with unequal:
        circuit.h(2)
        with circuit.if_([1, 3], 2):
            circuit.ry(0.4, 2)
    program = qd.noise.compile(circuit, method="density_matrix", dtype="complex128")
    gates = [(gate.base.name, gate.num_controls) for gate, qubits, *_ in program._noisy.circuit if qubits[-1] in (1, 2)]
    assert sorted(gates) == [("h", 1), ("h", 2), ("h", 3), ("h", 4), ("rx", 4), ("ry", 2)]
    np.testing.assert_allclose(program.density_matrix(), sum(outcomes(circuit).values()), atol=1e-12)


def test_conditions_of_registers_that_fit_no_table_are_planned() -> None:
    circuit = qd.Circuit(3, 48).h(0)
    for clbit in range(45):
        circuit.measure(0, clbit)
    with circuit.if_(range(48), 5) as unequal:
        circuit.x(1)
    with unequal:
        circuit.h(2)
    found = Noisy.of(circuit, recorded=True).circuit
    gates = [gate.num_controls for gate, qubits, *_ in found if qubits[-1] in (1, 2)]
    assert sorted(gates) == [*range(1, 46), 45]


def test_what_takes_too_many_bits_is_refused() -> None:
    wide = qd.Circuit(5, 60)
    for first in range(0, 60, 5):
        wide.measure(range(5), range(first, first + 5)).h(range(5))
    with pytest.raises(CircuitError, match="5 qubits and 60 classical bits that are measured before the end"):
        qd.noise.compile(wide, method="density_matrix")
    tested = qd.Circuit(5, 5).measure(range(5), range(5))
    with tested.if_(range(5), 3):
        tested.bit_flip(0.1, 0)
    with pytest.raises(CircuitError, match="of qubit 0 is under a condition of 5 classical bits"):
        qd.noise.compile(tested)
    wide = qd.Circuit(5, 5).measure(range(4), range(4))
    with wide.if_(range(4), 3):
        wide.measure(4, 4)
    with pytest.raises(CircuitError, match="qubit 4 is measured under a condition of 4 other classical bits, at most"):
        qd.noise.compile(wide)
