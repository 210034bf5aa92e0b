"""The adjoint sweep on a GPU: a program's stages undone on a ket and a bra, one launch a stage."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from qdist.backends.cuda.compiler import sum_kernel
from qdist.backends.cuda.kept_norm import STAGES, KeptNorm
from qdist.backends.cuda.launcher import Launcher
from qdist.backends.cuda.lowering.back_resident import resident
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.inverse import undone
from qdist.backends.cuda.lowering.records import SWEEP
from qdist.backends.cuda.target import CudaTarget
from qdist.backends.cuda.wide import WideGate
from qdist.plan.stages.backward import Backward

__all__ = ["CudaSweep"]

_PARTIAL_BYTES = 1 << 26
"""Memory that the sums of a stage may take before they are added up."""


class CudaSweep:
    """What undoes the stages of a CudaExecutor. trainable: the angles whose derivatives are wanted."""

    def __init__(self, num_bits: int, plan: Backward, trainable: Collection[int], device: int) -> None:
        import cupy

        assert isinstance(plan.target, CudaTarget), "planned for another kind of device"
        dtype, shape = plan.target.dtype, plan.target.shape
        self._cupy, self._device, self._num_bits, self._dtype = cupy, device, num_bits, dtype
        tiled = [(stage, blocks) for stage, blocks in plan.stages if not stage.is_wide]
        self._tables = BackTables(num_bits, shape.dtype, tiled, shape, trainable)
        numbers = iter(range(len(self._tables.stages)))
        with cupy.cuda.Device(device):
            self._steps: list[int | WideGate] = [
                WideGate(undone(stage.operations[0]), num_bits, dtype, cupy) if stage.is_wide else next(numbers)
                for stage, _ in reversed(plan.stages)
            ]
        self._resident = [resident(*both, shape) for both in zip(self._tables.stages, self._tables.extents)]
        self._launcher = Launcher(self._tables, dtype, device)
        card = cupy.cuda.runtime.getDeviceProperties(device)
        self._blocks = card["multiProcessorCount"] * shape.blocks

    @property
    def most_rows(self) -> int:
        """Of a batch, so that their sums find room."""
        needed = (self._warps(k) * extent.sums[1] * 8 for k, extent in enumerate(self._tables.extents))
        return max(1, _PARTIAL_BYTES // max([8, *needed]))

    def run(
        self,
        kets: Any,
        bras: Any,
        angles: np.ndarray,
        gradients: np.ndarray,
        offset: int,
        support: int,
        recover: bool,
    ) -> None:
        """Undoes a run for each row of angles, and adds 2 Re <bra|d ket> by each angle to the row of ``gradients``.

        The arguments are those of ``CudaExecutor.run_back``. The sums come to the host in one copy.
        """
        rows, tables, cupy = len(angles), self._tables, self._cupy
        wanted = [k for k, step in enumerate(self._steps) if isinstance(step, int) and tables.extents[step].sums[1]]
        end = len(self._steps) if recover else (wanted[-1] + 1 if wanted else 0)
        if end == 0 or rows == 0:
            return
        self._launcher.bind(angles)
        with cupy.cuda.Device(self._device):
            sums = cupy.zeros((rows, max(tables.num_sums, 1)))
            norms: list[KeptNorm] = []
            for k, (step, support_before) in enumerate(list(zip(self._steps, self._support(support)))[:end]):
                # Where stages skip tiles, the shards hold values there that mean nothing, and have no norm to keep.
                if rows == 1 and end >= STAGES and k % STAGES == 0 and support_before == (1 << self._num_bits) - 1:
                    for norm in norms:
                        norm.restore()
                    norms = norms or [KeptNorm(kets.ravel()), KeptNorm(bras.ravel())]
                if isinstance(step, WideGate):
                    for row in (*kets.reshape(rows, -1), *bras.reshape(rows, -1)):
                        step.run(row, offset)
                else:
                    self._undo(step, kets, bras, offset, support_before, rows, sums, recover or k + 1 < end)
            found = sums.get()
        for row, own, gradient in zip(found, angles, gradients):
            tables.gradients.add(row, own, gradient)

    def _undo(
        self, number: int, kets: Any, bras: Any, offset: int, support: int, rows: int, sums: Any, keep: bool
    ) -> None:
        cupy, launcher = self._cupy, self._launcher
        first, count = self._tables.extents[number].sums
        tiles, warps = launcher.num_tiles(number, support), self._warps(number)
        # Each block goes through its share of the tiles, each warp has sums of its own.
        room = _PARTIAL_BYTES // (8 * warps * rows * max(count, 1))
        blocks = max(1, min(tiles, self._blocks, room))
        partial = cupy.zeros(max(rows * blocks * warps * count, 1))
        places, shared_bytes = self._resident[number]
        sweep = SWEEP.filled(
            {
                "bra": bras.data.ptr,
                "partial": partial.data.ptr,
                "parities": launcher.array("parities").data.ptr,
                "weighs": launcher.array("weighs").data.ptr,
                "num_sums": count,
                "keep": keep,
            }
        )
        launcher.launch(number, kets, offset, support, (blocks, rows), (sweep, places), shared_bytes)
        if count:
            stage = self._tables.stages[number]
            kernel = sum_kernel(self._dtype, self._tables.shape, self._device, stage.rare, stage.long)
            stride = np.uint64(sums.shape[1])
            kernel((count, rows), (256,), (partial, np.int32(blocks * warps), np.int32(count), sums[0, first:], stride))

    def _warps(self, number: int) -> int:
        return self._launcher.threads(number) // 32

    def _support(self, support: int) -> list[int]:
        """The nonzero-support mask before each step ran, the last one first: undoing it skips the tiles it skipped."""
        everything = (1 << self._num_bits) - 1
        support &= everything
        found = []
        for step in reversed(self._steps):
            found.append(support)
            if isinstance(step, WideGate):
                support = everything
            else:
                support |= sum(1 << p for p in self._tables.stages[step].tile)
        return found[::-1]
