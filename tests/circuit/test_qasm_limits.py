"""What a program may ask for is bounded: work and depth are counted, and refused with a place in the program.

`tests/fuzz` has the programs that nobody thought of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from qdist.circuit import Circuit, Parameter, ParameterVector, qasm
from qdist.circuit.qasm import QasmError, frame

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
    "a gate on many qubits": V2 + "gate g " + ",".join(f"a{k}" for k in range(5000)) + " { h a; }",
    "an operation on many qubits": V3
    + "qubit[20000] r; ctrl(90) @ x "
    + ", ".join(f"r[{k}]" for k in range(2000))
    + ";",
    "a reset register": V2 + "qreg r[1000000]; reset r; reset r; reset r;",
    "a reset slice": V3 + "qubit[1000000] r; reset r[0:999998]; reset r[0:999998]; reset r[1:999999];",
    "a measured register": V2 + "qreg r[1000000]; creg d[1000000]; measure r -> d; measure r -> d; measure r -> d;",
    "a declared measurement": V3 + "qubit[1000000] r; bit[500000] d = measure r[0:499999]; reset r; reset r;",
    "large inputs": V3 + "".join(f"input array[float, 1000000] w{k}; " for k in range(3)),
    "many barriers of all": V3 + "qubit[1000000] r; " + "barrier; " * 1000,
    "conditions on slices": V3 + "bit[1000000] d; " + "if (d[0:999998] == 1) x q[0]; " * 1000,
    "measurements under a wide condition": V3
    + "qubit[90000] r; bit[90000] d; bit[900000] e; for int i in [0:1000] if (e[1:899999] == 1) d = measure r;",
    "a long conjunction": V3 + "bit[999] d; if (" + " && ".join(f"d[{k}]" for k in range(999)) + ") x q[0];",
    "wide gates": V3
    + "qubit[90] r; gate g a, b { ctrl @ x a, b; } for int i in [0:1000000] ctrl(89) @ g "
    + ", ".join(f"r[{k}]" for k in range(90))
    + ", q[0];",
    "long angles in a gate": V3
    + "".join(f"input array[float, 100] w{k}; " for k in range(20))
    + "gate g(t) a { "
    + "rx(t + 1) a; " * 500
    + "} g("
    + " + ".join(f"w{k}[{j}]" for k in range(20) for j in range(100))
    + ") q[0];",
    "a long angle scaled": V3
    + "".join(f"input array[float, 100] w{k}; " for k in range(20))
    + "rx(("
    + " + ".join(f"w{k}[{j}]" for k in range(20) for j in range(100))
    + ")"
    + " * 2" * 4_000
    + ") q[0];",
    "nested if in version 2": V2 + "if (c == 1) " * 3000 + "x q[0];",
    "nested if without braces": V3 + "if (c[0]) " * 3000 + "x q[0];",
    "nested definitions in version 2": V2 + "gate g a { " * 3000,
    "nested definitions": V3 + "gate g a { " * 3000,
    "nested loops": V3 + "for int i in [0:1] " * 3000 + "x q[0];",
    "nested indices": V3 + "input array[float, 2] w; rx(" + "w[" * 3000,
    "nested functions": V3 + "rx(" + "sin(" * 3000 + "1" + ")" * 3000 + ") q[0];",
    "nested negations": V3 + "if (" + "!" * 3000 + "c[0]) x q[0];",
    "nested conditions": V3 + "if (" + "(c[0] && " * 3000 + "c[1]" + ")" * 3000 + ") x q[0];",
    "many modifiers": V3 + "ctrl @ " * 3000 + "x q[0];",
    "many close names": V2 + "".join(f"creg name{k}[1]; " for k in range(2000)) + "measure q[0] -> nam;",
}


class Work:
    """Counts calls of Python functions, which all work here consists of; more than `limit` is an error."""

    def __init__(self, limit: int) -> None:
        self.limit, self.calls = limit, 0

    def __enter__(self) -> Work:
        self._before = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(self._before)

    def _count(self, _: object, event: str, __: object) -> None:
        if event == "call":
            self.calls += 1
            if self.calls > self.limit:
                sys.setprofile(None)
                raise AssertionError(f"more than {self.limit} calls")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_are_refused(name: str, monkeypatch: pytest.MonkeyPatch):
    # A hundredth of the limit, to save the tests' time. What is counted or spelled out takes some calls each.
    monkeypatch.setattr(frame, "MAX_WORK", frame.MAX_WORK // 100)
    with pytest.raises(QasmError) as caught, Work(10 * frame.MAX_WORK + 5 * len(HOSTILE[name])):
        qasm.loads(HOSTILE[name])
    assert caught.value.line is not None
    assert caught.value.column is not None
    assert len(str(caught.value)) < 2000


def test_the_limit_is_what_its_message_says(monkeypatch: pytest.MonkeyPatch):
    assert frame.MAX_WORK == 10_000_000
    monkeypatch.setattr(frame, "MAX_WORK", 100_000)
    with pytest.raises(QasmError, match="expands too far: here it has reached 25,000 instructions"):
        qasm.loads(HOSTILE["doubling"])
    for statement in ("reset r;", "measure r -> d;", "h r;"):
        sizes = (25_000, 25_001)
        program = 'OPENQASM 2.0; include "qelib1.inc"; qreg r[{0}]; creg d[{0}]; ' + statement
        assert len(qasm.loads(program.format(sizes[0]))) == sizes[0]
        with pytest.raises(QasmError, match="line 1, column 67: the program expands too far"):
            qasm.loads(program.format(sizes[1]))


def grown(text: Callable[[int], str], size: int) -> int:
    """How many calls reading takes."""
    with Work(sys.maxsize) as work:
        qasm.loads(text(size))
    return work.calls


LONG = {
    "a sum of numbers": lambda n: V2 + f"rx({' + '.join(['0.001'] * n)}) q[0];",
    "a sum of parameters": lambda n: V3 + f"input array[float, 2] w; rx({' + '.join(['w[0]', 'w[1]'] * n)}) q[0];",
    "a sum in a gate": lambda n: V2 + f"gate g(t) a {{ rx({'+'.join(['t'] * n)}) a; }} g(1) q[0];",
    "statements": lambda n: V3 + "rx(0.5) q[0]; barrier q; if (c[0]) x q[0]; reset q; c = measure q; " * n,
    "definitions": lambda n: V2 + "".join(f"gate g{k}(t) a {{ rx(t) a; }} g{k}({k}) q[0]; " for k in range(n)),
    "inputs": lambda n: V3 + "".join(f"input float[64] _w_{k}_; " for k in range(n)),
    "comments": lambda n: V2 + "/* * */ // x\n" * n + "h q[0];",
}


@pytest.mark.parametrize("name", LONG)
def test_work_grows_with_the_length_of_the_program(name: str):
    assert grown(LONG[name], 600) <= 2.2 * grown(LONG[name], 300)


def test_what_is_as_deep_as_it_may_be_fits_the_stack():
    """Blocks, definitions, expressions: each to its limit, in each other, with a third of the usual stack to spare."""
    expression = "sin(" * 62 + "t" + ")" * 62
    gates = "gate g0(t) a { rx(" + expression + ") a; } "
    gates += "".join(f"gate g{k + 1}(t) a {{ g{k}(-t) a; }} " for k in range(25))
    program = V3 + gates + "if (c[0]) { " * 30 + "g25(0.5) q[0];" + "}" * 30
    depth, frames = 0, sys._getframe()
    while frames is not None:
        depth, frames = depth + 1, frames.f_back
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 650)
    try:
        assert len(qasm.loads(program)) == 1
    finally:
        sys.setrecursionlimit(before)


def test_long_but_honest_programs_are_read():
    terms = " + ".join(["0.001"] * 5000)
    assert qasm.loads(V2 + f"rx({terms}) q[0];")[0].params[0] == pytest.approx(5.0)
    assert len(qasm.loads(V3 + "for int i in [1:100] { for int j in [1:100] h q[0]; }")) == 10_000
    assert len(qasm.loads(V2 + doubling(14, "h a;"))) == 2**14
    assert len(qasm.loads(V2 + doubling(45, ""))) == 0


def test_angles_of_many_parameters_are_written_and_read():
    w, t = ParameterVector("w", 1000), Parameter("t_")
    angle = t / 3 - 0.5
    for k, element in enumerate(w):
        angle = angle + (k - 500.5) * element
    circuit = Circuit(1).rx(angle, 0)
    read = qasm.loads(qasm.dumps(circuit))
    assert [p.name for p in read.parameters] == [p.name for p in circuit.parameters]
    assert str(read[0].params[0]) == str(angle)
