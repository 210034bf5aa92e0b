"""The GPU executor: lowers a plan's blocks to tables and has the tile kernel interpret them, one launch a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import dropwhile
from typing import Any

import numpy as np

from qdist.backends.backend import Executor
from qdist.backends.cuda.checks import check_first, check_size
from qdist.backends.cuda.graphs import Graphs
from qdist.backends.cuda.launcher import Launcher
from qdist.backends.cuda.lowering.patterns import multiples
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.measuring import Combination, set_first
from qdist.backends.cuda.sweep import CudaSweep
from qdist.backends.cuda.target import CudaTarget
from qdist.backends.cuda.wide import WideGate
from qdist.circuit import AffineMap
from qdist.plan.fuse import Block
from qdist.plan.stages.backward import Backward
from qdist.plan.stages.schedule import Stage

__all__ = ["CudaExecutor"]

_MOST_ROWS = 65535
"""Rows of a batch in one launch: what a grid's second axis holds."""


class CudaExecutor(Executor):
    """Stages of blocks on a shard of ``num_bits`` index bits on GPU number ``device``, position p holding qubit p.

    target: what the stages were planned for. affine: how the circuit's angles follow from its parameters.
    """

    def __init__(
        self,
        num_bits: int,
        target: CudaTarget,
        stages: Sequence[tuple[Stage, list[Block]]],
        affine: AffineMap,
        device: int = 0,
    ) -> None:
        import cupy

        self.dtype = target.dtype
        self._cupy, self._device, self._num_bits = cupy, device, num_bits
        tiled = [(stage, blocks) for stage, blocks in stages if not stage.is_wide]
        fixed = affine(np.zeros(affine.num_parameters))
        fixed[affine.slots] = np.nan
        pairs = len(tiled) == len(stages)
        self._tables = Tables(num_bits, target.shape.dtype, tiled, target.shape, pairs, fixed)
        tiles = iter(range(len(self._tables.stages)))
        with cupy.cuda.Device(device):
            self._steps: list[int | WideGate] = [
                WideGate(stage.operations[0], num_bits, self.dtype, cupy) if stage.is_wide else next(tiles)
                for stage, _ in stages
            ]
        self._launcher = Launcher(self._tables, self.dtype, device)
        self._stages, self._affine = stages, affine
        self._trainable = frozenset(affine.slots.tolist())
        self._angles = np.zeros(0)
        self._sweep: CudaSweep | None = None
        self._sweep_is_bound = False
        self._graphs = Graphs()
        self._is_tiled = len(tiled) == len(stages)
        self._only_moves = [stage.only_moves for stage, _ in stages]
        # Whether a run from |0...0> writes every amplitude before it is read. Stages at its beginning that only move
        # qubits do not run.
        running = dropwhile(lambda both: both[1], zip(self._tables.stages, self._only_moves))
        reached = {p for stage, _ in running for p in stage.tile}
        self._reaches_all = self._is_tiled and len(reached) == num_bits

    @property
    def num_stages(self) -> int:
        return len(self._steps)

    @property
    def num_phases(self) -> int:
        """How often a tile is held in registers, summed over the stages."""
        return sum(stage.num_phases for stage in self._tables.stages)

    @cached_property
    def is_trainable(self) -> bool:
        return any(o.reads & self._trainable for _, blocks in self._stages for b in blocks for o in b.operations)

    def bind(self, theta: np.ndarray) -> bool:
        if not np.isfinite(theta).all():
            return False
        self.bind_angles(self._affine(theta))
        return True

    def bind_angles(self, angles: np.ndarray) -> None:
        check_size(len(angles), len(self._affine.constants), "the angles")
        self._angles = angles.copy()
        self._launcher.bind(self._angles[None], in_place=True)
        self._sweep_is_bound = False

    def run_from_zero(self, shard: Any) -> None:
        check_size(shard.size, 1 << self._num_bits, "the shard")

        def launches() -> None:
            if not self._reaches_all:
                shard.fill(0)
            set_first(shard, 1.0)
            self._launch(shard, 0, 0, 1, None)

        with self._cupy.cuda.Device(self._device):
            if self._is_tiled and self._launcher.repeats:
                self._graphs.run(shard.data.ptr, launches)
            else:
                launches()

    def run(
        self, shard: Any, offset: int = 0, support: int = -1, after_stage: Callable[[], None] | None = None
    ) -> None:
        self._run(shard, offset, support, 1, after_stage)

    def run_batch(self, states: Any, angles: np.ndarray) -> None:
        if angles.shape != (len(states), len(self._affine.constants)):
            raise ValueError(f"{len(states)} states need angles of as many rows; got shape {angles.shape}")
        check_size(states.size, len(angles) << self._num_bits, "the states")
        kept = self._launcher.bound
        for first in range(0, len(angles), _MOST_ROWS):
            some = slice(first, first + _MOST_ROWS)
            self._launcher.bind(angles[some])
            self._run(states[some], 0, 0, len(angles[some]), None)
        self._launcher.bound = kept

    def run_back(
        self,
        ket: Any,
        bra: Any,
        gradient: np.ndarray,
        offset: int = 0,
        support: int = -1,
        recover: bool = True,
        shift: Any = 0.0,
    ) -> None:
        check_size(ket.size, 1 << self._num_bits, "the shard")
        check_size(bra.size, ket.size, "the bra")
        check_size(len(gradient), len(self._angles), "the gradient")
        check_first(offset, ket.size)
        self.bind_back()
        back = self._lowered_back()
        shifts = back.sent(np.array([shift])) if isinstance(shift, float) else shift
        back.run(ket, bra, self._angles[None], gradient[None], offset, support, recover, shifts)

    def queues_back(self) -> bool:
        return self._combination is not None

    def queue_back(self, ket: Any, bra: Any, support: int, shift: Any, out: Any) -> None:
        check_size(ket.size, 1 << self._num_bits, "the shard")
        check_size(bra.size, ket.size, "the bra")
        assert self._combination is not None, "queues_back says whether"
        self.bind_back()
        self._lowered_back().queue(ket, bra, support, shift, self._combination, out)

    @cached_property
    def _combination(self) -> Combination | None:
        with self._cupy.cuda.Device(self._device):
            return self._lowered_back().combination(self._affine)

    def run_back_batch(
        self, kets: Any, bras: Any, angles: np.ndarray, shifts: np.ndarray, gradients: np.ndarray
    ) -> None:
        check_size(kets.size, len(angles) << self._num_bits, "the kets")
        check_size(bras.size, kets.size, "the bras")
        if gradients.shape != angles.shape:
            raise ValueError(f"gradients have the shape of the angles, {angles.shape}; got {gradients.shape}")
        back = self._lowered_back()
        rows = min(_MOST_ROWS, back.most_rows)
        for first in range(0, len(angles), rows):
            some = slice(first, first + rows)
            back.bind(angles[some])
            self._sweep_is_bound = False
            back.run(kets[some], bras[some], angles[some], gradients[some], 0, 0, False, back.sent(shifts[some]))

    def lower_back(self, plan: Backward) -> None:
        if self._sweep is None:
            self._sweep = CudaSweep(self._num_bits, plan, multiples(self._affine), self._device)

    def bind_back(self) -> None:
        if not self._sweep_is_bound:
            self._lowered_back().bind(self._angles[None], in_place=True)
            self._sweep_is_bound = True

    def _lowered_back(self) -> CudaSweep:
        assert self._sweep is not None, "lower_back comes first"
        return self._sweep

    def _run(self, states: Any, offset: int, support: int, rows: int, after_stage: Callable[[], None] | None) -> None:
        check_size(states.size, rows << self._num_bits, "the shard")
        check_first(offset, 1 << self._num_bits)
        with self._cupy.cuda.Device(self._device):
            self._launch(states, offset, support & (1 << self._num_bits) - 1, rows, after_stage)

    def _launch(
        self, states: Any, offset: int, support: int, rows: int, after_stage: Callable[[], None] | None
    ) -> None:
        for step, only_moves in zip(self._steps, self._only_moves):
            # Qubits that change places leave a state alone in which only the first amplitude is not 0.
            if support or not only_moves:
                support = self._launch_step(step, states, offset, support, rows)
            if after_stage is not None:
                after_stage()

    def _launch_step(self, step: WideGate | int, states: Any, offset: int, support: int, rows: int) -> int:
        """Queues one stage. Returns the nonzero-support mask after it."""
        if isinstance(step, WideGate):
            for row in states.reshape(rows, -1):
                step.run(row, offset)
            return (1 << self._num_bits) - 1
        self._launcher.run(step, states, offset, support, rows)
        return support | sum(1 << p for p in self._tables.stages[step].tile)
