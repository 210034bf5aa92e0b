"""When a plan does what on a cluster: its sweeps and exchanges one after the other, as events with bytes and flops."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from qdist.plan.cost import Cluster, block_flops, bytes_of_swaps
from qdist.plan.plan import Plan, Segment
from qdist.plan.stages.division import Tiles, sweeps_of

__all__ = ["LEVELS", "Event", "timeline"]

LEVELS = ("memory of a rank", "ranks of a node", "between nodes")
"""What an event moves amplitudes through, by its level."""


@dataclass(frozen=True, slots=True)
class Event:
    """A sweep (level 0), or what an exchange sends in a node (1) or between nodes (2), of the rank that holds most."""

    level: int
    segment: int
    start: float
    seconds: float
    nbytes: float
    """Read and written, or sent."""
    flops: float
    text: str


def timeline(plan: Plan, cluster: Cluster, ranks: int) -> list[Event]:
    """The plan's events in their order; the last ends after ``plan.seconds_on(cluster, ranks)``.

    Sweeps share the time that all of them take as they share what limits it: bytes, or flops where arithmetic does.
    """
    shards = plan.shards_per_rank(ranks)
    sweeps = _sweeps(plan, shards)
    moved, computed = (sum(column) for column in zip(*(counted for _, counted in sweeps))) if sweeps else (0.0, 0.0)
    computing = plan.seconds_of_sweeps(cluster, ranks)
    by_memory = cluster.machine.bandwidth * computing <= moved * (1 + 1e-9)
    whole = moved if by_memory else computed
    events: list[Event] = []
    clock = 0.0

    def add(level: int, segment: int, seconds: float, nbytes: float, flops: float, text: str) -> None:
        nonlocal clock
        events.append(Event(level, segment, clock, seconds, nbytes, flops, text))
        clock += seconds

    counted = iter(sweeps)
    for number, segment in enumerate(plan.segments):
        for level, nbytes, messages in _sent(plan, segment, shards):
            inside, between = (nbytes, 0.0) if level == 1 else (0.0, nbytes)
            swapped = ", ".join(f"{a} with {b}" for a, b in segment.swaps)
            text = f"exchange of bits {swapped}: {messages} messages"
            add(level, number, cluster.exchange_seconds(inside, between, messages), nbytes, 0.0, text)
        for _ in segment.stages:
            text, (nbytes, flops) = next(counted)
            share = (nbytes if by_memory else flops) / whole if whole else 0.0
            add(0, number, share * computing, nbytes, flops, text)
    return events


def _sent(plan: Plan, segment: Segment, shards: int) -> list[tuple[int, float, int]]:
    """(level, bytes, messages) of a segment's exchange: first to ranks of the node, then to others."""
    if not segment.swaps:
        return []
    crossing = plan.crossing(segment)
    inside, between = bytes_of_swaps(plan.shard_bytes, len(segment.swaps), crossing)
    near = (1 << len(segment.swaps) - crossing) - 1
    far = (1 << len(segment.swaps)) - 1 - near
    parts = [(1, shards * inside, shards * near), (2, shards * between, shards * far)]
    return [part for part in parts if part[2]]


def _sweeps(plan: Plan, shards: int) -> list[tuple[str, tuple[float, float]]]:
    """What each sweep is, and its bytes and flops, from |0...0>: zeros that are known are skipped."""
    found = []
    support = 0
    for segment in plan.segments:
        for tiles in segment.stages:
            share = sweeps_of(plan.target, [tiles], plan.shard_bits, support)
            flops = sum(map(block_flops, tiles[1])) * 2.0**plan.shard_bits
            found.append((_said(tiles), (2 * shards * plan.shard_bytes * share, shards * flops)))
            support |= sum(1 << p for p in tiles[0].close)
        support = -1
    return found


def _said(tiles: Tiles) -> str:
    stage, blocks = tiles
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(block.kind for block in blocks).items())
    gates = stage.num_gates
    return f"sweep: {gates} gate{'s' * (gates != 1)} as {kinds}; tiles of {len(stage.close)} bits"
