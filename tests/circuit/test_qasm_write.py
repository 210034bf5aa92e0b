"""Writing OpenQASM: what comes back is the same circuit, or at least does the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TABLE_GATES, circuits, random_unitary

from qdist.circuit import (
    GATES,
    Circuit,
    Condition,
    Gate,
    Parameter,
    ParameterVector,
    diagonal_gate,
    permutation_gate,
    qasm,
    unitary_gate,
)
from qdist.circuit.qasm import QasmError
from qdist.circuit.qasm.angles import number_text
from qdist.program.program import simulate
from qdist.state import reference

VERSIONS = [2, 3]


def same_names(circuit: Circuit, parameters) -> Circuit:
    """The circuit with its parameters replaced by those of the same name."""
    by_name = {parameter.name: parameter for parameter in parameters}
    return circuit.bind({parameter: by_name[parameter.name] for parameter in circuit.parameters})


def assert_same_unitary(circuit: Circuit, version: int) -> None:
    read_back = qasm.loads(qasm.dumps(circuit, version=version))
    np.testing.assert_allclose(reference.unitary(read_back), reference.unitary(circuit), atol=1e-12)


# The law: what is written reads back equal.


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("gate", TABLE_GATES, ids=lambda gate: gate.name)
def test_every_gate_of_the_table_reads_back_equal(gate, version: int):
    angles = [0.1 * (k + 1) for k in range(gate.num_params)]
    circuit = Circuit(max(1, gate.num_qubits)).append(gate, range(gate.num_qubits), angles)
    if gate.name == "gphase" and version == 2:
        # OpenQASM 2 has no global phase; gates with the same effect stand for it.
        assert_same_unitary(circuit, version)
    else:
        assert qasm.loads(qasm.dumps(circuit, version=version)) == circuit


@settings(deadline=None, max_examples=60, derandomize=True)
@given(circuits(max_qubits=5, num_clbits=3, with_data=False))
def test_circuits_read_back_equal_in_version_3(circuit: Circuit):
    assert qasm.loads(qasm.dumps(circuit, version=3)) == circuit


theta = ParameterVector("theta", 3)
phi = Parameter("φ_1")


@settings(deadline=None, max_examples=60, derandomize=True)
@given(circuits(parameters=(*theta, phi), num_clbits=2, with_data=False))
def test_circuits_with_parameters_read_back_equal_in_version_3(circuit: Circuit):
    read_back = qasm.loads(qasm.dumps(circuit, version=3))
    assert same_names(read_back, (*theta, phi)) == circuit


@st.composite
def plain_circuits(draw) -> Circuit:
    """Circuits of table gates, measurements, resets, barriers and conditions on one register."""
    circuit = Circuit(draw(st.integers(5, 6)), 2)
    gates = [gate for gate in TABLE_GATES if gate.num_qubits]
    for _ in range(draw(st.integers(0, 12))):
        qubits = draw(st.permutations(range(circuit.num_qubits)))
        step = draw(st.integers(0, 5))
        condition = draw(st.sampled_from([None, Condition((0, 1), 2)]))
        if step == 0:
            circuit.append(qasm_measure, qubits[0], (), draw(st.integers(0, 1)), condition)
        elif step == 1:
            circuit.append(qasm_reset, qubits[0], condition=condition)
        elif step == 2:
            circuit.barrier(*qubits[: draw(st.integers(1, circuit.num_qubits))])
        else:
            gate = draw(st.sampled_from(gates))
            angles = [draw(st.floats(-10, 10)) for _ in range(gate.num_params)]
            circuit.append(gate, qubits[: gate.num_qubits], angles, (), condition)
    return circuit


qasm_measure = Circuit(1, 1).measure(0, 0)[0].gate
qasm_reset = Circuit(1).reset(0)[0].gate


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None, max_examples=60, derandomize=True)
@given(circuit=plain_circuits())
def test_plain_circuits_read_back_equal_in_both_versions(version: int, circuit: Circuit):
    assert qasm.loads(qasm.dumps(circuit, version=version)) == circuit


# Gates that have no name read back as others that do the same.


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None, max_examples=40, derandomize=True)
@given(circuit=circuits(max_qubits=4, max_gates=4))
def test_any_unitary_circuit_reads_back_with_the_same_matrix(version: int, circuit: Circuit):
    assert_same_unitary(circuit, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("gate", TABLE_GATES, ids=lambda gate: gate.name)
def test_gates_under_controls(gate, version: int):
    angles = [0.4 * (k + 1) for k in range(gate.num_params)]
    for controls, state in ((1, 0), (2, 1), (3, 7)):
        controlled = gate.controlled(controls, state)
        if controlled.num_qubits <= 6:
            circuit = Circuit(controlled.num_qubits)
            circuit.append(controlled, range(controlled.num_qubits), angles)
            if version == 3:
                assert qasm.loads(qasm.dumps(circuit)) == circuit
            else:
                assert_same_unitary(circuit, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("num_qubits", [1, 2, 3, 4])
def test_matrices_diagonals_and_permutations(num_qubits: int, version: int):
    size = 1 << num_qubits
    rng = np.random.default_rng(num_qubits)
    gates = [
        unitary_gate(random_unitary(size, 1)),
        unitary_gate(np.eye(size)[rng.permutation(size)]),
        unitary_gate(np.diag(np.exp(1j * rng.uniform(-3, 3, size)))),
        unitary_gate(np.eye(size)),
        diagonal_gate(np.exp(1j * rng.uniform(-3, 3, size))),
        diagonal_gate(np.ones(size)),
        permutation_gate(rng.permutation(size)),
        permutation_gate(np.arange(size)),
    ]
    for gate in gates:
        assert_same_unitary(Circuit(num_qubits).append(gate, range(num_qubits)), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_initialize_is_written_as_resets_and_gates(version: int):
    rng = np.random.default_rng(3)
    amplitudes = rng.normal(size=8) + 1j * rng.normal(size=8)
    amplitudes[[2, 5]] = 0
    amplitudes /= np.linalg.norm(amplitudes)
    for state in ("101", 6, [[0.6, 0.8j], [1, 0], [-1j, 0]], amplitudes, np.eye(8)[3]):
        circuit = Circuit(3).initialize(state)
        read_back = qasm.loads(qasm.dumps(circuit, version=version))
        np.testing.assert_allclose(reference.state(read_back), reference.state(circuit), atol=1e-12)


def test_wide_dense_gates_are_refused_with_their_size():
    for gate in (unitary_gate(np.eye(256)), diagonal_gate(np.ones(1 << 13))):
        circuit = Circuit(gate.num_qubits).append(gate, range(gate.num_qubits))
        with pytest.raises(QasmError, match=rf"on {gate.num_qubits} qubits would take thousands of gates"):
            qasm.dumps(circuit)


# Text.


def test_version_2_text():
    circuit = Circuit(3, 2).h(0).cx(0, 1).rz(math.pi / 4, 2).p(0.1, 0).iswap(0, 1).barrier().barrier(0, 2)
    circuit.measure(0, 0).reset(0)
    with circuit.if_([0, 1], 2):
        circuit.x(1)
    assert qasm.dumps(circuit, version=2) == (
        "OPENQASM 2.0;\n"
        'include "qelib1.inc";\n'
        "gate iswap q0, q1 { s q0; s q1; h q0; cx q0, q1; cx q1, q0; h q1; }\n"
        "qreg q[3];\n"
        "creg c[2];\n"
        "h q[0];\n"
        "cx q[0], q[1];\n"
        "rz(pi/4) q[2];\n"
        "u1(0.1) q[0];\n"
        "iswap q[0], q[1];\n"
        "barrier q;\n"
        "barrier q[0], q[2];\n"
        "measure q[0] -> c[0];\n"
        "reset q[0];\n"
        "if (c == 2) x q[1];\n"
    )


def test_version_3_text():
    t, w = Parameter("t"), ParameterVector("w", 4)
    circuit = Circuit(3, 2).h(0).u(0.1, 0.2, 0.3, 1).rx(2 * w[1] - t / 2 + math.pi, 0).gphase(-math.pi / 3)
    circuit.append(GATES["y"].controlled(2, 1), (0, 2, 1)).measure(2, 1)
    with circuit.if_(1, 1) as else_:
        circuit.x(0)
        with circuit.if_([0, 1], 3):
            circuit.reset(1)
    with else_:
        circuit.z(0)
    circuit.barrier()
    assert qasm.dumps(circuit) == (
        "OPENQASM 3.0;\n"
        'include "stdgates.inc";\n'
        "input float[64] _w_0_;\n"
        "input float[64] _w_1_;\n"
        "input float[64] _w_2_;\n"
        "input float[64] _w_3_;\n"
        "input float[64] t_;\n"
        "gate u(p0, p1, p2) q0 { p(p2) q0; ry(p0) q0; p(p1) q0; }\n"
        "qubit[3] q;\n"
        "bit[2] c;\n"
        "h q[0];\n"
        "u(0.1, 0.2, 0.3) q[1];\n"
        "rx(2.0*_w_1_ - 0.5*t_ + pi) q[0];\n"
        "gphase(-pi/3);\n"
        "ctrl @ negctrl @ y q[0], q[2], q[1];\n"
        "c[1] = measure q[2];\n"
        "if (c[1]) {\n"
        "  x q[0];\n"
        "  if (c == 3) {\n"
        "    reset q[1];\n"
        "  }\n"
        "} else {\n"
        "  z q[0];\n"
        "}\n"
        "barrier;\n"
    )


def test_a_phase_of_zero_is_still_an_instruction():
    circuit = Circuit(1).gphase(0.0).append(GATES["gphase"].controlled(1, 0), 0, (0.0,))
    assert qasm.loads(qasm.dumps(circuit)) == circuit


def test_an_empty_circuit():
    for version in VERSIONS:
        assert qasm.loads(qasm.dumps(Circuit(0), version=version)) == Circuit(0)


@pytest.mark.parametrize("version", VERSIONS)
def test_names_that_are_taken_get_an_underscore(version: int):
    circuit = Circuit(1, 1)
    if version == 3:
        q, x, strange = Parameter("q"), Parameter("x"), Parameter("a b-1")
        circuit.rx(q, 0).rx(x, 0).rx(strange, 0)
    text = qasm.dumps(circuit, version=version)
    assert qasm.loads(text).num_qubits == 1
    if version == 3:
        assert [p.name for p in qasm.loads(text).parameters] == ["q_", "x_", "a_b_1"]


def test_a_condition_whose_bit_is_measured_in_the_block_is_written_as_two():
    circuit = Circuit(2, 2)
    condition = Condition((0,), 1)
    circuit.append(qasm_measure, 0, (), 0, condition).append(GATES["x"], 1, (), (), condition)
    circuit.append(GATES["z"], 1, (), (), condition._replace(equal=False))
    text = qasm.dumps(circuit)
    assert text.count("if (") == 2
    assert text.count("else") == 1
    assert qasm.loads(text) == circuit


# What version 2 cannot say.


def test_version_2_has_no_parameters():
    with pytest.raises(QasmError, match=r"bind them first \(a, b\)"):
        qasm.dumps(Circuit(1).rx(Parameter("a") + Parameter("b"), 0), version=2)


def test_version_2_splits_bits_into_the_registers_that_are_tested():
    circuit = Circuit(1, 6)
    circuit.append(GATES["x"], 0, condition=Condition((1, 2), 3))
    circuit.append(GATES["y"], 0, condition=Condition((3,), 1))
    text = qasm.dumps(circuit, version=2)
    assert [line for line in text.splitlines() if "creg" in line or "if" in line] == [
        "creg c0[1];",
        "creg c1[2];",
        "creg c2[1];",
        "creg c3[2];",
        "if (c1 == 3) x q[0];",
        "if (c2 == 1) y q[0];",
    ]
    assert qasm.loads(text) == circuit


@pytest.mark.parametrize(
    "conditions",
    [
        [(Condition((0, 2), 1),)],
        [(Condition((1, 0), 1),)],
        [(Condition((0, 1), 1),), (Condition((1, 2), 1),)],
        [(Condition((0,), 1), Condition((1,), 1))],
        [(Condition((0, 1), 1, False),)],
    ],
)
def test_version_2_refuses_other_conditions_and_names_version_3(conditions):
    circuit = Circuit(1, 3)
    for condition in conditions:
        circuit.append(GATES["x"], 0, (), (), condition)
    with pytest.raises(QasmError, match=r"version=3"):
        qasm.dumps(circuit, version=2)
    assert qasm.loads(qasm.dumps(circuit, version=3)) == circuit


def test_version_2_tests_a_single_bit_for_inequality_by_its_other_value():
    circuit = Circuit(1, 1).append(GATES["x"], 0, condition=Condition((0,), 1, False))
    assert qasm.loads(qasm.dumps(circuit, version=2))[0].condition == (Condition((0,), 0),)


def test_other_versions_are_refused():
    with pytest.raises(QasmError, match="version 2 or 3; got version 4"):
        qasm.dumps(Circuit(1), version=4)


# Angles.


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back_exactly(value: float):
    for version in ("2.0", "3.0"):
        circuit = qasm.loads(f"OPENQASM {version}; qreg q[1]; U(0, 0, {number_text(value)}) q[0];")
        assert circuit[0].params[2] == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (math.pi, "pi"),
        (-math.pi, "-pi"),
        (math.pi / 2, "pi/2"),
        (-3 * math.pi / 4, "-3*pi/4"),
        (math.pi / 3, "pi/3"),
        (2 * math.pi, "2*pi"),
        (math.pi / 2**20, "pi/1048576"),
        (math.nextafter(math.pi, 4), repr(math.nextafter(math.pi, 4))),
        (0.1, "0.1"),
        (1e-7, "1e-07"),
        (3.0, "3.0"),
    ],
)
def test_numbers_are_fractions_of_pi_only_where_exact(value: float, text: str):
    assert number_text(value) == text


@pytest.mark.parametrize("make", [unitary_gate, diagonal_gate], ids=["unitary", "diagonal"])
@pytest.mark.parametrize("controls", [0, 1, 2])
def test_a_matrix_on_no_qubits_is_a_phase(controls: int, make: Callable[[np.ndarray], Gate]) -> None:
    number = np.exp(0.4j)
    gate = make(np.array([[number]]) if make is unitary_gate else np.array([number]))
    for state in range(1 << controls):
        circuit = Circuit(3).h(range(3))
        circuit.append(gate.controlled(controls, state) if controls else gate, range(controls)).rx(0.3, 0)
        phases = [number if index & (1 << controls) - 1 == state else 1 for index in range(8)]
        want = Circuit(3).rx(0.3, 0).to_matrix() @ np.diag(phases) @ Circuit(3).h(range(3)).to_matrix()
        np.testing.assert_allclose(circuit.to_matrix(), want, atol=1e-14)
        np.testing.assert_allclose(simulate(circuit, dtype="complex128").amplitudes(), want[:, 0], atol=1e-14)
        for version in (2, 3):
            again = Circuit.from_qasm(circuit.to_qasm(version))
            np.testing.assert_allclose(again.to_matrix(), want, atol=1e-14)
