"""Kernels that read or collapse a state on a GPU, with the names and arguments of the CPU's in ``qdist.native``.

Shards are CuPy arrays; everything else that comes in or goes out (positions, probabilities, values) is NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.checks import (
    MAX_INDEX_BITS,
    check_first,
    check_mask,
    check_permutation,
    check_positions,
    check_size,
    checked_bits,
)
from qdist.backends.cuda.measuring import BLOCKS, beside, blocks, count, empty, inner, ints, launch, permuted_inner, run
from qdist.backends.cuda.moves import pack, swap_parts, unpack
from qdist.backends.cuda.pauli import PauliPlan

__all__ = [
    "PauliPlan",
    "add_leaves",
    "add_probabilities",
    "add_weighted",
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

_CHUNK_BITS = 11


def squared_norm(shard: Any) -> float:
    """Sum of |amplitude|^2 of a complex64 or complex128 shard, accumulated in double."""
    sums = empty(shard, blocks(shard.size))
    launch("squared_norm", shard, shard.size, shard, np.uint64(shard.size), sums)
    return float(sums.get().sum())


def permuted_copy(source: Any, positions: Sequence[int], out: Any) -> None:
    """out[i] = source[j], where bit k of i is the bit at positions[k] of j."""
    check_permutation(positions, source)
    check_size(out.size, source.size, "out")
    places = ints(source, positions)
    launch("permuted_copy", source, out.size, source, np.uint64(out.size), places, count(positions), out)


def swap_positions(shard: Any, partners: Sequence[int]) -> None:
    """Moves amplitudes, in place, so that each bit position changes places with its partner."""
    check_permutation(partners, shard)
    if any(partners[p] != k for k, p in enumerate(partners)):
        raise ValueError("positions must be exchanged in pairs")
    places = ints(shard, partners)
    launch("swap_positions", shard, shard.size, shard, np.uint64(shard.size), places, count(partners))


def project(shard: Any, first: int, mask: int, value: int, scale: float) -> None:
    """Scales the amplitudes whose index has the bits ``value`` under ``mask``; the others become 0."""
    checked_bits(shard)
    check_first(first, shard.size)
    check_mask(mask, MAX_INDEX_BITS, "the projection")
    if value & ~mask:
        raise ValueError(f"the value of the projection must lie within its mask; got {value} under {mask}")
    numbers = (np.uint64(x) for x in (shard.size, first, mask, value))
    launch("project", shard, shard.size, shard, *numbers, np.float64(scale))


def reset_bit(shard: Any, position: int, outcome: bool, scale: float) -> None:
    """Moves the amplitudes whose bit at ``position`` is ``outcome`` to where it is 0, scaled; the others become 0."""
    check_positions([position], checked_bits(shard))
    half = shard.size // 2
    launch("reset_bit", shard, half, shard, np.uint64(half), np.int32(position), np.int32(outcome), np.float64(scale))


def add_probabilities(shard: Any, first: int, positions: Sequence[int], out: NDArray[np.float64]) -> None:
    """Adds |amplitude|^2 to out, indexed with the bit at positions[0] as bit 0. out: float64, 2**len(positions)."""
    bits = checked_bits(shard)
    check_first(first, shard.size)
    check_positions(positions, MAX_INDEX_BITS)
    check_size(out.size, 1 << len(positions), "out")
    low = min(bits, _CHUNK_BITS)
    high = [p for p in range(low, bits) if p in positions]
    free = [p for p in range(low, bits) if p not in positions]
    rows = min(1 << len(free), max(1, 2 * BLOCKS >> len(high)))
    found = empty(shard, (rows, out.size))
    found.fill(0)
    run(
        "probabilities",
        shard,
        (1 << len(high), rows),
        shard,
        np.int32(bits),
        np.uint64(first),
        ints(shard, high + free),
        count(high),
        count(free),
        np.uint32(sum(1 << p for p in positions if p < low)),
        ints(shard, positions),
        count(positions),
        found,
    )
    with shard.device:
        out += found.sum(axis=0).get()


def add_weighted(ket: Any, first: int, positions: Sequence[int], weights: NDArray[np.float64], bra: Any) -> None:
    """bra[i] += weights[j] ket[i], where bit k of j is the bit at positions[k] of i."""
    checked_bits(ket)
    check_first(first, ket.size)
    check_size(bra.size, ket.size, "the bra")
    check_positions(positions, MAX_INDEX_BITS)
    check_size(np.size(weights), 1 << len(positions), "weights")
    numbers = beside(ket, np.ascontiguousarray(weights, np.float64))
    sizes = np.uint64(ket.size), np.uint64(first)
    launch("add_weighted", ket, ket.size, ket, *sizes, ints(ket, positions), count(positions), numbers, bra)


def add_leaves(
    shard: Any, first: int, bases: NDArray[np.int64], positions: Sequence[int], trees: NDArray[np.float64]
) -> None:
    """Adds |amplitude|^2 of the indices base | bits at positions to the leaves of each base's tree."""
    checked_bits(shard)
    check_first(first, shard.size)
    check_positions(positions, MAX_INDEX_BITS)
    leaves = len(bases) << len(positions)
    check_size(trees.size, 2 * leaves, "trees")
    found = empty(shard, leaves)
    where = beside(shard, np.asarray(bases).astype(np.uint64))
    sizes = np.uint64(shard.size), np.uint64(first)
    places = ints(shard, positions)
    launch("leaves", shard, leaves, shard, *sizes, where, np.uint64(len(bases)), places, count(positions), found)
    trees.reshape(len(bases), 2, -1)[:, 1] += found.get().reshape(len(bases), -1)
