"""The distributed graph as text and as a picture: operations, communication, placements and local shapes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from qdist.parallel.auto.ir.lower import Compute, Instruction, Move, given_by, made, taken_by
from qdist.parallel.auto.ir.sharding_plan import Need, ShardingPlan
from qdist.parallel.auto.placement.moves import gradient_of
from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard, local_shape
from qdist.parallel.auto.placement.reshard import Step
from qdist.parallel.auto.run.runner import PlanRunner

__all__ = ["draw", "text"]

_NAMES = {
    (Shard, Replicate): "all_gather",
    (Replicate, Shard): "slice",
    (Partial, Replicate): "all_reduce",
    (Partial, Shard): "reduce_scatter",
    (Shard, Shard): "all_to_all",
    (Replicate, Partial): "keep_on_first",
    (Shard, Partial): "zeros_around",
    (Replicate, Replicate): "copy",
}


def text(program: PlanRunner) -> str:
    """A line for every input, parameter and instruction, with global and local shapes, as this rank runs it."""
    names = _Names(program)
    plan = program.plan
    lines = [f"# rank {plan.mesh.comm.rank} of {plan.mesh}"]
    for value in (*plan.graph.inputs, *plan.graph.parameters):
        need = made(plan, value)
        lines.append(f"{names[need]} : {value.kind} {_shapes(plan, need)} {_places(need.placements)}")
    for instruction in program.instructions:
        lines += _lines(plan, instruction, names)
    return "\n".join(lines)


def draw(program: PlanRunner, path: Any) -> None:
    """Write the same as an SVG file: a box an operation (white) or communication (coloured), arrows for values."""
    plan = program.plan
    names = _Names(program)
    boxes: list[tuple[list[str], str]] = []
    maker: dict[Need, int] = {}
    edges: list[tuple[int, int]] = []
    for value in (*plan.graph.inputs, *plan.graph.parameters):
        need = made(plan, value)
        maker[need] = len(boxes)
        boxes.append(([f"{value.kind} {value.name}", f"{_shapes(plan, need)} {_places(need.placements)}"], "#e8eef4"))
    for instruction in program.instructions:
        edges += [(maker[need], len(boxes)) for need in dict.fromkeys(taken_by(instruction)) if need in maker]
        for need in given_by(instruction):
            maker[need] = len(boxes)
        colour = "#f2b134" if isinstance(instruction, Move) else "#ffffff"
        boxes.append((_lines(plan, instruction, names), colour))
    Path(path).write_text(_svg(boxes, edges), encoding="utf-8")


class _Names:
    """Short names of values in the order in which they come up."""

    def __init__(self, program: PlanRunner) -> None:
        plan = program.plan
        self._of = {made(plan, v): v.name for v in (*plan.graph.inputs, *plan.graph.parameters)}
        for instruction in program.instructions:
            for need in given_by(instruction):
                self._of.setdefault(need, f"%{len(self._of)}")

    def __getitem__(self, need: Any) -> str:
        if not isinstance(need, Need):
            return repr(need)
        return self._of.get(need, f"constant{need.value.shape}")


def _lines(plan: ShardingPlan, instruction: Instruction, names: _Names) -> list[str]:
    if isinstance(instruction, Compute):
        operation = instruction.operation
        inputs = ", ".join(names[x] for x in instruction.inputs)
        shapes = ", ".join(_shapes(plan, x) for x in instruction.inputs if isinstance(x, Need))
        outputs = ", ".join(f"{_shapes(plan, n)} {_places(n.placements)}" for n in instruction.outputs)
        made_names = ", ".join(names[n] for n in instruction.outputs)
        return [f"{made_names} = {operation.rule.name}({inputs})", f"    : {shapes} -> {outputs}"]
    steps = "; ".join(_step(plan, step) for step in instruction.steps) or "nothing"
    target = instruction.target
    return [
        f"{names[target]} = {_kind(instruction)}({names[instruction.source]})  # {steps}",
        f"    : {_shapes(plan, instruction.source)} -> {_shapes(plan, target)} {_places(target.placements)}",
    ]


def _kind(move: Move) -> str:
    return "+".join(dict.fromkeys(_name(step.source, step.target) for step in move.steps)) or "same"


def _name(source: Placement, target: Placement) -> str:
    return "same" if source == target and not isinstance(source, Replicate) else _NAMES[type(source), type(target)]


def _step(plan: ShardingPlan, step: Step) -> str:
    axis = plan.mesh.dim_names[step.axis]
    ranks = list(plan.mesh.group(step.axis).group)
    forward = _name(step.source, step.target)
    back = step.gradient_source, step.gradient_target
    backward = "nothing" if back[0] == back[1] else _name(*back)
    assert back[1] == gradient_of(step.source)
    return f"{forward} over {axis} {ranks}, backward {backward}"


def _shapes(plan: ShardingPlan, need: Need) -> str:
    own = local_shape(need.value.shape, need.placements, plan.mesh.shape, plan.mesh.place())
    return f"{need.value.dtype}{list(need.value.shape)} local {list(own)}"


def _places(placements: Sequence[Placement]) -> str:
    return "[" + ", ".join(map(str, placements)) + "]"


def _svg(boxes: list[tuple[list[str], str]], edges: list[tuple[int, int]]) -> str:
    """Boxes below each other; an arrow to the next runs straight, longer ones bend around on the right."""
    width = 12 + 7 * max((len(line) for lines, _ in boxes for line in lines), default=10)
    tops, y = [], 10
    for lines, _ in boxes:
        tops.append(y)
        y += 16 * len(lines) + 34
    parts = []
    for i, j in edges:
        start, stop = tops[i] + 16 * len(boxes[i][0]) + 10, tops[j]
        if j == i + 1:
            path = f"M{20 + width / 2} {start} V{stop}"
        else:
            bend = 20 + width + min(40 + 6 * (j - i), 240)
            path = f"M{20 + width} {start - 8} C{bend} {start} {bend} {stop} {20 + width} {stop + 8}"
        parts.append(f'<path d="{path}" fill="none" stroke="#567" marker-end="url(#tip)"/>')
    for (lines, colour), top in zip(boxes, tops):
        height = 16 * len(lines) + 10
        parts.append(f'<rect x="20" y="{top}" width="{width}" height="{height}" rx="4" fill="{colour}" stroke="#345"/>')
        for k, line in enumerate(lines):
            parts.append(f'<text x="28" y="{top + 18 + 16 * k}">{escape(line)}</text>')
    tip = '<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    tip += '<path d="M0 0L8 4L0 8z"/></marker>'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 300}" height="{y}" font-family="monospace" '
        f'font-size="12">\n<defs>{tip}</defs>\n{body}\n</svg>\n'
    )
