"""What the modules of kernels that read a state share: launches, small arrays beside the state, inner products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.cuda.compiler import measure_kernels

__all__ = ["BLOCKS", "blocks", "count", "empty", "inner", "ints", "launch", "module", "never_empty", "permuted_inner", "run"]

_THREADS = 256
BLOCKS = 2048
"""Blocks of a sum: fixed, so that its order is."""


def blocks(things: int) -> int:
    return max(1, min(BLOCKS, -(-things // _THREADS)))


def launch(name: str, shard: Any, things: int, *arguments: Any) -> None:
    """Runs a kernel with a thread for each of so many things, or several things a thread."""
    run(name, shard, (blocks(things),), *arguments)


def run(name: str, shard: Any, grid: tuple[int, ...], *arguments: Any) -> None:
    with shard.device:
        measure_kernels(shard.dtype, shard.device.id).get_function(name)(grid, (_THREADS,), arguments)


def module() -> Any:
    """CuPy, without importing it before there is an array of its."""
    import cupy

    return cupy


def empty(shard: Any, size: int) -> Any:
    """Doubles beside a shard."""
    with shard.device:
        return module().empty(size)


def ints(shard: Any, numbers: Sequence[int]) -> Any:
    with shard.device:
        return module().asarray(never_empty(np.array(list(numbers), np.int32)))


def never_empty(array: NDArray[Any]) -> NDArray[Any]:
    """A kernel's pointer must be one, though nothing is read from it."""
    return array if array.size else np.zeros(1, array.dtype)


def count(things: Any) -> np.int32:
    return np.int32(len(things))


def inner(bra: Any, ket: Any) -> complex:
    """Sum of conj(bra[i]) ket[i], accumulated in double."""
    return permuted_inner(bra, ket, [])


def permuted_inner(bra: Any, ket: Any, positions: Sequence[int]) -> complex:
    """Sum of conj(bra[i]) ket[j], where bit k of i is the bit at positions[k] of j; without positions j is i."""
    sums = empty(bra, 2 * blocks(bra.size))
    launch("inner", bra, bra.size, bra, ket, np.uint64(bra.size), ints(bra, positions), count(positions), sums)
    return complex(sums.get().view(np.complex128).sum())
