"""A program's tables on a GPU, and the launches of the tile kernel that interpret them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.compiler import stage_kernel
from qdist.backends.cuda.lowering.fours import FourPlaces
from qdist.backends.cuda.lowering.records.tiles import LAUNCH, OP, PHASE, SLOT
from qdist.backends.cuda.lowering.resident import blocks_at_once, resident
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.moves import runs_of
from qdist.backends.cuda.staging import Kept, staging

__all__ = ["Launcher", "as_bytes"]


class Bound(NamedTuple):
    """Numbers on the device, a row for each state of a batch: where reals and turns begin in ``buffer``, and how long
    their rows are. fours: each stage's 4x4 matrices (fours.py): whether all rows have the same, and their bytes."""

    buffer: Any
    reals: int
    reals_stride: int
    turns: int
    turns_stride: int
    fours: list[tuple[bool, NDArray[Any]]]
    in_place: bool


class Launcher:
    """Tables copied to GPU number ``device``, with the numbers that were bound last. dtype: of the amplitudes in
    memory."""

    def __init__(self, tables: Tables, dtype: np.dtype, device: int) -> None:
        import cupy

        self.tables, self.dtype, self.device = tables, dtype, device
        self._cupy = cupy
        self._card = cupy.cuda.runtime.getDeviceProperties(device)
        with cupy.cuda.Device(device):
            self._arrays = {name: _on_device(cupy, x) for name, x in tables.arrays().items()}
        self._runs: dict[tuple[int, int], tuple[Any, int, int, int]] = {}
        # Records are filled once, and what changes from launch to launch is set in place: a launch copies them.
        self._records: dict[tuple[int, int], tuple[NDArray[Any], NDArray[Any]]] = {}
        self._places: dict[tuple[int, bool, bool], tuple[NDArray[Any], int, int]] = {}
        self._kernels: dict[int, Any] = {}
        self._fours = [FourPlaces(stage.fours) for stage in tables.stages]
        self._with_fours = any(stage.fours for stage in tables.stages)
        self._arguments: list[tuple[bool, NDArray[Any]]] = []
        self._kept: Kept | None = None
        self.bound: Bound | None = None

    @property
    def repeats(self) -> bool:
        """Whether launches for numbers that are bound in place are the same every time: no matrices are arguments."""
        return not self._with_fours and self.bound is not None and self.bound.in_place

    def bind(self, angles: np.ndarray, in_place: bool = False) -> None:
        """Computes all matrices and phases, for each row of the circuit's angles (float64). They go to the device in
        one copy: to new memory, or, those of one row, where the last ones in place were."""
        binding, rows = self.tables.binding, len(angles)
        sizes = [rows * binding.size * binding.real.itemsize, rows * binding.num_turns * binding.turn.itemsize]
        begin = -(-sizes[0] // 16) * 16
        with self._cupy.cuda.Device(self.device):
            stage = staging(self.device)
            # One byte more: an address is needed where there are no turns, though nothing is read.
            together = stage.room(begin + sizes[1] + 1)
            reals = together[: sizes[0]].view(binding.real).reshape(rows, -1)
            turns = together[begin : begin + sizes[1]].view(binding.turn).reshape(rows, binding.num_turns)
            binding.put_values(angles, reals, turns)
            if self._with_fours or not self._arguments:
                found = (places.record(reals) for places in self._fours)
                self._arguments = [(same, as_bytes(own)) for same, own in found]
            if in_place and self._kept is None:
                self._kept = Kept(len(together))
            buffer = stage.send(self._kept.taken() if in_place and self._kept is not None else None)
        at = buffer.data.ptr
        self.bound = Bound(buffer, at, reals.shape[1], at + begin, turns.shape[1], self._arguments, in_place)

    def num_tiles(self, number: int, live: int) -> int:
        """How many tiles of stage ``number`` hold amplitudes that may be nonzero. live: the nonzero-support
        mask: amplitudes whose index has a 1 outside of it are zero."""
        return self._tiles(number, live)[2]

    def threads(self, number: int) -> int:
        """Of a block."""
        return 1 << self.tables.stages[number].size - self.tables.shape.registers

    def array(self, name: str) -> Any:
        """One of the tables on the device."""
        return self._arrays[name]

    def run(self, number: int, states: Any, offset: int, live: int, rows: int) -> None:
        """Runs stage ``number`` on ``rows`` states: as many blocks as run at once, each going through many tiles."""
        assert self.bound is not None, "bind comes first"
        with_launch, fours = self.bound.fours[number]
        key = number, states.data.ptr % 16 == 0, with_launch
        if key not in self._places:
            stage, shape = self.tables.stages[number], self.tables.shape
            layout = resident(stage, shape)
            most = blocks_at_once(layout.end, shape, self._card)
            self._places[key] = as_bytes(layout.arguments(stage, shape, *key[1:])), layout.end, most
        places, shared_bytes, most = self._places[key]
        grid = min(self.num_tiles(number, live), most), rows
        self.launch(number, states, offset, live, grid, (places, fours), shared_bytes)

    def launch(
        self,
        number: int,
        states: Any,
        offset: int,
        live: int,
        grid: tuple[int, int],
        more: tuple[NDArray[Any], ...],
        shared_bytes: int,
    ) -> None:
        """Launches stage ``number``; more: the records that its kernel takes after the Launch that both take, as
        bytes."""
        # A dictionary of its own: to hash a shape takes as long as a launch.
        kernel = self._kernels.get(number)
        if kernel is None:
            stage = self.tables.stages[number]
            variant = stage.rare, stage.long, self.tables.exchanges
            kernel = stage_kernel(self.dtype, self.tables.shape, self.device, *variant)
            self._kernels[number] = kernel
        taken = (self._record(number, states, offset, live), *more)
        kernel(grid, (self.threads(number),), taken, shared_mem=shared_bytes)

    def _record(self, number: int, states: Any, offset: int, live: int) -> NDArray[Any]:
        """A Launch, as bytes. What it points to is kept by this object, and by the caller for the states."""
        found = self._records.get((number, live))
        if found is None:
            filled = self._filled(number, live)
            found = self._records[number, live] = filled, as_bytes(filled)
        record, in_bytes = found
        bound = self.bound
        assert bound is not None, "bind comes first"
        record["ket"], record["offset"] = states.data.ptr, offset
        record["reals"], record["reals_stride"] = bound.reals, bound.reals_stride
        record["turns"], record["turns_stride"] = bound.turns, bound.turns_stride
        return in_bytes

    def _filled(self, number: int, live: int) -> NDArray[Any]:
        """What of a Launch is the same every time."""
        stage = self.tables.stages[number]
        runs, num_runs, tiles, outside = self._tiles(number, live)
        zeros = sum(1 << p for p in stage.tile if not live >> p & 1)
        at = {name: array.data.ptr for name, array in self._arrays.items()}
        return LAUNCH.filled(
            {
                "ket": 0,
                "size": 1 << self.tables.num_bits,
                "offset": 0,
                "tiles": tiles,
                "outside": outside,
                "zeros": zeros,
                "runs": runs.data.ptr,
                "phases": at["phases"] + stage.first_phase * PHASE.dtype.itemsize,
                "ops": at["ops"] + stage.first_op * OP.dtype.itemsize,
                "slots": at["slots"] + stage.first_slot * SLOT.dtype.itemsize,
                "places": at["places"] + stage.places * np.dtype(np.uint64).itemsize,
                "flips": at["flips"],
                "terms": at["terms"],
                "begins": at["begins"] + stage.first_coefficient * np.dtype(np.int32).itemsize,
                "parts": at["parts"],
                "lists": at["lists"],
                "reals": 0,
                "reals_stride": 0,
                "turns": 0,
                "turns_stride": 0,
                "num_runs": num_runs,
                "num_phases": stage.num_phases,
                "num_coefficients": stage.num_coefficients,
                "load_flip": stage.load_flips[0],
                "load_flip_end": stage.load_flips[1],
                "store_flip": stage.store_flips[0],
                "store_flip_end": stage.store_flips[1],
            }
        )

    def _tiles(self, number: int, live: int) -> tuple[Any, int, int, int]:
        """How a tile's number becomes the base of its index, as runs of bits; how many tiles there are, and the bits of
        the index that number them."""
        key = (number, live)
        if key not in self._runs:
            tile = self.tables.stages[number].tile
            outside = [p for p in range(self.tables.num_bits) if p not in tile and live >> p & 1]
            runs = runs_of(outside)
            table = np.array(runs or [(0, 0, 0)], np.int32).ravel()
            self._runs[key] = self._cupy.asarray(table), len(runs), 1 << len(outside), sum(1 << p for p in outside)
        return self._runs[key]


def as_bytes(record: NDArray[Any]) -> NDArray[Any]:
    """The same record, in the same memory, without its fields: for each launch CuPy would have NumPy list them, which
    takes longer than the launch itself."""
    return record.view(np.dtype((np.void, record.itemsize)))


def _on_device(cupy: Any, array: np.ndarray) -> Any:
    """The array on the GPU, records as bytes; of an empty one a number that is never read, as an address is needed."""
    flat = np.ascontiguousarray(array)
    if flat.size == 0:
        return cupy.zeros(1, np.uint64)
    if flat.dtype.fields is not None:
        return cupy.asarray(flat.view(np.uint8))
    return cupy.asarray(flat)
