"""The end of a plan that only moves amplitudes: an observable can take it over, and its sweeps need not run."""

from __future__ import annotations

from dataclasses import replace

from qdist.plan.operations import Operation, moved
from qdist.plan.plan import Part, Plan

__all__ = ["without_tail"]


def without_tail(plan: Plan) -> tuple[Plan, tuple[Operation, ...]]:
    """A plan without its last sweeps that hold nothing but X, CX and SWAP, and those gates, on qubits, first to last.

    At least one sweep stays. Without such sweeps: the plan itself and no gates.
    """
    if not plan.parts or plan.parts[-1].instruction is not None:
        return plan, ()
    segments = [replace(segment, stages=list(segment.stages)) for segment in plan.parts[-1].segments]
    gates: list[Operation] = []
    while len(segments) > 1 or len(segments[0].stages) > 1:
        last = segments[-1]
        if last.stages:
            _, blocks = last.stages[-1]
            if any(block.kind != "linear" for block in blocks):
                break
            last.stages.pop()
            gates[:0] = [moved(o, last.layout.qubits) for block in blocks for o in block.operations]
        if not last.stages:
            segments.pop()
    return (replace(plan, parts=[*plan.parts[:-1], Part(segments)]), tuple(gates)) if gates else (plan, ())
