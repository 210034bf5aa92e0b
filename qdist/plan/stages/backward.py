"""The stages of the adjoint sweep: those of the program, or others that undo the same with less work.

Tiles of shorter rows hold more of the other bits. They read memory more slowly, but where the program's plan ends with
one sweep of the state more than it needs, they are worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qdist.plan.stages.division import Tiles, divided, staged, sweeps_of
from qdist.plan.stages.target import Target

__all__ = ["Backward", "backward"]

_WORTH = 0.97
"""A smaller gain is less than what costs are sure of."""


@dataclass(frozen=True, slots=True)
class Backward:
    """What undoes a segment's stages, in the order of the program (the last is undone first), and on which tiles."""

    target: Target
    stages: list[Tiles]


def backward(stages: Sequence[Tiles], num_bits: int, target: Target, live: int) -> Backward:
    """What undoes stages that were planned for ``target``, on shards of ``num_bits`` bits.

    live: amplitudes are nonzero, before the stages run, only at indices whose bits outside of it are zero.
    """
    first, *others = target.backward()
    chosen = Backward(first, list(divided((s for s in stages), num_bits, first)) if first != target else list(stages))
    if num_bits <= target.tile or any(s.is_wide or len(s.close) > target.tile for s, _ in chosen.stages):
        return chosen
    operations = [o for _, blocks in stages for block in blocks for o in block.operations]
    least = sweeps_of(first, chosen.stages, num_bits, live)
    for other in others:
        found = staged(operations, num_bits, other)
        needed = sweeps_of(other, found, num_bits, live)
        if needed < _WORTH * least:
            chosen, least = Backward(other, found), needed
    return chosen
