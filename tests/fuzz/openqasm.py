"""What the targets of OpenQASM 2 and 3 share: programs to mutate, statements at random, and what must hold of both.

Half of the inputs are right programs with pieces changed, a third are statements put together by a grammar, and the
rest are words of the language or characters in any order.
"""

from __future__ import annotations

import random
import re
from typing import ClassVar

from harness import Target
from mutations import mutated

from qdist.circuit import Circuit, qasm
from qdist.circuit.qasm import QasmError, frame
from qdist.circuit.qasm.errors import Source
from qdist.circuit.qasm.reader import Reader

# A small part of the limit: inputs that reach it are many, and each takes as long as it allows.
WORK = 4_000
_PIECES = re.compile(r"\w+|\s+|->|==|&&|\+\+|.", re.DOTALL)
# The other way to the same answer (no fast path, or written and read back) is taken for one input in so many.
_CHECKED = 8


class OpenQasm(Target):
    """Reads programs. Subclasses have those of one version."""

    documented = (QasmError,)
    header: ClassVar[str]
    programs: ClassVar[tuple[str, ...]]
    statements: ClassVar[str]
    """Templates, between bars and line ends: a word in capital letters stands for a random one of `words`."""
    openers: ClassVar[str]
    """What can be nested in itself, between bars."""
    words: ClassVar[str]
    """Lines: a word in capital letters, and what it may stand for."""

    def __init__(self) -> None:
        frame.MAX_WORK = WORK
        self._pieces = [_PIECES.findall(program) for program in self.programs]
        self._vocabulary = sorted({piece for pieces in self._pieces for piece in pieces} | set(_ODD))
        self._words: dict[str, list[str]] = {}
        for line in self.words.strip().splitlines():
            kind, *words = line.split()
            self._words.setdefault(kind, []).extend(words)
        kinds = re.compile(rf"\b({'|'.join(self._words)})\b")
        self._templates = [kinds.split(text.strip()) for text in re.split(r" \| |\n", self.statements) if text.strip()]
        self._count = 0

    def make(self, rng: random.Random) -> str:
        kind = rng.random()
        if kind < 0.5:
            return "".join(mutated(rng.choice(self._pieces), self._vocabulary, rng, 1 + int(rng.random() * 3)))
        if kind < 0.51:
            return self.header + self._opener(rng) * int(rng.random() * 2000) + self._statement(rng)
        if kind < 0.85:
            return self.header + "\n".join(self._statement(rng) for _ in range(1 + int(rng.random() ** 2 * 6)))
        if kind < 0.97:
            words = rng.choices(self._vocabulary, k=int(rng.random() * 30))
            return (self.header if rng.random() < 0.8 else "") + " ".join(words)
        return "".join(chr(int(rng.random() ** 6 * 0x3000)) for _ in range(int(rng.random() * 60)))

    def _opener(self, rng: random.Random) -> str:
        return rng.choice(self.openers.split(" | "))

    def _statement(self, rng: random.Random) -> str:
        pieces = list(rng.choice(self._templates))
        for place in range(1, len(pieces), 2):
            pieces[place] = rng.choice(self._words[pieces[place]])
        return "".join(pieces)

    def read(self, given: str) -> None:
        self._count += 1
        check = self._count % _CHECKED == 0
        try:
            circuit = Reader(Source(given), None).read()
        except QasmError as error:
            self._check_place(error, given)
            if check and _outcome(given) != (error.message, error.line, error.column):
                raise AssertionError("the fast path says something else") from error
            raise
        instructions = [(i.gate, i.qubits, str(i.params), i.clbits, i.condition) for i in circuit]
        # What a program may expand to, and one instruction for each statement that it spells out.
        assert len(circuit) <= WORK // frame.INSTRUCTION + given.count(";"), f"{len(circuit)} instructions"
        if check:
            assert _outcome(given) == (circuit.num_qubits, circuit.num_clbits, instructions), "the fast path differs"
            if len(circuit) < 50 and circuit.num_qubits < 1000 and circuit.num_clbits < 1000:
                self._write_and_read(circuit)

    def _check_place(self, error: QasmError, given: str) -> None:
        lines = given.split("\n")
        assert error.line is not None
        assert error.column is not None
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert len(str(error)) < 2000

    def _write_and_read(self, circuit: Circuit) -> None:
        for version in (2, 3):
            try:
                text = qasm.dumps(circuit, version=version)
            except QasmError:
                continue
            frame.MAX_WORK = 1000 * WORK  # definitions of wide gates
            again = Reader(Source(text), None).read()
            frame.MAX_WORK = WORK
            assert (again.num_qubits, again.num_clbits) == (circuit.num_qubits, circuit.num_clbits), text


def _outcome(text: str) -> tuple[object, ...]:
    """What reading without the fast path gives: the instructions, or the error's message and place."""
    try:
        circuit = Reader(Source(text), None, fast=False).read()
    except QasmError as error:
        return error.message, error.line, error.column
    # Parameters of two readings are different objects of the same names.
    instructions = [(i.gate, i.qubits, str(i.params), i.clbits, i.condition) for i in circuit]
    return circuit.num_qubits, circuit.num_clbits, instructions


_ODD = (
    *("1e400", "2**100", "99999999999999999999", "0x" + "f" * 40, "1_000", ".5", "1e-400", "-0", "1000000", "999999"),
    *("/*", "*/", "//", '"', "'", "$0", "$999999999", "#", "@", "\\", "\0", "é", "\u2028", "\ufeff", "π", "0" * 300),
    *("include", '"qelib1.inc"', '"stdgates.inc"', '"../x"', '"/dev/zero"', "OPENQASM", "9" * 3000),
)
