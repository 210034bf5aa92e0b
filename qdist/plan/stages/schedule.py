"""Lazy qubit reordering: which operations run in which stage, at one level after another.

At each level of the memory only some qubits (the close ones) can be mixed at a time. Every gate that these permit runs,
out of program order where gates commute, before others are brought close (Teranishi et al., arXiv 2410.04252).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.plan.operations import Operation

__all__ = ["Stage", "cheapest_schedule", "masks_and_weights", "schedule", "wide_stage"]


@dataclass(slots=True)
class Stage:
    """Operations that run while ``close`` qubits can be mixed; at levels above the last, made of further stages."""

    level: Level
    close: tuple[int, ...]
    operations: list[Operation]
    stages: list[Stage]

    @property
    def is_wide(self) -> bool:
        """Whether it is one gate that mixes more than a tile holds and runs by itself, on the whole shard."""
        return self.level.name == _MEMORY

    @property
    def num_gates(self) -> int:
        return sum(o.num_gates for o in self.operations)

    @property
    def only_moves(self) -> bool:
        """Whether qubits change places and nothing else happens, which leaves |0...0> as it is."""
        return all(o.kind == "swap" for o in self.operations)


_MEMORY = "memory"


def wide_stage(operation: Operation) -> Stage:
    """The stage of one gate that no tile has room for."""
    close = tuple(p for p in range(operation.mixes.bit_length()) if operation.mixes >> p & 1)
    return Stage(Level(_MEMORY, len(close)), close, [operation], [])


def schedule(operations: Sequence[Operation], num_qubits: int, levels: Sequence[Level]) -> list[Stage]:
    """The stages of the first level, each with its own stages at the levels after it.

    Position p holds qubit p. Deterministic: the same operations give the same stages, on every rank.
    """
    if not levels or not operations:
        return []
    level, *inner = levels
    if level.close >= num_qubits:
        return [Stage(level, tuple(range(num_qubits)), list(operations), schedule(operations, num_qubits, inner))]
    found = kernels.schedule(*masks_and_weights(operations), num_qubits, level.close, _forced(level))
    stages = _stages(level, found, operations)
    for stage in stages:
        stage.stages = schedule(stage.operations, num_qubits, inner)
    return stages


def cheapest_schedule(
    operations: Sequence[Operation], num_qubits: int, level: Level, support: int, tries: int, work: float
) -> list[Stage]:
    """The stages of one level that cost least, of so many that are found for weights which differ by chance.

    support: nonzero-support mask before the first. work: what a unit of weight costs, in units of reading and writing
    the whole shard.
    """
    if level.close >= num_qubits:
        return schedule(operations, num_qubits, [level])
    sizes = num_qubits, level.close, _forced(level), support & (1 << num_qubits) - 1
    return _stages(level, kernels.schedule_cheapest(*masks_and_weights(operations), *sizes, tries, work), operations)


def _forced(level: Level) -> int:
    """The positions that every stage holds."""
    return (1 << level.contiguous) - 1


def _stages(level: Level, found: list[tuple[int, list[int]]], operations: Sequence[Operation]) -> list[Stage]:
    return [
        Stage(level, tuple(q for q in range(mask.bit_length()) if mask >> q & 1), [operations[g] for g in chosen], [])
        for mask, chosen in found
    ]


_Masks = NDArray[np.uint64]


def masks_and_weights(operations: Sequence[Operation]) -> tuple[_Masks, _Masks, _Masks, NDArray[np.float64]]:
    """What the native searches take of operations: the qubits that they mix, those that they act on like X and like Z,
    and what they weigh."""
    return (
        np.array([o.mixes for o in operations], np.uint64),
        np.array([o.x_like for o in operations], np.uint64),
        np.array([o.z_like for o in operations], np.uint64),
        np.array([_weight(o) for o in operations]),
    )


def _weight(operation: Operation) -> float:
    """Its weight in the choice of close qubits: about its cost; little for a diagonal, which needs no close qubit."""
    if not operation.mixes:
        return 0.01
    return float(4 ** operation.mixes.bit_count())
