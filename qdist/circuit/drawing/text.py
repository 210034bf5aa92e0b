"""Circuits as text: one line a qubit, gates in columns, wrapped into blocks that fit a terminal.

    q0: ─H─●───M→c0─────────────
           │
    q1: ───X─Rzz(0.3)───────────
                │
    q2: ───────Rzz────X if c0=1─

● and ○ are controls that must be 1 and 0. A gate on several targets carries its name on each; where their
order matters, a subscript gives each target's place in the gate's list of qubits. Where stdout's encoding lacks these
letters, the drawing is in ASCII.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from qdist.terminal import stdout_writes

from ..builder import CircuitBuilder
from ..data_gates import PauliRotationGate
from ..errors import CircuitError
from ..gate import Gate
from ..instruction import Condition, Instruction
from ..parameters import Angle, Expression

__all__ = ["columns_of", "draw", "marks_of", "phases_of"]

_LONGEST_ANGLE = 24
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_ASCII = {"─": "-", "│": "|", "┼": "+", "░": ":", "●": "@", "○": "o", "✕": "x", "→": "->", "≠": "!=", "…": ".."}
_ASCII |= {"π": "pi", "†": "dg", "√": "sqrt", "⟩": ">", "ψ": "psi"} | dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789"))


def draw(circuit: CircuitBuilder, width: int = 80) -> str:
    """The circuit as text, in blocks of at most `width` columns (more where a single gate needs it)."""
    if width < 20:
        raise CircuitError(f"a drawing needs a width of at least 20 columns; got {width}")
    labels = [f"q{q}: " for q in range(circuit.num_qubits)]
    margin = max(map(len, labels), default=0)
    labels = [label.rjust(margin) for label in labels]
    letters = str.maketrans({} if stdout_writes("".join(_ASCII)) else _ASCII)
    columns = [_Column(circuit.num_qubits, cells, letters) for cells in columns_of(circuit)]
    blocks = [_block(labels, block) for block in _wrapped(columns, width - margin - 1)]
    # Wires that nothing links have one empty line between them, so blocks have two.
    return "\n\n\n".join(phases_of(circuit) + blocks).translate(letters)


class _Column:
    """What stands in one column: a text on some wires, and vertical lines between some neighbours."""

    def __init__(self, num_qubits: int, instructions: list[Instruction], letters: dict[int, str]) -> None:
        self.texts: dict[int, str] = {}
        self.links: dict[int, str] = {}  # the mark below wire q, between it and wire q + 1
        for instruction in instructions:
            # Before widths are known: some letters become several.
            marks = {q: mark.translate(letters) for q, mark in zip(instruction.qubits, marks_of(instruction))}
            self.texts.update(marks)
            low, high = min(marks), max(marks)
            if instruction.gate.is_directive:
                self.links.update({q: "░" for q in range(low, high) if q in marks and q + 1 in marks})
            else:
                self.links.update({q: "│" for q in range(low, high)})
                self.texts.update({q: "┼" for q in range(low + 1, high) if q not in marks})
        self.width = max(map(len, self.texts.values()))

    def wire(self, q: int) -> str:
        text = self.texts.get(q, "─")
        left = (self.width - len(text)) // 2
        return "─" * left + text + "─" * (self.width - len(text) - left) + "─"

    def below(self, q: int) -> str:
        middle = (self.width - 1) // 2
        return " " * middle + self.links.get(q, " ") + " " * (self.width - middle)


def columns_of(circuit: CircuitBuilder) -> Iterator[list[Instruction]]:
    """Instructions that can stand above each other, each as far left as order allows."""
    free, free_clbit = [0] * circuit.num_qubits, [0] * circuit.num_clbits
    columns: list[list[Instruction]] = []
    for instruction in circuit:
        if not instruction.qubits:
            continue
        # The wires in between are taken too: the vertical line crosses them.
        span = range(min(instruction.qubits), max(instruction.qubits) + 1)
        # Classical bits have no line, but what tests one stands to the right of its measurement.
        clbits = (*instruction.clbits, *(clbit for test in instruction.condition for clbit in test.clbits))
        place = max((*(free[q] for q in span), *(free_clbit[clbit] for clbit in clbits)))
        if place == len(columns):
            columns.append([])
        columns[place].append(instruction)
        for q in span:
            free[q] = place + 1
        for clbit in clbits:
            free_clbit[clbit] = place + 1
    return iter(columns)


def _wrapped(columns: list[_Column], width: int) -> Iterator[list[_Column]]:
    block: list[_Column] = []
    used = 0
    for column in columns:
        if block and used + column.width + 1 > width:
            yield block
            block, used = [], 0
        block.append(column)
        used += column.width + 1
    yield block


def _block(labels: list[str], columns: list[_Column]) -> str:
    lines = []
    for q, label in enumerate(labels):
        lines.append(label + "─" + "".join(column.wire(q) for column in columns))
        if q + 1 < len(labels):
            below = "".join(column.below(q) for column in columns)
            lines.append((" " * (len(label) + 1) + below).rstrip())
    return "\n".join(lines)


def phases_of(circuit: CircuitBuilder) -> list[str]:
    """A line for the global phase, which belongs to no wire."""
    phases = [
        _angle(instruction.params[0]) + _suffix(instruction.condition)
        for instruction in circuit
        if not instruction.qubits and instruction.params
    ]
    return ["global phase: " + " + ".join(phases)] if phases else []


def marks_of(instruction: Instruction) -> list[str]:
    """The text on each of the instruction's qubits."""
    gate = instruction.gate
    controls = ["●" if gate.ctrl_state >> i & 1 else "○" for i in range(gate.num_controls)]
    targets = _symbols(gate)
    if gate.kind == "measure":
        targets[0] += f"→c{instruction.clbits[0]}"
    angles = f"({','.join(map(_angle, instruction.params))})" if instruction.params else ""
    # What belongs to the gate as a whole stands once: on its first target, or on a control where it has none.
    (targets or controls)[0] += angles + _suffix(instruction.condition)
    return controls + targets


def _symbols(gate: Gate) -> list[str]:
    base, count = gate.base, gate.num_targets
    if isinstance(base, PauliRotationGate):
        return [f"R{letter.lower()}" for letter in reversed(base.data)]
    if base.kind == "initialize" and isinstance(base.data, int):
        return [f"|{base.data >> i & 1}⟩" for i in range(count)]
    if count < 2 or base.is_directive or _is_symmetric(base):
        return [base.symbol] * count
    return [base.symbol + str(i).translate(_SUBSCRIPTS) for i in range(count)]


@lru_cache(maxsize=1024)
def _is_symmetric(gate: Gate) -> bool:
    """Whether the order of a two-qubit gate's targets does not matter."""
    if gate.num_qubits != 2 or not gate.is_unitary:
        return False
    matrix = gate.matrix(*(0.3 + k for k in range(gate.num_params)))
    swapped = [0, 2, 1, 3]
    return np.allclose(matrix, matrix[np.ix_(swapped, swapped)])


def _angle(angle: Angle) -> str:
    text = angle.format(_number) if isinstance(angle, Expression) else _number(angle)
    return text if len(text) <= _LONGEST_ANGLE else text[: _LONGEST_ANGLE - 1] + "…"


def _number(number: float) -> str:
    turns = Fraction(number / math.pi).limit_denominator(64)
    if turns and math.isclose(number, float(turns) * math.pi, rel_tol=1e-12):
        top, bottom = abs(turns.numerator), turns.denominator
        sign = "-" if turns < 0 else ""
        return f"{sign}{top if top != 1 else ''}π" + (f"/{bottom}" if bottom != 1 else "")
    return f"{number:.3g}"


def _suffix(condition: tuple[Condition, ...]) -> str:
    tests = [
        f"{','.join(f'c{clbit}' for clbit in test.clbits)}{'=' if test.equal else '≠'}{test.value}"
        for test in condition
    ]
    return f" if {' & '.join(tests)}" if tests else ""
