"""A program's tables on a GPU, and the launches of the tile kernel that interpret them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qdist.backends.cuda.compiler import stage_kernel
from qdist.backends.cuda.lowering.fours import record
from qdist.backends.cuda.lowering.resident import blocks_at_once, resident
from qdist.backends.cuda.lowering.tables import OP, PHASE, Tables
from qdist.backends.cuda.moves import runs_of

__all__ = ["Launcher"]


class Launcher:
    """Tables copied to GPU number ``device``, with the numbers that were bound last."""

    def __init__(self, tables: Tables, dtype: np.dtype, device: int) -> None:
        import cupy

        self.tables, self.dtype, self.device = tables, dtype, device
        self._cupy = cupy
        self._card = cupy.cuda.runtime.getDeviceProperties(device)
        with cupy.cuda.Device(device):
            self._arrays = {name: _on_device(cupy, x) for name, x in tables.arrays().items()}
        self._runs: dict[tuple[int, int], tuple[Any, int, int, int]] = {}
        self.bound: Any = None
        """(reals, turns) on the device, a row for each state of a batch, and what comes with each stage's launch."""

    def bind(self, angles: np.ndarray) -> None:
        """Computes all matrices and phases, for each row of the circuit's angles (float64)."""
        reals, turns = self.tables.binding.values(angles)
        if turns.size == 0:
            turns = np.zeros((len(angles), 1), turns.dtype)  # A kernel's pointer must be one, though nothing is read.
        fours = [record(stage.fours, reals, self.tables.shape.four_phases) for stage in self.tables.stages]
        with self._cupy.cuda.Device(self.device):
            self.bound = self._cupy.asarray(reals), self._cupy.asarray(turns), fours

    def num_tiles(self, number: int, live: int) -> int:
        """How many tiles stage ``number`` has among the indices whose bits outside ``live`` are zero."""
        return self._tiles(number, live)[2]

    def threads(self, number: int) -> int:
        """Of a block."""
        return 1 << self.tables.stages[number].size - self.tables.shape.registers

    def array(self, name: str) -> Any:
        """One of the tables on the device."""
        return self._arrays[name]

    def outside(self, number: int, live: int) -> int:
        """The bits of the index that tell these tiles apart."""
        return self._tiles(number, live)[3]

    def run(self, number: int, states: Any, offset: int, live: int, rows: int) -> None:
        """Runs stage ``number`` on ``rows`` states: as many blocks as run at once, each going through many tiles."""
        stage, shape = self.tables.stages[number], self.tables.shape
        tiles = self.num_tiles(number, live)
        layout = resident(stage, shape)
        places = layout.arguments(stage, shape, aligned=states.data.ptr % 16 == 0)
        leading = (np.uint64(tiles), np.uint64(self.outside(number, live)), *places, *self.bound[2][number])
        grid = min(tiles, blocks_at_once(layout.end, shape, self._card)), rows
        self.launch(number, states, offset, live, grid, leading, layout.end)

    def launch(
        self,
        number: int,
        states: Any,
        offset: int,
        live: int,
        grid: tuple[int, int],
        leading: Sequence[Any],
        shared_bytes: int,
    ) -> None:
        """Launches stage ``number``; leading: what its kernel takes before what both take."""
        stage = self.tables.stages[number]
        runs, num_runs, *_ = self._tiles(number, live)
        arrays, u8, i4 = self._arrays, np.uint64, np.int32
        reals, turns, _ = self.bound
        kernel = stage_kernel(self.dtype, self.tables.shape, self.device, stage.rare, stage.long)
        kernel(
            grid,
            (self.threads(number),),
            (
                *leading,
                states,
                u8(1 << self.tables.num_bits),
                u8(offset),
                runs,
                i4(num_runs),
                arrays["phases"][stage.first_phase * PHASE.itemsize :],
                i4(stage.num_phases),
                arrays["ops"][stage.first_op * OP.itemsize :],
                arrays["slots"][4 * stage.first_slot :],
                arrays["places"][stage.places :],
                arrays["flips"],
                *(i4(x) for x in (*stage.load_flips, *stage.store_flips)),
                arrays["terms"],
                arrays["begins"][stage.first_coefficient :],
                arrays["parts"],
                i4(stage.num_coefficients),
                arrays["lists"],
                reals,
                u8(reals.shape[1]),
                turns,
                u8(turns.shape[1]),
            ),
            shared_mem=shared_bytes,
        )

    def _tiles(self, number: int, live: int) -> tuple[Any, int, int, int]:
        """How a tile's number becomes the base of its index, as runs of bits; how many tiles there are, and the bits of
        the index that tell them apart."""
        key = (number, live)
        if key not in self._runs:
            tile = self.tables.stages[number].tile
            outside = [p for p in range(self.tables.num_bits) if p not in tile and live >> p & 1]
            runs = runs_of(outside)
            table = np.array(runs or [(0, 0, 0)], np.int32).ravel()
            self._runs[key] = self._cupy.asarray(table), len(runs), 1 << len(outside), sum(1 << p for p in outside)
        return self._runs[key]


def _on_device(cupy: Any, array: np.ndarray) -> Any:
    """The array's bytes on the GPU; of an empty one, some that nobody reads, since a kernel's pointer must be one."""
    flat = np.ascontiguousarray(array)
    if flat.size == 0:
        return cupy.zeros(1, np.uint64)
    if flat.dtype.fields is not None:
        return cupy.asarray(flat.view(np.uint8))
    return cupy.asarray(flat)
