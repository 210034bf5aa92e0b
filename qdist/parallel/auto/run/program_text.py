"""What runs on a rank, to be printed and drawn: forward, backward and updates; and what is kept before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qdist.comm import counting_communicator
from qdist.optim import Optimizer
from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.ir.graph import Graph
from qdist.parallel.auto.ir.lower import made
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.placement.placements import Replicate
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.run.graph_picture import (
    COMMUNICATION,
    Box,
    Names,
    backward_boxes,
    forward_boxes,
    given_boxes,
    local,
    places,
    shapes,
    svg,
    update_boxes,
)
from qdist.parallel.auto.run.graph_pipeline import GraphPipeline
from qdist.parallel.auto.run.runner import PlanRunner
from qdist.parallel.pipeline import schedule_picture

__all__ = ["ProgramText", "alone", "main_program", "stage_program", "startup_program"]


class ProgramText(str):
    """A program as text, a line for every step and one below it for shapes; `draw` makes a picture of it."""

    boxes: list[Box]

    @classmethod
    def of(cls, head: str, parts: Sequence[tuple[str, list[Box]]]) -> ProgramText:
        """From boxes, in parts with a name each."""
        lines = [head]
        for name, boxes in parts:
            if boxes:
                lines += [f"# {name}"] if name else []
                lines += [line for box in boxes for line in box.lines]
        text = cls("\n".join(lines))
        text.boxes = [box for _, boxes in parts for box in boxes]
        return text

    def draw(self, path: Any) -> None:
        """Write it as an SVG file: a box a step, arrows for values, communication coloured."""
        Path(path).write_text(svg(self.boxes), encoding="utf-8")


def alone(graph: Graph) -> PlanRunner:
    """A graph as one rank would run it."""
    plan = ShardingPlan(graph, ProcessMesh([0], ["one"], counting_communicator(1)))
    for value in (*graph.inputs, *graph.parameters):
        plan.placements[value] = (Replicate(),)
    for operation in graph.operations:
        if operation.rule is ANNOTATE:
            plan.placements[operation.outputs[0]] = (Replicate(),)
        else:
            plan.settle(operation, (operation.form().whole(),))
    return PlanRunner(plan, trains=graph.loss is not None)


def main_program(program: PlanRunner, optimizer: Optimizer | None) -> ProgramText:
    """A step of a plan: what it takes, forward, and, where it trains, backward and updates."""
    plan = program.plan
    parts = [("", given_boxes(program)), ("forward", forward_boxes(program))]
    if program.trains and plan.graph.loss is not None:
        parts.append(("backward", backward_boxes(program)))
        parts.append(("optimizer", [] if optimizer is None else update_boxes(plan, optimizer)))
    return ProgramText.of(f"# rank {plan.mesh.comm.rank} of {plan.mesh}", parts)


def stage_program(pipeline: GraphPipeline, optimizer: Optimizer | None) -> ProgramText:
    """A micro-batch on its way through this rank's stage, and the schedule of all of them."""
    program, stage, line = pipeline.stage.runner, pipeline.line.rank, pipeline.line
    plan, names = program.plan, Names(program)
    forward, backward = forward_boxes(program), backward_boxes(program)
    if stage > 0:
        above = line.group[stage - 1]
        received = [made(plan, value) for value in plan.graph.inputs]
        forward[:0] = [
            _message(f"{names[need]} = recv(rank {above})", shapes(plan, need), gives=names[need]) for need in received
        ]
        backward += [
            _message(f"send(grad({names[need]}), rank {above})", shapes(plan, need), takes=f"grad({names[need]})")
            for need in received
            if need.value.needs_grad
        ]
    results = [made(plan, value) for value in plan.graph.results]
    if stage < line.size - 1:
        below = line.group[stage + 1]
        forward += [
            _message(f"send({names[need]}, rank {below})", shapes(plan, need), takes=names[need]) for need in results
        ]
        backward[:0] = [
            _message(f"grad({names[need]}) = recv(rank {below})", shapes(plan, need), gives=f"grad({names[need]})")
            for need in results
            if need.value.needs_grad
        ]
    else:
        output = names[results[0]]
        forward.append(Box([f"loss = loss({output}, label)"], "#ffffff", [output], ["loss"]))
        backward.insert(0, Box([f"grad({output}) = loss_grad(loss)"], "#ffffff", ["loss"], [f"grad({output})"]))
    parts = [("", given_boxes(program)), ("forward", forward), ("backward", backward)]
    parts.append(("optimizer", [] if optimizer is None else update_boxes(plan, optimizer)))
    picture = schedule_picture(pipeline.stages.schedule(pipeline.micro_batches)).replace("\n", "\n# ")
    head = f"# rank {plan.mesh.comm.rank}: stage {stage} of {line.size} on {plan.mesh}\n# {picture}"
    return ProgramText.of(head, parts)


def _message(line: str, shape: str, *, takes: str = "", gives: str = "") -> Box:
    return Box([line, f"    : {shape}"], COMMUNICATION, [takes] * bool(takes), [gives] * bool(gives))


def startup_program(plan: ShardingPlan, optimizer: Optimizer | None) -> ProgramText:
    """What a rank keeps: its part of every parameter, and of the optimiser's state for it."""
    kept, state = [], []
    trained = [] if optimizer is None else [id(p) for group in optimizer.param_groups for p in group["params"]]
    for value in plan.graph.parameters:
        need = made(plan, value)
        line = f"{value.name} = initial_values() : {shapes(plan, need)} {places(need.placements)}"
        kept.append(Box([line], "#e8eef4", [], [value.name]))
        for slot in optimizer.slots if optimizer is not None and id(value.tensor) in trained else ():
            line = f"{slot}({value.name}) = zeros() : {value.dtype} local {list(local(plan, need))}"
            state.append(Box([line], "#dcebd3", [value.name], [f"{slot}({value.name})"]))
    head = f"# rank {plan.mesh.comm.rank} of {plan.mesh}"
    return ProgramText.of(head, [("parameters", kept), ("optimizer", state)])
