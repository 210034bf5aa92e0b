"""Few layouts for many Pauli strings: each string under a layout that has all qubits it flips close.

Z and I on far qubits are signs and need nothing. What the layout at hand permits is done first; the strings that are
left are scheduled like gates that commute with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qdist.plan.layout import Layout
from qdist.plan.levels import Level
from qdist.plan.operations import Operation
from qdist.plan.stages.schedule import schedule

__all__ = ["Leg", "cover"]


@dataclass(frozen=True, slots=True)
class Leg:
    """Masks of flipped qubits that are dealt with under one layout, after the swaps that lead to it."""

    swaps: tuple[tuple[int, int], ...]
    layout: Layout
    masks: frozenset[int]


def cover(masks: Sequence[int], layout: Layout, shard_bits: int) -> list[Leg]:
    """The legs of a tour that begins with ``layout``, whose leg comes first even if it serves no mask.

    masks: of the qubits that strings flip, each once, none of more than ``shard_bits`` qubits. Deterministic.
    """
    far = sum(1 << q for q in layout.qubits[shard_bits:])
    legs = [Leg((), layout, frozenset(m for m in masks if not m & far))]
    rest = [Operation("flip", m, m, 0) for m in masks if m & far]
    stages = [
        (frozenset(o.mixes for o in stage.operations), _union(o.mixes for o in stage.operations))
        for stage in schedule(rest, layout.num_qubits, [Level("network", shard_bits)])
    ]
    for k, (served, needed) in enumerate(stages):
        later = _union(mask for _, mask in stages[k + 1 :])
        swaps = _swaps(layout, shard_bits, needed, later)
        for a, b in swaps:
            layout = layout.swap(a, b)
        legs.append(Leg(swaps, layout, served))
    return legs


def _swaps(layout: Layout, bits: int, needed: int, later: int) -> tuple[tuple[int, int], ...]:
    """Swaps that bring the needed qubits close. The highest close positions make room, whose parts of a shard are the
    longest runs of memory, and qubits that are needed later only where no others are left."""
    coming = [p for p in range(bits, layout.num_qubits) if needed >> layout.qubits[p] & 1]
    leaving = [p for p in reversed(range(bits)) if not needed >> layout.qubits[p] & 1]
    leaving.sort(key=lambda p: later >> layout.qubits[p] & 1)
    return tuple(zip(leaving, coming))


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result
