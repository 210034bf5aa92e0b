"""What a plan does and what it is predicted to cost, beside pure data parallelism."""

from __future__ import annotations

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.planner.propagation import data_parallel
from qdist.parallel.auto.planner.step_cost import Cost, Machine, cost_of

__all__ = ["explain"]


def explain(plan: ShardingPlan, machine: Machine) -> str:
    """A table of operations and how they are cut, and the predicted cost of a step on one rank."""
    lines = [f"{plan.mesh}", "", "parameters"]
    for value in plan.graph.parameters:
        lines.append(f"  {value.name:24} {value.shape!s:16} {list(plan.placements[value])}")
    lines += ["", "operations"]
    for operation in plan.graph.operations:
        if operation.rule is ANNOTATE:
            continue
        inputs = ", ".join(_places(split.inputs) for split in plan.splits[operation])
        outputs = [list(plan.placements[v]) for v in operation.outputs]
        lines.append(f"  {operation.rule.name:14} {inputs:32} -> {', '.join(map(str, outputs))}")
    rows = [
        ("this plan", cost_of(plan, machine)),
        ("data parallel", cost_of(data_parallel(plan.graph, plan.mesh), machine)),
    ]
    lines += ["", f"{'':14} {'ms a step':>10} {'compute':>10} {'network':>10} {'MiB sent':>10} {'MiB memory':>11}"]
    lines += [_row(name, cost) for name, cost in rows]
    return "\n".join(lines)


def _row(name: str, cost: Cost) -> str:
    times = f"{cost.seconds * 1e3:10.3f} {cost.compute * 1e3:10.3f} {cost.communication * 1e3:10.3f}"
    return f"{name:14} {times} {cost.sent / 2**20:10.3f} {cost.memory / 2**20:11.3f}"


def _places(placements: tuple) -> str:
    return "(" + " ".join(map(str, placements)) + ")"
