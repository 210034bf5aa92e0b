"""The last gates of a plan, where they only permute amplitudes: conjugating the observable replaces running them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from qdist.plan.operations import Operation, moved
from qdist.plan.plan import Part, Plan, Segment

__all__ = ["NO_TAIL", "Tail", "without_tail"]


class Tail(tuple[Operation, ...]):
    """X, CX and SWAP, on qubits, first to last."""

    @cached_property
    def key(self) -> tuple[int, str]:
        """The same for the same gates."""
        text = repr([(o.kind, o.targets, o.controls) for o in self])
        return hash(text), text


NO_TAIL = Tail()


def without_tail(plan: Plan) -> tuple[Plan, Tail]:
    """A plan without its last blocks of X, CX and SWAP, and those gates, on qubits, first to last.

    Sweeps and exchanges that are left without gates are dropped; at least one block stays. Where the last block is of
    another kind: the plan itself and no gates.
    """
    if not plan.parts or plan.parts[-1].instruction is not None:
        return plan, NO_TAIL
    moving, plan = plan, _still(plan)
    segments = [replace(s, stages=list(s.stages)) for s in plan.parts[-1].segments]
    gates: list[Operation] = []
    while segments:
        last = segments[-1]
        if not last.stages:
            segments.pop()
            continue
        stage, blocks = last.stages.pop()
        kept = list(blocks)
        # Before others a segment without stages stays, for its exchange.
        alone = not any(s.stages for s in segments)
        while kept and kept[-1].kind == "linear" and not (alone and len(kept) == 1):
            gates[:0] = [moved(o, last.layout.qubits) for o in kept.pop().operations]
        if kept:
            last.stages.append((replace(stage, operations=[o for block in kept for o in block.operations]), kept))
            break
    return (replace(plan, parts=[*plan.parts[:-1], Part(segments)]), Tail(gates)) if gates else (moving, NO_TAIL)


def _still(plan: Plan) -> Plan:
    """The plan whose qubits stay at their positions from stage to stage."""
    targets = {s.still.target for s in plan.segments if s.still}
    if not targets:
        return plan

    def still(segment: Segment) -> Segment:
        return replace(segment, stages=segment.still.stages, still=None) if segment.still else segment

    parts = [replace(part, segments=[still(s) for s in part.segments]) for part in plan.parts]
    return replace(plan, parts=parts, target=targets.pop())
