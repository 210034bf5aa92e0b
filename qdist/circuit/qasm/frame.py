"""Where statements run, and how much they may expand to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from ..circuit import Circuit
from ..parameters import Angle, Expression, total
from .definitions import Target
from .errors import Source
from .evaluate import Language, describe, evaluate, is_number
from .names import Names
from .syntax import Expr, Node

# What loops, definitions, powers and broadcasts may add up to, in units of about a microsecond: a program
# that asks for too much is refused within seconds. What it spells out statement by statement is not limited.
MAX_WORK = 10_000_000
# An instruction costs more than its time, because it stays in memory; a statement is the work of running it.
INSTRUCTION = 4
STATEMENT = 8
# An element of an array of input parameters is an object with a name of its own.
PARAMETER = 8
# Wires that are named in about a microsecond, at eight bytes each.
WIRES_PER_UNIT = 4
# Qubits, and classical bits, and the largest number of anything that is counted.
MAX_COUNT = 1_000_000


class Budget:
    """Counts the work that a program asks for without spelling it out, in units of about a microsecond."""

    def __init__(self) -> None:
        self._spent = 0

    def spend(self, amount: int, node: Node) -> None:
        """Raise QasmError at `node` once the program has asked for too much."""
        self._spent += amount
        if self._spent > MAX_WORK:
            raise node.error(
                f"the program expands too far: here it has reached {MAX_WORK // INSTRUCTION:,} "
                "instructions, or as much other work"
            )

    def spend_on_copies(self, count: int, node: Node) -> None:
        """Count the instructions of a statement that makes one for each element of a register."""
        if count > 1:
            self.spend(INSTRUCTION * count, node)


def circuit_work(circuit: Circuit) -> int:
    """The work of adding all of a circuit to another: an instruction on many qubits costs more than one on few."""
    wires = sum(len(instruction.qubits) for instruction in circuit)
    return INSTRUCTION * len(circuit) + max(0, wires - 4 * len(circuit)) // WIRES_PER_UNIT


@dataclass(slots=True)
class Frame:
    """A circuit to add to, the names that statements see, and the gates that they may call.

    Global phases that gates bring along are collected in `phases` and added once, at the end: they commute
    with everything.
    """

    language: Language
    circuit: Circuit
    names: Names
    gates: dict[str, Target]
    budget: Budget
    phases: list[Angle] = field(default_factory=list)
    top_level: bool = True
    conditional: bool = False

    def nested(self, names: dict[str, Any] | None = None, conditional: bool = False) -> Frame:
        """The same place, seen from an inner scope with these names of its own."""
        return replace(
            self,
            names=Names(names, self.names),
            top_level=False,
            conditional=conditional or self.conditional,
        )

    def add_phase(self, angle: Angle) -> None:
        """Multiply by e^{i angle}."""
        if self.conditional:
            self.circuit.gphase(angle)
        else:
            self.phases.append(angle)

    def total_phase(self) -> Angle:
        """The sum of the collected phases."""
        numbers = math.fsum(phase for phase in self.phases if not isinstance(phase, Expression))
        return total([*(phase for phase in self.phases if isinstance(phase, Expression)), numbers])

    # Values.

    def evaluate(self, node: Expr) -> Any:
        return evaluate(node, self, self.language)

    def value(self, name: str, source: Source, start: int, end: int) -> Any:
        """What a name in an expression means."""
        return self.names.value(name, source, start, end)

    def spend(self, amount: int, node: Node) -> None:
        self.budget.spend(amount, node)

    def angle(self, node: Expr) -> Angle:
        """The value of an expression as the parameter of a gate."""
        value = self.evaluate(node)
        if isinstance(value, Expression):
            # What has more terms than it has letters was spelled out elsewhere, and is stored here once more.
            self.budget.spend(max(0, 2 * (len(value.terms) - (node.end - node.start))), node)
            return value
        if not is_number(value):
            raise node.error(f"expected a number, got {describe(value)}")
        try:
            return float(value)
        except OverflowError:
            raise node.error("the number is too large for a double") from None

    def integer(self, node: Expr, what: str) -> int:
        value = self.evaluate(node)
        if isinstance(value, bool) or not isinstance(value, int):
            raise node.error(f"{what} must be an integer; got {describe(value)}")
        return value

    def count(self, node: Expr, what: str) -> int:
        """An integer that is a size or a number of things."""
        value = self.integer(node, what)
        if not 0 < value <= MAX_COUNT:
            raise node.error(f"{what} must be from 1 to {MAX_COUNT:,}; got {value}")
        return value

    def step(self, node: Expr | None) -> int:
        """The step of a range."""
        step = 1 if node is None else self.integer(node, "the step of a range")
        if node is not None and step == 0:
            raise node.error("the step of a range must not be 0")
        return step
