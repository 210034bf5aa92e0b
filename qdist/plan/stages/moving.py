"""Stages between which qubits change places, so that those in the lowest bits of the index are ones that a stage needs.

Every tile holds the lowest positions, as memory is read in contiguous rows. If qubits stay where they are, a tile of 13
bits in rows of 16 amplitudes has four qubits that most of its gates do not need. A stage can leave the qubits of its
tile at any of the tile's positions, at the cost of one more pass through shared memory: then the lowest positions hold,
from stage to stage, those that the next tile needs as well. Before the first stage and after the last one position p
holds qubit p.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.plan.operations import Operation, moved
from qdist.plan.stages.division import Tiles, divided, shares_of
from qdist.plan.stages.schedule import Stage, masks_and_weights
from qdist.plan.stages.target import Target

__all__ = ["staged_moving"]

_TRIES = 48
"""Plans that are compared: the best of 200 had a sweep less in one of four circuits."""

_WORK = 0.24 / 16
"""What a unit of a gate's weight costs, where a stage that does nothing but moves qubits costs 1: two-qubit matrices
have a weight of 16 (benchmarks/gpu_notes.md)."""


def staged_moving(
    operations: Sequence[Operation], num_bits: int, target: Target, support: int, most: float = math.inf
) -> list[Tiles] | None:
    """Operations on a shard in stages for the target, with the swaps that move qubits between them; None where these
    cannot be planned so, or read and write the shard more than ``most`` times. support: as for ``sweeps_of``, before
    the first stage."""
    (level,) = target.levels(num_bits)
    low = level.contiguous
    if num_bits <= level.close or any(o.mixes.bit_count() + low > level.close for o in operations):
        return None
    found = kernels.schedule_moving(
        *masks_and_weights(operations),
        num_bits,
        level.close,
        (1 << low) - 1,
        support & (1 << num_bits) - 1,
        _TRIES,
        _WORK,
    )
    tiles = [{q for q in range(num_bits) if mask >> q & 1} for mask, _ in found]
    before = list(range(num_bits))  # The position of each qubit: in the end its own.
    beyond = range(num_bits, 64)  # Those of other shards stay.
    stages: list[Stage] = []
    for k in reversed(range(len(tiles))):
        after, before = before, _moved_back(before, tiles[k], tiles[max(0, k - 1)], low)
        own = [moved(operations[g], [*before, *beyond]) for g in found[k][1]]
        stages.insert(0, _stage(level, {after[q] for q in tiles[k]}, own, before, after))
    while before != list(range(num_bits)):
        after, before = before, _homeward(before, level)
        held = {p for q, p in enumerate(after) if before[q] != p}.union(range(low))
        spare = (p for p in range(num_bits) if p not in held)
        held.update(p for _, p in zip(range(level.close - len(held)), spare))
        stages.insert(0, _stage(level, held, [], before, after))
    if sum(shares_of(stages, num_bits, support)) > most:
        return None
    return list(divided(((s, target.fused(s.operations)) for s in stages), num_bits, target))


def _stage(level: Level, held: set[int], own: list[Operation], before: list[int], after: list[int]) -> Stage:
    """The stage of a tile of the positions ``held``, with swaps behind its operations that bring qubits from their
    positions before to those after it."""
    return Stage(level, tuple(sorted(held)), [*own, *_swaps(before, after)], [])


def _swaps(before: Iterable[int], after: Sequence[int]) -> list[Operation]:
    found, at = [], list(before)
    for qubit, position in enumerate(after):
        here = at[qubit]
        if here != position:
            other = at.index(position)
            at[qubit], at[other] = position, here
            found.append(Operation("swap", 1 << here | 1 << position, 0, 0, (here, position)))
    return found


def _moved_back(after: list[int], tile: set[int], earlier: set[int], low: int) -> list[int]:
    """The positions of the qubits before a stage, given those after it. tile: the qubits of the stage's tile; earlier:
    those of the stage before it, which has to hold the lowest positions as well."""
    at = list(after)
    qubit_at = {p: q for q, p in enumerate(at)}

    def exchange(a: int, b: int) -> None:
        p, q = at[a], at[b]
        at[a], at[b], qubit_at[p], qubit_at[q] = q, p, b, a

    # Qubits whose own position is in the tile go there.
    for q in sorted(tile):
        if at[q] != q and qubit_at[q] in tile:
            exchange(q, qubit_at[q])
    wanted = sorted(q for q in tile & earlier if at[q] >= low)
    for p in range(low):
        if qubit_at[p] not in earlier:
            exchange(qubit_at[p], wanted.pop())
    return at


def _homeward(after: list[int], level: Level) -> list[int]:
    """Positions before a stage that only moves qubits, more of which are their own than after it. Cycles are followed,
    until a tile has no room for more."""
    at, room = list(after), level.close - level.contiguous
    qubit_at = {p: q for q, p in enumerate(at)}
    held: set[int] = set(range(level.contiguous))
    for start in range(len(at)):
        p = start
        while at[qubit_at[p]] != qubit_at[p]:
            q = qubit_at[p]  # At p, and to go to position q.
            if len(held | {p, q}) > level.contiguous + room:
                break
            held |= {p, q}
            other = qubit_at[q]
            at[q], at[other], qubit_at[q], qubit_at[p] = q, p, q, other
    return at
