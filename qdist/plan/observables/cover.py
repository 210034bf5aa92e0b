"""Grouping of Pauli strings by layout: each string under a layout in which all qubits it flips (X, Y) are close.

Z on a far qubit is a sign that is constant on a shard. Strings that the present layout permits come first; the others
are scheduled like commuting gates, for few exchanges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qdist.plan.layout import Layout
from qdist.plan.levels import Level
from qdist.plan.operations import Operation
from qdist.plan.stages.schedule import schedule

__all__ = ["LayoutGroup", "cover"]


@dataclass(frozen=True, slots=True)
class LayoutGroup:
    """Pauli strings that are computed under one layout, after the exchange that leads to it: their X masks."""

    swaps: tuple[tuple[int, int], ...]
    layout: Layout
    masks: frozenset[int]


def cover(masks: Sequence[int], layout: Layout, shard_bits: int) -> list[LayoutGroup]:
    """Groups that cover all masks. That of the present ``layout`` comes first, even if it is empty.

    masks: X masks of the strings, each once, none of more than ``shard_bits`` qubits. Deterministic.
    """
    far = sum(1 << q for q in layout.qubits[shard_bits:])
    groups = [LayoutGroup((), layout, frozenset(m for m in masks if not m & far))]
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
        groups.append(LayoutGroup(swaps, layout, served))
    return groups


def _swaps(layout: Layout, bits: int, needed: int, later: int) -> tuple[tuple[int, int], ...]:
    """Swaps that bring the needed qubits close. Qubits that are not needed later leave first, those at the highest
    close positions before others: exchanges there move the longest contiguous runs."""
    coming = [p for p in range(bits, layout.num_qubits) if needed >> layout.qubits[p] & 1]
    leaving = [p for p in reversed(range(bits)) if not needed >> layout.qubits[p] & 1]
    leaving.sort(key=lambda p: later >> layout.qubits[p] & 1)
    return tuple(zip(leaving, coming))


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result
