"""The conditions of `if`: tests of classical bits, and constants."""

from __future__ import annotations

from typing import Any

from ..instruction import Condition
from .frame import Frame
from .names import Bits
from .registers import Registers
from .syntax import Binary, Expr, Index, Name, Operand, Unary

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


class Conditions:
    """Evaluates conditions in a program with these registers."""

    def __init__(self, registers: Registers) -> None:
        self._registers = registers

    def evaluate(self, node: Expr, frame: Frame) -> bool | Condition:
        """What an `if` tests: a constant, or one Condition on classical bits.

        Bits can be tested alone (`c[0]`, `!c[0]`), compared with an integer or a bit string (`c == 3`,
        `c[0:2] != "011"`), and tests for equality joined by `&&`, those of single bits and with `!=` by `||`; they can
        be more or less than an integer where that is a test for equality of some of them (`c > 0`, `c < 4`).
        """
        match node:
            case Unary(op="!", operand=operand):
                return _negated(self.evaluate(operand, frame))
            case Binary(op="&&" | "||"):
                return self._joined(node, frame)
            case Binary(op="==" | "!=", left=left, right=right):
                sides = self._side(left, frame), self._side(right, frame)
                if isinstance(sides[0], Bits) or isinstance(sides[1], Bits):
                    return _compare(node, *sides)
            case Binary(op="<" | ">" | "<=" | ">=" as op, left=left, right=right):
                sides = self._side(left, frame), self._side(right, frame)
                if isinstance(sides[0], Bits):
                    return _ordered(node, op, *sides)
                if isinstance(sides[1], Bits):
                    return _ordered(node, _MIRRORED[op], sides[1], sides[0])
        value = self._side(node, frame)
        if isinstance(value, Bits) and len(value.wires) == 1:
            return Condition(value.wires, 1)
        if isinstance(value, Bits):
            raise node.error(f"{value} is not a condition; compare it with an integer")
        if not isinstance(value, bool):
            raise node.error("expected a condition: a test of classical bits, or a constant comparison")
        return value

    def _joined(self, node: Binary, frame: Frame) -> bool | Condition:
        """`a && b && ...`, without a Python frame for each of them."""
        steps: list[Binary] = []
        first: Expr = node
        while isinstance(first, Binary) and first.op in ("&&", "||"):
            steps.append(first)
            first = first.left
        value = self.evaluate(first, frame)
        for step in reversed(steps):
            value = _join(step, value, self.evaluate(step.right, frame), frame)
        return value

    def _side(self, node: Expr, frame: Frame) -> Any:
        """The bits that a node names, or else its value."""
        if isinstance(node, Name | Index) and isinstance(frame.names.get(node.name), Bits):
            selector = node.selector if isinstance(node, Index) else None
            operand = Operand(node.source, node.start, node.end, node.name, selector)
            return self._registers.select(operand, Bits, frame)
        return frame.evaluate(node)


def _compare(node: Binary, left: object, right: object) -> bool | Condition:
    """Bits against an integer, a boolean or a bit string."""
    bits, value = (left, right) if isinstance(left, Bits) else (right, left)
    assert isinstance(bits, Bits)
    size = len(bits.wires)
    if isinstance(value, str):
        if len(value) != size:
            raise node.error(f'the bit string "{value}" has {len(value)} bits, and {bits} has {size}')
        value = int(value, 2)
    if not isinstance(value, int):
        raise node.error(f"{bits} can be compared only with an integer or a bit string")
    equal = node.op == "=="
    if value < 0 or value.bit_length() > size:
        return not equal  # so few bits never hold such a number
    return Condition(bits.wires, int(value), equal)


def _ordered(node: Binary, op: str, bits: Bits, value: object) -> bool | Condition:
    """Bits that are more or less than an integer: `c >= least`, or that it does not hold."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise node.error(f"{bits} can be more or less only than an integer")
    least, wanted = value + (op in ("<=", ">")), op in (">", ">=")
    size = len(bits.wires)
    if not 0 < least < 1 << size:
        return (least <= 0) is wanted
    # Below the lowest 1 of `least` every value of the bits will do.
    low = (least & -least).bit_length() - 1
    above, rest = bits.wires[low:], least >> low
    if rest == 1:
        return Condition(above, 0, not wanted)
    if rest == (1 << len(above)) - 1:
        return Condition(above, rest, wanted)
    raise node.error(
        f"{bits} {'>=' if wanted else '<'} {least} is no test of a single value, and conditions test one; write an "
        "'if' with == for each value, or one for each of the bits"
    )


def _negated(test: bool | Condition) -> bool | Condition:
    if isinstance(test, bool):
        return not test
    if len(test.clbits) == 1 and test.equal:
        return test._replace(value=1 - test.value)  # a bit that is not 1 is 0
    return test._replace(equal=not test.equal)


def _join(node: Binary, left: bool | Condition, right: bool | Condition, frame: Frame) -> bool | Condition:
    """Two tests, as one test of all their bits."""
    if isinstance(left, bool) and isinstance(right, bool):
        return (left and right) if node.op == "&&" else (left or right)
    for constant, other in ((left, right), (right, left)):
        if isinstance(constant, bool):
            decides = constant is (node.op == "||")
            return constant if decides else other
    if node.op == "||":
        return _negated(_both(node, _negated(left), _negated(right), frame))
    return _both(node, left, right, frame)


def _both(node: Binary, left: bool | Condition, right: bool | Condition, frame: Frame) -> bool | Condition:
    assert isinstance(left, Condition)
    assert isinstance(right, Condition)
    frame.budget.spend(len(left.clbits) + len(right.clbits), node)
    bits: dict[int, int] = {}
    for test in (left, right):
        values = {clbit: test.value >> place & 1 for place, clbit in enumerate(test.clbits)}
        if not test.equal:
            # One bit that is not 0 is 1; several that are not a value are no test for equality of a larger
            # group.
            if len(values) > 1:
                if node.op == "||":
                    raise node.error(
                        "'||' can join only tests of single bits and tests with '!='; write "
                        "'if (first) { ... } else if (second) { ... }' instead"
                    )
                raise node.error("'&&' can join only tests for equality; nest the 'if' statements instead")
            values = {clbit: 1 - bit for clbit, bit in values.items()}
        if any(bits.get(clbit, bit) != bit for clbit, bit in values.items()):
            return False
        bits |= values
    return Condition(tuple(bits), sum(bit << place for place, bit in enumerate(bits.values())))
