"""A row program on a GPU: its tables there, and the launches of a forward or backward run.

Parameters and results may be on the GPU: then nothing is copied, and nothing waits for it. Values that are given there
in float32 are read as they are, and the results have that dtype. A call takes its memory in one piece, besides what it
returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.compiler import kernel
from qdist.backends.cuda.graphs import Graphs
from qdist.backends.cuda.rows.launches import Call, CallPlan, Reading, aligned, fixed_part, record
from qdist.backends.cuda.rows.outputs import output_tables
from qdist.backends.cuda.rows.tables import far_bytes, row_tables, state_bytes, state_numbers
from qdist.backends.cuda.staging import staging
from qdist.plan.observables.row_outputs import RowOutputRecords
from qdist.plan.rows.records import RowRecords

__all__ = ["CudaRows"]

_WARP, _MOST_THREADS, _NUMBERS_A_THREAD = 32, 512, 8
_PHASES_A_THREAD = 8
"""Of a table, whose cosines and sines in double take longest."""
_MOST_TEAMS = 4
"""Rows of a warp each that share a block."""
_FAR_BLOCKS = 2
"""Of a multiprocessor, at most, where states are in global memory."""
_THREADS = 256

_MOST_ONES = 8
"""Kinds of backward runs of one row whose memory and graphs are kept."""

_KEPT_BYTES = 1 << 27
"""States of a forward run that are kept for its backward run."""
_MOST_CALLS = 64
"""Kept of a reading."""

_Common = tuple[int, int, int, int]
"""Addresses of what all rows share: shared_slots, turned, phases and far_turns of RowLaunch."""


class _Kept(NamedTuple):
    """What a backward run takes over from its forward run: the addresses of what all rows share, of the outputs in
    double, and of the states, if these were kept. memory: of all."""

    memory: Any
    common: int
    values: int
    kets: int


class _One:
    """Backward runs of one row that the host gives and takes: all memory stays where it is, page-locked on the host,
    and so the launches and the copies before and after them are the same. One thread at a time. numbers, results: how
    many go there and come back; nbytes: memory of a call."""

    def __init__(self, cupy: Any, numbers: int, results: int, nbytes: int) -> None:
        import cupyx

        self.here, self.found = cupyx.empty_pinned(numbers, np.float64), cupyx.empty_pinned(max(results, 1), np.float64)
        self.results, self.there, self.memory = results, cupy.empty(numbers), cupy.cuda.alloc(nbytes)
        self.graphs, self.lock = Graphs(), Lock()


class CudaRows:
    """One row program on GPU number ``device``, in complex64 or complex128 arithmetic."""

    def __init__(self, records: RowRecords, in_double: bool, device: int) -> None:
        import cupy

        self._cupy, self._device = cupy, device
        self._is_only = cupy.cuda.runtime.getDeviceCount() == 1
        self._real = np.dtype(np.float64 if in_double else np.float32)
        self._dtype = np.dtype(np.complex128 if in_double else np.complex64)
        self._n, self._per_row, self._num_shared = records.num_qubits, records.per_row, records.num_shared
        self._num_angles, self._num_slots = len(records.constants), len(records.slot_constants)
        card = cupy.cuda.runtime.getDeviceProperties(device)
        self._room = card["sharedMemPerBlockOptin"]
        self._far = state_bytes(self._n, self._real.itemsize, back=True) > self._room
        # As many blocks as find their states in the L2 cache, but one for each multiprocessor.
        cached = card["l2CacheSize"] // (self._real.itemsize * state_numbers(self._n, back=True))
        processors = card["multiProcessorCount"]
        self._far_blocks = max(processors, min(cached, _FAR_BLOCKS * processors))
        self._threads = min(_MOST_THREADS, max(_WARP, (2 << self._n) // _NUMBERS_A_THREAD))
        self._tables = row_tables(records, self._threads, self._far)
        arrays = self._tables.arrays | {"matrices": records.matrices.astype(self._dtype)}
        with cupy.cuda.Device(device):
            self._arrays = {name: _on_device(cupy, array) for name, array in arrays.items()}
        self._prepare_bytes = 0 if self._far else self._real.itemsize << self._n
        self._prepare_threads = min(_MOST_THREADS, max(_THREADS, (1 << self._n) // _PHASES_A_THREAD))
        self._phase = records.phase
        # Slots, cosines and sines of angles, phases, and in fixed point.
        item, phases = self._dtype.itemsize, self._tables.num_diagonals << self._n
        self._common = aligned(
            8 * self._num_slots, item * self._num_angles, item * phases, item // 2 * phases * self._far
        )
        self._ones: dict[tuple[bytes, bool, bool], _One] = {}
        self._sums: dict[str, Any] = {}
        self._nothing = self.outputs(RowOutputRecords(self._n, 0, *_no_strings(self._n)))

    def outputs(self, records: RowOutputRecords) -> Reading:
        tables = output_tables(records)
        with self._cupy.cuda.Device(self._device):
            arrays = {name: _on_device(self._cupy, array) for name, array in tables.arrays.items()}
        num_masks = len(tables.arrays["masks"])
        at = {name: array.data.ptr for name, array in (*self._arrays.items(), *arrays.items())}
        fixed = {
            "num_bits": self._n,
            "per_row": self._per_row,
            "num_angles": self._num_angles,
            "num_slots": self._num_slots,
            "num_ops": len(self._tables.arrays["ops"]),
            "num_masks": num_masks,
            "phase": self._phase,
        }
        return Reading(arrays, records.num_outputs, num_masks, fixed_part(at | tables.numbers | fixed), {})

    def kept_bytes(self, count: int) -> int:
        """Nothing that would be too much: states are kept up to a limit of this device's, and the rest always is."""
        return 0

    def forward(self, rows: Any, shared: Any, outputs: Reading, keep: bool) -> tuple[Any, Any] | None:
        if self._is_only:
            return self._forward(rows, shared, outputs, keep)
        with self._cupy.cuda.Device(self._device):
            return self._forward(rows, shared, outputs, keep)

    def _forward(self, rows: Any, shared: Any, outputs: Reading, keep: bool) -> tuple[Any, Any] | None:
        cupy, count = self._cupy, len(rows)
        given = self._given(rows, shared)
        if given is None:
            return None
        addresses, _given, singles, on_device = given
        call = self._call(outputs, count, singles)
        plan = call.plan
        found = cupy.empty((count, outputs.num_outputs), call.result)
        keeps_kets = keep and 0 < plan.kets <= _KEPT_BYTES
        memory = cupy.cuda.alloc(plan.nbytes + plan.kets if keeps_kets else plan.nbytes)
        at, to = memory.ptr, found.data.ptr
        kets = at + plan.nbytes if keeps_kets else 0
        call.graphs.run((at, to, kets, *addresses), self._launch_forward, call, addresses, count, at, to, kets)
        kept = _Kept((memory, found), at + plan.common, at + plan.values if call.single else to, kets) if keep else None
        return (found if on_device else found.get()), kept

    def _launch_forward(self, call: Call, given: Sequence[int], count: int, memory: int, to: int, kets: int) -> None:
        """Queues a forward run; arguments as those of ``_launch_back``. kets: where states are kept, or 0."""
        values, single = (memory + call.plan.values, to) if call.single else (to, 0)
        common = self._common_at(memory + call.plan.common)
        own, all_rows = given
        launch = record(call, memory, common, own, all_rows, values, single, kets=kets)
        self._run(call, launch, count, prepare=True)

    def backward(
        self,
        rows: Any,
        shared: Any,
        outputs: Reading,
        cotangents: Any,
        by_rows: bool,
        by_shared: bool,
        kets: _Kept | None = None,
        values: Any = None,
    ) -> tuple[Any, Any, Any] | None:
        if self._is_only:
            return self._backward(rows, shared, outputs, cotangents, by_rows, by_shared, kets, values)
        with self._cupy.cuda.Device(self._device):
            return self._backward(rows, shared, outputs, cotangents, by_rows, by_shared, kets, values)

    def _backward(
        self,
        rows: Any,
        shared: Any,
        outputs: Reading,
        cotangents: Any,
        by_rows: bool,
        by_shared: bool,
        kets: _Kept | None,
        values: Any,
    ) -> tuple[Any, Any, Any] | None:
        cupy, count = self._cupy, len(rows)
        known = kets is not None and values is not None
        if count == 1 and kets is None and not self._on_device(rows, shared, cotangents):
            call = self._call(outputs, 1, 0, known, by_rows, by_shared)
            found = self._back_of_one(rows, shared, outputs, cotangents, call, (by_rows, by_shared))
            if found is None:
                return None
        else:
            given = self._given(rows, shared, cotangents)
            if given is None:
                return None
            addresses, _given, singles, on_device = given
            call = self._call(outputs, count, singles, known, by_rows, by_shared)
            found = cupy.empty(call.ends[2], call.result)
            memory = cupy.cuda.alloc(call.plan.own if known else call.plan.nbytes)
            at, to, before = memory.ptr, found.data.ptr, None if kets is None else kets[1:]
            call.graphs.run(
                (at, to, before, *addresses), self._launch_back, call, addresses, count, before, known, at, to
            )
            if not on_device:
                found = found.get()
        first, second, end = call.ends
        return (
            values if known else _part(found, 0, first).reshape(count, outputs.num_outputs),
            _part(found, second, end).reshape(count, self._per_row) if by_rows else None,
            _part(found, first, second) if by_shared else None,
        )

    def _back_of_one(
        self, rows: Any, shared: Any, outputs: Reading, cotangents: Any, call: Call, wanted: tuple[bool, bool]
    ) -> Any:
        """What a backward run of one row finds, on the host; None where a value is not finite. wanted: derivatives by
        parameters of rows, by shared ones."""
        key = outputs.fixed, *wanted
        one = self._ones.get(key)
        if one is None:
            if len(self._ones) >= _MOST_ONES:
                self._ones.clear()
            numbers = self._per_row + self._num_shared + outputs.num_outputs + 1
            one = self._ones[key] = _One(self._cupy, numbers, call.ends[2], call.plan.nbytes)
        arrays, runtime = (rows, shared, cotangents), self._cupy.cuda.runtime
        with one.lock:
            _put(arrays, one.here)
            if not np.logical_and.reduce(np.isfinite(one.here)):
                return None

            def launches() -> None:
                stream = self._cupy.cuda.get_current_stream().ptr
                there, here = one.there.data.ptr, one.here.ctypes.data
                runtime.memcpyAsync(there, here, one.here.nbytes, runtime.memcpyHostToDevice, stream)
                # Kernels write results to the host's memory themselves.
                to = one.found.ctypes.data
                self._launch_back(call, _addresses(there, arrays), 1, None, False, one.memory.ptr, to)

            one.graphs.run(None, launches)
            self._cupy.cuda.get_current_stream().synchronize()
            return one.found[: one.results].copy()

    def _on_device(self, *arrays: Any) -> bool:
        kind = self._cupy.ndarray
        return arrays[0].__class__ is kind or any([isinstance(array, kind) for array in arrays])

    def _launch_back(
        self,
        call: Call,
        given: Sequence[int],
        count: int,
        before: tuple[int, int, int] | None,
        known: bool,
        memory: int,
        to: int,
    ) -> None:
        """Queues a backward run, whose results go ``to`` an address. given: addresses; before: those that its forward
        run has left, as _Kept has them; memory: the call's."""
        common, values, kets = (memory + call.plan.common, to, 0) if before is None else before
        single = 0
        if not known:
            values, single = (memory + call.plan.values, to) if call.single else (to, 0)
        rows, shared, cotangents = given
        at = self._common_at(common)
        launch = record(call, memory, at, rows, shared, values, single, cotangents, memory, kets=kets)
        self._run(call, launch, count, prepare=before is None)
        item, (first, second, end) = call.result.itemsize, call.ends
        if second > first:
            grid = (self._num_shared,)
            self._sum_kernel("shared_gradients")(grid, (_THREADS,), (launch, np.uint64(to + item * first)))
        if end > second:
            grid = (-(-(end - second) // _THREADS),)
            self._sum_kernel("row_gradients")(grid, (_THREADS,), (launch, np.uint64(to + item * second)))

    def states(self, rows: Any, shared: Any, out: Any) -> bool:
        cupy, count = self._cupy, len(rows)
        with cupy.cuda.Device(self._device):
            given = self._given(rows, shared)
            if given is None:
                return False
            addresses, _given, singles, _ = given
            call = self._call(self._nothing, count, singles)
            found, memory = cupy.empty(out.shape, self._dtype), cupy.cuda.alloc(call.plan.nbytes)
            common = self._common_at(memory.ptr + call.plan.common)
            own, all_rows = addresses
            launch = record(call, memory.ptr, common, own, all_rows, 0, states=found.data.ptr)
            self._run(call, launch, count, prepare=True)
            out[...] = found.astype(out.dtype, copy=False) if isinstance(out, cupy.ndarray) else found.get()
            return True

    # Launches --------------------------------------------------------------------------------------------------------

    def _given(self, *arrays: Any) -> tuple[Sequence[int], Sequence[Any], int, bool] | None:
        """Rows, shared parameters and cotangents, if there are, on the device: their addresses, the arrays that hold
        them, which are single as RowLaunch has it, and whether they were there. Those of the host go there in one copy.
        None if one of the host's has a value that is not finite."""
        kind = self._cupy.ndarray
        if arrays[0].__class__ is kind or self._on_device(*arrays):
            addresses, singles, bit, kept = [], 0, 1, arrays
            for k, array in enumerate(arrays):
                char = array.dtype.char
                if array.__class__ is not kind or char not in "fd" or not array.flags.c_contiguous:
                    array = _converted(self._cupy, array)
                    kept, char = (*kept[:k], array, *kept[k + 1 :]), array.dtype.char
                if char == "f":
                    singles |= bit
                bit <<= 1
                addresses.append(array.data.ptr)
            return addresses, kept, singles, True
        stage = staging(self._device)
        # One number more, so that there is an address where there is no value.
        room = stage.room(8 * (1 + sum(array.size for array in arrays))).view(np.float64)
        _put(arrays, room)
        if not np.isfinite(room).all():
            return None
        whole = stage.send()
        return _addresses(whole.data.ptr, arrays), [whole], 0, False

    def _common_at(self, at: int) -> _Common:
        slots, turned, phases, far_turns, _ = self._common
        return at + slots, at + turned, at + phases, at + far_turns

    def _call(self, outputs: Reading, count: int, singles: int, known: bool = False, *wanted: bool) -> Call:
        """A forward run of so many rows, or a backward run. singles: of what is given; known: whether the outputs are;
        wanted: whether derivatives by parameters of rows and by shared ones are."""
        key = count, singles, known, *wanted
        return outputs.calls.get(key) or self._made_call(outputs, key, wanted)

    def _made_call(self, outputs: Reading, key: tuple[int, ...], wanted: tuple[bool, ...]) -> Call:
        count, singles, known = key[:3]
        # Parameters in double have derivatives in double.
        single = bool(singles & 1 and (singles & 2 or not self._num_shared))
        way_back, ends = (0, 0), (0, 0, 0)
        if wanted:
            by_rows, by_shared = wanted
            way_back = self._tables.first_op[by_rows, by_shared], int(self._tables.undo_start[by_rows, by_shared])
            first = 0 if known else count * outputs.num_outputs
            second = first + self._num_shared * by_shared
            ends = first, second, second + count * self._per_row * by_rows
        plan = self._planned(bool(wanted), count, outputs)
        found = Call.of(plan, outputs, count, way_back, singles, bool(known), single, ends)
        if len(outputs.calls) < _MOST_CALLS:
            outputs.calls[key] = found
        return found

    def _run(self, call: Call, launch: NDArray[Any], count: int, prepare: bool) -> None:
        """Queues what all rows share, unless an earlier run has computed it, then the rows."""
        if count:
            if prepare:
                grid = (1 + self._tables.num_diagonals,)
                self._prepare(grid, (self._prepare_threads,), (launch,), shared_mem=self._prepare_bytes)
            plan = call.plan
            plan.kernel(plan.grid, plan.block, (launch,), shared_mem=plan.shared_bytes)

    @cached_property
    def _prepare(self) -> Any:
        prefix = "far_" if self._far else ""
        return kernel(f"{prefix}rows", f"prepare_{prefix}rows", self._dtype, self._device)

    def _sum_kernel(self, name: str) -> Any:
        """One that adds up derivatives by angles to those by parameters."""
        found = self._sums.get(name)
        if found is None:
            found = self._sums[name] = kernel("rows", name, self._dtype, self._device)
        return found

    def _planned(self, back: bool, count: int, outputs: Reading) -> CallPlan:
        prefix, real = "far_" if self._far else "", self._real.itemsize
        needed = far_bytes(self._n, real) if self._far else state_bytes(self._n, real, back)
        blocks = min(count, self._far_blocks) if self._far else count
        numbers = 2 * self._num_angles + outputs.num_masks
        scratch = states = 0
        if needed + real * numbers <= self._room:
            needed += real * numbers
        else:
            scratch = real * blocks * numbers
        if self._far:
            states = real * blocks * state_numbers(self._n, back)
        row_bytes = -(-needed // 16) * 16
        teams = 1 if self._threads > _WARP else max(1, min(_MOST_TEAMS, count, self._room // row_bytes))
        name = f"{prefix}rows_{'backward' if back else 'forward'}"
        run = _with_room(f"{prefix}rows", name, self._dtype, self._device, teams * row_bytes)
        by_angle = 8 * max(1, self._num_angles) * max(1, count) if back else 0
        in_double = 8 * count * outputs.num_outputs
        _, first, second, own, common, end = aligned(by_angle, scratch, states, in_double, self._common[-1] + 1)
        return CallPlan(
            run,
            (-(-blocks // teams),),
            (self._threads, teams),
            row_bytes,
            teams * row_bytes,
            first if scratch else None,
            second if states else None,
            max(own, 16),
            own,
            common,
            end,
            count * self._real.itemsize << self._n + 1,
        )


def _put(arrays: Sequence[Any], room: NDArray[np.float64]) -> None:
    """Writes arrays one behind the other, and a number that is never read."""
    begin = 0
    for array in arrays:
        size = array.size
        if size:
            room[begin : begin + size] = array.ravel()
            begin += size
    room[begin] = 0


def _addresses(at: int, arrays: Sequence[Any]) -> list[int]:
    """Where ``_put`` has put each of them, in memory that begins at an address."""
    found = []
    for array in arrays:
        found.append(at)
        at += 8 * array.size
    return found


@lru_cache(maxsize=256)
def _with_room(module: str, name: str, dtype: np.dtype[Any], device: int, shared_bytes: int) -> Any:
    """A kernel that may have so much shared memory."""
    found = kernel(module, name, dtype, device)
    found.max_dynamic_shared_size_bytes = max(shared_bytes, found.max_dynamic_shared_size_bytes)
    return found


def _part(array: Any, begin: int, end: int) -> Any:
    """array[begin:end]; the array itself, which whoever gets it may keep, where that is all of it."""
    return array if end - begin == len(array) else array[begin:end]


def _converted(cupy: Any, array: Any) -> Any:
    """On the device and contiguous, in a precision that kernels read."""
    if array.dtype.char not in "fd":
        array = array.astype(np.float64)
    return cupy.ascontiguousarray(cupy.asarray(array))


def _no_strings(num_qubits: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return np.zeros((0, 4), np.int64), np.zeros(0), np.zeros((0, num_qubits + 3), np.int64)


def _on_device(cupy: Any, array: NDArray[Any]) -> Any:
    """The array on the GPU, records as bytes; of an empty one a number that is never read, as an address is needed."""
    flat = np.ascontiguousarray(array)
    if flat.size == 0:
        return cupy.zeros(1, np.uint64)
    return cupy.asarray(flat.view(np.uint8) if flat.dtype.fields is not None else flat)
