"""OpenQASM 2: each feature, read into exactly the expected circuit; errors at exact places."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qdist.circuit import GATES, Circuit, Condition, qasm
from qdist.circuit.qasm import QasmError
from qdist.state import reference

HEADER = 'OPENQASM 2.0;\ninclude "qelib1.inc";\n'


def read(body: str) -> Circuit:
    return qasm.loads(HEADER + body)


def fails(text: str) -> QasmError:
    with pytest.raises(QasmError) as caught:
        qasm.loads(text)
    return caught.value


def test_gates_on_elements_of_registers():
    expected = Circuit(3).h(0).cx(0, 2).rz(0.5, 1)
    assert read("qreg a[2]; qreg b[1]; h a[0]; cx a[0],b[0]; rz(0.5) a[1];") == expected


def test_registers_are_numbered_in_the_order_of_their_declarations():
    circuit = read("qreg a[2]; creg m[1]; qreg b[3]; creg n[2]; x b[0]; measure b[2] -> n[1];")
    assert (circuit.num_qubits, circuit.num_clbits) == (5, 3)
    assert circuit == Circuit(5, 3).x(2).measure(4, 2)


def test_a_register_may_be_declared_after_gates_on_another():
    assert read("qreg a[1]; h a[0]; qreg b[1]; cx a[0], b[0];") == Circuit(2).h(0).cx(0, 1)


def test_broadcast_of_one_register():
    assert read("qreg q[3]; h q;") == Circuit(3).h(0).h(1).h(2)


def test_broadcast_of_two_registers_in_step():
    assert read("qreg a[2]; qreg b[2]; cx a, b;") == Circuit(4).cx(0, 2).cx(1, 3)


def test_broadcast_of_a_qubit_against_a_register():
    assert read("qreg a[1]; qreg b[2]; cx a[0], b; cx b, a[0];") == (Circuit(3).cx(0, 1).cx(0, 2).cx(1, 0).cx(2, 0))


def test_measure_and_reset_of_elements_and_registers():
    text = "qreg q[2]; creg c[2]; reset q; measure q -> c; reset q[1]; measure q[1] -> c[0];"
    expected = Circuit(2, 2).reset(0).reset(1).measure(0, 0).measure(1, 1).reset(1).measure(1, 0)
    assert read(text) == expected


def test_barrier_takes_any_mixture_and_each_qubit_once():
    circuit = read("qreg a[2]; qreg b[2]; barrier a, b[1]; barrier b[0]; barrier a[1], a;")
    assert circuit == Circuit(4).barrier(0, 1, 3).barrier(2).barrier(1, 0)


def test_builtin_gates_need_no_include():
    circuit = qasm.loads("OPENQASM 2.0; qreg q[2]; U(0.1,0.2,0.3) q[0]; CX q[0],q[1];")
    assert circuit == Circuit(2).u(0.1, 0.2, 0.3, 0).cx(0, 1)


@pytest.mark.parametrize("name", sorted({gate.qasm2_name for gate in GATES.values() if gate.qasm2_name}))
def test_every_gate_of_qelib1_is_the_gate_of_the_table(name: str):
    gate = next(gate for gate in GATES.values() if gate.qasm2_name == name)
    angles = [0.1 * (k + 1) for k in range(gate.num_params)]
    params = f"({','.join(map(str, angles))})" if angles else ""
    operands = ",".join(f"q[{k}]" for k in range(gate.num_qubits))
    circuit = read(f"qreg q[{gate.num_qubits}]; {name}{params} {operands};")
    assert circuit == Circuit(gate.num_qubits).append(gate, range(gate.num_qubits), angles)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pi", math.pi),
        ("-pi/2", -math.pi / 2),
        ("3*pi/4", 3 * math.pi / 4),
        ("2 - 3 - 4", -5.0),
        ("8/4/2", 1.0),
        ("1/2", 0.5),
        ("2*3+4", 10.0),
        ("2+3*4", 14.0),
        ("(2+3)*4", 20.0),
        ("2^3^2", 512.0),
        ("-2^2", -4.0),
        ("2^-1", 0.5),
        ("2*-3", -6.0),
        ("--1", 1.0),
        ("sin(pi/6)", math.sin(math.pi / 6)),
        ("cos(1)", math.cos(1)),
        ("tan(0.5)", math.tan(0.5)),
        ("exp(1)", math.e),
        ("ln(2)", math.log(2)),
        ("sqrt(2)", math.sqrt(2)),
        (
            "sqrt(sin(pi/3)^2 + cos(pi/3)^2)",
            math.sqrt(math.sin(math.pi / 3) ** 2 + math.cos(math.pi / 3) ** 2),
        ),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e-3", 0.001),
        ("1.5E+2", 150.0),
        ("007", 7.0),
    ],
)
def test_expressions(text: str, value: float):
    assert read(f"qreg q[1]; rz({text}) q[0];")[0].params == (value,)


def test_gate_definitions_are_expanded():
    text = """
    gate majority a,b,c { cx c,b; cx c,a; ccx a,b,c; }
    qreg q[3];
    majority q[2],q[1],q[0];
    """
    assert read(text) == Circuit(3).cx(0, 1).cx(0, 2).ccx(2, 1, 0)


def test_gate_definitions_nest_and_take_parameters():
    text = """
    gate inner(a, b) x, y { rz(a/2) x; u1(-b + sin(a)) y; }
    gate outer(t) p, q { inner(2*t, pi) q, p; cx p, q; }
    qreg q[2];
    outer(0.25) q[0], q[1];
    """
    assert read(text) == Circuit(2).rz(0.25, 1).p(-math.pi + math.sin(0.5), 0).cx(0, 1)


def test_gate_definitions_broadcast():
    assert read("gate g a, b { h a; cx a, b; } qreg q[2]; qreg r[2]; g q, r;") == (
        Circuit(4).h(0).cx(0, 2).h(1).cx(1, 3)
    )


def test_gate_definitions_may_hold_barriers_and_nothing():
    text = "gate g a, b { h a; barrier a, b; h b; } gate nothing a { } qreg q[2]; g q[1], q[0]; nothing q[0];"
    assert read(text) == Circuit(2).h(1).barrier(1, 0).h(0)


def test_a_gate_may_have_empty_parentheses():
    assert read("gate g() a { h() a; } qreg q[1]; g() q[0]; x() q[0];") == Circuit(1).h(0).x(0)


def test_a_parameter_may_have_the_name_of_a_gate():
    assert read("gate g(x) h { rx(x) h; h h; } qreg q[1]; g(0.5) q[0];") == Circuit(1).rx(0.5, 0).h(0)


def test_a_definition_that_is_a_table_gate_under_its_name_becomes_that_gate():
    text = """OPENQASM 2.0;
    gate h a { U(pi/2, 0, pi) a; }
    gate swap a, b { CX a, b; CX b, a; CX a, b; }
    qreg q[2];
    h q[0]; swap q[0], q[1];"""
    assert qasm.loads(text) == Circuit(2).h(0).swap(0, 1)


def test_a_definition_that_differs_from_its_namesake_means_itself():
    text = "OPENQASM 2.0; gate h a { U(0.1, 0, pi) a; } qreg q[1]; h q[0];"
    assert qasm.loads(text) == Circuit(1).u(0.1, 0, math.pi, 0)


def test_a_program_may_define_what_only_longer_headers_have():
    text = "gate swap a, b { cx a, b; } qreg q[2]; swap q[0], q[1];"
    assert read(text) == Circuit(2).cx(0, 1)


def test_opaque_gates_may_be_declared_but_not_used():
    assert read("opaque magic(a, b) q, r; qreg q[1]; h q[0];") == Circuit(1).h(0)
    error = fails(HEADER + "opaque magic(a) q;\nqreg q[1];\nmagic(0.5) q[0];")
    assert (error.line, error.column) == (5, 1)
    assert "opaque" in error.message


def test_if_tests_a_whole_register():
    circuit = read("qreg q[2]; creg a[1]; creg c[2]; if (c == 2) x q[1]; if(a==1) measure q[0] -> a[0];")
    expected = Circuit(2, 3)
    with expected.if_([1, 2], 2):
        expected.x(1)
    with expected.if_(0, 1):
        expected.measure(0, 0)
    assert circuit == expected
    assert circuit[0].condition == (Condition((1, 2), 2),)


def test_if_applies_to_every_gate_of_a_definition_and_of_a_broadcast():
    circuit = read("gate g a { h a; x a; } qreg q[2]; creg c[1]; if (c == 0) g q;")
    assert [i.gate.name for i in circuit] == ["h", "x", "h", "x"]
    assert all(i.condition == (Condition((0,), 0),) for i in circuit)


def test_if_on_a_value_that_the_register_cannot_hold_never_runs():
    assert read("qreg q[1]; creg c[2]; if (c == 4) x q[0]; h q[0];") == Circuit(1, 2).h(0)


def test_a_conditional_measurement_that_would_change_its_own_condition_midway_is_refused():
    error = fails(HEADER + "qreg q[2]; creg c[2];\nif (c == 1) measure q -> c;")
    assert (error.line, error.column) == (4, 13)
    assert "measured into" in error.message


def test_comments_and_odd_spacing():
    text = "// first\nqreg q [ 2 ] ;// second\n\th\tq[0]\n;cx q[0]\n,\n// third\nq[1];/* block */ x q[1];"
    assert read(text) == Circuit(2).h(0).cx(0, 1).x(1)


def test_windows_line_ends():
    assert qasm.loads(HEADER.replace("\n", "\r\n") + "qreg q[1];\r\n// c\r\nh q[0];\r\n") == Circuit(1).h(0)


def test_the_phase_of_a_definition_is_kept():
    # e^{i a} on everything, made of two phases.
    text = "gate phase(a) q { u1(a) q; x q; u1(a) q; x q; } qreg q[1]; phase(0.3) q[0];"
    np.testing.assert_allclose(reference.state(read(text)), [np.exp(0.3j), 0], atol=1e-15)


# Errors: the line and column of the offending piece, and what was expected.


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("x q[0];", 1, 1, "gate 'x' is not defined"),
        ("qubit[2] q;", 1, 6, "a program of OpenQASM 3 begins with 'OPENQASM 3;'"),
        ('include "stdgates.inc";', 1, 1, "a program of OpenQASM 3 begins with 'OPENQASM 3;'"),
        ("// c\n\nOPENQASM 4.0;", 3, 10, "expected version"),
        ("OPENQASM 2.0", 1, 13, "expected ';' after the version, found the end of the program"),
        (HEADER + "qreg q[2]\nh q[0];", 4, 1, "expected ';' after the declaration, found 'h'"),
        (HEADER + "qreg q[2];\nh q[0]", 4, 7, "expected ';'"),
        (HEADER + "qreg q[2];\nh q[2];", 4, 5, "index 2 is out of range: 'q' has elements 0 to 1"),
        (HEADER + "qreg q[2];\nh r[0];", 4, 3, "'r' is not declared"),
        (HEADER + "qreg q[2];\ncx q[0], q[0];", 4, 10, "must differ"),
        (HEADER + "qreg q[2];\ncx q, q[1];", 4, 7, "must differ"),
        (HEADER + "qreg q[2];\ncx q[0];", 4, 1, "acts on 2 qubits here; got 1"),
        (HEADER + "qreg q[2];\nrx q[0];", 4, 1, "takes 1 parameter; got 0"),
        (HEADER + "qreg q[2];\nrx(1,2) q[0];", 4, 1, "takes 1 parameter; got 2"),
        (HEADER + "qreg q[2];\nfoo q[0];", 4, 1, "gate 'foo' is not defined"),
        (HEADER + "qreg q[2];\nswpa q[0], q[1];", 4, 1, "did you mean 'swap'?"),
        ("OPENQASM 2.0;\nqreg q[2];\nh q[0];", 3, 1, 'need an include: "qelib1.inc"'),
        (HEADER + "qreg q[2];\nqreg q[3];", 4, 1, "'q' is already declared"),
        (HEADER + "qreg q[2]; qreg r[3];\ncx q, r;", 4, 1, "different sizes"),
        (HEADER + "qreg q[2]; creg c[3];\nmeasure q -> c;", 4, 1, "their sizes differ"),
        (HEADER + "qreg q[2]; creg c[3];\nmeasure c -> q;", 4, 9, "expected qubits, but 'c' is"),
        (HEADER + "qreg q[2]; creg c[3];\nmeasure q[0] c[0];", 4, 14, "expected '->'"),
        (HEADER + "qreg q[2];\nh c[0];\ncreg c[1];", 4, 3, "'c' is not declared"),
        (HEADER + "qreg q[0];", 3, 8, "must be from 1 to"),
        (HEADER + "qreg q[x];", 3, 8, "expected the size of the register"),
        (HEADER + "qreg pi[1];", 3, 6, "is a word of the language"),
        (HEADER + "qreg q[2];\nrx(pi*) q[0];", 4, 7, "expected an expression, found ')'"),
        (HEADER + "qreg q[2];\nrx((pi) q[0];", 4, 9, "expected ')'"),
        (HEADER + "qreg q[2];\nrx(1/0) q[0];", 4, 4, "division by zero"),
        (HEADER + "qreg q[2];\nrx(1 + ln(0)) q[0];", 4, 8, "outside the function's domain"),
        (HEADER + "qreg q[2];\nrx(sqrt(-1)) q[0];", 4, 4, "outside the function's domain"),
        (HEADER + "qreg q[2];\nrx(1e400) q[0];", 4, 4, "too large"),
        (HEADER + "qreg q[2];\nrx(exp(1000)) q[0];", 4, 4, "too large"),
        (HEADER + "qreg q[2];\nrx(10^400) q[0];", 4, 4, "too large"),
        (HEADER + "qreg q[2];\nrx(theta) q[0];", 4, 4, "'theta' is not declared"),
        (HEADER + "qreg q[2];\nrx(q) q[0];", 4, 4, "expected a number, got a register of 2 qubits"),
        (HEADER + "qreg q[2];\nrx(arcsin(1)) q[0];", 4, 4, "'arcsin' is not a function"),
        (HEADER + "qreg q[2];\nrx(sin(1, 2)) q[0];", 4, 4, "'sin' takes 1 argument; got 2"),
        (HEADER + "qreg q[2];\nrx(2pi) q[0];", 4, 4, "'2pi' is not a number"),
        (HEADER + "qreg q[2];\nh q[-1];", 4, 5, "expected the index of an element, found '-'"),
        (HEADER + "qreg q[2];\nh q[0:1];", 4, 6, "expected ']'"),
        (HEADER + "gate g a { h b; }", 3, 14, "'b' is not a qubit of gate 'g'"),
        (HEADER + "gate g a { h a[0]; }", 3, 14, "cannot be indexed"),
        (HEADER + "gate g(t) a { rx(s) a; }", 3, 18, "'s' is not a parameter of gate 'g'"),
        (HEADER + "gate g a, a { }", 3, 11, "'a' appears twice"),
        (HEADER + "gate g(a) a { }", 3, 11, "names both a parameter and a qubit"),
        (HEADER + "gate g a { g a; }", 3, 12, "cannot call itself"),
        (HEADER + "gate g a { foo a; }", 3, 12, "gate 'foo' is not defined"),
        (HEADER + "gate g a, b { cx a, a; }", 3, 21, "appears twice in one operation"),
        (HEADER + "gate g a { measure a -> a; }", 3, 12, "may hold only gates and barriers, not 'measure'"),
        (HEADER + "gate g a { h a;", 3, 16, "expected '}' to end the body of gate 'g'"),
        (HEADER + "gate h a { x a; }", 3, 1, "gate 'h' is already defined"),
        (HEADER + "gate g a { }\ngate g a { }", 4, 1, "gate 'g' is already defined"),
        ('OPENQASM 2.0;\ngate h a { }\ninclude "qelib1.inc";', 3, 1, "'h', which is already defined"),
        ('OPENQASM 2.0;\ninclude "other.inc";', 2, 1, "use load(path)"),
        ('OPENQASM 2.0;\ninclude "stdgates.inc";', 2, 1, 'has "qelib1.inc"'),
        ("OPENQASM 2.0;\ninclude qelib1;", 2, 9, "expected the name of a file in quotes"),
        (
            HEADER + "qreg q[2]; creg c[2];\nif (c == 1) barrier q;",
            4,
            13,
            "expected a gate, a measurement or a reset",
        ),
        (HEADER + "qreg q[2]; creg c[2];\nif (c = 1) x q[0];", 4, 7, "expected '=='"),
        (HEADER + "qreg q[2]; creg c[2];\nif (c[0] == 1) x q[0];", 4, 6, "expected '=='"),
        (HEADER + "qreg q[2]; creg c[2];\nif (d == 1) x q[0];", 4, 5, "'d' is not declared"),
        (HEADER + "qubit q;", 3, 1, "gate 'qubit' is not defined"),
        (HEADER + "qreg q[2];\nx @ q[0];", 4, 3, "expected a qubit or a register, found '@'"),
        (HEADER + "qreg q[2];\n€ q[0];", 4, 1, "unexpected character '€'"),
        (HEADER + "qreg q[2];\n/* h q[0];", 4, 1, "never closed"),
        (HEADER + 'include "abc;', 3, 9, "never closed"),
        (HEADER + "}", 3, 1, "expected a statement, found '}'"),
        (HEADER + "OPENQASM 2.0;", 3, 1, "the version must be the first statement"),
    ],
)
def test_errors_name_the_place_and_what_was_expected(text: str, line: int, column: int, message: str):
    error = fails(text)
    assert message in error.message
    assert (error.line, error.column) == (line, column)
    assert f"line {line}, column {column}" in str(error)


def test_an_error_shows_the_line_and_points_at_the_place():
    error = fails(HEADER + "qreg q[2];\n  cx q[0], q[7];\n")
    assert str(error).splitlines()[1:] == ["      cx q[0], q[7];", "                 ^"]
    assert error.text == "7"
    assert isinstance(error, ValueError)


def test_an_error_in_a_very_long_line_shows_only_its_surroundings():
    error = fails(HEADER + "qreg q[1]; " + "x q[0]; " * 10000 + "y q[1]; " + "x q[0]; " * 10000)
    assert error.column == 11 + 8 * 10000 + 5
    assert len(str(error)) < 500
