"""What a block of the forward kernel keeps in shared memory beside its tile: the tables it reads for every tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qdist.backends.cuda.lowering.tables import OP, StageTables
from qdist.backends.cuda.lowering.tile import Shape

__all__ = ["Resident", "blocks_at_once", "layout", "norms", "resident"]

_ALIGNMENT = 16
_STEP_BYTES = 48
"""Of a phase in shared memory (forward.cu)."""


@dataclass(frozen=True, slots=True)
class Resident:
    """Where each table begins, in bytes: the tile comes first."""

    coefficients: int
    places: int
    numbers: int
    ops: int
    phases: int
    slots: int
    norms: int
    end: int

    def arguments(self, stage: StageTables, shape: Shape, aligned: bool = True) -> tuple[np.int32, ...]:
        """What the kernel takes of it. For ``numbers`` that is where number 0 of all stages would be. aligned: whether
        accesses of 16 bytes may begin at the state's first amplitude."""
        numbers = self.numbers - stage.first_number * shape.itemsize // 2
        counted = (stage.first_number, stage.num_numbers, self.ops, stage.num_ops, self.phases, self.slots, self.norms)
        load, store = (plain and aligned for plain in stage.plain)
        return tuple(np.int32(x) for x in (self.coefficients, self.places, numbers, *counted, load + 2 * store))


def resident(stage: StageTables, shape: Shape) -> Resident:
    """The layout of a stage's tables in shared memory."""
    counts = (stage.num_phases, stage.num_ops, stage.num_numbers, stage.num_coefficients)
    return layout(stage.size, shape, *counts)


def blocks_at_once(shared_bytes: int, shape: Shape, card: Mapping[str, Any]) -> int:
    """So many blocks that need so much shared memory each run at the same time. card: what CUDA says of the device."""
    room = card["sharedMemPerMultiprocessor"] // (shared_bytes + card["reservedSharedMemPerBlock"])
    return card["multiProcessorCount"] * max(1, min(shape.blocks, room))


def norms(threads: int, shape: Shape) -> int:
    """Numbers that a block of so many threads measures its tiles' norms in (norm.cu)."""
    return 2 * shape.states * -(-threads // 32)


def layout(size: int, shape: Shape, phases: int, ops: int, numbers: int, coefficients: int) -> Resident:
    """The layout of so many of each, for tiles of ``size`` bits."""
    threads = 1 << size - shape.registers
    number = shape.itemsize // 2
    starts: list[int] = []
    end = shape.itemsize << size
    for count, width in (
        (coefficients, number),
        (2 * (shape.registers + threads), np.dtype(np.uint64).itemsize),
        (numbers, number),
        (ops, OP.itemsize),
        (phases, _STEP_BYTES),
        (phases * threads, np.dtype(np.uint32).itemsize),
        (norms(threads, shape), np.dtype(np.float64).itemsize),
    ):
        starts.append(-(-end // _ALIGNMENT) * _ALIGNMENT)
        end = starts[-1] + count * width
    first, second, third, fourth, fifth, sixth, seventh = starts
    return Resident(first, second, third, fourth, fifth, sixth, seventh, end)
