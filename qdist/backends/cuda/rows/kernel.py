"""A row program on a GPU: its tables there, and the launches of a forward or backward run.

Parameters and results may be on the GPU: then nothing is copied, and nothing waits for it. Values that are given there
in float32 are read as they are, and the results have that dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.compiler import kernel
from qdist.backends.cuda.graphs import Graphs
from qdist.backends.cuda.lowering.records import ROW_LAUNCH
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
_GRADIENTS_SINGLE = 8
"""Of RowLaunch's singles; the bits before say the same of what is given."""


_MOST_GRIDS = 64
"""Kept, two for each size of a batch."""
_MOST_ONES = 8
"""Kinds of backward runs of one row whose memory and graphs are kept."""

_IN_BYTES = np.dtype((np.void, ROW_LAUNCH.dtype.itemsize))
"""A launch without its fields, which CuPy would have NumPy list each time."""
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_READ = (_SINGLE, _DOUBLE)


class _Reading(NamedTuple):
    """Outputs on the device. launch: the bytes of the record that all launches begin with; what it points to is in
    arrays."""

    arrays: dict[str, Any]
    num_outputs: int
    num_masks: int
    launch: bytes


class _Launch(dict[str, int]):
    """The fields of a RowLaunch that differ from launch to launch; those that are not set are 0. NumPy sets a record
    field by field, which takes longer than a launch: here fields that lie together are set together."""

    def __init__(self, outputs: _Reading) -> None:
        self._fixed = outputs.launch

    def __missing__(self, name: str) -> int:
        return 0

    def taken(self) -> NDArray[Any]:
        """The record, as kernels take it."""
        record = bytearray(self._fixed)
        for packed, offset, names in _CHANGING:
            packed.pack_into(record, offset, *[self[name] for name in names])
        return np.frombuffer(record, _IN_BYTES).reshape(())


def _together(*names: str) -> tuple[Struct, int, tuple[str, ...]]:
    """Fields that lie one behind the other, from the first of them on."""
    places = ROW_LAUNCH.dtype.fields
    assert places is not None
    packed = Struct("<" + "".join("Q" if places[name][0].itemsize == 8 else "i" for name in names))
    first, last = places[names[0]], places[names[-1]]
    assert packed.size == last[1] + last[0].itemsize - first[1], f"{names} do not lie together"
    return packed, first[1], names


_ADDRESSES = tuple(field.name for field in ROW_LAUNCH.fields[: [f.name for f in ROW_LAUNCH.fields].index("constants")])
_CHANGING = (
    _together(*_ADDRESSES),
    _together("num_rows"),
    _together("first_op", "undo_start"),
    _together("singles", "known", "row_bytes"),
)


class _Kept(NamedTuple):
    """What a backward run takes over from its forward run: what all rows share, and the outputs in double."""

    common: Any
    values: Any


class _Grid(NamedTuple):
    """A launch of the kernel of rows. scratch, states: numbers of global memory, where shared memory has no room."""

    kernel: Any
    grid: tuple[int]
    block: tuple[int, int]
    row_bytes: int
    shared_bytes: int
    scratch: int
    states: int


class _Room:
    """Arrays that a call takes one after the other; after ``rewind`` the same ones."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._arrays: list[Any] = []
        self._next = 0

    def rewind(self) -> None:
        self._next = 0

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> Any:
        if self._next == len(self._arrays):
            self._arrays.append(self._cupy.empty(shape, dtype))
        self._next += 1
        return self._arrays[self._next - 1]


class _One:
    """Backward runs of one row that the host gives and takes: all memory stays where it is, page-locked on the host,
    and so the launches and the copies before and after them are the same. One thread at a time. numbers, results: how
    many go there and come back."""

    def __init__(self, cupy: Any, numbers: int, results: int) -> None:
        import cupyx

        self.here, self.found = cupyx.empty_pinned(numbers, np.float64), cupyx.empty_pinned(max(results, 1), np.float64)
        self.results, self.there = results, cupy.empty(numbers)
        self.room, self.graphs, self.lock = _Room(cupy), Graphs(), Lock()


class CudaRows:
    """One row program on GPU number ``device``, in complex64 or complex128 arithmetic."""

    def __init__(self, records: RowRecords, in_double: bool, device: int) -> None:
        import cupy

        self._cupy, self._device = cupy, device
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
        # Slots, cosines and sines of angles, phases, and in fixed point: each begins at a multiple of 16 bytes.
        item, phases = self._dtype.itemsize, self._tables.num_diagonals << self._n
        sizes = [8 * self._num_slots, item * self._num_angles, item * phases, item // 2 * phases * self._far]
        self._common_starts = np.cumsum([0] + [-(-size // 16) * 16 for size in sizes]).tolist()
        self._grids: dict[tuple[str, int, int], _Grid] = {}
        self._ones: dict[tuple[bytes, bool, bool], _One] = {}
        self._nothing = self.outputs(RowOutputRecords(self._n, 0, *_no_strings(self._n)))

    def outputs(self, records: RowOutputRecords) -> _Reading:
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
        given = at | tables.numbers | fixed
        launch = ROW_LAUNCH.filled({field.name: given.get(field.name, 0) for field in ROW_LAUNCH.fields})
        return _Reading(arrays, records.num_outputs, num_masks, launch.tobytes())

    def kept_bytes(self, count: int) -> int:
        """Nothing: states are computed again, which takes less time than memory does."""
        return 0

    def forward(self, rows: Any, shared: Any, outputs: _Reading, keep: bool) -> tuple[Any, Any] | None:
        with self._cupy.cuda.Device(self._device):
            given = self._given(rows, shared)
            if given is None:
                return None
            launch, shape = given.launch(outputs), (len(rows), outputs.num_outputs)
            values = found = self._cupy.empty(shape)
            launch["values"] = values.data.ptr
            if given.result == _SINGLE:
                found = self._cupy.empty(shape, np.float32)
                launch["single_values"] = found.data.ptr
            common = self._run("forward", launch, len(rows), outputs, None, _Room(self._cupy))
            return (found if given.on_device else found.get()), _Kept(common, values) if keep else None

    def backward(
        self,
        rows: Any,
        shared: Any,
        outputs: _Reading,
        cotangents: Any,
        by_rows: bool,
        by_shared: bool,
        kets: _Kept | None = None,
        values: Any = None,
    ) -> tuple[Any, Any, Any] | None:
        cupy, count, width = self._cupy, len(rows), outputs.num_outputs
        known = kets is not None and values is not None
        # All that is computed, in one piece: it may go to the host in one copy.
        first = 0 if known else count * width
        second = first + self._num_shared * by_shared
        ends = first, second, second + count * self._per_row * by_rows
        with cupy.cuda.Device(self._device):
            if count == 1 and kets is None and not self._on_device(rows, shared, cotangents):
                all_found = self._back_of_one(rows, shared, outputs, cotangents, ends, by_rows, by_shared)
                if all_found is None:
                    return None
            else:
                given = self._given(rows, shared, cotangents)
                if given is None:
                    return None
                found = self._launch_back(given, outputs, ends, by_rows, by_shared, kets, known, _Room(cupy))
                all_found = found if given.on_device else found.get()
        return (
            values if known else _part(all_found, 0, ends[0]).reshape(count, width),
            _part(all_found, ends[1], ends[2]).reshape(count, self._per_row) if by_rows else None,
            _part(all_found, ends[0], ends[1]) if by_shared else None,
        )

    def _back_of_one(
        self,
        rows: Any,
        shared: Any,
        outputs: _Reading,
        cotangents: Any,
        ends: tuple[int, int, int],
        by_rows: bool,
        by_shared: bool,
    ) -> Any:
        """What a backward run of one row finds, on the host; None where a value is not finite."""
        key = outputs.launch, by_rows, by_shared
        one = self._ones.get(key)
        if one is None:
            if len(self._ones) >= _MOST_ONES:
                self._ones.clear()
            numbers = self._per_row + self._num_shared + outputs.num_outputs + 1
            one = self._ones[key] = _One(self._cupy, numbers, ends[2])
        arrays, runtime = (rows, shared, cotangents), self._cupy.cuda.runtime
        with one.lock:
            _put(arrays, one.here)
            if not np.isfinite(one.here).all():
                return None

            def launches() -> None:
                stream = self._cupy.cuda.get_current_stream().ptr
                there, here = one.there.data.ptr, one.here.ctypes.data
                runtime.memcpyAsync(there, here, one.here.nbytes, runtime.memcpyHostToDevice, stream)
                given = _Given(_addresses(there, arrays), [one.there], 1, 0, _DOUBLE, False)
                one.room.rewind()
                found = self._launch_back(given, outputs, ends, by_rows, by_shared, None, False, one.room)
                to, nbytes = one.found.ctypes.data, 8 * one.results
                runtime.memcpyAsync(to, found.data.ptr, nbytes, runtime.memcpyDeviceToHost, stream)

            one.graphs.run(None, launches)
            self._cupy.cuda.get_current_stream().synchronize()
            return one.found[: one.results].copy()

    def _on_device(self, *arrays: Any) -> bool:
        return any(isinstance(array, self._cupy.ndarray) for array in arrays)

    def _launch_back(
        self,
        given: _Given,
        outputs: _Reading,
        ends: tuple[int, int, int],
        by_rows: bool,
        by_shared: bool,
        kets: _Kept | None,
        known: bool,
        room: _Room,
    ) -> Any:
        """Queues a backward run; the values end at ends[0] of what it gives, then come the derivatives by the shared
        parameters and by those of rows."""
        launch, count = given.launch(outputs), given.num_rows
        found = room.empty(ends[2], given.result)
        in_double = kets.values if kets is not None and known else found
        if given.result == _SINGLE and not known:
            in_double = room.empty(count * outputs.num_outputs)
            launch["single_values"] = found.data.ptr
        by_angle = room.empty((max(1, self._num_angles), max(1, count)))
        launch["values"], launch["known"] = in_double.data.ptr, known
        launch["by_angle"] = by_angle.data.ptr
        launch["first_op"] = self._tables.first_op[by_rows, by_shared]
        launch["undo_start"] = self._tables.undo_start[by_rows, by_shared]
        self._run("backward", launch, count, outputs, None if kets is None else kets.common, room)
        at, item = found.data.ptr, given.result.itemsize
        if ends[1] > ends[0]:
            self._start("shared_gradients", self._num_shared, launch, at + item * ends[0])
        if ends[2] > ends[1]:
            self._start("row_gradients", -(-(ends[2] - ends[1]) // _THREADS), launch, at + item * ends[1])
        return found

    def states(self, rows: Any, shared: Any, out: Any) -> bool:
        with self._cupy.cuda.Device(self._device):
            given = self._given(rows, shared)
            if given is None:
                return False
            found = self._cupy.empty(out.shape, self._dtype)
            launch = given.launch(self._nothing)
            launch["states"] = found.data.ptr
            self._run("forward", launch, len(rows), self._nothing, None, _Room(self._cupy))
            out[...] = found.astype(out.dtype, copy=False) if isinstance(out, self._cupy.ndarray) else found.get()
            return True

    # Launches --------------------------------------------------------------------------------------------------------

    def _given(self, *arrays: Any) -> _Given | None:
        """Rows, shared parameters and cotangents on the device; those of the host go there in one copy. None if one of
        the host's has a value that is not finite."""
        cupy, count = self._cupy, len(arrays[0])
        if self._on_device(*arrays):
            read = [_readable(cupy, array) for array in arrays]
            singles = sum(1 << k for k, array in enumerate(read) if array.dtype == _SINGLE)
            # Parameters in double have derivatives in double.
            single = all(array.dtype == _SINGLE for array in read[:2] if array.size or array is read[0])
            return _Given([a.data.ptr for a in read], read, count, singles, _SINGLE if single else _DOUBLE, True)
        stage = staging(self._device)
        # One number more, so that there is an address where there is no value.
        room = stage.room(8 * (1 + sum(array.size for array in arrays))).view(np.float64)
        _put(arrays, room)
        if not np.isfinite(room).all():
            return None
        whole = stage.send()
        return _Given(_addresses(whole.data.ptr, arrays), [whole], count, 0, _DOUBLE, False)

    def _run(self, name: str, launch: _Launch, count: int, outputs: _Reading, common: Any, room: _Room) -> Any:
        """What all rows share, unless an earlier run has computed it, then the rows. Returns what they share. room:
        used until the launches are queued; freed memory is then used again in their order."""
        known = common is not None
        if not known:
            common = room.empty(self._common_starts[-1] + 1, np.uint8)
        at = common.data.ptr
        for field, start in zip(("shared_slots", "turned", "phases", "far_turns"), self._common_starts):
            launch[field] = at + start
        if count == 0:
            return common
        grid = self._grids.get((name, count, outputs.num_masks))
        if grid is None:
            grid = self._grid(name, count, outputs.num_masks)
        if grid.scratch:
            launch["scratch"] = room.empty(grid.scratch, self._real).data.ptr
        if grid.states:
            launch["far_states"] = room.empty(grid.states, self._real).data.ptr
        launch["row_bytes"] = grid.row_bytes
        taken = (launch.taken(),)
        if not known:
            blocks, threads = 1 + self._tables.num_diagonals, self._prepare_threads
            self._prepare((blocks,), (threads,), taken, shared_mem=self._prepare_bytes)
        grid.kernel(grid.grid, grid.block, taken, shared_mem=grid.shared_bytes)
        return common

    @cached_property
    def _prepare(self) -> Any:
        prefix = "far_" if self._far else ""
        return kernel(f"{prefix}rows", f"prepare_{prefix}rows", self._dtype, self._device)

    def _grid(self, name: str, count: int, num_masks: int) -> _Grid:
        back, prefix, real = name == "backward", "far_" if self._far else "", self._real.itemsize
        needed = far_bytes(self._n, real) if self._far else state_bytes(self._n, real, back)
        blocks = min(count, self._far_blocks) if self._far else count
        numbers = 2 * self._num_angles + num_masks
        scratch = states = 0
        if needed + real * numbers <= self._room:
            needed += real * numbers
        else:
            scratch = blocks * numbers
        if self._far:
            states = blocks * state_numbers(self._n, back)
        row_bytes = -(-needed // 16) * 16
        teams = 1 if self._threads > _WARP else max(1, min(_MOST_TEAMS, count, self._room // row_bytes))
        run = _with_room(f"{prefix}rows", f"{prefix}rows_{name}", self._dtype, self._device, teams * row_bytes)
        sizes = (-(-blocks // teams),), (self._threads, teams)
        found = _Grid(run, *sizes, row_bytes, teams * row_bytes, scratch, states)
        if len(self._grids) < _MOST_GRIDS:
            self._grids[name, count, num_masks] = found
        return found

    def _start(self, name: str, blocks: int, launch: _Launch, to: int) -> None:
        taken = launch.taken(), np.uint64(to)
        kernel("rows", name, self._dtype, self._device)((blocks,), (_THREADS,), taken)


class _Given(NamedTuple):
    """What a call is given, on the device. addresses: of rows, shared parameters and cotangents, if there are; singles:
    as RowLaunch has it; result: the dtype of results."""

    addresses: list[int]
    arrays: list[Any]
    num_rows: int
    singles: int
    result: np.dtype[Any]
    on_device: bool

    def launch(self, outputs: _Reading) -> _Launch:
        """What all kernels of a call take."""
        launch = _Launch(outputs)
        for field, address in zip(("row_values", "shared_values", "cotangents"), self.addresses):
            launch[field] = address
        launch["num_rows"] = self.num_rows
        launch["singles"] = self.singles | (_GRADIENTS_SINGLE if self.result == _SINGLE else 0)
        return launch


def _put(arrays: Sequence[Any], room: NDArray[np.float64]) -> None:
    """Writes arrays one behind the other, and a number that is never read."""
    begin = 0
    for array in arrays:
        room[begin : begin + array.size] = np.ravel(array)
        begin += array.size
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


def _readable(cupy: Any, array: Any) -> Any:
    """On the device and contiguous, in a precision that kernels read."""
    if isinstance(array, cupy.ndarray) and array.dtype in _READ and array.flags.c_contiguous:
        return array
    if array.dtype not in _READ:
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
