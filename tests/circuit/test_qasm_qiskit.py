"""OpenQASM as a bridge: others read what is written here to the same matrix, and what Qiskit writes is read here.

The others are Qiskit's readers of versions 2 and 3 and the parser that the language's authors keep (`openqasm3`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TABLE_GATES, circuits, random_unitary

from qdist.circuit import (
    Circuit,
    Gate,
    Parameter,
    ParameterVector,
    diagonal_gate,
    pauli_rotation_gate,
    permutation_gate,
    qasm,
    unitary_gate,
)
from qdist.circuit.instruction import Condition
from qdist.circuit.qasm.standard import GENERIC_ANGLES
from qdist.state import reference

qiskit = pytest.importorskip("qiskit")
qasm2 = pytest.importorskip("qiskit.qasm2")
qasm3 = pytest.importorskip("qiskit.qasm3")
quantum_info = pytest.importorskip("qiskit.quantum_info")
random_circuit = pytest.importorskip("qiskit.circuit.random").random_circuit
pytest.importorskip("qiskit_qasm3_import")
openqasm3 = pytest.importorskip("openqasm3")


def assert_equal_up_to_phase(ours: np.ndarray, theirs: np.ndarray) -> None:
    """OpenQASM 2 has no global phase, and Qiskit's U is not OpenQASM 3's by a phase."""
    overlap = np.trace(ours.conj().T @ theirs) / len(ours)
    assert abs(overlap) == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(ours * overlap, theirs, atol=1e-9)


def read_by_others(circuit: Circuit) -> Any:
    """Qiskit's circuit of the version 3 text, which the other parser takes too."""
    text = qasm.dumps(circuit)
    openqasm3.parse(text)
    return qasm3.loads(text)


# Ours, read by Qiskit.

_rng = np.random.default_rng(5)
DATA_GATES = {
    "unitary on 1": unitary_gate(random_unitary(2, 1)),
    "unitary on 2": unitary_gate(random_unitary(4, 2)),
    "diagonal": diagonal_gate(np.exp(1j * _rng.uniform(-3, 3, 4))),
    "permutation": permutation_gate(_rng.permutation(8)),
    "pauli": pauli_rotation_gate("XYZ"),
    "pauli of identities": pauli_rotation_gate("II"),
}
NAMED_GATES = {gate.name: gate for gate in TABLE_GATES}
# No controls, and one and two of them with any values.
CONTROLS = [(0, 0), (1, 1), (1, 0), (2, 1)]


@pytest.mark.parametrize("name", [*NAMED_GATES, *DATA_GATES])
def test_every_gate_has_the_same_matrix_in_all_readers(name: str):
    gate: Gate = {**NAMED_GATES, **DATA_GATES}[name]
    for controls, state in CONTROLS:
        chosen = gate.controlled(controls, state) if controls else gate
        if chosen.num_qubits > 4:
            continue
        width = max(1, chosen.num_qubits)
        params = GENERIC_ANGLES[: chosen.num_params]
        qubits = np.random.default_rng(7).permutation(width)[: chosen.num_qubits].tolist()
        circuit = Circuit(width).append(chosen, qubits, params)
        matrix = reference.unitary(circuit)
        text = qasm.dumps(circuit)
        openqasm3.parse(text)
        np.testing.assert_allclose(quantum_info.Operator(qasm3.loads(text)).data, matrix, atol=1e-8)
        again = qasm.loads(text)
        assert again == circuit if chosen.data is None else again.num_qubits == width
        np.testing.assert_allclose(reference.unitary(again), matrix, atol=1e-8)
        text = qasm.dumps(circuit, version=2)
        assert_equal_up_to_phase(reference.unitary(qasm.loads(text)), matrix)
        assert_equal_up_to_phase(quantum_info.Operator(qasm2.loads(text)).data, matrix)


@pytest.mark.parametrize("name", [*NAMED_GATES, *DATA_GATES])
def test_inverses_and_powers_have_the_same_matrix(name: str):
    gate: Gate = {**NAMED_GATES, **DATA_GATES}[name]
    if gate.num_qubits > 3:
        pytest.skip("the smaller gates are enough")
    circuit = Circuit(max(1, gate.num_qubits)).append(gate, range(gate.num_qubits), GENERIC_ANGLES[: gate.num_params])
    circuit = circuit.power(-3)
    matrix = reference.unitary(circuit)
    np.testing.assert_allclose(quantum_info.Operator(qasm3.loads(qasm.dumps(circuit))).data, matrix, atol=1e-8)
    assert_equal_up_to_phase(quantum_info.Operator(qasm2.loads(qasm.dumps(circuit, version=2))).data, matrix)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(circuits(min_qubits=1, max_qubits=3, max_gates=6))
def test_circuits_have_the_same_matrix_in_all_readers(circuit: Circuit):
    matrix = reference.unitary(circuit)
    np.testing.assert_allclose(quantum_info.Operator(qasm3.loads(qasm.dumps(circuit))).data, matrix, atol=1e-8)
    theirs = qasm2.loads(qasm.dumps(circuit, version=2))
    assert_equal_up_to_phase(matrix, quantum_info.Operator(theirs).data)


def test_definitions_of_newer_gates_serve_readers_of_either_header():
    circuit = Circuit(3).swap(0, 1).sx(2).cswap(0, 1, 2).csx(0, 1).crx(0.3, 1, 2).rzz(0.4, 0, 2)
    text = qasm.dumps(circuit, version=2)
    strict = qasm2.loads(text)
    grown = qasm2.loads(text, custom_instructions=qasm2.LEGACY_CUSTOM_INSTRUCTIONS)
    from_text = qiskit.QuantumCircuit.from_qasm_str(text)
    for theirs in (strict, grown, from_text):
        assert_equal_up_to_phase(quantum_info.Operator(theirs).data, reference.unitary(circuit))
    assert qasm.loads(text) == circuit


def test_vectors_of_parameters_are_read():
    w, t = ParameterVector("w", 11), Parameter("t")
    circuit = Circuit(2).rx(w[10] - 2 * w[0] / 3 + t, 0).ry(w[3] + math.pi / 2, 1).cp(t / 7, 0, 1)
    theirs = read_by_others(circuit)
    values = np.random.default_rng(3).uniform(-2, 2, 12)
    named = {f"_w_{k}_": value for k, value in enumerate(values[:11])} | {"t_": values[11]}
    assert {parameter.name for parameter in theirs.parameters} == named.keys()
    bound = theirs.assign_parameters(named)
    expected = circuit.bind({w: values[:11], t: values[11]})
    np.testing.assert_allclose(quantum_info.Operator(bound).data, reference.unitary(expected), atol=1e-9)
    # And back: the vector is one again, with all its elements.
    again = qasm.loads(qasm.dumps(circuit))
    vector = again.parameters[0].vector
    assert (vector.name, len(vector)) == ("w", 11)
    other = again.bind({vector: values[:11], again.parameters[-1]: values[11]})
    np.testing.assert_allclose(reference.unitary(other), reference.unitary(expected), atol=1e-12)


NAMES = [
    "x",
    "q",
    "c",
    "pi",
    "θ",
    "gate",
    "a b-1",
    "2nd",
    "x²",
    "_w_0_",
    "_w_0",
    "U",
    "ℇ",
    "é",
    "w[0]",
    "sin",
    "im",
    "_",
]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_any_name_are_read(name: str):
    parameters = [Parameter(name), Parameter(f"{name}_")]
    circuit = Circuit(1, 1).rx(parameters[0], 0).rz(2 * parameters[1], 0)
    theirs = read_by_others(circuit)
    assert len(theirs.parameters) == 2
    again = qasm.loads(qasm.dumps(circuit))
    assert qasm.dumps(again) == qasm.dumps(circuit)
    assert again.num_parameters == 2
    assert all(type(parameter) is Parameter for parameter in again.parameters)


def test_the_names_of_two_vectors_do_not_mix():
    first, second = ParameterVector("a b", 2), ParameterVector("a_b", 3)
    circuit = Circuit(1).rx(first[0] + second[2], 0).rx(first[1], 0)
    again = qasm.loads(qasm.dumps(circuit))
    assert [p.name for p in again.parameters] == ["a_b[0]", "a_b[1]", "a_b_[2]"]
    assert [len(p.vector) for p in again.parameters] == [2, 2, 3]


def test_runs_of_inputs_that_are_no_vector_stay_parameters():
    text = 'OPENQASM 3; include "stdgates.inc"; qubit q; input float[64] _w_1_; input float[64] w_0_; rx(_w_1_+w_0_) q;'
    assert [p.name for p in qasm.loads(text).parameters] == ["_w_1_", "w_0_"]


TESTS = {
    "a bit": (Condition((1,), 1),),
    "a bit that is 0": (Condition((1,), 0),),
    "not a bit": (Condition((1,), 1, False),),
    "not a bit that is 0": (Condition((1,), 0, False),),
    "all bits": (Condition((0, 1, 2), 5),),
    "not all bits": (Condition((0, 1, 2), 5, False),),
    "a slice": (Condition((1, 2), 2),),
    "bits in any order": (Condition((2, 0), 1),),
    "not bits in any order": (Condition((2, 0), 1, False),),
    "nested": (Condition((0,), 1), Condition((1, 2), 3, False), Condition((2,), 0)),
}


@pytest.mark.parametrize("name", TESTS)
def test_conditions_hold_of_the_same_bits_in_all_readers(name: str):
    aer = pytest.importorskip("qiskit_aer")
    condition = TESTS[name]
    for value in range(8):
        # Bits are set for certain, so that one shot says all.
        circuit = Circuit(4, 4)
        for bit in range(3):
            circuit.append(NAMED_GATES["x"] if value >> bit & 1 else NAMED_GATES["id"], bit).measure(bit, bit)
        circuit.append(NAMED_GATES["x"], 3, condition=condition).measure(3, 3)
        theirs = read_by_others(circuit)
        assert qasm.loads(qasm.dumps(circuit)) == circuit
        (bits,) = aer.AerSimulator(method="statevector").run(theirs, shots=1, memory=True).result().get_memory()
        held = all(test.holds([value >> k & 1 for k in range(4)]) for test in condition)
        # Aer also shows the registers that Qiskit adds for conditions on some of the bits.
        assert bits.replace(" ", "")[-4:] == f"{int(held)}{value:03b}"


def test_blocks_with_everything_in_them_are_read():
    circuit = Circuit(3, 3).h(0).measure(0, 0)
    with circuit.if_(0, 1) as else_:
        circuit.x(1).reset(2).barrier(0, 1).append(unitary_gate(random_unitary(2, 4)), 1).gphase(0.3)
        with circuit.if_([1, 2], 1):
            circuit.measure(2, 1)
    with else_:
        circuit.initialize("01", (1, 2)).cu(0.1, 0.2, 0.3, 0.4, 0, 1)
    circuit.barrier().measure(1, 2)
    theirs = read_by_others(circuit)
    assert theirs.count_ops()["if_else"] == 1
    assert theirs.count_ops()["measure"] == 2


def test_version_2_with_measurements_and_conditions_is_read():
    circuit = Circuit(2, 3).h(0).measure(0, 0).reset(1).barrier().barrier(1)
    circuit.append(DATA_GATES["unitary on 2"], (0, 1), condition=Condition((0, 1), 1))
    circuit.append(NAMED_GATES["swap"], (0, 1), condition=Condition((2,), 1, False))
    theirs = qasm2.loads(qasm.dumps(circuit, version=2))
    assert len(theirs) == 7
    assert [theirs.count_ops()[name] for name in ("barrier", "measure", "reset")] == [2, 1, 1]


# Qiskit's, read here.


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.integers(0, 10_000))
def test_what_qiskit_writes_in_version_2_is_read(seed: int):
    theirs = random_circuit(4, 5, max_operands=4, seed=seed)
    ours = qasm.loads(qasm2.dumps(theirs))
    assert_equal_up_to_phase(reference.unitary(ours), quantum_info.Operator(theirs).data)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.integers(0, 10_000))
def test_what_qiskit_writes_in_version_3_is_read(seed: int):
    theirs = random_circuit(4, 5, max_operands=4, seed=seed)
    ours = qasm.loads(qasm3.dumps(theirs))
    assert_equal_up_to_phase(reference.unitary(ours), quantum_info.Operator(theirs).data)


def test_what_qiskit_reads_of_ours_and_writes_again_is_read():
    circuit = Circuit(3).append(DATA_GATES["unitary on 2"], (2, 0)).u(0.1, 0.2, 0.3, 0).gphase(1.0)
    circuit.append(NAMED_GATES["u2"].controlled(1), (2, 0), (0.4, 0.5))
    matrix = reference.unitary(circuit)
    for read, write, version in ((qasm2.loads, qasm2.dumps, 2), (qasm3.loads, qasm3.dumps, 3)):
        text = write(read(qasm.dumps(circuit, version=version)))
        assert_equal_up_to_phase(reference.unitary(qasm.loads(text)), matrix)


def test_vectors_that_qiskit_writes():
    theta = qiskit.circuit.ParameterVector("theta", 12)
    theirs = qiskit.QuantumCircuit(1)
    for element in theta:
        theirs.rx(element, 0)
    ours = qasm.loads(qasm3.dumps(theirs))
    assert [p.name for p in ours.parameters] == [f"theta[{k}]" for k in range(12)]
    assert len({p.vector for p in ours.parameters}) == 1


def test_parameters_and_conditions_that_qiskit_writes():
    theta = qiskit.circuit.Parameter("theta")
    theirs = qiskit.QuantumCircuit(2, 2)
    theirs.rx(2 * theta + 1, 0)
    theirs.measure(0, 0)
    with theirs.if_test((theirs.clbits[0], 1)) as else_:
        theirs.x(1)
    with else_:
        theirs.h(1)
    with theirs.if_test((theirs.cregs[0], 2)):
        theirs.z(0)
    ours = qasm.loads(qasm3.dumps(theirs))
    (parameter,) = ours.parameters
    expected = Circuit(2, 2).rx(2 * parameter + 1, 0).measure(0, 0)
    with expected.if_(0, 1) as otherwise:
        expected.x(1)
    with otherwise:
        expected.h(1)
    with expected.if_([0, 1], 2):
        expected.z(0)
    assert ours == expected


def test_loops_that_qiskit_writes():
    theirs = qiskit.QuantumCircuit(1)
    with theirs.for_loop(range(0, 6, 2)):
        theirs.h(0)
    with theirs.for_loop((1, 4)):
        theirs.x(0)
    assert qasm.loads(qasm3.dumps(theirs)) == Circuit(1).h(0).h(0).h(0).x(0).x(0)


def test_delays_that_qiskit_writes_are_refused_by_name():
    theirs = qiskit.QuantumCircuit(1)
    theirs.delay(100, 0, unit="ns")
    with pytest.raises(qasm.QasmError, match="not supported: delays"):
        qasm.loads(qasm3.dumps(theirs))
