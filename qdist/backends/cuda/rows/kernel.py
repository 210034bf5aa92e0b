"""A row program on a GPU: its tables there, and the launches of a forward or backward run.

Parameters and results may be on the GPU: then nothing is copied, and nothing waits for it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.compiler import kernel
from qdist.backends.cuda.lowering.records import ROW_LAUNCH
from qdist.backends.cuda.rows.outputs import output_tables
from qdist.backends.cuda.rows.tables import row_tables, state_bytes
from qdist.plan.observables.row_outputs import RowOutputRecords
from qdist.plan.rows.records import RowRecords

__all__ = ["CudaRows"]

_WARP, _MOST_THREADS, _NUMBERS_A_THREAD = 32, 512, 16
_MOST_TEAMS = 4
"""Rows of a warp each that share a block."""
_THREADS = 256


class _Reading(NamedTuple):
    """Outputs on the device. launch: the record that all launches begin with; what it points to is in arrays."""

    arrays: dict[str, Any]
    num_outputs: int
    num_masks: int
    launch: NDArray[Any]


class CudaRows:
    """One row program on GPU number ``device``, in complex64 or complex128 arithmetic."""

    def __init__(self, records: RowRecords, in_double: bool, device: int) -> None:
        import cupy

        self._cupy, self._device = cupy, device
        self._real = np.dtype(np.float64 if in_double else np.float32)
        self._dtype = np.dtype(np.complex128 if in_double else np.complex64)
        self._n, self._per_row, self._num_shared = records.num_qubits, records.per_row, records.num_shared
        self._num_angles, self._num_slots = len(records.constants), len(records.slot_constants)
        self._threads = min(_MOST_THREADS, max(_WARP, (2 << self._n) // _NUMBERS_A_THREAD))
        self._tables = row_tables(records, self._threads)
        arrays = self._tables.arrays | {"matrices": records.matrices.astype(self._dtype)}
        self._room = cupy.cuda.runtime.getDeviceProperties(device)["sharedMemPerBlockOptin"]
        with cupy.cuda.Device(device):
            self._arrays = {name: _on_device(cupy, array) for name, array in arrays.items()}
        self._phase = records.phase
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
        return _Reading(arrays, records.num_outputs, num_masks, launch)

    def kept_bytes(self, count: int) -> int:
        """Nothing: states are computed again, which takes less time than memory does."""
        return 0

    def forward(self, rows: Any, shared: Any, outputs: _Reading, keep: bool) -> tuple[Any, Any] | None:
        with self._cupy.cuda.Device(self._device):
            given = self._given(rows, shared)
            if given is None:
                return None
            values = self._cupy.empty((len(rows), outputs.num_outputs))
            launch = self._launch(given, len(rows), outputs, values)
            self._run("rows_forward", launch, len(rows), outputs)
            return (values if _is_on_device(rows) else values.get()), None

    def backward(
        self,
        rows: Any,
        shared: Any,
        outputs: _Reading,
        cotangents: Any,
        by_rows: bool,
        by_shared: bool,
        kets: Any = None,
        values: Any = None,
    ) -> tuple[Any, Any, Any] | None:
        cupy, count = self._cupy, len(rows)
        with cupy.cuda.Device(self._device):
            given = self._given(rows, shared, cotangents)
            if given is None:
                return None
            width = outputs.num_outputs
            sizes = [count * width, self._num_shared * by_shared, count * self._per_row * by_rows]
            found = cupy.empty(sum(sizes))
            ends = np.cumsum(sizes).tolist()
            by_angle = cupy.empty((max(1, self._num_angles), max(1, count)))
            launch = self._launch(given, count, outputs, found)
            launch["cotangents"], launch["by_angle"] = given[2].data.ptr, by_angle.data.ptr
            launch["first_op"] = self._tables.first_op[by_rows, by_shared]
            launch["undo_start"] = self._tables.undo_start[by_rows, by_shared]
            self._run("rows_backward", launch, count, outputs)
            if sizes[1]:
                self._start("shared_gradients", self._num_shared, launch, found[ends[0] :])
            if sizes[2]:
                self._start("row_gradients", -(-sizes[2] // _THREADS), launch, found[ends[1] :])
            on_host = not _is_on_device(rows)
            all_found = found.get() if on_host else found
            return (
                all_found[: ends[0]].reshape(count, width),
                all_found[ends[1] : ends[2]].reshape(count, self._per_row) if by_rows else None,
                all_found[ends[0] : ends[1]] if by_shared else None,
            )

    def states(self, rows: Any, shared: Any, out: Any) -> bool:
        with self._cupy.cuda.Device(self._device):
            given = self._given(rows, shared)
            if given is None:
                return False
            found = self._cupy.empty(out.shape, self._dtype)
            launch = self._launch(given, len(rows), self._nothing, None)
            launch["states"] = found.data.ptr
            self._run("rows_forward", launch, len(rows), self._nothing)
            out[...] = found.astype(out.dtype, copy=False) if _is_on_device(out) else found.get()
            return True

    # Launches --------------------------------------------------------------------------------------------------------

    def _given(self, *arrays: Any) -> list[Any] | None:
        """Float64 arrays on the device; those of the host go there in one copy. None if one of the host's has a value
        that is not finite."""
        cupy = self._cupy
        if any(_is_on_device(array) for array in arrays):
            return [cupy.ascontiguousarray(cupy.asarray(array), np.float64) for array in arrays]
        flat = np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays] + [np.zeros(1)])
        if not np.isfinite(flat).all():
            return None
        there = cupy.asarray(flat)
        ends = np.cumsum([array.size for array in arrays]).tolist()
        return [there[end - array.size :] for array, end in zip(arrays, ends)]

    def _launch(self, given: list[Any], count: int, outputs: _Reading, values: Any) -> NDArray[Any]:
        """The record that all kernels of a call take."""
        launch = outputs.launch.copy()
        launch["row_values"], launch["shared_values"] = given[0].data.ptr, given[1].data.ptr
        launch["values"], launch["num_rows"] = 0 if values is None else values.data.ptr, count
        return launch

    def _run(self, name: str, launch: NDArray[Any], count: int, outputs: _Reading) -> None:
        """What all rows share, then the rows."""
        if count == 0:
            return
        empty, angles, item = self._cupy.empty, self._num_angles, self._dtype.itemsize
        # Slots, cosines and sines of angles, and phases: each begins at a multiple of 16 bytes.
        starts = np.cumsum([0, -(-self._num_slots // 2) * 16, -(-angles * item // 16) * 16]).tolist()
        common = empty(starts[2] + (self._tables.num_diagonals * item << self._n) + 1, np.uint8)
        for field, start in zip(("shared_slots", "turned", "phases"), starts):
            launch[field] = common.data.ptr + start
        needed = state_bytes(self._n, self._real.itemsize, name == "rows_backward")
        numbers = 2 * angles + outputs.num_masks
        scratch = None
        if needed + self._real.itemsize * numbers <= self._room:
            needed += self._real.itemsize * numbers
        else:
            scratch = empty(count * numbers, self._real)
            launch["scratch"] = scratch.data.ptr
        launch["row_bytes"] = row_bytes = -(-needed // 16) * 16
        teams = 1 if self._threads > _WARP else max(1, min(_MOST_TEAMS, count, self._room // row_bytes))
        taken = (launch.view(np.dtype((np.void, launch.itemsize))),)
        prepare = kernel("rows", "prepare_rows", self._dtype, self._device)
        prepare((1 + self._tables.num_diagonals,), (_THREADS,), taken, shared_mem=self._real.itemsize << self._n)
        run = _with_room(name, self._dtype, self._device, teams * row_bytes)
        run((-(-count // teams),), (self._threads, teams), taken, shared_mem=teams * row_bytes)

    def _start(self, name: str, blocks: int, launch: NDArray[Any], to: Any) -> None:
        taken = (launch.view(np.dtype((np.void, launch.itemsize))), to)
        kernel("rows", name, self._dtype, self._device)((blocks,), (_THREADS,), taken)


@lru_cache(maxsize=256)
def _with_room(name: str, dtype: np.dtype[Any], device: int, shared_bytes: int) -> Any:
    """A kernel that may have so much shared memory."""
    found = kernel("rows", name, dtype, device)
    found.max_dynamic_shared_size_bytes = max(shared_bytes, found.max_dynamic_shared_size_bytes)
    return found


def _is_on_device(array: Any) -> bool:
    return not isinstance(array, np.ndarray)


def _no_strings(num_qubits: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return np.zeros((0, 4), np.int64), np.zeros(0), np.zeros((0, num_qubits + 3), np.int64)


def _on_device(cupy: Any, array: NDArray[Any]) -> Any:
    """The array on the GPU, records as bytes; of an empty one a number that is never read, as an address is needed."""
    flat = np.ascontiguousarray(array)
    if flat.size == 0:
        return cupy.zeros(1, np.uint64)
    return cupy.asarray(flat.view(np.uint8) if flat.dtype.fields is not None else flat)
