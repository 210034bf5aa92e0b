"""Where everything of a picture stands: wires, labels, boxes and lines, for SVG and matplotlib alike.

Lengths are in pixels, from the upper left corner; a letter is taken to be 8 wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ..builder import CircuitBuilder
from ..gates import GATES
from ..instruction import Instruction
from .text import columns_of, marks_of, phases_of

__all__ = ["BOX", "LETTER", "Kind", "Mark", "Scene", "kind_of", "scene"]

LETTER, BOX, PITCH, GAP = 8, 28, 44, 12
"""Width of a letter; height of a box; distance of wires, and of what stands side by side."""

Kind = Literal["box", "control", "open control", "not", "swap", "measure", "barrier"]


@dataclass(frozen=True, slots=True)
class Mark:
    """What an instruction has on one wire, around its middle. The text of what is no box stands above it."""

    kind: Kind
    x: float
    y: float
    width: float
    text: str
    title: str
    """The instruction in words, for those who point at it."""


@dataclass(slots=True)
class Scene:
    """A circuit's picture. Lines are (x0, y0, x1, y1), labels (x of their end, y, text)."""

    width: float = 0.0
    height: float = 0.0
    heading: str = ""
    wires: list[tuple[float, float, float, float]] = field(default_factory=list)
    links: list[tuple[float, float, float, float]] = field(default_factory=list)
    labels: list[tuple[float, float, str]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def scene(circuit: CircuitBuilder, width: int) -> Scene:
    """The picture of a circuit in blocks of wires that are at most as wide as `width` letters."""
    made = Scene(heading="".join(phases_of(circuit)))
    margin = LETTER * len(f"q{max(circuit.num_qubits - 1, 0)}") + GAP
    top = PITCH if made.heading else 0.0
    for block in _blocks(circuit, LETTER * width - margin):
        middles = [top + PITCH * (q + 0.5) for q in range(circuit.num_qubits)]
        x: float = margin + GAP
        for instructions, size in block:
            for instruction in instructions:
                _place(made, instruction, x + size / 2, middles)
            x += size + GAP
        made.wires += [(margin, y, x, y) for y in middles]
        made.labels += [(margin - GAP / 2, y, f"q{q}") for q, y in enumerate(middles)]
        made.width = max(made.width, x)
        top += PITCH * (circuit.num_qubits + 0.5)
    made.width, made.height = max(made.width, LETTER * len(made.heading)) + GAP, max(top, 1.0)
    return made


def kind_of(instruction: Instruction, position: int) -> Kind:
    """How the instruction looks on its qubit at a position of its list of qubits."""
    gate = instruction.gate
    if position < gate.num_controls:
        return "control" if gate.ctrl_state >> position & 1 else "open control"
    if gate.kind in ("measure", "barrier"):
        return "measure" if gate.kind == "measure" else "barrier"
    if gate.base is GATES["x"] and gate.num_controls:
        return "not"
    return "swap" if gate.base is GATES["swap"] else "box"


def _blocks(circuit: CircuitBuilder, width: float) -> Iterator[list[tuple[list[Instruction], float]]]:
    """Columns with their widths, as many as go side by side."""
    block: list[tuple[list[Instruction], float]] = []
    used = 0.0
    for instructions in columns_of(circuit):
        size = max(_width(text) for instruction in instructions for text in marks_of(instruction))
        if block and used + size + GAP > width:
            yield block
            block, used = [], 0.0
        block.append((instructions, size))
        used += size + GAP
    if block or circuit.num_qubits:
        yield block


def _width(text: str) -> float:
    return max(BOX, LETTER * len(text) + GAP)


def _place(made: Scene, instruction: Instruction, x: float, middles: list[float]) -> None:
    texts = marks_of(instruction)
    where = ",".join(map(str, instruction.qubits))
    title = (
        f"{instruction.gate.name} on qubits {where}" if len(texts) > 1 else f"{instruction.gate.name} on qubit {where}"
    )
    marks = []
    for position, (q, text) in enumerate(zip(instruction.qubits, texts)):
        kind = kind_of(instruction, position)
        shown = {"control": text[1:], "open control": text[1:], "not": text[1:], "swap": text[1:], "barrier": ""}
        marks.append(Mark(kind, x, middles[q], _width(text), shown.get(kind, text), title))
    heights = [mark.y for mark in marks]
    if min(heights) < max(heights) and not instruction.gate.is_directive:
        made.links.append((x, min(heights), x, max(heights)))
    made.marks += marks
