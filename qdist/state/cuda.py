"""The GPU executor: lowers a plan's blocks to tables and has the tile kernel interpret them, one launch a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qdist.circuit import AffineMap
from qdist.cuda.compiler import stage_kernel
from qdist.cuda.moves import runs_of
from qdist.cuda.stages import runnable
from qdist.cuda.tables import OP, PHASE, StageTables, Tables
from qdist.cuda.tile import Shape, shape_of
from qdist.cuda.wide import WideGate
from qdist.plan.fuse import Block
from qdist.plan.operations import Operation
from qdist.plan.schedule import Stage

__all__ = ["CudaProgram"]

_MOST_ROWS = 65535
"""Rows of a batch in one launch: what a grid's second axis holds."""


class CudaProgram:
    """Stages of blocks on a shard of ``num_bits`` index bits on GPU number ``device``, position p holding qubit p.

    affine: how the circuit's angles follow from its parameters. shape: of the tiles; the stages must have been planned
    for it.
    """

    def __init__(
        self,
        num_bits: int,
        dtype: np.dtype,
        stages: Sequence[tuple[Stage, list[Block]]],
        affine: AffineMap,
        device: int = 0,
        shape: Shape | None = None,
    ) -> None:
        import cupy

        self.dtype = np.dtype(dtype)
        self._cupy, self._device, self._num_bits = cupy, device, num_bits
        shape = shape or shape_of(self.dtype)
        found = list(runnable(num_bits, self.dtype, stages, shape))
        self._tables = Tables(num_bits, self.dtype, [s for s in found if not isinstance(s, Operation)], shape)
        tiles = enumerate(self._tables.stages)
        with cupy.cuda.Device(device):
            self._steps: list[tuple[int, StageTables] | WideGate] = [
                WideGate(s, num_bits, self.dtype, cupy) if isinstance(s, Operation) else next(tiles) for s in found
            ]
            self._arrays = {name: _on_device(cupy, x) for name, x in self._tables.arrays().items()}
        self._runs: dict[tuple[int, int], tuple[Any, int, int]] = {}
        self._affine = affine
        self._reals: Any = None
        self._turns: Any = None

    @property
    def num_stages(self) -> int:
        return len(self._steps)

    @property
    def num_phases(self) -> int:
        """How often a tile is held in registers, summed over the stages."""
        return sum(stage.num_phases for stage in self._tables.stages)

    def bind(self, theta: np.ndarray) -> bool:
        """Computes all matrices and phases from the parameters' values (float64); False if one is not finite."""
        if not np.isfinite(theta).all():
            return False
        self.bind_angles(self._affine(theta))
        return True

    def bind_angles(self, angles: np.ndarray) -> None:
        """Computes all matrices and phases from the circuit's angles (float64)."""
        self._bind_rows(angles[None])

    def _bind_rows(self, angles: np.ndarray) -> None:
        """One row of angles for each state of a batch."""
        reals, turns = self._tables.binding.values(angles)
        if turns.size == 0:
            turns = np.zeros((len(angles), 1), turns.dtype)  # A kernel's pointer must be one, though nothing is read.
        with self._cupy.cuda.Device(self._device):
            self._reals, self._turns = self._cupy.asarray(reals), self._cupy.asarray(turns)

    def run_from_zero(self, shard: Any) -> None:
        """Puts |0...0> into a shard that holds the whole state, and runs."""
        shard.fill(0)
        shard[0] = 1
        self.run(shard, 0, 0)

    def run(self, shard: Any, offset: int = 0, live: int = -1, after_stage: Callable[[], None] | None = None) -> None:
        """Runs on ``shard`` (CuPy) in place. ``offset`` is the place of its first amplitude in the whole state.

        Amplitudes may be nonzero only at indices whose bits outside ``live`` are zero; |0...0> has live=0, and what
        must be zero is not computed. ``after_stage`` is called when each sweep has been queued.
        """
        self._run(shard, offset, live, 1, after_stage)

    def run_batch(self, states: Any, angles: np.ndarray) -> None:
        """Binds and runs once for each row of ``angles``, on the row of ``states``, which is |0...0> before."""
        kept = self._reals, self._turns
        for first in range(0, len(angles), _MOST_ROWS):
            some = slice(first, first + _MOST_ROWS)
            self._bind_rows(angles[some])
            self._run(states[some], 0, 0, len(angles[some]), None)
        self._reals, self._turns = kept

    def _run(self, states: Any, offset: int, live: int, rows: int, after_stage: Callable[[], None] | None) -> None:
        live &= (1 << self._num_bits) - 1
        with self._cupy.cuda.Device(self._device):
            kernel = stage_kernel(self.dtype, self._tables.shape, self._device)
            for step in self._steps:
                if isinstance(step, WideGate):
                    for row in states.reshape(rows, -1):
                        step.run(row, offset)
                    live = (1 << self._num_bits) - 1
                else:
                    self._launch(kernel, *step, states, offset, live, rows)
                    live |= sum(1 << p for p in step[1].tile)
                if after_stage is not None:
                    after_stage()

    def _launch(
        self, kernel: Any, number: int, stage: StageTables, states: Any, offset: int, live: int, rows: int
    ) -> None:
        runs, num_runs, tiles = self._tiles(number, stage, live)
        arrays, u8, i4 = self._arrays, np.uint64, np.int32
        threads = 1 << stage.size - self._tables.shape.registers
        shared = (self.dtype.itemsize << stage.size) + stage.num_coefficients * self._tables.binding.turn.itemsize
        kernel(
            (tiles, rows),
            (threads,),
            (
                states,
                u8(1 << self._num_bits),
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
                self._reals,
                u8(self._reals.shape[1]),
                self._turns,
                u8(self._turns.shape[1]),
            ),
            shared_mem=shared,
        )

    def _tiles(self, number: int, stage: StageTables, live: int) -> tuple[Any, int, int]:
        """How a tile's number becomes the base of its index, as runs of bits; and how many tiles there are."""
        key = (number, live)
        if key not in self._runs:
            outside = [p for p in range(self._num_bits) if p not in stage.tile and live >> p & 1]
            runs = runs_of(outside)
            table = np.array(runs or [(0, 0, 0)], np.int32).ravel()
            self._runs[key] = self._cupy.asarray(table), len(runs), 1 << len(outside)
        return self._runs[key]


def _on_device(cupy: Any, array: np.ndarray) -> Any:
    """The array's bytes on the GPU; of an empty one, some that nobody reads, since a kernel's pointer must be one."""
    flat = np.ascontiguousarray(array)
    if flat.size == 0:
        return cupy.zeros(1, np.uint64)
    if flat.dtype.fields is not None:
        return cupy.asarray(flat.view(np.uint8))
    return cupy.asarray(flat)
