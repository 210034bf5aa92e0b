"""What a block of the forward kernel keeps in shared memory beside its tile: the tables it reads for every tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.records.tiles import FORWARD_PLACES, FORWARD_STEP, OP, OWN
from qdist.backends.cuda.lowering.tables import StageTables
from qdist.backends.cuda.lowering.tile import Shape

__all__ = ["Resident", "blocks_at_once", "layout", "norms", "resident"]

_ALIGNMENT = 16


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

    def arguments(
        self, stage: StageTables, shape: Shape, aligned: bool = True, with_launch: bool = False
    ) -> NDArray[Any]:
        """What the kernel takes of it: a ForwardPlaces.

        aligned: whether accesses of 16 bytes may begin at the state's first amplitude. with_launch: whether the
        matrices that are passed as arguments (fours.py) are those of all states.
        """
        load, store = (plain and aligned for plain in stage.plain)
        return FORWARD_PLACES.filled(
            {
                "coefficients": self.coefficients,
                "places": self.places,
                "numbers": self.numbers - stage.first_number * shape.itemsize // 2,
                "first_number": stage.first_number,
                "num_numbers": stage.num_numbers,
                "ops": self.ops,
                "num_ops": stage.num_ops,
                "steps": self.phases,
                "own": self.slots,
                "norms": self.norms,
                "plain": load + 2 * store,
                "with_launch": with_launch,
            }
        )


def resident(stage: StageTables, shape: Shape) -> Resident:
    """The layout of a stage's tables in shared memory."""
    counts = (stage.num_phases, stage.num_ops, stage.num_numbers, stage.num_coefficients)
    return layout(stage.size, shape, *counts)


def blocks_at_once(shared_bytes: int, shape: Shape, card: Mapping[str, Any]) -> int:
    """So many blocks that need so much shared memory each run at the same time. card: what CUDA says of the device."""
    room = card["sharedMemPerMultiprocessor"] // (shared_bytes + card["reservedSharedMemPerBlock"])
    return card["multiProcessorCount"] * max(1, min(shape.blocks, room))


def norms(threads: int, shape: Shape) -> int:
    """Numbers that a block of so many threads measures its tiles' norms in (norm.cuh)."""
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
        (ops, OP.dtype.itemsize),
        (phases, FORWARD_STEP.dtype.itemsize),
        (phases * threads, OWN.dtype.itemsize),
        (norms(threads, shape), np.dtype(np.float64).itemsize),
    ):
        starts.append(-(-end // _ALIGNMENT) * _ALIGNMENT)
        end = starts[-1] + count * width
    first, second, third, fourth, fifth, sixth, seventh = starts
    return Resident(first, second, third, fourth, fifth, sixth, seventh, end)
