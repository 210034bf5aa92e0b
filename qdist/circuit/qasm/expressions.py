"""The parser of OpenQASM expressions: precedence climbing over a cursor, into the trees of `syntax.py`.

A tree is evaluated as often as its gate body or loop body runs, so constants are folded while parsing.
"""

from __future__ import annotations

from typing import Any

from .errors import Source
from .evaluate import VERSION_3, Language, evaluate
from .lexer import Cursor
from .syntax import Binary, Call, Constant, Expr, Index, Name, Node, Range, Selector, Unary

# Deep enough for any program written by a person or a tool, shallow enough for Python's stack.
MAX_NESTING = 64
MAX_DEPTH = 128


class ExpressionParser:
    """Reads expressions at a cursor."""

    def __init__(self, cursor: Cursor, language: Language) -> None:
        self.cursor = cursor
        self.language = language
        self._nesting = 0

    def parse(self, min_precedence: int = 1) -> Expr:
        """The longest expression that starts here, of operators that bind at least as tightly as given."""
        cursor = self.cursor
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            cursor.fail(f"expressions nested more than {MAX_NESTING} deep are not supported")
        left = self._operand()
        while cursor.token.kind == "symbol":
            op = cursor.token.text
            precedence = self.language.binary.get(op)
            if precedence is None or precedence < min_precedence:
                break
            cursor.advance()
            # The power operator groups from the right, all others from the left.
            right = self.parse(precedence if op == self.language.power else precedence + 1)
            if op == "^" and self.language.power == "^":
                op = "**"
            # Evaluation takes a chain of operations that group from the left as one level.
            depth = max(left.depth + (not isinstance(left, Binary)), right.depth + 1)
            left = self._fold(Binary(cursor.source, left.start, right.end, depth, op, left, right))
        self._nesting -= 1
        return left

    def _operand(self) -> Expr:
        cursor = self.cursor
        token = cursor.token
        source, start = cursor.source, token.start
        if token.kind == "int":
            cursor.advance()
            return Constant(source, start, token.end, 0, cursor.int_value(token))
        if token.kind == "float":
            cursor.advance()
            return Constant(source, start, token.end, 0, cursor.float_value(token))
        if token.kind == "symbol" and token.text in self.language.unary:
            cursor.advance()
            # Only the power operator binds tighter than a sign: -2 ** 2 is -(2 ** 2).
            operand = self.parse(self.language.binary[self.language.power])
            return self._fold(Unary(source, start, operand.end, 1 + operand.depth, token.text, operand))
        if cursor.accept("("):
            inner = self.parse()
            cursor.expect(")", " to close the parenthesis")
            return inner
        if token.kind == "name":
            return self._name()
        if token.kind == "string" and self.language is VERSION_3:
            return self._bit_string()
        cursor.fail(f"expected an expression, found {token}")

    def _name(self) -> Expr:
        cursor = self.cursor
        token = cursor.advance()
        source, name = cursor.source, token.text
        if name in self.language.casts:
            if cursor.at("["):
                raise cursor.error(
                    f"casts to a width ({name}[n]) are not supported; write {name}(...)",
                    token.start,
                    cursor.token.end,
                )
            return self._call(token.start, name, 1)
        if name in self.language.functions and cursor.at("("):
            return self._call(token.start, name, self.language.functions[name][0])
        if name in self.language.constants:
            return Constant(source, token.start, token.end, 0, self.language.constants[name])
        if self.language is VERSION_3:
            if name in ("true", "false"):
                return Constant(source, token.start, token.end, 0, name == "true")
            if cursor.at("["):
                selector = self.selector()
                return Index(source, token.start, cursor.previous_end, _depth(selector), name, selector)
        if cursor.at("("):
            known = ", ".join(sorted(self.language.functions))
            cursor.fail(f"'{name}' is not a function of this version of OpenQASM; it has {known}", token)
        return Name(source, token.start, token.end, 0, name)

    # What stands in brackets behind the name of a register or an array.

    def selector(self) -> Selector:
        """`[index]`, `[first:last]`, `[first:step:last]` or `[{index, ...}]`; a range's ends are optional."""
        cursor = self.cursor
        start = cursor.expect("[").end
        selector = self.set() if cursor.at("{") else self._index_or_range(start)
        cursor.expect("]", " after the index")
        return selector

    def set(self) -> tuple[Expr, ...]:
        """`{value, ...}`"""
        cursor = self.cursor
        cursor.expect("{")
        values = [self.parse()]
        while cursor.accept(",") and not cursor.at("}"):
            values.append(self.parse())
        cursor.expect("}", " after the set")
        return tuple(values)

    def _index_or_range(self, start: int) -> Expr | Range:
        cursor = self.cursor
        parts: list[Expr | None] = []
        while True:
            parts.append(None if cursor.at(":") or cursor.at("]") else self.parse())
            if len(parts) == 3 or not cursor.accept(":"):
                break
        first, *rest = parts
        if rest:
            step = rest[0] if len(rest) == 2 else None
            return Range(cursor.source, start, cursor.previous_end, first, step, rest[-1])
        if first is None:
            cursor.fail(f"expected an index or a range, found {cursor.token}")
        return first

    def _call(self, start: int, function: str, arity: int) -> Expr:
        cursor = self.cursor
        cursor.expect("(", f" after '{function}'")
        arguments = [self.parse()]
        while cursor.accept(","):
            arguments.append(self.parse())
        end = cursor.expect(")", f" after the argument of '{function}'").end
        depth = 1 + max(argument.depth for argument in arguments)
        node = Call(cursor.source, start, end, depth, function, tuple(arguments))
        if len(arguments) != arity:
            raise node.error(f"'{function}' takes {arity} argument{'s'[: arity > 1]}; got {len(arguments)}")
        return self._fold(node)

    def _bit_string(self) -> Expr:
        cursor = self.cursor
        token = cursor.advance()
        bits = token.text[1:-1].replace("_", "")
        if not bits or set(bits) - {"0", "1"}:
            cursor.fail(f"expected a bit string of 0 and 1, found {token.text}", token)
        return Constant(cursor.source, token.start, token.end, 0, bits)

    def _fold(self, node: Expr) -> Expr:
        """The value of a node whose parts are constants, as a Constant; any other node as it is."""
        if node.depth > MAX_DEPTH:
            raise node.error(f"an expression of more than {MAX_DEPTH} nested operations is not supported")
        match node:
            case Unary(operand=Constant()) | Binary(left=Constant(), right=Constant()):
                pass
            case Call(arguments=arguments) if all(isinstance(part, Constant) for part in arguments):
                pass
            case _:
                return node
        value = evaluate(node, _NOTHING, self.language)
        return Constant(node.source, node.start, node.end, 0, value)


def _depth(selector: Selector) -> int:
    parts = (
        (selector.first, selector.step, selector.last)
        if isinstance(selector, Range)
        else (selector if isinstance(selector, tuple) else (selector,))
    )
    return 1 + max((part.depth for part in parts if part is not None), default=0)


class _Nothing:
    """The scope of a constant expression."""

    def value(self, name: str, source: Source, start: int, end: int) -> Any:
        raise source.error(f"'{name}' is not a constant", start, end)

    def spend(self, amount: int, node: Node) -> None:
        """Constants cost nothing: they are spelled out."""


_NOTHING = _Nothing()
