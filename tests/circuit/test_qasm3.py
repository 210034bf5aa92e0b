"""OpenQASM 3: declarations, expressions and control flow, read into exactly the expected circuit; what is not
supported refused by name. Gates are in test_qasm3_gates.py."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable

import numpy as np
import pytest

from qdist.circuit import GATES, Circuit, Condition, Parameter, ParameterVector, qasm
from qdist.circuit.qasm import QasmError
from qdist.state import reference

HEADER = 'OPENQASM 3.0;\ninclude "stdgates.inc";\n'


def read(body: str) -> Circuit:
    return qasm.loads(HEADER + body)


def fails(body: str) -> QasmError:
    with pytest.raises(QasmError) as caught:
        read(body)
    return caught.value


# Declarations.


def test_qubits_and_bits():
    circuit = read("qubit a; qubit[2] q; bit b; bit[3] c; h a; cx a, q[1]; b = measure a; c[2] = measure q[0];")
    assert circuit == Circuit(3, 4).h(0).cx(0, 2).measure(0, 0).measure(1, 3)


def test_declarations_in_the_style_of_version_2():
    assert read("qreg q[2]; creg c[2]; h q[0]; measure q -> c;") == (Circuit(2, 2).h(0).measure(0, 0).measure(1, 1))


def test_a_bit_register_may_be_declared_with_its_measurement():
    assert read("qubit[2] q; bit[2] c = measure q; bit d = measure q[0];") == (
        Circuit(2, 3).measure(0, 0).measure(1, 1).measure(0, 2)
    )


@pytest.mark.parametrize("version", ["3", "3.0", "3.1"])
def test_versions(version: str):
    assert qasm.loads(f"OPENQASM {version}; qubit q; U(0, 0, 0.5) q;")[0].gate == GATES["u"]


def test_constants():
    text = """
    const int n = 3;
    const uint[8] m = n - 1;
    const float half = pi / 2;
    const bool flag = n > m && !false;
    qubit[n] q;
    rx(half * m) q[n - 1];
    if (flag) x q[0];
    """
    assert read(text) == Circuit(3).rx(math.pi, 2).x(0)


def test_input_parameters_become_parameters():
    circuit = read("input float[64] theta; input angle phi; qubit q; rx(theta) q; rz(2*phi - theta/4 + pi) q;")
    theta, phi = circuit.parameters
    assert (theta.name, phi.name) == ("theta", "phi")
    assert circuit == Circuit(1).rx(theta, 0).rz(2 * phi - theta / 4 + math.pi, 0)


def test_parameters_come_in_the_order_of_their_inputs() -> None:
    """Values in a flat array fit what is read as they fit what was written, wherever a phase went."""
    circuit = read("input float b; input array[float, 2] v; input float a; qubit q; rx(a + v[1]) q; rz(b) q;")
    assert [p.name for p in circuit.parameters] == ["b", "v[1]", "a"]
    a, b, c = (Parameter(name) for name in ("alpha", "beta", "gamma"))
    own = Circuit(2).pauli_rotation(c, "II", [0, 1]).rx(b, 0).gphase(a * b).ry(a, 1).cx(0, 1)
    again = Circuit.from_qasm(own.to_qasm())
    assert [p.name for p in again.parameters] == [p.name for p in own.parameters]
    values = [0.3, 0.4, 0.5]
    np.testing.assert_allclose(reference.state(again, values), reference.state(own, values), atol=1e-12)


def test_input_arrays_become_parameter_vectors():
    circuit = read("input array[float[64], 3] w; qubit[3] q; for int i in [0:2] { ry(w[i]) q[i]; }")
    vector = circuit.parameters[0].vector
    assert isinstance(vector, ParameterVector)
    assert (vector.name, len(vector)) == ("w", 3)
    assert circuit == Circuit(3).ry(vector[0], 0).ry(vector[1], 1).ry(vector[2], 2)


def test_parameters_pass_through_definitions_and_modifiers():
    text = """
    input float t;
    gate g(a) p, q { rx(a / 2) p; gphase(a); cp(-a) p, q; }
    qubit[3] q;
    ctrl @ g(3 * t) q[0], q[1], q[2];
    inv @ rz(t) q[0];
    """
    circuit = read(text)
    (t,) = circuit.parameters
    ccp = GATES["p"].controlled(2)
    expected = Circuit(3).crx(3 * t / 2, 0, 1).append(ccp, (0, 1, 2), (-(3 * t),)).p(3 * t, 0).rz(-t, 0)
    assert circuit == expected


def test_aliases_and_concatenation():
    text = """
    qubit[3] a; qubit[2] b;
    let pair = a[0:1];
    let all = b ++ pair;
    let one = a[2];
    h pair; x all[3]; cx one, all[0];
    """
    assert read(text) == Circuit(5).h(0).h(1).x(1).cx(2, 3)


def test_physical_qubits():
    assert read("bit c; h $0; cx $0, $3; c = measure $3;") == Circuit(4, 1).h(0).cx(0, 3).measure(3, 0)


# Selecting.


@pytest.mark.parametrize(
    ("operand", "qubits"),
    [
        ("q", [0, 1, 2, 3, 4]),
        ("q[0]", [0]),
        ("q[-1]", [4]),
        ("q[1:3]", [1, 2, 3]),
        ("q[0:2:4]", [0, 2, 4]),
        ("q[3:-1:1]", [3, 2, 1]),
        ("q[:]", [0, 1, 2, 3, 4]),
        ("q[3:]", [3, 4]),
        ("q[:1]", [0, 1]),
        ("q[-2:-1]", [3, 4]),
        ("q[{4, 0, 2}]", [4, 0, 2]),
        ("q[2 * 2 - 1]", [3]),
    ],
)
def test_selections(operand: str, qubits: list[int]):
    assert read(f"qubit[5] q; h {operand};") == Circuit(5).h(qubits)


def test_slices_broadcast_in_step():
    assert read("qubit[6] q; cx q[0:2], q[3:5]; cx q[5], q[0:1];") == (
        Circuit(6).cx(0, 3).cx(1, 4).cx(2, 5).cx(5, 0).cx(5, 1)
    )


def test_measurement_of_slices():
    assert read("qubit[4] q; bit[4] c; c[0:1] = measure q[2:3]; measure q[0] -> c[3];") == (
        Circuit(4, 4).measure(2, 0).measure(3, 1).measure(0, 3)
    )


def test_barriers():
    assert read("qubit[3] q; barrier q[2], q[0]; barrier; barrier q;") == (Circuit(3).barrier(2, 0).barrier().barrier())


def test_reset():
    assert read("qubit[3] q; reset q[0]; reset q[1:2];") == Circuit(3).reset(0).reset(1).reset(2)


# Expressions.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("π", math.pi),
        ("tau/4", math.tau / 4),
        ("τ", math.tau),
        ("euler", math.e),
        ("ℇ", math.e),
        ("2**3**2", 512.0),
        ("-2**2", -4.0),
        ("6/3", 2.0),
        ("1.0/2", 0.5),
        ("7 % 4", 3.0),
        ("-7 % 4", -3.0),
        ("0x10 + 0b11 + 0o7", 26.0),
        ("1_000.5", 1000.5),
        ("arcsin(1.0)", math.pi / 2),
        ("arccos(0.5)", math.acos(0.5)),
        ("arctan(1)", math.atan(1)),
        ("log(2)", math.log(2)),
        ("floor(2.7) + ceiling(0.2)", 3.0),
        ("mod(7, 4) + mod(5.5, 2)", 4.5),
        ("pow(2, 10)", 1024.0),
        ("popcount(13)", 3.0),
        ("1 << 4 | 1", 17.0),
        ("12 & 10 ^ 1", 9.0),
        ("float(3)/2", 1.5),
        ("int(2.9)", 2.0),
        ("uint(2.9)", 2.0),
    ],
)
def test_expressions(text: str, value: float):
    assert read(f"qubit q; rz({text}) q;")[0].params == (value,)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 < 2", True),
        ("2 <= 1", False),
        ("1 + 1 == 2", True),
        ("1 != 1 || true", True),
        ("!(1 > 0) && true", False),
        ("true == false", False),
        ("bool(3)", True),
    ],
)
def test_constant_conditions_choose_a_branch(text: str, value: bool):
    circuit = read(f"qubit q; if ({text}) {{ x q; }} else {{ z q; }}")
    assert circuit == (Circuit(1).x(0) if value else Circuit(1).z(0))


def test_integers_are_not_divided_inexactly_in_silence():
    error = fails("qubit q;\nrz(1/2) q;")
    assert (error.line, error.column) == (4, 4)
    assert "write 1.0/2" in error.message


# Control flow.


def test_for_loops():
    text = """
    qubit[9] q;
    for int i in [0:2:8] { x q[i]; }
    for uint[8] i in [2:-1:0] h q[i];
    for int i in {1, 5, 3} { rz(i) q[i]; }
    for float a in {0.5, 1} rx(a) q[0];
    for int i in [3:2] { y q[0]; }
    """
    expected = Circuit(9).x([0, 2, 4, 6, 8]).h([2, 1, 0]).rz(1.0, 1).rz(5.0, 5).rz(3.0, 3)
    assert read(text) == expected.rx(0.5, 0).rx(1.0, 0)


def test_nested_loops_see_outer_variables():
    text = """
    const int n = 4;
    qubit[n] q;
    for int i in [0:n - 1] {
      h q[i];
      for int j in [i + 1:n - 1] { cp(pi / 2**(j - i)) q[j], q[i]; }
    }
    """
    expected = Circuit(4)
    for i in range(4):
        expected.h(i)
        for j in range(i + 1, 4):
            expected.cp(math.pi / 2 ** (j - i), j, i)
    assert read(text) == expected


def test_a_loop_variable_ends_with_its_loop():
    assert "'i' is not declared" in fails("qubit q; for int i in [0:1] { x q; } rz(i) q;").message


@pytest.mark.parametrize(
    ("test", "condition"),
    [
        ("c[1]", Condition((1,), 1)),
        ("!c[1]", Condition((1,), 0)),
        ("c[1] == 0", Condition((1,), 0)),
        ("c[1] == true", Condition((1,), 1)),
        ("c[1] != 1", Condition((1,), 1, False)),
        ("b", Condition((3,), 1)),
        ("c == 5", Condition((0, 1, 2), 5)),
        ("5 == c", Condition((0, 1, 2), 5)),
        ("c != 5", Condition((0, 1, 2), 5, False)),
        ('c == "011"', Condition((0, 1, 2), 3)),
        ("c[1:2] == 2", Condition((1, 2), 2)),
        ("c[{2, 0}] == 1", Condition((2, 0), 1)),
        ("c[0] && !c[2]", Condition((0, 2), 0b01)),
        ("c[0] == 0 && b == 1", Condition((0, 3), 0b10)),
        ("!(c[0] && b)", Condition((0, 3), 0b11, False)),
        ("c[0] && 1 < 2", Condition((0,), 1)),
    ],
)
def test_conditions(test: str, condition: Condition):
    expected = Circuit(1, 4).append(GATES["x"], 0, condition=condition)
    assert read(f"qubit q; bit[3] c; bit b; if ({test}) x q;") == expected


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_bits_that_are_more_or_less_than_a_number_are_what_integers_are(size: int) -> None:
    compared = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
    read_so = 0
    for number, (op, holds) in itertools.product(range(-1, (1 << size) + 2), compared.items()):
        for text, mirrored in ((f"c {op} {number}", False), (f"!({number} {op} c)", True)):
            try:
                circuit = read(f"qubit q; bit[{size}] c; if ({text}) x q;")
            except QasmError:
                continue
            read_so += 1
            for value in range(1 << size):
                bits = [value >> k & 1 for k in range(size)]
                found = any(all(test.holds(bits) for test in instruction.condition) for instruction in circuit)
                assert found is (not holds(number, value) if mirrored else holds(value, number)), text
    # Of 3 bits all thresholds but 3 and 5, of 4 bits 1, 2, 4, 8, 12, 14 and 15, each in eight forms.
    assert read_so == {1: 40, 2: 56, 3: 72, 4: 88}[size]


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        ("c[0] || c[2]", lambda x, y, z: x or z),
        ("!c[0] || c[1] || !c[2]", lambda x, y, z: not x or y or not z),
        ("c[0:1] != 2 || !c[2]", lambda x, y, z: x + 2 * y != 2 or not z),
        ("!(c[0] || !c[1]) && c[2]", lambda x, y, z: not (x or not y) and z),
        ("c[0] || !c[0]", lambda x, y, z: True),
        ("c[1] || c > 0", lambda x, y, z: x or y or z),
        ("c[1] || 2 < 1", lambda x, y, z: y),
        ("1 < 2 || c[1]", lambda x, y, z: True),
    ],
)
def test_either_of_two_tests(test: str, holds: Callable[[int, int, int], object]):
    circuit = read(f"qubit q; bit[3] c; if ({test}) x q; else z q;")
    for bits in itertools.product((0, 1), repeat=3):
        found = [i.gate.name for i in circuit if all(one.holds(bits) for one in i.condition)]
        assert found == ["x" if holds(*bits) else "z"], bits


def test_conditions_that_never_hold_leave_nothing():
    assert len(read("qubit q; bit[2] c; if (c == 4) x q; if (c[0] && !c[0]) x q;")) == 0


def test_if_and_else():
    circuit = read("qubit[2] q; bit[2] c; if (c == 1) { x q[0]; h q[1]; } else { z q[0]; }")
    expected = Circuit(2, 2)
    with expected.if_([0, 1], 1) as else_:
        expected.x(0).h(1)
    with else_:
        expected.z(0)
    assert circuit == expected


def test_nested_if_and_else_if():
    circuit = read("qubit q; bit[2] c; if (c[0]) { if (c[1]) x q; } else if (c[1]) y q; else z q;")
    expected = Circuit(1, 2)
    with expected.if_(0, 1) as else_, expected.if_(1, 1):
        expected.x(0)
    with else_:
        with expected.if_(1, 1) as inner_else:
            expected.y(0)
        with inner_else:
            expected.z(0)
    assert circuit == expected


def test_measurement_inside_a_condition_reads_the_bit_once():
    circuit = read("qubit q; bit[2] c; if (c[0]) { x q; c[0] = measure q; }")
    assert [i.gate.name for i in circuit] == ["x", "measure"]
    error = fails("qubit q; bit[2] c;\nif (c[0]) {\n  c[0] = measure q;\n  x q;\n}")
    assert (error.line, error.column) == (6, 3)
    error = fails("qubit q; bit[2] c;\nif (c[0]) { c[0] = measure q; } else { x q; }")
    assert (error.line, error.column) == (4, 1)


def test_a_gate_with_a_phase_under_a_condition_keeps_the_phase_there():
    circuit = read("qubit q; bit c; if (c) U(0.5, 0, 0) q;")
    assert [(i.gate.name, i.condition) for i in circuit] == [
        ("u", (Condition((0,), 1),)),
        ("gphase", (Condition((0,), 1),)),
    ]


def test_comments():
    assert read("qubit q; // one\n/* two\n * three **/ h /* four */ q;") == Circuit(1).h(0)


# Errors.


@pytest.mark.parametrize(
    ("body", "line", "column", "message"),
    [
        ("def f(qubit q) { h q; }", 3, 1, "not supported: subroutines ('def')"),
        ("extern f(int) -> int;", 3, 1, "not supported: external functions"),
        ("qubit q;\nwhile (true) { h q; }", 4, 1, "not supported: 'while' loops"),
        ("box { }", 3, 1, "not supported: 'box'"),
        ("qubit q;\ndelay[100ns] q;", 4, 1, "not supported: delays"),
        ("int i = 3;", 3, 1, "not supported: variables of type 'int'"),
        ("float[64] x;", 3, 1, "not supported: variables of type 'float'"),
        ("duration d;", 3, 1, "not supported: variables of type 'duration'"),
        ("array[int, 3] a;", 3, 1, "not supported: variables of type 'array'"),
        ("const angle a = pi;", 3, 7, "not supported: constants of type 'angle'"),
        ("output bit c;", 3, 1, "not supported: 'output'"),
        ("switch (1) { }", 3, 1, "not supported: 'switch'"),
        ("end;", 3, 1, "not supported: 'end'"),
        ("return;", 3, 1, "not supported: 'return'"),
        ("for int i in [0:1] { break; }", 3, 22, "not supported: 'break'"),
        ("defcal x $0 { }", 3, 1, "not supported: calibrations"),
        ("cal { }", 3, 1, "not supported: calibrations"),
        ('defcalgrammar "openpulse";', 3, 1, "not supported: calibrations"),
        ("pragma simulator noise", 3, 1, "not supported: pragmas"),
        ("#pragma simulator noise", 3, 1, "not supported: pragmas"),
        ("@reversible\nqubit q;", 3, 1, "not supported: annotations"),
        ("{ }", 3, 1, "not supported: blocks"),
        ("input int n;", 3, 7, "expected one of the types float, angle"),
        ("bit[2] c;\nc[0] = 1;", 4, 8, "only 'measure' can be assigned to bits"),
        ('bit[2] c = "01";', 3, 12, "bits can be initialised only by 'measure'"),
        ("const int n = 3;\nn += 1;", 4, 3, "not supported: assignment with '+='"),
        ("qubit q;\nmeasure q;", 4, 10, "expected '->' and where the result goes"),
        ("qubit q;\nf(3);", 4, 1, "subroutines are not supported"),
        ("qubit q;\nrx(2im) q;", 4, 4, "imaginary"),
        ("input float t; qubit q;\nrx(floor(t)) q;", 4, 4, "'floor' of an input parameter has no derivative"),
        ("input float t; qubit q;\nrx(t % 2) q;", 4, 4, "'%' of an input parameter is no angle"),
        ("input float t; qubit q;\nrx(t / 0) q;", 4, 4, "zero"),
        ("input float t; qubit q;\npow(t) @ x q;", 4, 5, "the power of a gate must be a number"),
        ("input float t; qubit q;\npow(0.5) @ rx(t) q;", 4, 1, "unbound parameters must be an integer"),
        ("input float t;\nqubit[t] q;", 4, 7, "must be an integer"),
        ("qubit[2] q; bit[2] c;\nif (c) x q[0];", 4, 5, "is not a condition; compare it with an integer"),
        ("qubit[2] q; bit[2] c;\nif (c == 1 || c[1]) x q[0];", 4, 5, "} else if (second) {"),
        ("qubit[2] q; bit[3] c;\nif (c != 1 && c[2]) x q[0];", 4, 5, "nest the 'if' statements instead"),
        ("qubit[2] q; bit[3] c;\nif (c > 2) x q[0];", 4, 5, "3 classical bits >= 3 is no test of a single value"),
        ("qubit[2] q; bit[3] c;\nif (5 > c) x q[0];", 4, 5, "bits < 5 is no test of a single value"),
        ("qubit[2] q; bit[3] c;\nif (c > 0.5) x q[0];", 4, 5, "only than an integer"),
        ('qubit[2] q; bit[2] c;\nif (c == "011") x q[0];', 4, 5, "has 3 bits"),
        ("qubit[2] q; bit[2] c;\nif (c == 0.5) x q[0];", 4, 5, "only with an integer or a bit string"),
        ("qubit[2] q;\nif (1) x q[0];", 4, 5, "expected a condition"),
        ("qubit[2] q;\nh q[0][0];", 4, 7, "expected ';'"),
        ("qubit q;\nh q[0];", 4, 3, "'q' is a qubit and cannot be indexed"),
        ("qubit[3] q;\nh q[3];", 4, 5, "index 3 is out of range"),
        ("qubit[3] q;\nh q[-4];", 4, 5, "index -4 is out of range"),
        ("qubit[3] q;\nh q[2:1];", 4, 5, "the range is empty"),
        ("qubit[3] q;\nh q[0:0:2];", 4, 7, "must not be 0"),
        ("qubit[3] q;\nh q[{0, 0}];", 4, 3, "selected twice"),
        ("qubit[3] q;\nlet a = q ++ q[0];", 4, 1, "same qubit or bit twice"),
        ("qubit[3] q;\nfor int i in [0:] { }", 4, 14, "needs both ends"),
        ("qubit[3] q;\nfor int i in q { }", 4, 14, "expected a range [first:last] or a set"),
        ("qubit[3] q;\nfor int i in {0.5} { }", 4, 15, "is not of type 'int'"),
        ("qubit[3] q;\nfor int i in [0:1] { qubit r; }", 4, 22, "must stand at the top level"),
        ("qubit[3] q;\nctrl @ x q[0];", 4, 1, "acts on 2 qubits here; got 1"),
        ("qubit[3] q;\nctrl(0) @ x q[0];", 4, 6, "must be from 1 to"),
        ("qubit[3] q;\nctrl x q[0], q[1];", 4, 6, "expected '@' after the modifier 'ctrl'"),
        ("qubit[3] q;\npow @ x q[0];", 4, 5, "expected '(' after 'pow'"),
        ("qubit[3] q;\npow(10000000) @ x q[0];", 4, 5, "the power of a gate must be from"),
        ("gate g a { qubit b; }", 3, 12, "holds only gates, barriers and constant loops"),
        ("gate g a { ctrl @ x a; }\nqubit q;\ng q;", 3, 12, "acts on 2 qubits here; got 1"),
        ("qubit q;\nh $0;", 4, 3, "a program that declares qubits cannot use physical ones"),
        ("h $0;\nqubit q;", 4, 1, "cannot declare others"),
        ("h $99999999;", 3, 3, "physical qubits go up to"),
        ("const int n = 1.5;", 3, 15, "is not of type 'int'"),
        ("const uint n = -1;", 3, 16, "is not of type 'uint'"),
        ("const int n = m;", 3, 15, "'m' is not declared"),
        ("const uint[3] n = 8;", 3, 19, "the number 8 is not of type 'uint[3]'"),
        ("const int[3] n = -5;", 3, 18, "the number -5 is not of type 'int[3]'"),
        ("const int[w] n = 5;", 3, 11, "'w' is not declared"),
        ("input float[0] t;", 3, 13, "the width of a type must be from 1 to"),
        ("for float f in [0:1] { }", 3, 17, "a range holds integers"),
        ("const int n = 1;\nconst int n = 2;", 4, 1, "'n' is already declared"),
        ("qubit q;\nrx(true) q;", 4, 4, "expected a number, got the boolean true"),
        ("qubit q;\nrx(1 + true) q;", 4, 4, "'+' cannot be applied to the number 1 and the boolean true"),
        ("qubit q;\nrx(~1) q;", 4, 4, "'~' is not supported"),
        ("qubit q;\nrx(int[8](3)) q;", 4, 4, "casts to a width"),
        ("qubit q;\nrx(1__0) q;", 4, 4, "underscore"),
        ("qubit q;\nx q", 4, 4, "expected ';'"),
        ("qubit q;\nif (true) { x q;", 4, 17, "expected '}' to end the block after 'if'"),
        ("opaque g a;", 3, 1, "not supported: opaque gates"),
        ('include "qelib1.inc";', 3, 1, 'has "stdgates.inc"'),
    ],
)
def test_what_is_wrong_or_not_supported_is_refused_by_name(body: str, line: int, column: int, message: str):
    error = fails(body)
    assert message in error.message
    assert (error.line, error.column) == (line, column)


def test_parameters_of_one_program_are_not_those_of_another():
    text = "input float t; qubit q; rx(t) q;"
    assert read(text) != read(text)
    assert isinstance(read(text).parameters[0], Parameter)
