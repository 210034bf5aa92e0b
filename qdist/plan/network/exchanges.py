"""The network level: which gates run between two exchanges, and the layout of the qubits meanwhile.

Qubits at positions inside a shard are close (local); those whose bits number the shards are far (global). An exchange
between ranks swaps close and far positions. It costs far more than a sweep, so the default schedule looks for the
fewest exchanges, then for the fewest swapped positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qdist.native import kernels
from qdist.plan.layout import Layout
from qdist.plan.operations import Operation

__all__ = [
    "VISITS_PER_SECOND",
    "NetworkStage",
    "Swaps",
    "few_sets",
    "in_order",
    "lazy",
    "mask_of",
    "placed",
    "tiled",
]

VISITS_PER_SECOND = 1e8
"""Deterministic budget of the search: it counts gate visits, not time, so that all ranks stop at the same node. 1e8/s
is a conservative core."""

Swaps = tuple[tuple[int, int], ...]
"""(close position, far position) of each pair of positions that are swapped."""


@dataclass(slots=True)
class NetworkStage:
    """A stage of the network level: operations that run under one layout, after the exchange that leads to it."""

    swaps: Swaps
    layout: Layout
    operations: list[Operation]


def lazy(
    operations: Sequence[Operation], num_qubits: int, close: int, layout: Layout | None, limit: int
) -> tuple[list[NetworkStage], int]:
    """Few exchanges: gates are deferred until many can run after one exchange.

    layout: where the qubits are, or None if they may begin anywhere. limit: gate visits of the search. Returns the
    stages and the visits made.
    """
    start = None if layout is None else mask_of(layout.qubits[:close])
    masks = [(o.mixes, o.x_like, o.z_like) for o in operations]
    sets, when, work = few_sets(masks, num_qubits, close, start, limit)
    groups: list[list[Operation]] = [[] for _ in sets]
    for operation, stage in zip(operations, when):
        groups[stage].append(operation)
    return placed(sets, groups, num_qubits, close, layout), work


def few_sets(
    masks: Sequence[tuple[int, int, int]], num_qubits: int, close: int, start: int | None, limit: int
) -> tuple[list[int], list[int], int]:
    """Few sets of ``close`` qubits such that every gate can run in one; the number of each gate's set; and the visits.

    Sets are masks. masks: the qubits that each gate mixes, and those on which it commutes with X and with Z. start: the
    set that is close at the beginning.
    """
    mixes, x_like, z_like = np.array(masks, np.uint64).reshape(-1, 3).T.copy()
    return kernels.search(mixes, x_like, z_like, num_qubits, close, start, limit)


def placed(
    sets: Sequence[int], groups: Sequence[list[Operation]], num_qubits: int, close: int, layout: Layout | None
) -> list[NetworkStage]:
    """Layouts and swaps for a sequence of sets of ``close`` qubits.

    Qubits that are needed again soon go to the lowest far positions, whose shards are on the same node. Where the first
    layout is free, those that leave first start at the highest close positions: exchanges there move contiguous memory.
    """
    busy = [k for k, group in enumerate(groups) if group]
    sets, groups = [sets[k] for k in busy], [groups[k] for k in busy]
    stages: list[NetworkStage] = []
    for k, (now, group) in enumerate(zip(sets, groups)):
        swaps: Swaps = ()
        if layout is None:
            layout = _first_layout(sets, num_qubits)
        else:
            here = layout.qubits
            coming = [p for p in range(close, num_qubits) if now >> here[p] & 1]
            leaving = [p for p in reversed(range(close)) if not now >> here[p] & 1]
            leaving.sort(key=lambda p: _next(sets, here[p], k))
            swaps = tuple(sorted(zip(leaving, coming), reverse=True))
            layout = _swapped(layout, swaps)
        if stages and not swaps:
            stages[-1].operations += group
        else:
            stages.append(NetworkStage(swaps, layout, list(group)))
    return stages


def _first_layout(sets: Sequence[int], num_qubits: int) -> Layout:
    def leaves(qubit: int) -> int:
        return next((k for k, close in enumerate(sets) if not close >> qubit & 1), len(sets))

    close = sorted((q for q in range(num_qubits) if sets[0] >> q & 1), key=leaves, reverse=True)
    far = sorted((q for q in range(num_qubits) if not sets[0] >> q & 1), key=lambda q: _next(sets, q, 0))
    return Layout(close + far).inverse()


def _next(sets: Sequence[int], qubit: int, after: int) -> int:
    """The first stage after this one in which the qubit is close."""
    return next((k for k in range(after + 1, len(sets)) if sets[k] >> qubit & 1), len(sets))


def in_order(operations: Sequence[Operation], close: int, layout: Layout) -> list[NetworkStage]:
    """Gates in program order: each that mixes far qubits has them swapped in, and back again after it.

    What most distributed simulators do; far controls and diagonals are free here too. Kept to compare with.
    """
    stages = [NetworkStage((), layout, [])]
    for operation in operations:
        swaps = _bring_close(layout, operation.mixes, close)
        if swaps:
            stages.append(NetworkStage(swaps, _swapped(layout, swaps), [operation]))
            stages.append(NetworkStage(swaps, layout, []))
        else:
            stages[-1].operations.append(operation)
    return [s for s in stages if s.swaps or s.operations]


def tiled(operations: Sequence[Operation], close: int, layout: Layout) -> list[NetworkStage]:
    """The paper's tiles (Teranishi et al., arXiv 2410.04252), by the rule of the transpiler of quri-parts that cites it
    (quri_parts.cuquantum, MultiGPUReorderingTranspiler). Kept to compare with.

    A tile is filled in program order: a gate joins it if no gate on its qubits was deferred, and if with
    them the tile has no more qubits than are close. All qubits of a gate count, controls and diagonals too, and nothing
    commutes. One exchange leads from tile to tile. As there, the first layout is the identity and no gate is
    absorbed into the initial state; unlike there, the layout is not restored at the end, and a gate on more qubits than
    are close counts with the qubits it mixes.
    """
    stages = []
    waiting = list(operations)
    while waiting:
        tile: list[Operation] = []
        later: list[Operation] = []
        qubits = passed = 0
        for operation in waiting:
            own = operation.all if operation.all.bit_count() <= close else operation.mixes
            if operation.all & passed or (qubits | own).bit_count() > close:
                later.append(operation)
                passed |= operation.all
            else:
                tile.append(operation)
                qubits |= own
        swaps = _bring_close(layout, qubits, close)
        layout = _swapped(layout, swaps)
        stages.append(NetworkStage(swaps, layout, tile))
        waiting = later
    return stages


def _bring_close(layout: Layout, wanted: int, close: int) -> Swaps:
    """Swaps after which all wanted qubits (a mask) are close; the highest close positions leave, where
    exchanges move the longest contiguous runs."""
    here = layout.qubits
    coming = [p for p in range(close, len(here)) if wanted >> here[p] & 1]
    leaving = [p for p in reversed(range(close)) if not wanted >> here[p] & 1]
    return tuple(zip(leaving, coming))


def _swapped(layout: Layout, swaps: Swaps) -> Layout:
    qubits = list(layout.qubits)
    for a, b in swaps:
        qubits[a], qubits[b] = qubits[b], qubits[a]
    return Layout(qubits).inverse()


def mask_of(qubits: Sequence[int]) -> int:
    return sum(1 << q for q in qubits)
