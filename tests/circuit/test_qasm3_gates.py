"""OpenQASM 3: gates, their definitions and modifiers, read into exactly the expected circuit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qdist.circuit import GATES, Circuit, qasm
from qdist.state import reference


def read(body: str) -> Circuit:
    return qasm.loads('OPENQASM 3.0;\ninclude "stdgates.inc";\n' + body)


def unitary(circuit: Circuit) -> np.ndarray:
    return reference.unitary(circuit)


# Gates.


def test_every_gate_of_stdgates_that_shares_its_phase_is_the_gate_of_the_table():
    names = "p x y z h s sdg t tdg sx rx ry rz cx cy cz cp crx cry crz ch swap ccx cswap cu CX phase cphase id u1"
    for name in names.split():
        gate = GATES[name]
        angles = [0.1 * (k + 1) for k in range(gate.num_params)]
        params = f"({', '.join(map(str, angles))})" if angles else ""
        operands = ", ".join(f"q[{k}]" for k in range(gate.num_qubits))
        circuit = read(f"qubit[{gate.num_qubits}] q; {name}{params} {operands};")
        assert circuit == Circuit(gate.num_qubits).append(gate, range(gate.num_qubits), angles)


def test_the_builtin_gate_has_the_matrix_of_the_specification():
    theta, phi, lam = 0.7, 1.1, -0.4
    a, b = 1 + np.exp(1j * theta), 1 - np.exp(1j * theta)
    expected = 0.5 * np.array(
        [[a, -1j * np.exp(1j * lam) * b], [1j * np.exp(1j * phi) * b, np.exp(1j * (phi + lam)) * a]]
    )
    circuit = read(f"qubit q; U({theta}, {phi}, {lam}) q;")
    np.testing.assert_allclose(unitary(circuit), expected, atol=1e-15)
    assert circuit == Circuit(1).u(theta, phi, lam, 0).gphase(theta / 2)


@pytest.mark.parametrize("call", ["u2(0.3, 0.5)", "u3(0.2, 0.3, 0.5)"])
def test_u2_and_u3_have_determinant_1(call: str):
    matrix = unitary(read(f"qubit q; {call} q;"))
    assert np.linalg.det(matrix) == pytest.approx(1)


def test_the_phases_of_many_gates_are_collected_into_one():
    circuit = read("qubit q; " + "U(0.5, 0, 0) q; " * 8)
    assert circuit.count_ops() == {"u": 8, "gphase": 1}
    assert circuit.global_phase == 2.0


def test_the_phase_of_a_gate_matters_under_a_control():
    # Controlled U of the specification is diag(1, 1) + U, not diag(1, 1) + u.
    matrix = unitary(read("qubit[2] q; ctrl @ U(pi, 0, pi) q[0], q[1];"))
    expected = np.eye(4, dtype=complex)
    expected[1::2, 1::2] = 1j * np.array([[0, 1], [1, 0]])
    np.testing.assert_allclose(matrix, expected, atol=1e-15)


def test_gphase():
    assert read("qubit q; gphase(pi/4); ctrl @ gphase(0.5) q;") == Circuit(1).gphase(math.pi / 4).p(0.5, 0)
    expected = Circuit(1).append(GATES["gphase"].controlled(1, 0), 0, (0.5,))
    assert read("qubit q; negctrl @ gphase(0.5) q;") == expected


def test_the_definitions_of_the_standard_library_are_recognised():
    text = """OPENQASM 3;
    gate p(l) a { ctrl @ gphase(l) a; }
    gate x a { U(pi, 0, pi) a; gphase(-pi/2); }
    gate h a { U(pi/2, 0, pi) a; gphase(-pi/4); }
    gate z a { p(pi) a; }
    gate s a { pow(0.5) @ z a; }
    gate sdg a { inv @ pow(0.5) @ z a; }
    gate t a { pow(0.5) @ s a; }
    gate sx a { pow(0.5) @ x a; }
    gate rx(t) a { U(t, -pi/2, pi/2) a; gphase(-t/2); }
    gate rz(l) a { gphase(-l/2); U(0, 0, l) a; }
    gate cx a, b { ctrl @ x a, b; }
    gate crz(t) a, b { ctrl @ rz(t) a, b; }
    gate ccx a, b, c { ctrl @ ctrl @ x a, b, c; }
    gate cu(t, f, l, g) a, b { p(g - t/2) a; ctrl @ U(t, f, l) a, b; }
    qubit[3] q;
    x q[0]; h q[0]; s q[0]; sdg q[0]; t q[0]; sx q[0]; rx(0.5) q[0]; rz(0.5) q[0]; cx q[0], q[1];
    crz(0.5) q[0], q[1]; ccx q[0], q[1], q[2]; cu(0.1, 0.2, 0.3, 0.4) q[0], q[1];"""
    expected = Circuit(3).x(0).h(0).s(0).sdg(0).t(0).sx(0).rx(0.5, 0).rz(0.5, 0).cx(0, 1)
    expected.crz(0.5, 0, 1).ccx(0, 1, 2).cu(0.1, 0.2, 0.3, 0.4, 0, 1)
    assert qasm.loads(text) == expected


def test_gate_definitions_may_hold_loops_and_constants():
    text = """
    const int n = 2;
    gate g(a) x { for int i in [1:n] { rx(a * i) x; if (i == 2) h x; } barrier x; }
    qubit q;
    g(0.5) q;
    """
    assert read(text) == Circuit(1).rx(0.5, 0).rx(1.0, 0).h(0).barrier(0)


# Modifiers.


@pytest.mark.parametrize(
    ("call", "gate", "params"),
    [
        ("ctrl @ x q[0], q[1]", GATES["cx"], ()),
        ("ctrl(2) @ x q[0], q[1], q[2]", GATES["ccx"], ()),
        ("ctrl @ ctrl @ x q[0], q[1], q[2]", GATES["ccx"], ()),
        ("ctrl @ cx q[0], q[1], q[2]", GATES["ccx"], ()),
        ("negctrl @ x q[0], q[1]", GATES["x"].controlled(1, 0), ()),
        ("ctrl @ negctrl @ h q[0], q[1], q[2]", GATES["h"].controlled(2, 0b01), ()),
        ("negctrl @ ctrl @ h q[0], q[1], q[2]", GATES["h"].controlled(2, 0b10), ()),
        ("negctrl(2) @ ctrl @ rx(0.5) q[0], q[1], q[2], q[3]", GATES["rx"].controlled(3, 0b100), (0.5,)),
        ("inv @ s q[0]", GATES["sdg"], ()),
        ("inv @ rx(0.5) q[0]", GATES["rx"], (-0.5,)),
        ("inv @ inv @ t q[0]", GATES["t"], ()),
        ("ctrl @ inv @ s q[0], q[1]", GATES["csdg"], ()),
        ("pow(3) @ rz(0.5) q[0]", GATES["rz"], (1.5,)),
        ("pow(-2) @ p(0.5) q[0]", GATES["p"], (-1.0,)),
        ("pow(2.0) @ crx(0.5) q[0], q[1]", GATES["crx"], (1.0,)),
        ("pow(1) @ x q[0]", GATES["x"], ()),
        ("pow(0.5) @ x q[0]", GATES["sx"], ()),
        ("pow(0.5) @ z q[0]", GATES["s"], ()),
        ("pow(-0.5) @ z q[0]", GATES["sdg"], ()),
        ("pow(0.25) @ z q[0]", GATES["t"], ()),
        ("pow(0.5) @ cx q[0], q[1]", GATES["csx"], ()),
        ("ctrl @ pow(0.5) @ x q[0], q[1]", GATES["csx"], ()),
        ("pow(0.5) @ ccz_ q[0], q[1], q[2]", GATES["s"].controlled(2), ()),
    ],
)
def test_modifiers(call: str, gate, params: tuple[float, ...]):
    circuit = read(f"gate ccz_ a, b, c {{ ctrl(2) @ z a, b, c; }} qubit[4] q; {call};")
    assert circuit == Circuit(4).append(gate, range(gate.num_qubits), params)


def test_powers_repeat_and_invert():
    assert read("qubit q; pow(3) @ x q; pow(0) @ h q; pow(-2) @ t q;") == (Circuit(1).x(0).x(0).x(0).tdg(0).tdg(0))


def test_modifiers_of_definitions():
    text = """
    gate bell a, b { h a; cx a, b; gphase(0.5); }
    qubit[3] q;
    inv @ bell q[0], q[1];
    negctrl @ bell q[2], q[0], q[1];
    pow(2) @ bell q[0], q[1];
    """
    expected = Circuit(3).cx(0, 1).h(0)
    expected.append(GATES["h"].controlled(1, 0), (2, 0)).append(GATES["x"].controlled(2, 0b10), (2, 0, 1))
    expected.append(GATES["gphase"].controlled(1, 0), 2, (0.5,))
    expected.h(0).cx(0, 1).h(0).cx(0, 1).gphase(-0.5 + 2 * 0.5)
    assert read(text) == expected


@pytest.mark.parametrize(
    "body",
    ["h a; t b; cx a, b;", "rx(0.7) a; gphase(0.9); crz(1.3) b, a;", "swap a, b;", "s a; s b; cx a, b; h b;"],
)
@pytest.mark.parametrize("exponent", [0.5, 0.3, -0.25, 1 / 3])
def test_fractional_powers_are_principal(body: str, exponent: float):
    base = unitary(read(f"gate g a, b {{ {body} }} qubit[2] q; g q[0], q[1];"))
    root = unitary(read(f"gate g a, b {{ {body} }} qubit[2] q; pow({exponent!r}) @ g q[0], q[1];"))
    phases = np.angle(np.linalg.eigvals(base))
    expected = np.sort_complex(np.exp(1j * exponent * phases).round(9))
    np.testing.assert_allclose(np.sort_complex(np.linalg.eigvals(root).round(9)), expected, atol=1e-8)
    np.testing.assert_allclose(base @ root, root @ base, atol=1e-12)


def test_modifiers_broadcast():
    assert read("qubit[2] a; qubit[2] b; ctrl @ h a, b;") == Circuit(4).ch(0, 2).ch(1, 3)
