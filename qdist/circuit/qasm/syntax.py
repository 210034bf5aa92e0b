"""The syntax tree of OpenQASM: expressions and statements, each with its place in the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from .errors import QasmError, Source


@dataclass(slots=True, eq=False)
class Node:
    """A piece of a program, `source.text[start:end]`."""

    source: Source
    start: int
    end: int

    def error(self, message: str) -> QasmError:
        """A QasmError that points at this piece."""
        return self.source.error(message, self.start, self.end)


# Expressions. `depth` is the height of the tree, which the parser bounds so that evaluation cannot exhaust
# the stack.


@dataclass(slots=True, eq=False)
class Expr(Node):
    depth: int


@dataclass(slots=True, eq=False)
class Constant(Expr):
    value: Any  # int, float, bool, or the str of a bit-string literal


@dataclass(slots=True, eq=False)
class Name(Expr):
    name: str


@dataclass(slots=True, eq=False)
class Index(Expr):
    """`name[selector]`."""

    name: str
    selector: Selector


@dataclass(slots=True, eq=False)
class Unary(Expr):
    op: str
    operand: Expr


@dataclass(slots=True, eq=False)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(slots=True, eq=False)
class Call(Expr):
    """A function of the language, or a cast to a type."""

    function: str
    arguments: tuple[Expr, ...]


# What selects qubits and bits.


@dataclass(slots=True, eq=False)
class Range(Node):
    """`first : step : last`, the last included; None where the program leaves one out."""

    first: Expr | None
    step: Expr | None
    last: Expr | None


@dataclass(slots=True, eq=False)
class Operand(Node):
    """A register, or a selection from it. Physical qubits are named `$n`."""

    name: str
    selector: Selector | None


# One index, a range, or a set of indices.
Selector: TypeAlias = Expr | Range | tuple[Expr, ...]


# Statements.


@dataclass(slots=True, eq=False)
class Modifier(Node):
    """`inv`, `pow(argument)`, `ctrl(argument)` or `negctrl(argument)`; no argument is one control."""

    kind: str
    argument: Expr | None


@dataclass(slots=True, eq=False)
class GateCall(Node):
    name: str
    modifiers: tuple[Modifier, ...]
    arguments: tuple[Expr, ...]
    operands: tuple[Operand, ...]


@dataclass(slots=True, eq=False)
class Barrier(Node):
    operands: tuple[Operand, ...]


@dataclass(slots=True, eq=False)
class Reset(Node):
    operand: Operand


@dataclass(slots=True, eq=False)
class Measure(Node):
    operand: Operand
    target: Operand


@dataclass(slots=True, eq=False)
class If(Node):
    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(slots=True, eq=False)
class Type(Node):
    """A type of numbers, with its width in bits where that is given."""

    name: str
    width: Expr | None


@dataclass(slots=True, eq=False)
class For(Node):
    variable: str
    type: Type
    values: Range | tuple[Expr, ...]
    body: tuple[Statement, ...]


@dataclass(slots=True, eq=False)
class GateDefinition(Node):
    """A gate and its body; None for the body of an opaque gate."""

    name: str
    params: tuple[str, ...]
    qubits: tuple[str, ...]
    body: tuple[Statement, ...] | None


@dataclass(slots=True, eq=False)
class QubitDeclaration(Node):
    name: str
    size: Expr | None


@dataclass(slots=True, eq=False)
class BitDeclaration(Node):
    """Classical bits, perhaps with the measurement that they first hold."""

    name: str
    size: Expr | None
    measured: Operand | None = None


@dataclass(slots=True, eq=False)
class ConstDeclaration(Node):
    name: str
    type: Type
    value: Expr


@dataclass(slots=True, eq=False)
class InputDeclaration(Node):
    """An input angle, or (with a length) an array of them."""

    name: str
    type: Type
    length: Expr | None


@dataclass(slots=True, eq=False)
class Alias(Node):
    """`let name = a ++ b ++ ...;`"""

    name: str
    operands: tuple[Operand, ...]


@dataclass(slots=True, eq=False)
class Include(Node):
    path: str


Statement: TypeAlias = (
    GateCall
    | Barrier
    | Reset
    | Measure
    | If
    | For
    | GateDefinition
    | QubitDeclaration
    | BitDeclaration
    | ConstDeclaration
    | InputDeclaration
    | Alias
    | Include
)
