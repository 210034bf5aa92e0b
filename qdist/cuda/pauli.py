"""Sums of Pauli strings on a GPU: expectation values, and products with a state or with the states of a batch.

Products are computed a tile at a time, as programs run: the strings whose flips lie within a tile's bits share a pass
over the state. What flips more bits than a tile has is gathered from memory, string by string.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.cuda.compiler import measure_kernels
from qdist.cuda.measuring import beside, blocks, count, empty, inner, launch, run
from qdist.cuda.moves import runs_of

__all__ = ["GROUP", "STRING", "PauliPlan", "TilePass", "apply_batch", "tile_passes"]

_WIDTHS = (2, 4, 16)
"""Strings that a pass for expectation values can take: there is a kernel for each of these numbers."""
_HELD_BITS = 4
_TILE_BITS = {8: 12, 16: 11}
"""Bits of a tile by the bytes of an amplitude."""
_LOW_BITS = 3
"""Lowest bits that every tile holds, so that memory is read in rows of 64 bytes at least."""

STRING = np.dtype([("far", "u8"), ("near", "u4"), ("unused", "u4"), ("factor", "f8")])
GROUP = np.dtype([("x", "u4"), ("word", "u4"), ("imaginary", "i4"), ("end", "i4")])
# A bit for each of a thread's amplitudes, whether the parity of its number under a mask is odd.
_WORDS = [sum(((k & mask).bit_count() & 1) << k for k in range(1 << _HELD_BITS)) for mask in range(1 << _HELD_BITS)]


class PauliPlan:
    """Pauli strings, by masks of bit positions, arranged in passes over a shard of 2**bits amplitudes.

    No x mask reaches beyond the shard. Strings of several observables that flip the same bits share a pass for their
    values, up to 16 of them; those of one observable in complex128 are multiplied with the state, a tile at a time.
    """

    def __init__(
        self,
        bits: int,
        x: NDArray[np.uint64],
        z: NDArray[np.uint64],
        coefficients: NDArray[np.complex128],
        observable: NDArray[np.int64],
        observables: int,
    ) -> None:
        self.observables = observables
        self._bits = bits
        self._x, self._z, self._coefficients, self._observable = x, z, coefficients, observable
        self._num_y = np.array([(int(a) & int(b)).bit_count() for a, b in zip(x, z)], np.int64)
        self._factors = coefficients * np.array([1, 1j, -1, -1j])[self._num_y % 4]
        self._kept: Any = None
        self._groups: list[tuple[int, NDArray[np.int64]]] = []
        most = _WIDTHS[-1]
        for flips in np.unique(x):
            own = np.flatnonzero(x == flips)
            self._groups += [(int(flips), own[k : k + most]) for k in range(0, len(own), most)]

    @property
    def passes(self) -> int:
        """How often the plan reads the shard for the values of several observables."""
        return len(self._groups)

    def add_expectations(self, shard: Any, first: int, out: NDArray[np.float64]) -> None:
        """Adds the observables' values in a shard to out (float64)."""
        groups = self._groups
        # Products in single precision would cost the values digits: those are summed in double, pair by pair.
        if self.observables == 1 and shard.dtype == np.complex128:
            passes, wide, _ = self._passes(np.ones(1), shard.dtype.itemsize)
            if len(passes) < len(groups):
                out[0] += sum(_launch_pass(one, shard, first, False, None, True) for one in passes)
                groups = [(flips, own) for flips, own in groups if own[0] in wide]
        found = [self._group_sums(shard, first, flips, own) for flips, own in groups]
        for (flips, own), sums in zip(groups, found):
            num_y = self._num_y[own]
            # i^num_y of the real part, i^(num_y + 1) of the imaginary one; both pairs of a flip count.
            sign = np.where((num_y + 1) // 2 % 2, -1.0, 1.0) * (2 if flips else 1)
            values = sign * sums.get().sum(axis=0)[: len(own)]
            np.add.at(out, self._observable[own], self._coefficients[own].real * values)

    def _group_sums(self, shard: Any, first: int, flips: int, own: NDArray[np.int64]) -> Any:
        half = shard.size // 2 if flips else shard.size
        width = next(w for w in _WIDTHS if w >= len(own))
        sums = empty(shard, (blocks(half), width))
        odd = sum(1 << k for k, num_y in enumerate(self._num_y[own]) if num_y & 1)
        launch(
            f"pauli_values_{width}",
            shard,
            half,
            shard,
            np.uint64(half),
            np.uint64(first),
            np.uint64(flips),
            np.int32(flips.bit_length() - 1),
            beside(shard, self._z[own]),
            np.uint32(odd),
            count(own),
            sums,
        )
        return sums

    def apply(
        self,
        shard: Any,
        first: int,
        weights: NDArray[np.float64],
        out: Any,
        add: bool,
        values: NDArray[np.float64] | None,
    ) -> None:
        """out = the sum of all terms, times their observables' weights, applied to the shard; with ``add`` it is added
        to what is there. out is another array of the same size. The observables' values are added to ``values``."""
        passes, wide, factors = self._passes(weights, shard.dtype.itemsize)
        # One observable alone has its value in the product, which the last pass completes.
        alone = values is not None and self.observables == 1 and weights[0] != 0 and not add
        found = 0.0
        for k, one in enumerate(passes):
            found = _launch_pass(one, shard, first, add, out, alone and k + 1 == len(passes) and not len(wide))
            add = True
        if len(wide) or not add:
            x, z, numbers = _on_device(shard, self._x[wide], self._z[wide], factors[wide].view(np.float64))
            sizes = np.uint64(shard.size), np.uint64(first)
            launch("apply_paulis", shard, shard.size, shard, *sizes, x, z, numbers, count(wide), np.int32(add), out)
        if values is None:
            return
        if alone:
            values[0] += (inner(shard, out).real if len(wide) or not passes else found) / weights[0]
        else:
            self.add_expectations(shard, first, values)

    def _passes(
        self, weights: NDArray[np.float64], itemsize: int
    ) -> tuple[list[TilePass], NDArray[np.int64], NDArray[np.complex128]]:
        """What ``tile_passes`` says for these weights, and the strings' factors; kept until other weights come."""
        key = np.asarray(weights, np.float64).tobytes()
        if self._kept is None or self._kept[0] != key:
            factors = self._factors * np.asarray(weights)[self._observable]
            chosen = np.flatnonzero(factors)
            passes, wide = tile_passes(self._bits, self._x[chosen], self._z[chosen], factors[chosen], itemsize)
            self._kept = key, (passes, chosen[wide], factors)
        return self._kept[1]

    def apply_rows(self, kets: Any, weights: NDArray[np.float64], bras: Any) -> None:
        """bras = the sum of all terms times their observables' weights, which each row has its own of."""
        rows, size = kets.shape
        x, z, factors, observable, numbers = _on_device(
            kets, self._x, self._z, self._factors.view(np.float64), self._observable.astype(np.int32), weights
        )
        sizes = count(self._x), numbers, np.int32(self.observables)
        run("apply_rows", kets, (blocks(size), rows), kets, np.uint64(size), x, z, factors, observable, *sizes, bras)

    def add_values(self, kets: Any, values: NDArray[np.float64]) -> None:
        """Adds the observables' values in each row of a batch to values (float64): one row each."""
        rows, size = kets.shape
        if not len(self._x) or not rows:
            return
        x, z, factors = _on_device(kets, self._x, self._z, self._factors.view(np.float64))
        found = empty(kets, (rows, len(self._x)))
        run("term_values", kets, (len(self._x), rows), kets, np.uint64(size), x, z, factors, found)
        np.add.at(values.T, self._observable, found.get().T)


def apply_batch(plan: PauliPlan, kets: Any, weights: NDArray[np.float64], bras: Any, values: NDArray[Any]) -> None:
    """For each row: bra = sum of weights[k] O_k ket, and the observables' values added to ``values``."""
    plan.apply_rows(kets, weights, bras)
    plan.add_values(kets, values)


@dataclass(frozen=True, slots=True)
class TilePass:
    """Strings that share a pass over the tiles of a shard, as apply_tiles of pauli.cu reads them."""

    places: NDArray[np.uint64]
    """Columns of a tile's four highest bits, then the offset of each thread."""
    runs: NDArray[np.int32]
    tiles: int
    groups: NDArray[Any]
    strings: NDArray[Any]


def tile_passes(
    bits: int, x: NDArray[np.uint64], z: NDArray[np.uint64], factors: NDArray[np.complex128], itemsize: int
) -> tuple[list[TilePass], NDArray[np.int64]]:
    """The passes over a shard of 2**bits amplitudes that apply strings, and the numbers of those that flip more bits
    than a tile has. factors: with an i for every Y. itemsize: bytes of an amplitude."""
    size = _TILE_BITS[itemsize]
    if bits < size:
        return [], np.arange(len(x))
    flips = sorted({int(m) for m in x}, key=lambda m: (m >> _LOW_BITS, m))
    room = size - _LOW_BITS
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
    passes = [_tile_pass(bits, size, tile << _LOW_BITS, masks, x, z, factors) for tile, masks in chosen]
    done = {mask for _, masks in chosen for mask in masks}
    return passes, np.array([k for k, mask in enumerate(x.tolist()) if mask not in done], np.int64)


def _tile_pass(
    bits: int, size: int, tile: int, masks: list[int], x: NDArray[Any], z: NDArray[Any], factors: Any
) -> TilePass:
    positions = [p for p in range(bits) if p < _LOW_BITS or tile >> p & 1]
    positions += [p for p in range(bits) if p not in positions][: size - len(positions)]
    positions.sort()
    bit = {p: k for k, p in enumerate(positions)}
    inside = sum(1 << p for p in positions)

    def near(mask: int) -> int:
        return sum(1 << k for p, k in bit.items() if mask >> p & 1)

    # (flips, signs of a thread's amplitudes, whether imaginary): the strings that share them
    shared: dict[tuple[int, int, int], list[tuple[int, int, int, float]]] = {}
    for k in np.flatnonzero(np.isin(x, np.array(masks, np.uint64))).tolist():
        flips, signs = int(x[k]), int(z[k])
        low = near(signs)
        word = _WORDS[low >> size - _HELD_BITS]
        for imaginary, part in enumerate((factors[k].real, factors[k].imag)):
            if part != 0:
                # The parity of the result's index, where the product's is that of the source.
                factor = -part if (flips & signs).bit_count() & 1 else part
                string = (signs & ~inside, low & (1 << size - _HELD_BITS) - 1, 0, factor)
                shared.setdefault((near(flips), word, imaginary), []).append(string)
    ends = np.cumsum([len(own) for own in shared.values()])
    groups = [(*key, end) for key, end in zip(shared, ends)]
    strings = [string for own in shared.values() for string in own]
    threads = np.zeros(1, np.uint64)
    for position in positions[:-_HELD_BITS]:
        threads = np.concatenate([threads, threads | np.uint64(1 << position)])
    columns = np.array([1 << p for p in positions[-_HELD_BITS:]], np.uint64)
    outside = [p for p in range(bits) if p not in bit]
    return TilePass(
        np.concatenate([columns, threads]),
        np.array(runs_of(outside) or [(0, 0, 0)], np.int32).ravel(),
        1 << len(outside),
        np.array(groups, GROUP),
        np.array(strings, STRING),
    )


def _launch_pass(one: TilePass, shard: Any, first: int, add: bool, out: Any, wanted: bool) -> float:
    """Returns Re <shard|out>, where it is wanted; out: None where nothing else is."""
    size = _TILE_BITS[shard.dtype.itemsize]
    values = empty(shard, one.tiles) if wanted else None
    bytes_of = (a.view(np.uint8) for a in (one.groups, one.strings))
    runs, places, groups, strings = _on_device(shard, one.runs, one.places, *bytes_of)
    with shard.device:
        kernel = measure_kernels(shard.dtype, shard.device.id).get_function("apply_tiles")
        kernel(
            (one.tiles,),
            (1 << size - _HELD_BITS,),
            (
                shard,
                np.uint64(first),
                runs,
                np.int32(len(one.runs) // 3),
                places,
                groups,
                count(one.groups),
                strings,
                np.int32(add),
                np.uint64(0) if out is None else out,
                np.uint64(0) if values is None else values,
            ),
            shared_mem=shard.dtype.itemsize << size,
        )
        return 0.0 if values is None else float(values.sum())


def _on_device(shard: Any, *arrays: NDArray[Any]) -> list[Any]:
    return [beside(shard, np.ascontiguousarray(a)) for a in arrays]
