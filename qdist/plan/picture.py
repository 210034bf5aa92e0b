"""A plan as a picture: in each stage, which qubits index the shard, the shards of a node, or the nodes."""

from __future__ import annotations

from qdist.plan.plan import Plan, Segment

__all__ = ["LEGEND", "kinds", "stage_text", "text_picture"]

LEGEND = ("inside a shard", "across ranks of a node", "across nodes")
_UNICODE, _ASCII = "·▒█", ".o#"
_MOST_ROWS = 200


def text_picture(plan: Plan, ascii_only: bool = False) -> str:
    """A row a stage, a column a qubit, the highest qubit first, as in a bit string."""
    signs = _ASCII if ascii_only else _UNICODE
    lines = ["   ".join(f"{sign} {name}" for sign, name in zip(signs, LEGEND)), ""]
    width = max(5, len(str(len(plan.segments))))
    tens = "".join(str(q // 10) if q % 10 == 0 else " " for q in reversed(range(plan.num_qubits)))
    ones = "".join(str(q % 10) for q in reversed(range(plan.num_qubits)))
    lines += [f"{'':{width}}  {tens}", f"{'stage':>{width}}  {ones}"]
    for k, segment in enumerate(plan.segments[:_MOST_ROWS]):
        row = "".join(signs[kind] for kind in reversed(kinds(plan, segment)))
        lines.append(f"{k:{width}}  {row}  {stage_text(plan, segment)}")
    if len(plan.segments) > _MOST_ROWS:
        lines.append(f"... and {len(plan.segments) - _MOST_ROWS} more stages")
    return "\n".join(lines)


def kinds(plan: Plan, segment: Segment) -> list[int]:
    """For each qubit what its bit selects: 0 inside a shard, 1 a shard of the node, 2 the node."""
    close = plan.num_qubits - plan.far
    return [(p >= close) + (p >= close + plan.inside) for p in segment.layout.positions]


def stage_text(plan: Plan, segment: Segment) -> str:
    """What a stage does, in a few words."""
    gates = sum(stage.num_gates for stage, _ in segment.stages)
    text = f"{gates} gate{'s' * (gates != 1)}, {len(segment.stages)} sweep{'s' * (len(segment.stages) != 1)}"
    if not segment.swaps:
        return text
    crossing = plan.crossing(segment)
    between = f", {crossing} of them between nodes" if crossing else ""
    return f"{len(segment.swaps)} swapped{between}; {text}"
