"""Target: what a plan is made for. The tiles that a stage works on, what one has room for, and what a sweep costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qdist.plan.fuse import Block
from qdist.plan.levels import Level
from qdist.plan.stages.schedule import Stage

__all__ = ["Target", "cpu_target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of device, for amplitudes of one dtype. A backend whose tiles have limits of their own derives from it."""

    name: str
    dtype: np.dtype
    tile: int
    """Bits of a tile, where no gate needs more."""
    contiguous: int
    """The lowest bit positions, which every tile holds, so that memory is read in whole rows."""
    fewest: int = 0
    """Bits of a tile, at least."""
    widest: int = 62
    """Bits of a tile, at most: a gate that mixes more runs by itself."""
    widens: bool = False
    """Whether tiles of single precision can be computed in double while they are close (plan/precision.py)."""

    def levels(self, num_bits: int) -> tuple[Level, ...]:
        """The levels below the network, for shards of so many bits."""
        return (Level(self.name, min(num_bits, self.tile), min(num_bits, self.contiguous)),)

    def has_room(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> bool:
        """Whether what an executor reads while it runs the stage fits where it has to be."""
        return True

    def sweep_cost(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> float:
        """What the stage takes, where 1 is reading and writing the whole shard."""
        return 1.0

    def backward(self) -> tuple[Target, ...]:
        """What the adjoint sweep may be planned for: first the tiles that undo these stages as they are, then others
        that may undo the same in fewer sweeps."""
        return (self,)


def cpu_target(dtype: np.dtype) -> Target:
    """Tiles that fit a core's first-level cache beside the copy that permutations need: 32 KiB of amplitudes, in rows
    of at least 128 bytes, so that every cache line read is used."""
    tile, row = ((size // dtype.itemsize).bit_length() - 1 for size in (32 * 1024, 128))
    return Target("cache", dtype, tile, row, widens=True)
