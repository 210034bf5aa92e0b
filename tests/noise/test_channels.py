"""Channels on circuits: what they are, what is refused, and that nothing ignores them."""

import copy
import math
import pickle

import numpy as np
import pytest

import qdist as qd
from qdist.circuit import CircuitError
from qdist.circuit.channels import Channel, LinearGate, readout_error
from qdist.circuit.qasm.errors import QasmError
from qdist.plan.planner import make_plan
from qdist.state import reference

noise = qd.noise


def superoperator(channel: Channel, rho: np.ndarray) -> np.ndarray:
    return sum(k @ rho @ k.conj().T for k in channel.data)


RHO = np.array([[0.3, 0.2 - 0.1j], [0.2 + 0.1j, 0.7]])


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        (noise.depolarizing(0.4), 0.6 * RHO + 0.4 * np.eye(2) / 2),
        (noise.bit_flip(0.1), 0.9 * RHO + 0.1 * RHO[::-1, ::-1]),
        (noise.phase_flip(0.25), RHO * [[1, 0.5], [0.5, 1]]),
        (noise.amplitude_damping(0.36), np.array([[0.3 + 0.36 * 0.7, 0.8 * RHO[0, 1]], [0.8 * RHO[1, 0], 0.64 * 0.7]])),
        (noise.phase_damping(0.36), RHO * [[1, 0.8], [0.8, 1]]),
        (noise.pauli_channel({"Y": 1.0}), np.array([[0.7, -RHO[1, 0]], [-RHO[0, 1], 0.3]])),
        (noise.kraus([np.diag([1, 0]), np.diag([0, 1])]), np.diag(np.diag(RHO))),
    ],
    ids=lambda x: x.name if isinstance(x, Channel) else "",
)
def test_channels_do_what_textbooks_say(channel: Channel, expected: np.ndarray) -> None:
    np.testing.assert_allclose(superoperator(channel, RHO), expected, atol=1e-12)
    np.testing.assert_allclose(
        channel.superoperator @ RHO.T.reshape(-1), expected.T.reshape(-1), atol=1e-12
    )  # bits of rows are the low ones


@pytest.mark.parametrize("excited", [0.0, 0.2])
@pytest.mark.parametrize(("t1", "t2"), [(50, 30), (50, 70), (50, 100), (math.inf, 20), (40, 40)])
def test_thermal_relaxation(t1: float, t2: float, excited: float) -> None:
    time = 15.0
    found = superoperator(noise.thermal_relaxation(t1, t2, time, excited), RHO)
    decay = math.exp(-time / t1)
    up = decay * 0.7 + (1 - decay) * excited
    coherence = math.exp(-time / t2) * RHO[0, 1]
    np.testing.assert_allclose(found, [[1 - up, coherence], [np.conj(coherence), up]], atol=1e-12)


def test_two_qubit_depolarizing_leaves_nothing_known_at_p_1() -> None:
    rho = np.diag([1.0, 0, 0, 0])
    np.testing.assert_allclose(superoperator(noise.depolarizing(1.0, 2), rho), np.eye(4) / 4, atol=1e-12)


def test_what_happens_most_often_comes_first() -> None:
    # A trajectory without a jump goes through first operators.
    for channel in (noise.depolarizing(0.1, 2), noise.thermal_relaxation(50, 70, 1), noise.bit_flip(0.2)):
        assert abs(np.trace(channel.data[0])) == max(abs(np.trace(k)) for k in channel.data)
    flipped = noise.kraus([np.sqrt(0.1) * np.array([[0, 1], [1, 0]]), np.sqrt(0.9) * np.eye(2)])
    np.testing.assert_allclose(flipped.data[0], np.sqrt(0.9) * np.eye(2))


def test_pauli_channels_are_known_by_their_operators() -> None:
    assert noise.phase_damping(0.3).paulis is not None
    assert noise.amplitude_damping(0.3).paulis is None
    hidden = noise.kraus([math.sqrt(0.8) * np.eye(2), 1j * math.sqrt(0.2) * np.array([[0, -1j], [1j, 0]])])
    assert [(x, z) for _, x, z in hidden.paulis or []] == [(0, 0), (1, 1)]
    np.testing.assert_allclose([p for p, _, _ in hidden.paulis or []], [0.8, 0.2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda c: c.depolarizing(1.2, 0), r"depolarizing: p=1.2 must be a probability, a number from 0 to 1"),
        (lambda c: c.depolarizing(-0.1, 0), r"p=-0.1"),
        (lambda c: c.depolarizing(math.nan, 0), r"p=nan"),
        (lambda c: c.bit_flip("x", 0), r"bit_flip: p='x'"),
        (lambda c: c.amplitude_damping(qd.Parameter("g"), 0), r"gamma=g is a Parameter, and the strength of noise"),
        (lambda c: c.depolarizing(0.1), r"1 to 3 qubits at once; got 0"),
        (lambda c: c.depolarizing(0.1, 0, 1, 2, 3), r"got 4: a list of qubits, depolarizing\(p, \[0, 1, 2\]\)"),
        (lambda c: c.pauli_channel({"X": 0.7, "Z": 0.6}, 0), r"add up to 1.3: to at most 1"),
        (lambda c: c.pauli_channel({"X": 0.1, "I": 0.6}, 0), r"add up to 0.7: to at most 1, or with 'I' to 1 exactly"),
        (lambda c: c.pauli_channel({"X": 0.1, "XX": 0.1}, 0), r"one a qubit, for 1 to 3 qubits; got 'X', 'XX'"),
        (lambda c: c.pauli_channel({"A": 0.1}, 0), r"letters I, X, Y and Z"),
        (lambda c: c.pauli_channel([0.1], 0), r'takes \{"X": probability'),
        (lambda c: c.kraus([np.eye(2) * 0.9], 0), r"do not keep the trace: the sum of K†K differs .* up to 0.19"),
        (
            lambda c: c.kraus([np.eye(3)], 0),
            r"\(2\*\*n, 2\*\*n\), for 1 to 3 qubits; got an array of shape \(1, 3, 3\)",
        ),
        (lambda c: c.kraus([[[math.nan, 0], [0, 1]]], 0), r"nan or infinity"),
        (lambda c: c.kraus([np.eye(4)], 0), r"kraus acts on 2 qubits; got 1"),
        (lambda c: c.thermal_relaxation(50, 120, 1, 0), r"t2=120 is more than twice t1=50.*t2 is at most 100"),
        (lambda c: c.thermal_relaxation(0, 1, 1, 0), r"t1=0 must be a positive number"),
        (lambda c: c.thermal_relaxation(5, 5, -1, 0), r"time=-1 must be a positive number"),
        (lambda c: c.thermal_relaxation(5, 5, 1, 0, 1.5), r"excited=1.5 must be a probability"),
        (lambda c: c.readout_error((0.1, 0.2, 0.3), 0), r"a probability, or \(of 1 for 0, of 0 for 1\)"),
        (lambda c: c.readout_error(2, 0), r"readout_error: p=2"),
        (lambda c: c.bit_flip(0.1, 7), r"qubit 7"),
    ],
)
def test_what_is_no_channel_is_refused_by_name(make, message: str) -> None:
    circuit = qd.Circuit(4)
    with pytest.raises(CircuitError, match=message):
        make(circuit)
    assert len(circuit) == 0


def noisy() -> qd.Circuit:
    return qd.Circuit(2).h(0).depolarizing(0.02, 0, 1)


def test_channels_are_drawn_copied_and_compared() -> None:
    circuit = noisy().amplitude_damping(0.1, [0, 1]).readout_error((0.1, 0.2), 0)
    text = str(circuit)
    for mark in ("depolarizing(0.02)₀", "depolarizing(0.02)₁", "amplitude_damping(0.1)", "readout_error(0.1,0.2)"):
        assert mark in text
    assert circuit.count_ops()["amplitude_damping"] == 2
    for again in (pickle.loads(pickle.dumps(circuit)), copy.deepcopy(circuit), circuit.copy()):
        assert again == circuit
    assert noisy() == noisy()
    assert noisy() != qd.Circuit(2).h(0).depolarizing(0.03, 0, 1)
    assert circuit.compose(noisy()).count_ops()["depolarizing"] == 2
    assert repr(noise.depolarizing(0.02, 2)) == "<Channel depolarizing(0.02): 2 qubits>"
    one = LinearGate(np.diag([1, 0.5]))
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(CircuitError, match="has no inverse"):
        one.inverse()


WAY_OUT = r"has no noise, and the circuit has depolarizing\(0.02\) of qubits 0, 1: qdist.noise.compile\(circuit\)"


@pytest.mark.parametrize(
    "ask",
    [
        qd.compile,
        qd.simulate,
        lambda c: make_plan(c, np.dtype("complex64")),
        lambda c: qd.nn.QuantumLayer(c, ["Z0"]),
        lambda c: qd.compile(c).plan,
    ],
    ids=["compile", "simulate", "plan", "layer", "program"],
)
def test_state_vectors_refuse_noise_by_name(ask) -> None:
    with pytest.raises(CircuitError, match=WAY_OUT):
        ask(noisy())


@pytest.mark.parametrize("kind", ["readout", "conditional"])
def test_no_kind_of_noise_is_ignored(kind: str) -> None:
    circuit = qd.Circuit(2, 1).h(0).measure(0, 0)
    if kind == "readout":
        circuit.readout_error(0.1, 0)
    else:
        with circuit.if_(0, 1):
            circuit.bit_flip(0.1, 1)
    with pytest.raises(CircuitError, match="has no noise"):
        qd.compile(circuit)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda c: c.to_matrix(), "instruction 1 is depolarizing"),
        (lambda c: c.inverse(), "instruction 1 is depolarizing, which has no inverse"),
        (lambda c: c.controlled(), "instruction 1 is depolarizing, which cannot be controlled"),
        (lambda c: c.to_gate("g"), "instruction 1, depolarizing, is not unitary"),
        (lambda c: reference.run(c), "depolarizing is not unitary"),
        (lambda c: reference.unitary(c), "depolarizing has no unitary"),
    ],
)
def test_what_is_unitary_refuses_noise(ask, message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        ask(noisy())


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("gate", [noise.depolarizing(0.02), readout_error(0.1)])
def test_openqasm_refuses_noise_by_name(version: int, gate: Channel) -> None:
    with pytest.raises(QasmError, match=r"OpenQASM has no noise, and the circuit has .* of qubit 0"):
        qd.Circuit(1).append(gate, 0).to_qasm(version)


def test_qiskit_circuits_refuse_noise_by_name() -> None:
    pytest.importorskip("qiskit")
    from qdist.interop.qiskit import to_qiskit

    with pytest.raises(CircuitError, match="a circuit of Qiskit has no noise"):
        to_qiskit(noisy())
