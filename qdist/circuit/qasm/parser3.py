"""The statements of OpenQASM 3 that describe circuits; the others are refused by name."""

from __future__ import annotations

from typing import ClassVar

from .evaluate import VERSION_3, Language
from .lexer import Cursor, Token
from .parser2 import Parser2
from .syntax import (
    Alias,
    Barrier,
    BitDeclaration,
    ConstDeclaration,
    Expr,
    For,
    GateCall,
    If,
    InputDeclaration,
    Measure,
    Modifier,
    Operand,
    QubitDeclaration,
    Range,
    Selector,
    Statement,
    Type,
)

_REFUSED = {
    "def": "subroutines ('def'); what is unitary can be a 'gate', the rest is written where it is called",
    "extern": "external functions ('extern')",
    "box": "'box' blocks; they only group instructions, so write what is inside",
    "delay": "delays; without noise nothing happens in them, so leave them out, or write 'barrier'",
    "nop": "'nop'",
    "while": "'while' loops; where the number of rounds is bounded, write 'for' with an 'if' inside",
    "switch": "'switch'; write 'if (c == 0) { ... } else if (c == 1) { ... }'",
    "break": "'break'",
    "continue": "'continue'",
    "end": "'end'; leave out what comes after it",
    "return": "'return'",
    "defcal": "calibrations ('defcal')",
    "cal": "calibrations ('cal')",
    "defcalgrammar": "calibrations ('defcalgrammar')",
    "pragma": "pragmas",
    "output": "'output' declarations; all classical bits are counted, so leave out the word",
    "duration": "variables of type 'duration'",
    "stretch": "variables of type 'stretch'",
    "complex": "variables of type 'complex'",
    "array": "variables of type 'array' (other than 'input array[float, n]')",
    "opaque": "opaque gates (OpenQASM 2 only)",
    "durationof": "durations ('durationof')",
}
_WORDS = (
    "OPENQASM include qreg creg qubit bit gate let const input for in if else case default barrier measure "
    "reset gphase inv pow ctrl negctrl readonly mutable void im U true false"
)
_NUMBER_TYPES = ("int", "uint", "float", "bool", "angle")


class Parser3(Parser2):
    """Reads one statement of OpenQASM 3 at a time."""

    language: ClassVar[Language] = VERSION_3
    reserved: ClassVar[frozenset[str]] = frozenset({*_WORDS.split(), *_REFUSED, *_NUMBER_TYPES, *VERSION_3.constants})

    not_gates: ClassVar[frozenset[str]] = reserved - {"U", "gphase"}

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        del self.keywords["opaque"]
        self.keywords |= {
            "qubit": self._qubit,
            "bit": self._bit,
            "const": self._const,
            "input": self._input,
            "let": self._let,
            "for": self._for,
        }

    def statement(self) -> Statement:
        cursor = self.cursor
        token = cursor.token
        if token.kind == "name":
            if token.text in _REFUSED:
                cursor.fail(f"not supported: {_REFUSED[token.text]}", token)
            if token.text in _NUMBER_TYPES:
                cursor.fail(
                    f"not supported: variables of type '{token.text}'; there are constants ('const float') "
                    "and parameters ('input float')",
                    token,
                )
        elif token.text == "#":
            cursor.fail("not supported: pragmas", token)
        elif token.text == "@":
            cursor.fail("not supported: annotations", token)
        elif token.text == "{":
            cursor.fail("not supported: blocks that belong to no 'if', 'for' or 'gate'", token)
        return super().statement()

    # Pieces.

    def _size(self) -> Expr | None:
        """`[size]`, where it is given."""
        cursor = self.cursor
        if not cursor.accept("["):
            return None
        size = self.expressions.parse()
        cursor.expect("]", " after the size")
        return size

    def _operand(self, what: str = "a qubit or a register") -> Operand:
        """A register with any selection, or a physical qubit."""
        cursor = self.cursor
        token = cursor.token
        if token.kind == "hardware":
            cursor.advance()
            return Operand(cursor.source, token.start, token.end, token.text, None)
        cursor.expect_kind("name", what)
        selector = self.expressions.selector() if cursor.at("[") else None
        return Operand(cursor.source, token.start, cursor.previous_end, token.text, selector)

    def _block(self, after: str) -> tuple[Statement, ...]:
        """Statements in braces, or one statement."""
        cursor = self.cursor
        statements: list[Statement] = []
        if cursor.accept("{"):
            while not cursor.accept("}"):
                if cursor.token.kind == "end":
                    cursor.fail(f"expected '}}' to end the block after '{after}', found {cursor.token}")
                statements.append(self.statement())
        else:
            statements.append(self.statement())
        return tuple(statements)

    # Declarations.

    def _qubit(self) -> Statement:
        start = self.cursor.advance().start
        size = self._size()
        name = self._new_name("a qubit register")
        end = self._end("the declaration")
        return QubitDeclaration(self.cursor.source, start, end, name.text, size)

    def _bit(self) -> Statement:
        cursor = self.cursor
        start = cursor.advance().start
        size = self._size()
        name = self._new_name("a classical register")
        measured = None
        if cursor.accept("="):
            if not cursor.accept("measure"):
                cursor.fail(f"bits can be initialised only by 'measure', not by {cursor.token}")
            measured = self._operand()
        end = self._end("the declaration")
        return BitDeclaration(cursor.source, start, end, name.text, size, measured)

    def _type(self, allowed: tuple[str, ...]) -> Type:
        cursor = self.cursor
        token = cursor.token
        if token.text not in allowed:
            cursor.fail(f"expected one of the types {', '.join(allowed)}, found {token}")
        cursor.advance()
        width = self._size()
        return Type(cursor.source, token.start, cursor.previous_end, token.text, width)

    def _const(self) -> Statement:
        cursor = self.cursor
        start = cursor.advance().start
        if cursor.at("angle"):
            # Arithmetic on angles is modulo 2 pi in fixed point; numbers here are doubles.
            cursor.fail("not supported: constants of type 'angle'; write 'const float'")
        constant_type = self._type(("int", "uint", "float", "bool"))
        name = self._new_name("a constant")
        cursor.expect("=", " and the value of the constant")
        value = self.expressions.parse()
        return ConstDeclaration(cursor.source, start, self._end("the value"), name.text, constant_type, value)

    def _input(self) -> Statement:
        cursor = self.cursor
        start = cursor.advance().start
        length: Expr | None = None
        if cursor.accept("array"):
            cursor.expect("[", " after 'array'")
            element_type = self._type(("float", "angle"))
            cursor.expect(",", " and the length of the array")
            length = self.expressions.parse()
            cursor.expect("]", " after the length")
        else:
            element_type = self._type(("float", "angle"))
        name = self._new_name("an input parameter")
        end = self._end("the declaration")
        return InputDeclaration(cursor.source, start, end, name.text, element_type, length)

    def _let(self) -> Statement:
        cursor = self.cursor
        start = cursor.advance().start
        name = self._new_name("an alias")
        cursor.expect("=", " and what the alias stands for")
        operands = [self._operand()]
        while cursor.accept("++"):
            operands.append(self._operand())
        return Alias(cursor.source, start, self._end("the alias"), name.text, tuple(operands))

    # Control flow.

    def _for(self) -> Statement:
        cursor = self.cursor
        start = cursor.advance().start
        variable_type = self._type(("int", "uint", "float"))
        variable = self._new_name("a loop variable")
        cursor.expect("in", " and the values of the loop variable")
        opening = cursor.token
        if cursor.at("{"):
            values: Selector = self.expressions.set()
        elif cursor.at("["):
            values = self.expressions.selector()
        else:
            cursor.fail(f"expected a range [first:last] or a set {{...}} of constants, found {cursor.token}")
        if isinstance(values, Expr) or (isinstance(values, Range) and None in (values.first, values.last)):
            raise cursor.error("a loop's range needs both ends: [first:last]", opening.start, cursor.previous_end)
        body = self._block("for")
        return For(cursor.source, start, cursor.previous_end, variable.text, variable_type, values, body)

    def _if(self) -> Statement:
        cursor = self.cursor
        start = cursor.advance().start
        cursor.expect("(", " after 'if'")
        condition = self.expressions.parse()
        cursor.expect(")", " after the condition")
        then = self._block("if")
        otherwise = self._block("else") if cursor.accept("else") else ()
        return If(cursor.source, start, cursor.previous_end, condition, then, otherwise)

    # Quantum statements.

    def _gate_call(self) -> Statement:
        cursor = self.cursor
        start = cursor.token.start
        modifiers: list[Modifier] = []
        while cursor.token.text in ("inv", "pow", "ctrl", "negctrl") and cursor.token.kind == "name":
            modifiers.append(self._modifier())
        name = cursor.expect_kind("name", "the name of a gate")
        if not modifiers and (cursor.at("[") or cursor.at("=")):
            return self._assignment(name)
        if cursor.token.text.endswith("=") and cursor.token.kind == "symbol":
            cursor.fail(f"not supported: assignment with '{cursor.token.text}'")
        if name.text in self.not_gates:
            cursor.fail(f"expected the name of a gate, found {name}", name)
        arguments = self._arguments()
        if cursor.at(";") and name.text == "gphase":
            operands: tuple[Operand, ...] = ()
        elif cursor.at(";"):
            raise cursor.error(
                f"'{name.text}' is called without qubits; subroutines are not supported",
                start,
                cursor.previous_end,
            )
        else:
            operands = self._operands()
        end = self._end("the operands")
        return GateCall(cursor.source, start, end, name.text, tuple(modifiers), arguments, operands)

    def _modifier(self) -> Modifier:
        cursor = self.cursor
        token = cursor.advance()
        argument: Expr | None = None
        if token.text != "inv" and (token.text == "pow" or cursor.at("(")):
            cursor.expect("(", f" after '{token.text}'")
            argument = self.expressions.parse()
            cursor.expect(")", f" after the argument of '{token.text}'")
        end = cursor.expect("@", f" after the modifier '{token.text}'").start
        return Modifier(cursor.source, token.start, end, token.text, argument)

    def _assignment(self, name: Token) -> Statement:
        """`bits = measure qubits;`, whose first token has been read."""
        cursor = self.cursor
        cursor.seek(name.start)
        target = self._operand("a bit or a classical register")
        cursor.expect("=", f" after '{name.text}'")
        if not cursor.accept("measure"):
            cursor.fail(f"only 'measure' can be assigned to bits, found {cursor.token}")
        operand = self._operand()
        return Measure(cursor.source, name.start, self._end("the measurement"), operand, target)

    def _barrier(self) -> Statement:
        start = self.cursor.advance().start
        operands = () if self.cursor.at(";") else self._operands()
        return Barrier(self.cursor.source, start, self._end("the operands"), operands)

    def _body_statement(self, gate: str) -> Statement:
        return self.statement()
