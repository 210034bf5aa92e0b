"""The lines of a distributed program and the boxes of its picture: operations, communication, placements, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from qdist.parallel.auto.ir.lower import Compute, Instruction, Move, given_by, made, taken_by
from qdist.parallel.auto.ir.sharding_plan import Need, ShardingPlan
from qdist.parallel.auto.placement.moves import gradient_of
from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard, local_shape
from qdist.parallel.auto.placement.reshard import Step
from qdist.parallel.auto.run.runner import PlanRunner

__all__ = [
    "COMMUNICATION",
    "Box",
    "Names",
    "backward_boxes",
    "forward_boxes",
    "given_boxes",
    "local",
    "places",
    "shapes",
    "svg",
    "update_boxes",
]

COMMUNICATION = "#f2b134"

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


class Box(NamedTuple):
    """One line of a program, with the line below that has its shapes, and one box of its picture."""

    lines: list[str]
    colour: str
    takes: list[str]
    """Names of values."""
    gives: list[str]


def given_boxes(program: PlanRunner) -> list[Box]:
    """One for every input and parameter, with global and local shapes."""
    plan, names = program.plan, Names(program)
    boxes = []
    for value in (*plan.graph.inputs, *plan.graph.parameters):
        need = made(plan, value)
        line = f"{names[need]} : {value.kind} {shapes(plan, need)} {places(need.placements)}"
        boxes.append(Box([line], "#e8eef4", [], [names[need]]))
    return boxes


def forward_boxes(program: PlanRunner) -> list[Box]:
    """One for every instruction: operations are white, communication is coloured."""
    names = Names(program)
    return [
        Box(
            _lines(program.plan, instruction, names),
            COMMUNICATION if isinstance(instruction, Move) else "#ffffff",
            [names[need] for need in dict.fromkeys(taken_by(instruction))],
            [names[need] for need in given_by(instruction)],
        )
        for instruction in program.instructions
    ]


def backward_boxes(program: PlanRunner) -> list[Box]:
    """The way back: one for every instruction that gradients pass through."""
    names, plan = Names(program), program.plan
    known: set[str] = set()
    boxes = []

    def gives(needs: Any) -> list[str]:
        return [f"grad({names[need]})" for need in dict.fromkeys(needs) if need.value.needs_grad]

    for instruction in reversed(program.instructions):
        made_here, wanted = gives(given_by(instruction)), gives(taken_by(instruction))
        if not made_here or not wanted:
            continue
        colour = "#ffffff"
        if isinstance(instruction, Move):
            ways = [_way_back(plan, step) for step in reversed(instruction.steps)]
            what = "+".join(dict.fromkeys(way.partition(" ")[0] for way in ways if way)) or "same"
            note = "; ".join(filter(None, ways)) or "nothing"
            colour = "#ffffff" if what == "same" else COMMUNICATION
            line = f"{wanted[0]} {{}} {what}({made_here[0]})  # {note}"
        else:
            line = f"{', '.join(wanted)} {{}} {instruction.operation.rule.name}_grad({', '.join(made_here)})"
        # A second use adds to the gradient of the first.
        sign = "+=" if known.intersection(wanted) else "="
        known.update(wanted)
        below = ", ".join(
            f"{need.value.dtype} local {list(local(plan, need))}"
            for need in dict.fromkeys(taken_by(instruction))
            if need.value.needs_grad
        )
        boxes.append(Box([line.format(sign), f"    : {below}"], colour, made_here, wanted))
    return boxes


def update_boxes(plan: ShardingPlan, optimizer: Any) -> list[Box]:
    """The optimiser's updates, one a parameter."""
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    kind = type(optimizer).__name__.lower()
    boxes = []
    for value in plan.graph.parameters:
        if value.needs_grad and id(value.tensor) in trained:
            state = "".join(f", {slot}({value.name})" for slot in optimizer.slots)
            own = list(local(plan, made(plan, value)))
            line = f"{value.name} = {kind}({value.name}, grad({value.name}){state})"
            lines = [line, f"    : {value.dtype} local {own}"]
            boxes.append(Box(lines, "#dcebd3", [value.name, f"grad({value.name})"], [f"{value.name} (new)"]))
    return boxes


def svg(boxes: Sequence[Box]) -> str:
    """Boxes below each other, with arrows from where a value is made to where it is taken."""
    maker: dict[str, int] = {}
    edges: list[tuple[int, int]] = []
    for number, box in enumerate(boxes):
        edges += [(maker[name], number) for name in dict.fromkeys(box.takes) if name in maker]
        maker.update(dict.fromkeys(box.gives, number))
    return _svg([(box.lines, box.colour) for box in boxes], edges)


class Names:
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


def _lines(plan: ShardingPlan, instruction: Instruction, names: Names) -> list[str]:
    if isinstance(instruction, Compute):
        operation = instruction.operation
        inputs = ", ".join(names[x] for x in instruction.inputs)
        taken = ", ".join(shapes(plan, x) for x in instruction.inputs if isinstance(x, Need))
        outputs = ", ".join(f"{shapes(plan, n)} {places(n.placements)}" for n in instruction.outputs)
        made_names = ", ".join(names[n] for n in instruction.outputs)
        return [f"{made_names} = {operation.rule.name}({inputs})", f"    : {taken} -> {outputs}"]
    steps = "; ".join(_step(plan, step) for step in instruction.steps) or "nothing"
    target = instruction.target
    return [
        f"{names[target]} = {_kind(instruction)}({names[instruction.source]})  # {steps}",
        f"    : {shapes(plan, instruction.source)} -> {shapes(plan, target)} {places(target.placements)}",
    ]


def _kind(move: Move) -> str:
    return "+".join(dict.fromkeys(_name(step.source, step.target) for step in move.steps)) or "same"


def _name(source: Placement, target: Placement) -> str:
    return "same" if source == target and not isinstance(source, Replicate) else _NAMES[type(source), type(target)]


def _step(plan: ShardingPlan, step: Step) -> str:
    axis = plan.mesh.dim_names[step.axis]
    ranks = list(plan.mesh.group(step.axis).group)
    forward = _name(step.source, step.target)
    back = _back(step)
    return f"{forward} over {axis} {ranks}, backward {back or 'nothing'}"


def _back(step: Step) -> str:
    """The communication of a step's gradient; nothing where there is none."""
    back = step.gradient_source, step.gradient_target
    assert back[1] == gradient_of(step.source)
    return "" if back[0] == back[1] else _name(*back)


def _way_back(plan: ShardingPlan, step: Step) -> str:
    back = _back(step)
    return back and f"{back} over {plan.mesh.dim_names[step.axis]} {list(plan.mesh.group(step.axis).group)}"


def local(plan: ShardingPlan, need: Need) -> tuple[int, ...]:
    """The shape of this rank's part."""
    return local_shape(need.value.shape, need.placements, plan.mesh.shape, plan.mesh.place())


def shapes(plan: ShardingPlan, need: Need) -> str:
    """The dtype and the shapes of a value, whole and of this rank's part."""
    return f"{need.value.dtype}{list(need.value.shape)} local {list(local(plan, need))}"


def places(placements: Sequence[Placement]) -> str:
    """Placements as text."""
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
