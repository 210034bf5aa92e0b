"""The adjoint sweep on a GPU: a program's stages undone on a ket and a bra, one launch a stage."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qdist.backends.cuda.compiler import sum_kernel
from qdist.backends.cuda.graphs import Graphs
from qdist.backends.cuda.kernels import project, squared_norm
from qdist.backends.cuda.launcher import Launcher, as_bytes
from qdist.backends.cuda.lowering.back_resident import resident
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.inverse import undone
from qdist.backends.cuda.lowering.patterns import Multiples
from qdist.backends.cuda.lowering.records.tiles import SWEEP
from qdist.backends.cuda.measuring import Combination
from qdist.backends.cuda.staging import Kept, staging
from qdist.backends.cuda.target import CudaTarget
from qdist.backends.cuda.wide import WideGate
from qdist.circuit import AffineMap
from qdist.plan.stages.backward import Backward

__all__ = ["CudaSweep"]

_PARTIAL_BYTES = 1 << 26
"""Memory that the sums of a stage may take before they are added up."""
_KEPT_BYTES = 1 << 24
"""The same, kept from sweep to sweep."""
_STAGES_A_NORM = 64
"""Measuring a norm twice and scaling cost as much as two stages: after so many of them it is worth it."""
_MOST_SCHEDULES = 64
"""Kept, one for each size of a batch."""
_KEEP_NOTHING, _KEEP_LIVE, _KEEP_ALL = range(3)
"""What a stage that is undone writes back: see ``records.tiles.SWEEP``."""


class _KeptNorm:
    """Brings a shard back to the norm that it has now, which no gates change: they are unitary on every shard by
    itself. In complex64 the rounding errors of many stages do; a complex128 shard is left alone."""

    def __init__(self, shard: Any) -> None:
        self._shard, self._squared = shard, squared_norm(shard) if shard.dtype == np.complex64 else 0.0

    def restore(self) -> None:
        if not self._squared > 0:
            return
        factor = math.sqrt(self._squared / squared_norm(self._shard))
        # A smaller change rounds to nothing.
        if abs(factor - 1) > 2.0**-25:
            project(self._shard, 0, 0, 0, factor)


class _Schedule:
    """steps: those to take, each with the nonzero-support mask before it ran. sizes: how many parts of sums each has.
    is_together: whether the parts of all steps find room at the same time. repeats: whether there is nothing but
    launches, which wait for nothing and find room that is kept."""

    def __init__(self, steps: list[tuple[int | WideGate, int]], sizes: list[int]) -> None:
        self.steps, self.sizes = steps, sizes
        nbytes = 8 * sum(sizes)
        self.is_together = nbytes <= _PARTIAL_BYTES
        tiled = not any(isinstance(step, WideGate) for step, _ in steps)
        self.repeats = tiled and nbytes <= _KEPT_BYTES and len(steps) < _STAGES_A_NORM


class CudaSweep:
    """What undoes the stages of a CudaExecutor. trained: the angles whose derivatives are wanted."""

    def __init__(self, num_bits: int, plan: Backward, trained: Multiples, device: int) -> None:
        import cupy

        assert isinstance(plan.target, CudaTarget), "planned for another kind of device"
        dtype, shape = plan.target.dtype, plan.target.shape
        self._cupy, self._device, self._num_bits, self._dtype = cupy, device, num_bits, dtype
        tiled = [(stage, blocks) for stage, blocks in plan.stages if not stage.is_wide]
        self._tables = BackTables(num_bits, shape.dtype, tiled, shape, trained)
        numbers = iter(range(len(self._tables.stages)))
        with cupy.cuda.Device(device):
            self._steps: list[int | WideGate] = [
                WideGate(undone(stage.operations[0]), num_bits, dtype, cupy) if stage.is_wide else next(numbers)
                for stage, _ in reversed(plan.stages)
            ]
        self._only_moves = [stage.only_moves for stage, _ in reversed(plan.stages)]
        placed = (resident(*both, shape) for both in zip(self._tables.stages, self._tables.extents))
        self._resident = [(as_bytes(places), shared_bytes) for places, shared_bytes in placed]
        self._launcher = Launcher(self._tables, dtype, device)
        card = cupy.cuda.runtime.getDeviceProperties(device)
        self._blocks = card["multiProcessorCount"] * shape.blocks
        self._sum_kernels: dict[int, Any] = {}
        self._schedules: dict[tuple[int, int, bool], _Schedule] = {}
        self._rooms: dict[int, Any] = {}
        self._shift: Kept | None = None
        self._graphs = Graphs()
        # Filled once, and what changes from launch to launch is set in place: a launch copies it.
        fixed = {name: self._launcher.array(name).data.ptr for name in ("parities", "weighs")}
        self._record = SWEEP.filled({"bra": 0, "partial": 0, "shifts": 0, "num_sums": 0, "keep": 0, **fixed})
        self._record_bytes = as_bytes(self._record)

    @property
    def most_rows(self) -> int:
        """Of a batch, so that their sums find room."""
        needed = (self._warps(k) * extent.sums[1] * 8 for k, extent in enumerate(self._tables.extents))
        return max(1, _PARTIAL_BYTES // max([8, *needed]))

    def bind(self, angles: np.ndarray, in_place: bool = False) -> None:
        """Computes the inverse matrices and phases for each row of angles, and queues their copy to the GPU; in_place:
        see ``Launcher.bind``."""
        self._launcher.bind(angles, in_place)

    def run(
        self,
        kets: Any,
        bras: Any,
        angles: np.ndarray,
        gradients: np.ndarray,
        offset: int,
        support: int,
        recover: bool,
        shifts: Any = None,
    ) -> None:
        """Undoes a run for each row of angles, which are bound, and adds 2 Re <bra|d ket> by each angle to the row of
        ``gradients``.

        The arguments are those of ``CudaExecutor.run_back``; shifts: a double for each row, on the GPU. The sums come
        to the host in one copy.
        """
        rows = len(angles)
        if not self._schedule(support, rows, recover).steps or rows == 0:
            return
        with self._cupy.cuda.Device(self._device):
            found = self._queued(kets, bras, rows, offset, support, recover, shifts).get().reshape(rows, -1)
        for row, own, gradient in zip(found, angles, gradients):
            self._tables.gradients.add(row, own, gradient)

    def sent(self, shifts: np.ndarray) -> Any:
        """Shifts of rows on the GPU, that of one row where the last one was; None if they are zeros."""
        if not shifts.any():
            return None
        with self._cupy.cuda.Device(self._device):
            stage = staging(self._device)
            stage.room(shifts.nbytes)[:] = shifts.view(np.uint8)
            if len(shifts) > 1:
                return stage.send()
            if self._shift is None:
                self._shift = Kept(shifts.nbytes)
            return stage.send(self._shift.taken())

    def combination(self, affine: AffineMap) -> Combination | None:
        """What the sums mean for the parameters that angles follow from, where that is the same for all values."""
        parts = self._tables.gradients.linear_parts
        if parts is None:
            return None
        slots, sums, coefficients = parts
        # A product of two sparse matrices: each entry of the first with all entries of its angle in the second.
        order = np.argsort(affine.slots, kind="stable")
        begins = np.searchsorted(affine.slots[order], np.arange(len(affine.constants) + 1))
        uses = [order[begins[slot] : begins[slot + 1]] for slot in slots.tolist()]
        lengths = np.array([len(own) for own in uses], np.int64)
        chosen = np.concatenate([np.zeros(0, np.int64), *uses])
        weights = np.repeat(coefficients, lengths) * affine.coefficients[chosen]
        constants = np.zeros(affine.num_parameters)
        return Combination(affine.parameters[chosen], np.repeat(sums, lengths), weights, constants)

    def queue(self, ket: Any, bra: Any, support: int, shift: Any, combination: Combination, out: Any) -> None:
        """Undoes a run of bound angles from its beginning on, as ``run`` does, and has the derivatives by parameters
        written to ``out``, on the GPU."""
        with self._cupy.cuda.Device(self._device):
            if self._schedule(support, 1, False).steps:
                combination.run(ket, self._queued(ket, bra, 1, 0, support, False, shift), out)
            else:
                out.fill(0)

    def _queued(self, kets: Any, bras: Any, rows: int, offset: int, support: int, recover: bool, shifts: Any) -> Any:
        """The sums of all rows, which the GPU has still to compute."""
        shifts_at = 0 if shifts is None else shifts.data.ptr
        schedule, cupy = self._schedule(support, rows, recover), self._cupy
        num_sums = rows * max(self._tables.num_sums, 1)
        numbers = num_sums + (sum(schedule.sizes) if schedule.is_together else 0)
        if rows == 1 and schedule.repeats and self._launcher.repeats:
            # Until other steps are taken: what it holds is read before anybody else can use it.
            if numbers not in self._rooms:
                self._rooms = {numbers: cupy.empty(numbers)}
            room = self._rooms[numbers]
            key = kets.data.ptr, bras.data.ptr, room.data.ptr, offset, support, recover, shifts_at
            self._graphs.run(key, lambda: self._launch(kets, bras, room, 1, offset, schedule, recover, shifts_at))
        else:
            room = cupy.empty(numbers)
            self._launch(kets, bras, room, rows, offset, schedule, recover, shifts_at)
        return room[:num_sums]

    def _launch(
        self,
        kets: Any,
        bras: Any,
        room: Any,
        rows: int,
        offset: int,
        schedule: _Schedule,
        recover: bool,
        shifts_at: int,
    ) -> None:
        """room: for the sums of all stages, and behind them, if they fit together, each stage's parts of them.
        shifts_at: the address of the rows' shifts, or 0; the first stage that has tiles subtracts them, which is no
        later than any derivative: what wide gates do to ket and bra they do to the difference."""
        steps, sizes = schedule.steps, schedule.sizes
        end, num_sums = len(steps), rows * max(self._tables.num_sums, 1)
        room.fill(0)
        sums, at = room[:num_sums].reshape(rows, -1), room.data.ptr + room.itemsize * num_sums
        norms: list[_KeptNorm] = []
        for k, (step, support_before) in enumerate(steps):
            # Where stages skip tiles, the shards hold values there that mean nothing, and have no norm to keep. A shift
            # changes the bra's.
            if (
                rows == 1
                and end >= _STAGES_A_NORM
                and k % _STAGES_A_NORM == 1
                and not shifts_at
                and support_before == (1 << self._num_bits) - 1
            ):
                for norm in norms:
                    norm.restore()
                norms = norms or [_KeptNorm(kets.ravel()), _KeptNorm(bras.ravel())]
            if isinstance(step, WideGate):
                for row in (*kets.reshape(rows, -1), *bras.reshape(rows, -1)):
                    step.run(row, offset)
            else:
                own = None if schedule.is_together else self._cupy.zeros(sizes[k])
                partial = at if own is None else own.data.ptr
                at += room.itemsize * sizes[k]
                keep = _KEEP_ALL if recover else _KEEP_LIVE if k + 1 < end else _KEEP_NOTHING
                self._undo(step, kets, bras, offset, support_before, rows, sums, partial, keep, shifts_at)
                shifts_at = 0

    def _schedule(self, support: int, rows: int, recover: bool) -> _Schedule:
        key = support, rows, recover
        found = self._schedules.get(key)
        if found is None:
            extents = self._tables.extents
            wanted = [k for k, step in enumerate(self._steps) if isinstance(step, int) and extents[step].sums[1]]
            end = len(self._steps) if recover else (wanted[-1] + 1 if wanted else 0)
            planned = list(zip(self._steps, self._support(support), self._only_moves))[:end]
            # Qubits that change places leave |0...0> alone.
            steps = [(step, before) for step, before, only_moves in planned if before or not only_moves]
            sizes = [0 if isinstance(s, WideGate) else self._partial_size(s, before, rows)[1] for s, before in steps]
            found = _Schedule(steps, sizes)
            if len(self._schedules) < _MOST_SCHEDULES:
                self._schedules[key] = found
        return found

    def _undo(
        self,
        number: int,
        kets: Any,
        bras: Any,
        offset: int,
        support: int,
        rows: int,
        sums: Any,
        partial: int,
        keep: int,
        shifts_at: int,
    ) -> None:
        """partial: the address of zeros of ``_partial_size``."""
        launcher, warps = self._launcher, self._warps(number)
        first, count = self._tables.extents[number].sums
        blocks, _ = self._partial_size(number, support, rows)
        places, shared_bytes = self._resident[number]
        sweep = self._record
        sweep["bra"], sweep["partial"] = bras.data.ptr, partial
        sweep["shifts"], sweep["num_sums"], sweep["keep"] = shifts_at, count, keep
        more = self._record_bytes, places
        launcher.launch(number, kets, offset, support, (blocks, rows), more, shared_bytes)
        if count:
            kernel = self._sum_kernels.get(number)
            if kernel is None:
                stage = self._tables.stages[number]
                kernel = sum_kernel(self._dtype, self._tables.shape, self._device, stage.rare, stage.long)
                self._sum_kernels[number] = kernel
            to, stride = np.uint64(sums.data.ptr + sums.itemsize * first), np.uint64(sums.shape[1])
            numbers = np.int32(blocks * warps), np.int32(count)
            kernel((count, rows), (256,), (np.uint64(partial), *numbers, to, stride))

    def _partial_size(self, number: int, support: int, rows: int) -> tuple[int, int]:
        """Blocks of a stage's launch, for each row, and the numbers that they add up: each block goes through its share
        of the tiles, each warp has sums of its own."""
        warps, count = self._warps(number), self._tables.extents[number].sums[1]
        room = _PARTIAL_BYTES // (8 * warps * rows * max(count, 1))
        blocks = max(1, min(self._launcher.num_tiles(number, support), self._blocks, room))
        return blocks, max(rows * blocks * warps * count, 1)

    def _warps(self, number: int) -> int:
        return self._launcher.threads(number) // 32

    def _support(self, support: int) -> list[int]:
        """The nonzero-support mask before each step ran, the last one first: undoing it skips the tiles it skipped."""
        everything = (1 << self._num_bits) - 1
        support &= everything
        found = []
        for step, only_moves in zip(reversed(self._steps), reversed(self._only_moves)):
            found.append(support)
            if isinstance(step, WideGate):
                support = everything
            elif support or not only_moves:
                support |= sum(1 << p for p in self._tables.stages[step].tile)
        return found[::-1]
