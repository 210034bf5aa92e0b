"""Passes of Pauli strings over tiles of a state on a GPU, for products and expectation values: the tables that
pauli_tiles.cu reads, and its launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.compiler import kernel
from qdist.backends.cuda.lowering.records.paulis import GROUP, STRING
from qdist.backends.cuda.measuring import beside, count, empty
from qdist.backends.cuda.moves import runs_of

__all__ = ["TilePass", "apply_pass", "pass_value", "tile_passes"]

_HELD_BITS, _THREAD_BITS = 4, 8
_TILE_BITS = _HELD_BITS + _THREAD_BITS
_LOW_BITS = 3
"""Lowest bits that every tile holds, so that memory is read in rows of 64 bytes at least."""

# A bit for each of a thread's amplitudes, whether the parity of its number under a mask is odd.
_SIGNS = [sum(((k & mask).bit_count() & 1) << k for k in range(1 << _HELD_BITS)) for mask in range(1 << _HELD_BITS)]

String = tuple[int, int, int, float]


@dataclass(frozen=True, slots=True)
class TilePass:
    """Strings that share a pass over the tiles of a shard, as pauli_tiles.cu reads them."""

    places: NDArray[np.uint64]
    """Columns of a tile's four highest bits, then the offset of each thread."""
    runs: NDArray[np.int32]
    tiles: int
    groups: NDArray[Any]
    diagonal: int
    """So many groups, the last ones, flip nothing and have real factors."""
    strings: NDArray[Any]
    on_devices: dict[int, tuple[Any, ...]] = field(default_factory=dict, compare=False)
    """Copies of the tables on the GPUs where they were needed, by number."""

    def tables(self, shard: Any) -> tuple[Any, ...]:
        """runs, places, groups and strings beside a shard, with their numbers, as kernels take them."""
        found = self.on_devices.get(shard.device.id)
        if found is None:
            runs, places, groups, strings = (
                beside(shard, table)
                for table in (self.runs, self.places, self.groups.view(np.uint8), self.strings.view(np.uint8))
            )
            num_runs = np.int32(len(self.runs) // 3)
            found = runs, num_runs, places, groups, count(self.groups), strings, count(self.strings)
            self.on_devices[shard.device.id] = found
        return found


def tile_passes(
    bits: int, x: NDArray[np.uint64], z: NDArray[np.uint64], factors: NDArray[np.complex128]
) -> tuple[list[TilePass], NDArray[np.int64]]:
    """The passes over a shard of 2**bits amplitudes that apply strings, and the numbers of those that flip more bits
    than a tile has. factors: with an i for every Y."""
    if bits < _TILE_BITS:
        return [], np.arange(len(x))
    every = {int(m) for m in x}
    flips = sorted(every - {0}, key=lambda m: (m >> _LOW_BITS, m))
    room = _TILE_BITS - _LOW_BITS
    chosen: list[tuple[int, list[int]]] = []
    for mask in flips:
        high = mask >> _LOW_BITS
        if high.bit_count() > room:
            continue
        fitting = next((k for k, (tile, _) in enumerate(chosen) if (tile | high).bit_count() <= room), None)
        if fitting is None:
            chosen.append((high, [mask]))
        else:
            tile, masks = chosen[fitting]
            chosen[fitting] = (tile | high, [*masks, mask])
    if 0 in every:
        # In the last pass: what they add may be the largest part, and is rounded with all that comes after.
        tile, masks = chosen.pop() if chosen else (0, [])
        chosen.append((tile, [*masks, 0]))
    passes = [_tile_pass(bits, tile << _LOW_BITS, masks, x, z, factors) for tile, masks in chosen]
    done = {mask for _, masks in chosen for mask in masks}
    return passes, np.array([k for k, mask in enumerate(x.tolist()) if mask not in done], np.int64)


def _tile_pass(bits: int, tile: int, masks: list[int], x: NDArray[Any], z: NDArray[Any], factors: Any) -> TilePass:
    positions = [p for p in range(bits) if p < _LOW_BITS or tile >> p & 1]
    positions += [p for p in range(bits) if p not in positions][: _TILE_BITS - len(positions)]
    positions.sort()
    bit = {p: k for k, p in enumerate(positions)}
    inside = sum(1 << p for p in positions)

    def near(mask: int) -> int:
        return sum(1 << k for p, k in bit.items() if mask >> p & 1)

    # Strings by (flips, whether imaginary) and by the signs of a thread's amplitudes; those without either come last.
    shared: dict[tuple[int, int], dict[int, list[String]]] = {}
    for k in np.flatnonzero(np.isin(x, np.array(masks, np.uint64))).tolist():
        flips, signs = int(x[k]), int(z[k])
        low = near(signs)
        register_signs = _SIGNS[low >> _THREAD_BITS]
        for imaginary, part in enumerate((factors[k].real, factors[k].imag)):
            if part != 0:
                # The parity of the result's index, where the product's is that of the source.
                factor = -part if (flips & signs).bit_count() & 1 else part
                string = (signs & ~inside, low & (1 << _THREAD_BITS) - 1, 0, factor)
                shared.setdefault((near(flips), imaginary), {}).setdefault(register_signs, []).append(string)
    groups: list[tuple[int, int, int, int, int]] = []
    strings: list[String] = []
    diagonal = 0
    for (flips, imaginary), by_signs in sorted(shared.items(), key=lambda item: item[0] == (0, 0)):
        pairs = _pairs(by_signs)
        for register_signs, same, other in pairs:
            middle = len(strings) + len(same)
            strings += [*same, *other]
            groups.append((flips, register_signs, imaginary, middle, len(strings)))
        if (flips, imaginary) == (0, 0):
            diagonal = len(pairs)
    threads = np.zeros(1, np.uint64)
    for position in positions[:-_HELD_BITS]:
        threads = np.concatenate([threads, threads | np.uint64(1 << position)])
    columns = np.array([1 << p for p in positions[-_HELD_BITS:]], np.uint64)
    outside = [p for p in range(bits) if p not in bit]
    return TilePass(
        np.concatenate([columns, threads]),
        np.array(runs_of(outside) or [(0, 0, 0)], np.int32).ravel(),
        1 << len(outside),
        np.array(groups, GROUP.dtype),
        diagonal,
        np.array(strings, STRING.dtype),
    )


def _pairs(by_signs: dict[int, list[String]]) -> list[tuple[int, list[String], list[String]]]:
    """(mask of signs, strings of one sign for all of a thread's amplitudes, strings of the mask's signs), for each
    reading of a tile."""
    same = by_signs.pop(0, [])
    if not by_signs:
        return [(0, same, [])] if same else []
    (signs, other), *more = by_signs.items()
    return [(signs, same, other), *((mask, [], own) for mask, own in more)]


def apply_pass(one: TilePass, shard: Any, first: int, add: bool, out: Any, wanted: bool) -> Any:
    """out = what the strings make of the shard; with ``add`` it is added to what is there. Returns the tiles' parts of
    Re <shard|out>, on the GPU, where it is wanted, else None."""
    values = empty(shard, one.tiles) if wanted else None
    more = np.int32(one.diagonal), np.int32(add), out
    return _launch("apply_tiles", one, shard, first, (*more, np.uint64(0) if values is None else values), values)


def pass_value(one: TilePass, shard: Any, first: int) -> Any:
    """The tiles' parts of Re <shard|what the strings make of it>, on the GPU."""
    values = empty(shard, one.tiles)
    return _launch("tile_values", one, shard, first, (values,), values)


@cache
def _kernel(name: str, dtype: np.dtype, device: int) -> Any:
    """A kernel that holds a tile in shared memory."""
    function = kernel("pauli_tiles", name, dtype, device)
    function.max_dynamic_shared_size_bytes = dtype.itemsize << _TILE_BITS
    return function


def _launch(name: str, one: TilePass, shard: Any, first: int, more: Sequence[Any], values: Any) -> Any:
    with shard.device as device:
        _kernel(name, shard.dtype, device.id)(
            (one.tiles,),
            (1 << _THREAD_BITS,),
            (shard, np.uint64(first), *one.tables(shard), *more),
            shared_mem=shard.dtype.itemsize << _TILE_BITS,
        )
        return values
