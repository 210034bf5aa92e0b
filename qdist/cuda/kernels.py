"""Kernels that read or collapse a state on a GPU, with the names and arguments of the CPU's in ``qdist.native``.

Shards are CuPy arrays; everything else that comes in or goes out (positions, probabilities, values) is NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.cuda.compiler import measure_kernels
from qdist.cuda.moves import pack, swap_parts, unpack

__all__ = [
    "PauliPlan",
    "add_leaves",
    "add_probabilities",
    "inner",
    "pack",
    "permuted_copy",
    "permuted_inner",
    "project",
    "reset_bit",
    "squared_norm",
    "swap_parts",
    "swap_positions",
    "unpack",
]

_THREADS = 256
_BLOCKS = 2048
"""Blocks of a sum: fixed, so that its order is."""
_CHUNK_BITS = 11
_WIDTHS = (2, 4, 16)
"""Strings that a pass can take: there is a kernel for each of these numbers."""


def squared_norm(shard: Any) -> float:
    """Sum of |amplitude|^2 of a complex64 or complex128 shard, accumulated in double."""
    sums = _empty(shard, _blocks(shard.size))
    _launch("squared_norm", shard, shard.size, shard, np.uint64(shard.size), sums)
    return float(sums.get().sum())


def inner(bra: Any, ket: Any) -> complex:
    """Sum of conj(bra[i]) ket[i], accumulated in double."""
    return permuted_inner(bra, ket, [])


def permuted_inner(bra: Any, ket: Any, positions: Sequence[int]) -> complex:
    """Sum of conj(bra[i]) ket[j], where bit k of i is the bit at positions[k] of j; without positions j is i."""
    sums = _empty(bra, 2 * _blocks(bra.size))
    _launch("inner", bra, bra.size, bra, ket, np.uint64(bra.size), _ints(bra, positions), _count(positions), sums)
    return complex(sums.get().view(np.complex128).sum())


def permuted_copy(source: Any, positions: Sequence[int], out: Any) -> None:
    """out[i] = source[j], where bit k of i is the bit at positions[k] of j."""
    places = _ints(source, positions)
    _launch("permuted_copy", source, out.size, source, np.uint64(out.size), places, _count(positions), out)


def swap_positions(shard: Any, partners: Sequence[int]) -> None:
    """Moves amplitudes, in place, so that each bit position changes places with its partner."""
    places = _ints(shard, partners)
    _launch("swap_positions", shard, shard.size, shard, np.uint64(shard.size), places, _count(partners))


def project(shard: Any, first: int, mask: int, value: int, scale: float) -> None:
    """Scales the amplitudes whose index has the bits ``value`` under ``mask``; the others become 0."""
    numbers = (np.uint64(x) for x in (shard.size, first, mask, value))
    _launch("project", shard, shard.size, shard, *numbers, np.float64(scale))


def reset_bit(shard: Any, position: int, outcome: bool, scale: float) -> None:
    """Moves the amplitudes whose bit at ``position`` is ``outcome`` to where it is 0, scaled; the others become 0."""
    half = shard.size // 2
    _launch("reset_bit", shard, half, shard, np.uint64(half), np.int32(position), np.int32(outcome), np.float64(scale))


def add_probabilities(shard: Any, first: int, positions: Sequence[int], out: NDArray[np.float64]) -> None:
    """Adds |amplitude|^2 to out, indexed with the bit at positions[0] as bit 0. out: float64, 2**len(positions)."""
    bits = int(shard.size).bit_length() - 1
    low = min(bits, _CHUNK_BITS)
    high = [p for p in range(low, bits) if p in positions]
    free = [p for p in range(low, bits) if p not in positions]
    rows = min(1 << len(free), max(1, 2 * _BLOCKS >> len(high)))
    found = _empty(shard, (rows, out.size))
    found.fill(0)
    _run(
        "probabilities",
        shard,
        (1 << len(high), rows),
        shard,
        np.int32(bits),
        np.uint64(first),
        _ints(shard, high + free),
        _count(high),
        _count(free),
        np.uint32(sum(1 << p for p in positions if p < low)),
        _ints(shard, positions),
        _count(positions),
        found,
    )
    with shard.device:
        out += found.sum(axis=0).get()


def add_leaves(
    shard: Any, first: int, bases: NDArray[np.int64], positions: Sequence[int], trees: NDArray[np.float64]
) -> None:
    """Adds |amplitude|^2 of the indices base | bits at positions to the leaves of each base's tree."""
    count = len(bases) << len(positions)
    found = _empty(shard, count)
    where = _beside(shard, np.asarray(bases).astype(np.uint64))
    sizes = np.uint64(shard.size), np.uint64(first)
    places = _ints(shard, positions)
    _launch("leaves", shard, count, shard, *sizes, where, np.uint64(len(bases)), places, _count(positions), found)
    trees.reshape(len(bases), 2, -1)[:, 1] += found.get().reshape(len(bases), -1)


class PauliPlan:
    """Pauli strings, by masks of bit positions, arranged in passes over a shard of 2**bits amplitudes.

    No x mask reaches beyond the shard. Strings that flip the same bits share a pass, up to 16 of them.
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
        self._x, self._z, self._coefficients, self._observable = x, z, coefficients, observable
        self._num_y = np.array([(int(a) & int(b)).bit_count() for a, b in zip(x, z)], np.int64)
        self._groups: list[tuple[int, NDArray[np.int64]]] = []
        most = _WIDTHS[-1]
        for flips in np.unique(x):
            own = np.flatnonzero(x == flips)
            self._groups += [(int(flips), own[k : k + most]) for k in range(0, len(own), most)]

    @property
    def passes(self) -> int:
        """How often the plan reads the shard."""
        return len(self._groups)

    def add_expectations(self, shard: Any, first: int, out: NDArray[np.float64]) -> None:
        """Adds the observables' values in a shard to out (float64)."""
        found = [self._group_sums(shard, first, flips, own) for flips, own in self._groups]
        for (flips, own), sums in zip(self._groups, found):
            num_y = self._num_y[own]
            # i^num_y of the real part, i^(num_y + 1) of the imaginary one; both pairs of a flip count.
            sign = np.where((num_y + 1) // 2 % 2, -1.0, 1.0) * (2 if flips else 1)
            values = sign * sums.get().sum(axis=0)[: len(own)]
            np.add.at(out, self._observable[own], self._coefficients[own].real * values)

    def _group_sums(self, shard: Any, first: int, flips: int, own: NDArray[np.int64]) -> Any:
        half = shard.size // 2 if flips else shard.size
        width = next(w for w in _WIDTHS if w >= len(own))
        sums = _empty(shard, (_blocks(half), width))
        odd = sum(1 << k for k, count in enumerate(self._num_y[own]) if count & 1)
        _launch(
            f"pauli_values_{width}",
            shard,
            half,
            shard,
            np.uint64(half),
            np.uint64(first),
            np.uint64(flips),
            np.int32(flips.bit_length() - 1),
            _beside(shard, self._z[own]),
            np.uint32(odd),
            _count(own),
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
        powers = np.array([1, 1j, -1, -1j])[self._num_y % 4]
        factors = (self._coefficients * np.asarray(weights)[self._observable] * powers).view(np.float64)
        x, z, numbers = (_beside(shard, v) for v in (self._x, self._z, factors))
        sizes = np.uint64(shard.size), np.uint64(first)
        _launch("apply_paulis", shard, shard.size, shard, *sizes, x, z, numbers, _count(self._x), np.int32(add), out)
        if values is not None:
            self.add_expectations(shard, first, values)


def _blocks(count: int) -> int:
    return max(1, min(_BLOCKS, -(-count // _THREADS)))


def _launch(name: str, shard: Any, count: int, *arguments: Any) -> None:
    """Runs a kernel with a thread for each of ``count`` things, or several things a thread."""
    _run(name, shard, (_blocks(count),), *arguments)


def _run(name: str, shard: Any, grid: tuple[int, ...], *arguments: Any) -> None:
    with shard.device:
        measure_kernels(shard.dtype, shard.device.id).get_function(name)(grid, (_THREADS,), arguments)


def _empty(shard: Any, shape: int | tuple[int, ...]) -> Any:
    """Room for doubles on the shard's device."""
    import cupy

    with shard.device:
        return cupy.empty(shape)


def _ints(shard: Any, numbers: Sequence[int]) -> Any:
    return _beside(shard, np.array(list(numbers), np.int32))


def _beside(shard: Any, array: NDArray[Any]) -> Any:
    """A NumPy array's copy on the shard's device; of an empty one something, as a kernel's pointer must be one."""
    import cupy

    with shard.device:
        return cupy.asarray(array if array.size else np.zeros(1, array.dtype))


def _count(things: Any) -> np.int32:
    return np.int32(len(things))
