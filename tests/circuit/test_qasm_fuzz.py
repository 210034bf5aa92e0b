"""Any text gives a circuit or a QasmError with a place in it: no other exception, and no hang.

Every text is read twice, with and without the fast path for simple statements: the two must agree.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qdist.circuit import Circuit, qasm
from qdist.circuit.qasm import QasmError, frame
from qdist.circuit.qasm.errors import Source
from qdist.circuit.qasm.reader import Reader

PROGRAMS = [
    """OPENQASM 2.0;
include "qelib1.inc";
qreg q[3]; qreg r[2]; // two registers
creg c[3]; creg d[2];
gate majority(t) a,b,c { cx c,b; rz(t/2) a; ccx a,b,c; barrier a,b; }
opaque magic(a,b) x,y;
h q; rz(pi/4) q[0]; u3(-pi/2,0.5e-3,sin(pi)^2) q[1];
majority(0.25) q[0],q[1],q[2];
cx q[0],r; measure q -> c; reset r[1];
if (c == 3) x q[2];
if (d==1) measure q[0] -> d[0];
""",
    """OPENQASM 3.0;
include "stdgates.inc";
input float[64] theta; input array[float[64], 3] w;
const int n = 3; const float half = pi / 2;
qubit[n] q; bit[n] c; bit flag;
gate g(a) x, y { rx(a / 2) x; gphase(a); ctrl @ U(a, 0, 0) x, y; }
g(2 * theta + 1) q[0], q[1];
for int i in [0:n - 1] { ry(w[i]) q[i]; if (i == 1) h q[i]; }
for int i in {0, 2} cp(pi / 2**i) q[i], q[1];
ctrl @ negctrl @ pow(2) @ inv @ s q[0], q[1], q[2];
pow(0.5) @ swap q[0], q[2];
let pair = q[0:1] ++ q[2];
c = measure q; flag = measure pair[1];
if (c == 5) { x q[0]; } else if (!flag) { barrier; } else { reset q[0:2:2]; }
""",
    """OPENQASM 3;
include "stdgates.inc";
h $0; cx $0, $1; bit[2] b; b[0] = measure $0;
if (b[0] && b[1] == 0) gphase(-pi);
""",
]

WORDS = """
OPENQASM 2.0 3.0 ; include "qelib1.inc" "stdgates.inc" qreg creg qubit bit gate opaque let const input float
int angle array for in if else { } ( ) [ ] , -> = == != ! && || + - * / ** ^ % < > : ++ @ ctrl negctrl inv pow
gphase U CX h x cx rx u3 measure reset barrier q r c a b t pi sin sqrt ln 0 1 2 3 0.5 1e9 1e400 $0 "01" true
// /* */ # . ~ 'x'
"""
VOCABULARY = [*WORDS.split(), "\n"]


def outcome(text: str, fast: bool):
    """What reading gives: the instructions, or the error's message and place."""
    try:
        circuit = Reader(Source(text), None, fast=fast).read()
    except QasmError as error:
        return error.message, error.line, error.column, error.text
    # Parameters of two readings are different objects of the same names.
    instructions = [(i.gate, i.qubits, str(i.params), i.clbits, i.condition) for i in circuit]
    return circuit.num_qubits, circuit.num_clbits, instructions


def check(text: str) -> None:
    result = outcome(text, fast=True)
    assert result == outcome(text, fast=False)
    if isinstance(result[0], str):
        _, line, column, _ = result
        lines = text.split("\n")
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1


fuzz = settings(
    deadline=None,
    max_examples=150,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_to_be_mutated_are_right(program: str):
    assert isinstance(qasm.loads(program), Circuit)
    check(program)


@fuzz
@given(st.text())
def test_any_text(text: str):
    check(text)


@fuzz
@given(st.sampled_from(["2.0", "3"]), st.text())
def test_any_text_after_a_version(version: str, text: str):
    check(f"OPENQASM {version};{text}")


@fuzz
@given(st.sampled_from(["2.0", "3"]), st.lists(st.sampled_from(VOCABULARY), max_size=40))
def test_any_words_of_the_language(version: str, words: list[str]):
    check(f"OPENQASM {version}; {' '.join(words)}")


@st.composite
def mutants(draw) -> str:
    """A right program with a few pieces removed, repeated, moved or replaced."""
    text = draw(st.sampled_from(PROGRAMS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        place = draw(st.integers(0, len(text)))
        piece = text[start:end]
        kind = draw(st.integers(0, 3))
        if kind == 0:
            text = text[:start] + text[end:]
        elif kind == 1:
            text = text[:place] + piece + text[place:]
        elif kind == 2:
            text = text[:start] + draw(st.sampled_from(VOCABULARY)) + text[end:]
        else:
            text = text[:start] + draw(st.text(max_size=3)) + text[end:]
    return text


@settings(fuzz, max_examples=600)
@given(mutants())
def test_mutated_programs(text: str):
    check(text)


@fuzz
@given(st.binary(max_size=60))
def test_any_bytes_of_a_file(tmp_path: Path, data: bytes):
    path = tmp_path / "program.qasm"
    for prefix in (b"", b"OPENQASM 2.0;\n", b"OPENQASM 3;\n"):
        path.write_bytes(prefix + data)
        try:
            line: int | None = qasm.load(path).num_qubits
        except QasmError as error:
            line = error.line
        assert line is not None


# Programs made to exhaust the reader.

V2 = 'OPENQASM 2.0; include "qelib1.inc"; qreg q[2]; creg c[1]; '
V3 = 'OPENQASM 3; include "stdgates.inc"; qubit[2] q; bit[2] c; '


def doubling(levels: int, bottom: str) -> str:
    """A gate that calls another twice, which calls another twice, and so on."""
    lines = [f"gate g0 a {{ {bottom} }}"]
    lines += [f"gate g{k + 1} a {{ g{k} a; g{k} a; }}" for k in range(levels)]
    return "\n".join(lines) + f"\ng{levels} q[0];"


HOSTILE = {
    "parentheses": V2 + "rx(" + "(" * 100_000 + "1" + ")" * 100_000 + ") q[0];",
    "signs": V2 + "rx(" + "-" * 100_000 + "1) q[0];",
    "powers": V2 + "rx(" + "2^" * 100_000 + "1) q[0];",
    "a huge power": V2 + "rx(9^9^9^9) q[0];",
    "a huge shift": V3 + "rx(1 << 1000000000) q[0];",
    "a long literal": V2 + "rx(" + "9" * 1_000_000 + ") q[0];",
    "a long sum in a gate": V2 + "gate g(t) a { rx(" + "t+" * 10_000 + "t) a; } g(1) q[0];",
    "a huge register": V2 + "qreg r[99999999999];",
    "many large registers": V2 + "".join(f"qreg r{k}[999999]; " for k in range(5)),
    "doubling": V2 + doubling(45, "h a;"),
    "a deep chain": V2
    + "gate g0 a { h a; } "
    + "".join(f"gate g{k + 1} a {{ g{k} a; }} " for k in range(5000))
    + "g5000 q[0];",
    "a huge loop": V3 + "for int i in [0:1000000000000] { h q[0]; }",
    "an empty huge loop": V3 + "for int i in [0:1000000000000] { }",
    "loops in loops": V3 + "".join(f"for int i{k} in [0:999] {{ " for k in range(8)) + "x q[0];" + "}" * 8,
    "blocks in blocks": V3 + "if (c[0]) { " * 10_000 + "x q[0];" + "}" * 10_000,
    "a long chain of else": V3 + "if (c[0]) x q[0]; " + "else if (c[1]) x q[0]; " * 10_000,
    "a repeated gate": V3 + "gate g a { h a; x a; } " + "pow(1000000) @ pow(1000000) @ g q[0];",
    "a repeated empty gate": V3 + "gate g a { } pow(1000000) @ pow(1000000) @ pow(1000000) @ g q[0];",
    "roots in a loop": V3
    + "gate g a, b { h a; cx a, b; } for int i in [0:100000] { pow(0.1) @ pow(0.3) @ g q[0], q[1]; }",
    "many controls": V3 + "qubit[5000] r; ctrl(5000) @ x " + ", ".join(f"r[{k}]" for k in range(5000)) + ", q[0];",
    "controls in a chain": V3
    + "gate g0 a { h a; } "
    + "".join(
        f"gate g{k + 1} {', '.join(f'q{j}' for j in range(k + 2))} {{ ctrl @ g{k} "
        f"{', '.join(f'q{j}' for j in range(k + 2))}; }} "
        for k in range(60)
    ),
    "an open comment": V2 + "/*" + "*" * 1_000_000,
    "a long comment": V2 + "/*" + "* /" * 300_000,
    "spaces": V2 + "h" + " " * 1_000_000,
    "an open string": V2 + 'include "' + "x" * 1_000_000,
    "many broadcasts": V3 + "qubit[100000] r; for int i in [0:1000] { h r; }",
    "many barriers": V3 + "qubit[100000] r; for int i in [0:1000000] { barrier; }",
    "many aliases": V3 + "qubit[100000] r; " + "".join(f"let a{k} = r ++ q; " for k in range(3000)),
    "a gate on many qubits": V2 + "gate g " + ",".join(f"a{k}" for k in range(50_000)) + " { h a; }",
    "an operation on many qubits": V3
    + "qubit[20000] r; ctrl(90) @ x "
    + ", ".join(f"r[{k}]" for k in range(20_000))
    + ";",
    "many close names": V2 + "".join(f"creg name{k}[1]; " for k in range(20_000)) + "measure q[0] -> nam;",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_are_refused(name: str, monkeypatch: pytest.MonkeyPatch):
    # A twentieth of the limit, to save the tests' time.
    monkeypatch.setattr(frame, "MAX_WORK", frame.MAX_WORK // 20)
    start = time.perf_counter()
    with pytest.raises(QasmError) as caught:
        qasm.loads(HOSTILE[name])
    assert caught.value.line is not None
    assert len(str(caught.value)) < 2000
    assert time.perf_counter() - start < 20


def test_the_limit_itself_is_reached_in_good_time():
    start = time.perf_counter()
    with pytest.raises(QasmError, match="expands too far: here it has reached 2,500,000 instructions"):
        qasm.loads(HOSTILE["doubling"])
    assert time.perf_counter() - start < 60


def test_long_but_honest_programs_are_read():
    terms = " + ".join(["0.001"] * 5000)
    assert qasm.loads(V2 + f"rx({terms}) q[0];")[0].params[0] == pytest.approx(5.0)
    assert len(qasm.loads(V3 + "for int i in [1:1000] { for int j in [1:100] h q[0]; }")) == 100_000
    assert len(qasm.loads(V2 + doubling(16, "h a;"))) == 2**16
    assert len(qasm.loads(V2 + doubling(45, ""))) == 0
