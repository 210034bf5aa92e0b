"""Circuits as LaTeX, for the package quantikz (version 2: \\usetikzlibrary{quantikz2})."""

from __future__ import annotations

from ..builder import CircuitBuilder
from ..instruction import Instruction
from .scene import kind_of
from .text import columns_of, marks_of, phases_of

__all__ = ["latex"]

_LETTERS = {
    "π": r"\pi ", "†": r"^\dagger ", "√": r"\surd ", "⟩": r"\rangle ", "≠": r"\neq ", "→": r"\to ", "…": r"\ldots ",
    "\\": r"\backslash ", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\hat{}", "~": r"\sim ", " ": r"\ ",
} | {chr(0x2080 + digit): f"_{{{digit}}}" for digit in range(10)}  # fmt: skip


def latex(circuit: CircuitBuilder, width: int) -> str:
    """A quantikz environment for every block of columns; `width`: letters in a block."""
    blocks: list[list[list[Instruction]]] = [[]]
    used = 0
    for column in columns_of(circuit):
        size = max(len(text) for instruction in column for text in marks_of(instruction)) + 1
        if blocks[-1] and used + size > width:
            blocks.append([])
            used = 0
        blocks[-1].append(column)
        used += size
    heading = [rf"$\textrm{{global phase: }}{_math(text.partition(': ')[2])}$" + "\n\n" for text in phases_of(circuit)]
    return "".join(heading) + "\n\n".join(_block(circuit.num_qubits, block) for block in blocks)


def _block(num_qubits: int, columns: list[list[Instruction]]) -> str:
    cells = [[rf"\lstick{{$q_{{{q}}}$}}"] + [r"\qw"] * len(columns) + [r"\qw"] for q in range(num_qubits)]
    for place, column in enumerate(columns, 1):
        for instruction in column:
            for q, cell in _cells(instruction).items():
                cells[q][place] = cell
    rows = (" \\\\\n").join(" & ".join(row) for row in cells)
    return "\\begin{quantikz}\n" + rows + "\n\\end{quantikz}"


def _cells(instruction: Instruction) -> dict[int, str]:
    """A cell for each of the instruction's qubits; the upper one has the line to the lowest."""
    marks = marks_of(instruction)
    cells = {q: _cell(instruction, i, marks[i]) for i, q in enumerate(instruction.qubits)}
    low, high = min(cells), max(cells)
    if instruction.gate.is_directive:
        return {low: r"\qw\slice{}"}
    if low < high:
        cells[low] += rf"\wire[d][{high - low}]{{q}}"
    return cells


def _cell(instruction: Instruction, position: int, text: str) -> str:
    kind = kind_of(instruction, position)
    if kind in ("box", "barrier"):
        return rf"\gate{{{_math(text)}}}"
    if kind == "measure":
        return rf"\meter{{{_math(text[1:].lstrip('→'))}}}"
    macro = {"control": r"\control{}", "open control": r"\ocontrol{}", "not": r"\targ{}", "swap": r"\targX{}"}[kind]
    return macro + (rf"\push{{{_math(text[1:])}}}" if text[1:] else "")


def _math(text: str) -> str:
    return "".join(_LETTERS.get(letter, letter) for letter in text).strip()
