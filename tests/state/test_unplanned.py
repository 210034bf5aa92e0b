"""Circuits that run one time: states without a plan are those of the dense reference, and others are planned."""

import random
from typing import Any

import numpy as np
import pytest
from odd_gates import angles, odd_gates
from states import DTYPES, TOLERANCE

import qdist as qd
from qdist.backends import StateError
from qdist.backends.cpu import unplanned
from qdist.backends.cpu.unplanned import UnplannedGates
from qdist.circuit import GATES, CircuitError
from qdist.circuit.gate import Gate
from qdist.native import kernels
from qdist.plan.planner import make_plan
from qdist.state import reference
from qdist.state.unplanned import run_unplanned

ROWS = [gate for gate in GATES.values() if gate.is_unitary and not gate.is_directive]
EVERY = [*ROWS, *(gate for _, gate in odd_gates())]


def unplanned_state(circuit: qd.Circuit, params: Any = None, dtype: Any = "complex64") -> qd.StateVector:
    state = run_unplanned(circuit, params, "cpu", dtype)
    assert state is not None, "the circuit was planned"
    return state


def random_circuit(n: int, length: int, seed: int, gates: list[Gate] = EVERY) -> qd.Circuit:
    rng = random.Random(seed)
    circuit = qd.Circuit(n)
    fits = [gate for gate in gates if gate.num_qubits <= n]
    for _ in range(length):
        gate = rng.choice(fits)
        circuit.append(
            gate, rng.sample(range(n), gate.num_qubits), [rng.uniform(-3, 3) for _ in range(gate.num_params)]
        )
    return circuit


def assert_right(circuit: qd.Circuit, theta: Any, dtype: str) -> None:
    found = unplanned_state(circuit, theta, dtype).amplitudes()
    np.testing.assert_allclose(found, reference.state(circuit, theta), atol=TOLERANCE[dtype])


def test_angles_that_are_functions_of_parameters() -> None:
    a, b = qd.Parameter("a"), qd.Parameter("b")
    for angle in (a * b, np.sin(a), a / (np.cos(b) + 2.5), a**2 * b, 2 * np.sin(a), np.sin(a) + b):
        assert_right(qd.Circuit(2).h(0).rx(angle, 0).cx(0, 1).ry(b, 1).rz(angle, 1), {"a": 0.3, "b": 0.4}, "complex128")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gate", EVERY, ids=lambda gate: f"{gate.name}{gate.num_qubits}")
def test_each_gate_alone_and_among_others(gate: Gate, dtype: str) -> None:
    n = max(1, gate.num_qubits)
    circuit = random_circuit(n, 6, seed=1)
    for qubits in (range(gate.num_qubits), range(n)[::-1][: gate.num_qubits]):
        circuit.append(gate, list(qubits), angles(gate))
    circuit.compose(random_circuit(n, 6, seed=2))
    assert_right(circuit, [], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", range(1, 9))
def test_random_circuits_of_all_gates(n: int, dtype: str) -> None:
    for seed in range(6):
        assert_right(random_circuit(n, 60, seed), [], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_states_of_several_tiles(dtype: str, threads: int) -> None:
    narrow = [gate for gate in EVERY if gate.num_qubits <= 5]
    for n, seed in ((13, 1), (14, 2), (15, 3)):
        assert_right(random_circuit(n, 120, seed, narrow), [], dtype)


def test_blocks_of_many_gates_of_a_kind() -> None:
    for names in (
        ["cx", "x", "swap"],
        ["cz", "rzz", "cp", "ccz", "t"],
        ["rxx", "ryy", "rzx"],
        ["h", "sx", "ry", "cry"],
    ):
        gates = [GATES[name] for name in names]
        for n in (5, 14):
            assert_right(random_circuit(n, 150, 4, gates), [], "complex128")


def test_gates_on_the_same_two_qubits_are_one_matrix() -> None:
    rng = random.Random(3)
    circuit = qd.Circuit(6)
    for pair in ((0, 1), (2, 3), (4, 5), (1, 2), (3, 4)):
        for _ in range(3):
            for q in pair:
                circuit.u(*(rng.uniform(-3, 3) for _ in range(3)), q)
            circuit.cx(*pair).crx(0.3, *pair[::-1]).rzz(0.7, *pair).swap(*pair).cp(1.1, *pair)
    gates = UnplannedGates.of(circuit.instructions, 6, np.dtype("complex128"))
    assert gates is not None
    _, (stages, blocks, _) = gates._lowered(kernels.Program128)
    assert (stages, blocks) == (1, 5)
    assert_right(circuit, [], "complex128")


def test_few_gates_on_two_qubits_stay_as_they_are() -> None:
    circuit = qd.Circuit(4).ry(0.3, 0).cx(0, 1).rzz(0.2, 2, 3)
    gates = UnplannedGates.of(circuit.instructions, 4, np.dtype("complex128"))
    assert gates is not None
    assert gates._lowered(kernels.Program128)[1][1] == 3
    assert_right(circuit, [], "complex128")


def test_parameters_their_sums_and_functions() -> None:
    a, b = qd.Parameter("a"), qd.ParameterVector("b", 2)
    circuit = (
        qd.Circuit(3)
        .h(0)
        .rx(2 * a + b[0] - 0.3, 0)
        .cp(a * b[1], 0, 1)
        .rzz(b[1], 1, 2)
        .ryy(-a, 0, 2)
        .barrier()
        .u(a, 0.2, b[0], 1)
    )
    values = {a: 0.4, b: [1.1, -0.7]}
    assert_right(circuit, values, "complex128")
    assert_right(circuit, np.array([0.4, 1.1, -0.7]), "complex128")
    with pytest.raises(CircuitError, match="no value is given"):
        qd.simulate(circuit, {a: 0.4})
    with pytest.raises(CircuitError, match="finite"):
        qd.simulate(circuit, [0.4, np.nan, 1.0])
    with pytest.raises(CircuitError, match="3 parameters"):
        qd.simulate(circuit)


def test_large_angles_keep_their_digits() -> None:
    circuit = qd.Circuit(2).h(0).rz(1e9 + 0.25, 0).h(0).rx(-4e8 + 0.5, 1)
    assert_right(circuit, [], "complex128")


def test_measurements_at_the_end_are_drawn_as_from_a_plan() -> None:
    circuit = qd.Circuit(4, 4).h(0).cx(0, 1).ry(0.7, 2)
    circuit.measure(2, 0).measure(0, 1).measure(1, 3)
    planned = qd.compile(circuit, device="cpu").run(seed=3)
    state = unplanned_state(circuit)
    np.testing.assert_allclose(state.amplitudes(), planned.amplitudes(), atol=1e-7)
    assert state.counts(500, seed=7) == planned.counts(500, seed=7)
    assert qd.simulate(circuit, seed=1, device="cpu").counts(500, seed=7) == planned.counts(500, seed=7)


def test_what_is_no_gate_is_planned() -> None:
    bell = qd.Circuit(2, 1).h(0).cx(0, 1)
    for circuit in (
        bell.copy().measure(0, 0).x(0),
        bell.copy().reset(0),
        bell.copy().initialize([0, 1], [0]),
        qd.Circuit(30).h(0),
        qd.Circuit(0),
    ):
        assert run_unplanned(circuit, None, "cpu", "complex64") is None


def test_long_work_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = qd.library.quantum_volume(12, 4, seed=1)
    assert run_unplanned(circuit, None, "cpu", "complex64") is not None
    monkeypatch.setattr(unplanned, "_SECONDS_A_BYTE", 1.0)
    assert run_unplanned(circuit, None, "cpu", "complex64") is None
    np.testing.assert_allclose(
        qd.simulate(circuit, device="cpu").amplitudes(), reference.state(circuit, []), atol=TOLERANCE["complex64"]
    )


def test_long_circuits_keep_norm_and_digits() -> None:
    circuit = random_circuit(5, 6000, 9, [GATES[name] for name in ("u", "cx", "rxx", "h")])
    found, exact = unplanned_state(circuit), reference.state(circuit, [])
    assert abs(found.norm() - 1) < 2e-7
    assert np.linalg.norm(found.amplitudes() - exact) < 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_simulate_gives_what_a_program_gives(dtype: str) -> None:
    circuit = qd.library.hardware_efficient(13, 3)
    theta = np.linspace(-2, 2, circuit.num_parameters)
    found = qd.simulate(circuit, theta, dtype=dtype, device="cpu")
    planned = qd.compile(circuit, dtype=dtype, device="cpu").run(theta)
    assert found.dtype == planned.dtype
    np.testing.assert_allclose(found.amplitudes(), planned.amplitudes(), atol=TOLERANCE[dtype])
    energy = qd.library.tfim(13)
    assert found.expectation(energy) == pytest.approx(planned.expectation(energy), abs=10 * TOLERANCE[dtype])


def test_wrong_options_are_refused_as_before() -> None:
    circuit = qd.Circuit(2).h(0)
    with pytest.raises(ValueError, match="schedule"):
        qd.simulate(circuit, schedule="eager")
    with pytest.raises(StateError, match="device"):
        qd.simulate(circuit, device="tpu")
    with pytest.raises(StateError, match="dtype"):
        qd.simulate(circuit, dtype="float32")


def test_a_first_plan_of_what_is_no_gate_gives_the_same_states() -> None:
    circuit = qd.Circuit(6, 1).h(range(6)).measure(0, 0).compose(random_circuit(6, 60, 3), range(6))
    planned = qd.compile(circuit, device="cpu", dtype="complex128").run(seed=4)
    found = qd.simulate(circuit, device="cpu", dtype="complex128", seed=4)
    np.testing.assert_allclose(found.amplitudes(), planned.amplitudes(), atol=1e-11)
    once = make_plan(random_circuit(9, 80, 5), np.dtype("complex64"), once=True)
    assert sum(len(block.operations) for block in once.blocks) >= 80 - 10
