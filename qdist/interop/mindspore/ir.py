"""Files that show what was planned: strategies of operators, and what a rank runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from ...parallel.auto import Engine, Plan, Shard
from ...parallel.auto.eager.capture import ANNOTATE
from ...parallel.auto.ir.graph import Operation, Value

__all__ = ["strategies", "write_graphs"]


def write_graphs(engine: Engine, folder: Path) -> None:
    """Two files below folder/rank_<number>: step_parallel_begin.ir has every operator with its strategies and global
    shapes; execute.ir what this rank runs, with local shapes, communication, the way back and the updates."""
    own = folder / f"rank_{engine.rank}"
    own.mkdir(parents=True, exist_ok=True)
    (own / "step_parallel_begin.ir").write_text(strategies(engine.plan) + "\n", encoding="utf-8")
    (own / "execute.ir").write_text(engine.main_program + "\n", encoding="utf-8")


def strategies(plan: Plan) -> str:
    """A line for every operator: into how many parts each dimension of its inputs and outputs is cut."""
    lines = []
    for operation in plan.graph.operations:
        if operation.rule is ANNOTATE:
            continue
        names = ", ".join(x.name if isinstance(x, Value) else repr(x) for x in operation.inputs)
        made = ", ".join(value.name for value in operation.outputs)
        lines.append(
            f"{made} = {operation.rule.name}({names}) {{in_strategy: {_inputs(plan, operation)}, "
            f"out_strategy: {_outputs(plan, operation)}}}"
        )
        shapes = [str(x.shape) for x in operation.inputs if isinstance(x, Value)]
        results = [str(value.shape) for value in operation.outputs]
        lines.append(f"    : ({', '.join(shapes)}) -> ({', '.join(results)})")
    return "\n".join(lines)


def _inputs(plan: Plan, operation: Operation) -> str:
    splits = plan.splits[operation]
    counts = [
        _counts([split.inputs[i] for split in splits], plan.mesh.shape, len(x.shape))
        for i, x in enumerate(operation.inputs)
        if isinstance(x, Value)
    ]
    return f"({', '.join(counts)})"


def _outputs(plan: Plan, operation: Operation) -> str:
    counts = [_counts(plan.placements[v], plan.mesh.shape, len(v.shape)) for v in operation.outputs]
    return f"({', '.join(counts)})"


def _counts(placements: Sequence[object], degrees: Sequence[int], ndim: int) -> str:
    parts = [
        math.prod(n for p, n in zip(placements, degrees) if isinstance(p, Shard) and p.dim == dim)
        for dim in range(ndim)
    ]
    return f"({', '.join(map(str, parts))})"
