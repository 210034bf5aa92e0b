"""OpenQASM as a bridge: Qiskit reads what is written here, and what Qiskit writes is read here."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import circuits

from qdist.circuit import Circuit, qasm
from qdist.state import reference

qiskit = pytest.importorskip("qiskit")
qasm2 = pytest.importorskip("qiskit.qasm2")
qasm3 = pytest.importorskip("qiskit.qasm3")
quantum_info = pytest.importorskip("qiskit.quantum_info")
random_circuit = pytest.importorskip("qiskit.circuit.random").random_circuit


def assert_equal_up_to_phase(ours: np.ndarray, theirs: np.ndarray) -> None:
    """OpenQASM 2 has no global phase, and Qiskit's U is not OpenQASM 3's by a phase."""
    overlap = np.trace(ours.conj().T @ theirs) / len(ours)
    assert abs(overlap) == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(ours * overlap, theirs, atol=1e-9)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(circuits(min_qubits=1, max_qubits=4, max_gates=6))
def test_qiskit_reads_version_2(circuit: Circuit):
    # Qiskit takes the angle of u0 for a number of cycles, and refuses fractions.
    assume(all(instruction.gate.name != "u0" for instruction in circuit))
    theirs = qasm2.loads(qasm.dumps(circuit, version=2), custom_instructions=qasm2.LEGACY_CUSTOM_INSTRUCTIONS)
    assert_equal_up_to_phase(reference.unitary(circuit), quantum_info.Operator(theirs).data)


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
