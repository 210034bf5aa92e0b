"""A plan as a picture: in each stage, which qubits index the shard, the shards of a node, or the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from qdist.plan.plan import Plan, Segment

__all__ = ["html_page", "text_picture"]

_LEGEND = ("inside a shard", "across ranks of a node", "across nodes")
_UNICODE, _ASCII = "·▒█", ".o#"
_COLOURS = ("#e8eef4", "#f2b134", "#c8402f")
_MOST_ROWS = 200


def text_picture(plan: Plan, ascii_only: bool = False) -> str:
    """A row a stage, a column a qubit, the highest qubit first, as in a bit string."""
    signs = _ASCII if ascii_only else _UNICODE
    lines = ["   ".join(f"{sign} {name}" for sign, name in zip(signs, _LEGEND)), ""]
    width = max(5, len(str(len(plan.segments))))
    tens = "".join(str(q // 10) if q % 10 == 0 else " " for q in reversed(range(plan.num_qubits)))
    ones = "".join(str(q % 10) for q in reversed(range(plan.num_qubits)))
    lines += [f"{'':{width}}  {tens}", f"{'stage':>{width}}  {ones}"]
    for k, segment in enumerate(plan.segments[:_MOST_ROWS]):
        row = "".join(signs[kind] for kind in reversed(_kinds(plan, segment)))
        lines.append(f"{k:{width}}  {row}  {_does(plan, segment)}")
    if len(plan.segments) > _MOST_ROWS:
        lines.append(f"... and {len(plan.segments) - _MOST_ROWS} more stages")
    return "\n".join(lines)


def html_page(plan: Plan, title: str, lines: Sequence[str]) -> str:
    """A self-contained page: the lines, then a column a stage, a row a qubit."""
    size = 14
    left, top = 40, 20
    marks = []
    for k, segment in enumerate(plan.segments):
        for qubit, kind in enumerate(_kinds(plan, segment)):
            x, y = left + k * size, top + (plan.num_qubits - 1 - qubit) * size
            tip = f"stage {k}, qubit {qubit}: {_LEGEND[kind]}; {_does(plan, segment)}"
            marks.append(
                f'<rect x="{x}" y="{y}" width="{size - 1}" height="{size - 1}" fill="{_COLOURS[kind]}">'
                f"<title>{escape(tip)}</title></rect>"
            )
    for qubit in range(plan.num_qubits):
        y = top + (plan.num_qubits - 1 - qubit) * size + size - 4
        marks.append(f'<text x="{left - 6}" y="{y}" text-anchor="end">{qubit}</text>')
    for k in range(0, len(plan.segments), 5):
        marks.append(f'<text x="{left + k * size}" y="{top - 6}">{k}</text>')
    width, height = left + size * len(plan.segments) + 10, top + size * plan.num_qubits + 10
    legend = " ".join(
        f'<span style="background:{colour}">&nbsp;&nbsp;&nbsp;</span> {name}&emsp;'
        for colour, name in zip(_COLOURS, _LEGEND)
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        "<style>body{font:14px sans-serif;margin:2em}text{font:10px sans-serif}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n<p>{'<br>'.join(map(escape, lines))}</p>\n"
        f"<p>Rows are qubits, columns are stages. {legend}</p>\n"
        f'<svg width="{width}" height="{height}">\n' + "\n".join(marks) + "\n</svg></body></html>\n"
    )


def _kinds(plan: Plan, segment: Segment) -> list[int]:
    """For each qubit what its bit selects: 0 inside a shard, 1 a shard of the node, 2 the node."""
    close = plan.num_qubits - plan.far
    return [(p >= close) + (p >= close + plan.inside) for p in segment.layout.positions]


def _does(plan: Plan, segment: Segment) -> str:
    gates = sum(len(stage.operations) for stage, _ in segment.stages)
    text = f"{gates} gate{'s' * (gates != 1)}, {len(segment.stages)} sweep{'s' * (len(segment.stages) != 1)}"
    if not segment.swaps:
        return text
    crossing = plan.crossing(segment)
    between = f", {crossing} of them between nodes" if crossing else ""
    return f"{len(segment.swaps)} swapped{between}; {text}"
