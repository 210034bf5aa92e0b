"""The stages of the adjoint sweep: those of the program, or others that undo the same with less work.

Tiles of shorter contiguous rows hold more of the other index bits. They read memory more slowly, but pay off where
they save a whole sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qdist.plan.stages.division import Tiles, divided, staged, sweeps_of
from qdist.plan.stages.target import Target

__all__ = ["Backward", "backward"]

_WORTH = 0.97
"""A smaller relative gain is within the error of the cost model."""


@dataclass(frozen=True, slots=True)
class Backward:
    """The stages whose inverses undo a segment, in program order (the last is undone first), and their target."""

    target: Target
    stages: list[Tiles]


def backward(stages: Sequence[Tiles], num_bits: int, target: Target, support: int) -> Backward:
    """The plan that undoes stages planned for ``target``, on shards of ``num_bits`` bits.

    support: nonzero-support mask before the stages run: amplitudes whose index has a 1 outside of it are zero.
    """
    first, *others = target.backward()
    chosen = Backward(first, list(divided((s for s in stages), num_bits, first)) if first != target else list(stages))
    if num_bits <= target.tile or any(s.is_wide or len(s.close) > target.tile for s, _ in chosen.stages):
        return chosen
    operations = [o for _, blocks in stages for block in blocks for o in block.operations]
    least = sweeps_of(first, chosen.stages, num_bits, support)
    for other in others:
        found = staged(operations, num_bits, other)
        needed = sweeps_of(other, found, num_bits, support)
        if needed < _WORTH * least:
            chosen, least = Backward(other, found), needed
    return chosen
