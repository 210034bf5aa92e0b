"""The statements of OpenQASM 2, and what version 3 shares with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from .evaluate import VERSION_2, Language
from .expressions import ExpressionParser
from .lexer import Cursor, Token
from .syntax import (
    Barrier,
    Binary,
    BitDeclaration,
    Constant,
    Expr,
    GateCall,
    GateDefinition,
    If,
    Include,
    Measure,
    Name,
    Operand,
    QubitDeclaration,
    Reset,
    Statement,
)

# Blocks inside blocks; enough for any circuit, few enough for Python's stack.
MAX_BLOCKS = 32

_WORDS = "OPENQASM include qreg creg gate opaque barrier measure reset if pi sin cos tan exp ln sqrt U CX"


class Parser2:
    """Reads one statement at a time from a cursor."""

    language: ClassVar[Language] = VERSION_2
    # What may not be the name of a register, gate or parameter.
    reserved: ClassVar[frozenset[str]] = frozenset(_WORDS.split())

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.expressions = ExpressionParser(cursor, self.language)
        self._nesting = 0
        self.keywords: dict[str, Callable[[], Statement]] = {
            "include": self._include,
            "qreg": self._register,
            "creg": self._register,
            "gate": self._gate,
            "opaque": self._opaque,
            "barrier": self._barrier,
            "measure": self._measure,
            "reset": self._reset,
            "if": self._if,
        }

    def statement(self) -> Statement:
        """The statement at the cursor, which moves past it."""
        token = self.cursor.token
        if token.kind == "name":
            if token.text == "OPENQASM":
                self.cursor.fail("the version must be the first statement of a program")
            if self._nesting > MAX_BLOCKS:
                self.cursor.fail(f"blocks nested more than {MAX_BLOCKS} deep are not supported")
            self._nesting += 1
            statement = self.keywords.get(token.text, self._gate_call)()
            self._nesting -= 1
            return statement
        self.cursor.fail(f"expected a statement, found {token}")

    # Pieces.

    def _end(self, after: str) -> int:
        return self.cursor.expect(";", f" after {after}").end

    def _new_name(self, what: str) -> Token:
        token = self.cursor.expect_kind("name", f"the name of {what}")
        if token.text in self.reserved:
            self.cursor.fail(f"'{token.text}' is a word of the language and cannot name {what}", token)
        return token

    def _names(self, what: str) -> tuple[str, ...]:
        names: dict[str, None] = {}
        while True:
            token = self._new_name(what)
            if token.text in names:
                self.cursor.fail(f"'{token.text}' appears twice", token)
            names[token.text] = None
            if not self.cursor.accept(","):
                return tuple(names)

    def _arguments(self) -> tuple[Expr, ...]:
        cursor = self.cursor
        if not cursor.accept("(") or cursor.accept(")"):
            return ()
        arguments = [self.expressions.parse()]
        while cursor.accept(","):
            arguments.append(self.expressions.parse())
        cursor.expect(")", " after the parameters")
        return tuple(arguments)

    def _operand(self, what: str = "a qubit or a register") -> Operand:
        """`register` or `register[index]`."""
        cursor = self.cursor
        token = cursor.expect_kind("name", what)
        index: Expr | None = None
        if cursor.accept("["):
            number = cursor.expect_kind("int", "the index of an element")
            index = Constant(cursor.source, number.start, number.end, 0, cursor.int_value(number))
            cursor.expect("]", " after the index")
        return Operand(cursor.source, token.start, cursor.previous_end, token.text, index)

    def _operands(self) -> tuple[Operand, ...]:
        operands = [self._operand()]
        while self.cursor.accept(","):
            operands.append(self._operand())
        return tuple(operands)

    # Statements.

    def _include(self) -> Statement:
        cursor = self.cursor
        start = cursor.advance().start
        path = cursor.expect_kind("string", "the name of a file in quotes")
        return Include(cursor.source, start, self._end("the name of the file"), path.text[1:-1])

    def _register(self) -> Statement:
        cursor = self.cursor
        keyword = cursor.advance()
        name = self._new_name("a register")
        size = self._size()
        kind = QubitDeclaration if keyword.text == "qreg" else BitDeclaration
        return kind(cursor.source, keyword.start, self._end("the declaration"), name.text, size)

    def _size(self) -> Expr | None:
        """`[size]`"""
        cursor = self.cursor
        cursor.expect("[", " and the size of the register")
        token = cursor.expect_kind("int", "the size of the register")
        cursor.expect("]", " after the size")
        return Constant(cursor.source, token.start, token.end, 0, cursor.int_value(token))

    def _signature(self) -> tuple[Token, tuple[str, ...], tuple[str, ...]]:
        """The name, parameters and qubits of a gate that is being defined."""
        cursor = self.cursor
        name = self._new_name("a gate")
        params: tuple[str, ...] = ()
        if cursor.accept("(") and not cursor.accept(")"):
            params = self._names("a parameter")
            cursor.expect(")", " after the parameters")
        qubits_start = cursor.token
        qubits = self._names("a qubit")
        if both := sorted(set(params) & set(qubits)):
            cursor.fail(f"'{both[0]}' names both a parameter and a qubit", qubits_start)
        return name, params, qubits

    def _gate(self) -> Statement:
        cursor = self.cursor
        start = cursor.advance().start
        name, params, qubits = self._signature()
        cursor.expect("{", f" to begin the body of gate '{name.text}'")
        body: list[Statement] = []
        while not cursor.at("}"):
            if cursor.token.kind == "end":
                cursor.fail(f"expected '}}' to end the body of gate '{name.text}', found {cursor.token}")
            body.append(self._body_statement(name.text))
        end = cursor.advance().end
        return GateDefinition(cursor.source, start, end, name.text, params, qubits, tuple(body))

    def _body_statement(self, gate: str) -> Statement:
        statement = self.statement()
        if not isinstance(statement, GateCall | Barrier):
            word = statement.source.text[statement.start :].split(None, 1)[0]
            raise statement.source.error(
                f"the body of gate '{gate}' may hold only gates and barriers, not '{word}'",
                statement.start,
                statement.start + len(word),
            )
        return statement

    def _opaque(self) -> Statement:
        start = self.cursor.advance().start
        name, params, qubits = self._signature()
        end = self._end("the opaque gate")
        return GateDefinition(self.cursor.source, start, end, name.text, params, qubits, None)

    def _gate_call(self) -> Statement:
        cursor = self.cursor
        name = cursor.advance()
        arguments = self._arguments()
        operands = self._operands()
        end = self._end("the operands")
        return GateCall(cursor.source, name.start, end, name.text, (), arguments, operands)

    def _barrier(self) -> Statement:
        start = self.cursor.advance().start
        operands = self._operands()
        return Barrier(self.cursor.source, start, self._end("the operands"), operands)

    def _measure(self) -> Statement:
        cursor = self.cursor
        start = cursor.advance().start
        operand = self._operand()
        cursor.expect("->", " and where the result goes")
        target = self._operand("a bit or a classical register")
        return Measure(cursor.source, start, self._end("the measurement"), operand, target)

    def _reset(self) -> Statement:
        start = self.cursor.advance().start
        operand = self._operand()
        return Reset(self.cursor.source, start, self._end("the operand"), operand)

    def _if(self) -> Statement:
        cursor = self.cursor
        source, start = cursor.source, cursor.advance().start
        cursor.expect("(", " after 'if'")
        register = cursor.expect_kind("name", "a classical register")
        cursor.expect("==", " and the value to compare with")
        number = cursor.expect_kind("int", "an integer")
        cursor.expect(")", " after the condition")
        condition = Binary(
            source,
            register.start,
            number.end,
            1,
            "==",
            Name(source, register.start, register.end, 0, register.text),
            Constant(source, number.start, number.end, 0, cursor.int_value(number)),
        )
        first = cursor.token
        then = self.statement()
        if not isinstance(then, GateCall | Measure | Reset):
            cursor.fail(f"after 'if (...)' expected a gate, a measurement or a reset, found {first}", first)
        return If(source, start, then.end, condition, (then,), ())
