"""Reads programs: the version, the includes, and the statements one after the other.

Nearly all of a large file is gate calls on single qubits, `rz(pi/4) q[3];`. One regular expression recognises
those, and dictionaries hold what their parameters and operands mean, so that such a statement costs a
few microseconds. Whatever is not recognised, and whatever is wrong, goes to the parser, which alone decides
what a program means.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Any

from ..circuit import Circuit
from .definitions import Opaque
from .errors import QasmError, Source
from .expressions import ExpressionParser
from .interpreter import Interpreter
from .lexer import Cursor, Token
from .names import Qubits
from .parser2 import Parser2
from .parser3 import Parser3
from .standard import BUILTIN_2, BUILTIN_3, QELIB1, QELIB1_GROWN, STDGATES, Builtin
from .syntax import Include, Node, Statement

# Possessive quantifiers (`*+`) throughout: the time is linear in the text, whatever the text.
_SIMPLE_CALL = re.compile(
    r"""
    [ \t\r\n\f]*+(?://[^\n]*+[ \t\r\n\f]*+)*+      # space and comments
    ([A-Za-z]\w*+)[ ]*+                            # the gate
    (?:\(([^;{}"']*)\)[ ]*+)?+                     # its parameters
    ([A-Za-z][^;(){}"'/\n]*+);                     # its operands
    """,
    re.VERBOSE,
)
_ELEMENTS = re.compile(r"[A-Za-z]\w*+\[[0-9]{1,7}\](?: *+, *+[A-Za-z]\w*+\[[0-9]{1,7}\])*+")
_ELEMENT = re.compile(r"(\w+)\[([0-9]+)\]")
_PLAIN_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)

_MAX_INCLUDES = 16
# Words that begin statements of OpenQASM 3 and no statement of OpenQASM 2.
_ONLY_3 = frozenset(
    ["qubit", "bit", "input", "output", "const", "let", "for", "while", "def", "extern"]
    + ["ctrl", "negctrl", "inv", "pow", "gphase"]
)


class Reader:
    """Reads one program, and the files it includes from `folder` (none, where there is no folder)."""

    def __init__(self, source: Source, folder: Path | None, fast: bool = True) -> None:
        self._folder = folder
        self._fast = fast
        self._open_files = [source.filename]
        cursor = Cursor(source)
        # Qiskit, too, takes a program that does not state its version for OpenQASM 2.
        self._stated = cursor.at("OPENQASM")
        self._version = _read_version(cursor) if self._stated else 2
        if self._version == 2:
            self._parser_class: type[Parser2] = Parser2
            gates: dict[str, Any] = dict(BUILTIN_2)
        else:
            self._parser_class = Parser3
            gates = dict(BUILTIN_3)
        self._interpreter = Interpreter(self._parser_class.language, gates)
        self._cursor = cursor
        self._params: dict[str, tuple[Any, ...]] = {}
        self._operands: dict[str, tuple[int, ...]] = {}

    def read(self) -> Circuit:
        """The program's circuit."""
        self._statements(self._cursor)
        return self._interpreter.finish()

    def _statements(self, cursor: Cursor) -> None:
        parser = self._parser_class(cursor)
        interpreter = self._interpreter
        while True:
            if self._fast:
                offset = self._simple_calls(cursor.source, cursor.previous_end)
                if offset != cursor.previous_end:
                    cursor.seek(offset)
            if cursor.token.kind == "end":
                return
            statement = parser.statement() if self._stated else self._statement_of_2(parser)
            if isinstance(statement, Include):
                self._include(statement)
            else:
                interpreter.execute(statement, interpreter.frame)

    def _statement_of_2(self, parser: Parser2) -> Statement:
        """The next statement of a program that does not state its version."""
        token = parser.cursor.token
        try:
            return parser.statement()
        except QasmError as error:
            if token.text not in _ONLY_3:
                raise
            raise error.with_hint("a program of OpenQASM 3 begins with 'OPENQASM 3;'") from None

    # The fast path.

    def _simple_calls(self, source: Source, offset: int) -> int:
        """Run the gate calls on single qubits that come next; returns where the first other thing begins."""
        text, match = source.text, _SIMPLE_CALL.match
        interpreter, frame = self._interpreter, self._interpreter.frame
        gates, known_params, known_operands = frame.gates, self._params, self._operands
        add, apply = frame.circuit._add, interpreter.calls.apply
        while (found := match(text, offset)) is not None:
            name, arguments, operands = found.groups()
            target = gates.get(name)
            if target is None or isinstance(target, Opaque):
                break
            params = known_params.get(arguments) if arguments else ()
            if params is None:
                params = self._read_params(source, arguments, found.start(2))
            qubits = known_operands.get(operands)
            if qubits is None:
                qubits = self._read_operands(operands)
            if params is None or qubits is None or len(params) != target.num_params or len(qubits) != target.num_qubits:
                break
            if isinstance(target, Builtin) and target.phase is None:
                add(target.gate, qubits, params)
            else:
                apply(target, params, (qubits,), Node(source, found.start(1), found.end()), frame)
            offset = found.end()
        return offset

    def _read_params(self, source: Source, arguments: str, start: int) -> tuple[Any, ...] | None:
        """The values of a list of parameters; None where it is not a plain list of expressions."""
        if _PLAIN_NUMBER.fullmatch(arguments):
            params: tuple[Any, ...] = (float(arguments),)
            return params if abs(params[0]) < float("inf") else None
        try:
            cursor = Cursor(source, start)
            parser = ExpressionParser(cursor, self._parser_class.language)
            values = [parser.parse()]
            while cursor.accept(","):
                values.append(parser.parse())
            if cursor.token.start != start + len(arguments) or not cursor.at(")"):
                return None
            params = tuple(self._interpreter.frame.angle(value) for value in values)
        except QasmError:
            return None
        self._params[arguments] = params
        return params

    def _read_operands(self, operands: str) -> tuple[int, ...] | None:
        """The qubits of a list of elements of registers; None where it is anything else."""
        if not _ELEMENTS.fullmatch(operands):
            return None
        qubits = []
        for name, index in _ELEMENT.findall(operands):
            register = self._interpreter.frame.names.get(name)
            if not isinstance(register, Qubits) or register.scalar or int(index) >= len(register.wires):
                return None
            qubits.append(register.wires[int(index)])
        if len(set(qubits)) != len(qubits):
            return None
        self._operands[operands] = chosen = tuple(qubits)
        return chosen

    # Includes.

    def _include(self, node: Include) -> None:
        standard = {2: "qelib1.inc", 3: "stdgates.inc"}[self._version]
        if node.path == standard:
            self._include_standard(node)
        elif node.path in ("qelib1.inc", "stdgates.inc"):
            error = node.error(f'OpenQASM {self._version} has "{standard}", not "{node.path}"')
            raise error if self._stated else error.with_hint("a program of OpenQASM 3 begins with 'OPENQASM 3;'")
        else:
            self._include_file(node)

    def _include_standard(self, node: Include) -> None:
        gates = self._interpreter.frame.gates
        fixed, grown = (QELIB1, QELIB1_GROWN) if self._version == 2 else (STDGATES, {})
        for name, gate in fixed.items():
            if name in gates:
                raise node.error(f"\"{node.path}\" defines gate '{name}', which is already defined")
            gates[name] = gate
        for name, gate in grown.items():
            if name not in gates:
                gates[name] = gate
                self._interpreter.replaceable.add(name)

    def _include_file(self, node: Include) -> None:
        if self._folder is None:
            raise node.error(f'"{node.path}" cannot be included: a program given as text has no folder; use load(path)')
        try:
            path = Path(os.path.realpath(self._folder / node.path))
            if not path.is_relative_to(self._folder):
                raise node.error(f'"{node.path}" is outside the folder of the program, {self._folder}')
            if str(path) in self._open_files:
                raise node.error(f'"{node.path}" includes itself')
            if len(self._open_files) > _MAX_INCLUDES:
                raise node.error(f"includes nested more than {_MAX_INCLUDES} deep are not supported")
            text = self._included_text(path, node)
        except (OSError, UnicodeDecodeError, ValueError) as error:
            if isinstance(error, QasmError):
                raise
            reason = getattr(error, "strerror", None) or error
            raise node.error(f'the included file cannot be read ({reason}): "{node.path}"') from None
        self._open_files.append(str(path))
        cursor = Cursor(Source(text, str(path)))
        if cursor.at("OPENQASM") and _read_version(cursor) != self._version:
            raise node.error(f'"{node.path}" is of another version of OpenQASM than the program')
        self._statements(cursor)
        self._open_files.pop()

    def _included_text(self, path: Path, node: Include) -> str:
        # A pipe or a device might never end: not even opening it must block.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            self._interpreter.budget.spend(found.st_size, node)
            return file.read(found.st_size).decode("utf-8-sig")


def _read_version(cursor: Cursor) -> int:
    """The version that the program states, 2 or 3."""
    cursor.expect("OPENQASM")
    token: Token = cursor.token
    if token.text not in ("2", "2.0", "3", "3.0", "3.1"):
        cursor.fail(f"expected version 2.0, 3, 3.0 or 3.1 of OpenQASM, found {token}")
    cursor.advance()
    cursor.expect(";", " after the version")
    return int(token.text[0])
