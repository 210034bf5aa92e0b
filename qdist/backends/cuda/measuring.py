"""What the modules of kernels that read a state share: launches, small arrays beside the state, inner products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.checks import check_permutation, check_size
from qdist.backends.cuda.compiler import kernel

__all__ = [
    "BLOCKS",
    "Combination",
    "add_up",
    "beside",
    "blocks",
    "count",
    "empty",
    "inner",
    "ints",
    "launch",
    "permuted_inner",
    "run",
    "set_first",
    "totals",
]

_THREADS = 256
BLOCKS = 2048
"""Blocks of a sum: fixed, so that its order is."""


def blocks(things: int) -> int:
    return max(1, min(BLOCKS, -(-things // _THREADS)))


def launch(name: str, shard: Any, things: int, *arguments: Any, module: str = "measure") -> None:
    """Runs a kernel with a thread for each of so many things, or several things a thread."""
    run(name, shard, (blocks(things),), *arguments, module=module)


def run(name: str, shard: Any, grid: tuple[int, ...], *arguments: Any, module: str = "measure") -> None:
    with shard.device:
        kernel(module, name, shard.dtype, shard.device.id)(grid, (_THREADS,), arguments)


def empty(shard: Any, shape: int | tuple[int, ...]) -> Any:
    """Room for doubles on the shard's device."""
    import cupy

    with shard.device:
        return cupy.empty(shape)


def ints(shard: Any, numbers: Sequence[int]) -> Any:
    return beside(shard, np.array(list(numbers), np.int32))


def beside(shard: Any, array: NDArray[Any]) -> Any:
    """A NumPy array's copy on the shard's device; of an empty one something, as a kernel's pointer must be one."""
    import cupy

    with shard.device:
        return cupy.asarray(array if array.size else np.zeros(1, array.dtype))


def set_first(shard: Any, value: complex) -> None:
    """shard[0] = value, by a kernel of ours: CuPy would compile one for it."""
    real = np.float32 if shard.dtype == np.complex64 else np.float64
    with shard.device:
        set_number = kernel("moves", "set_first", shard.dtype, shard.device.id)
        set_number((1,), (1,), (shard, real(value.real), real(value.imag)))


class Combination:
    """Linear combinations of doubles on a GPU: number k is constants[k] + the sum of coefficients[e] * number places[e]
    over the entries e with rows[e] = k."""

    def __init__(
        self,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        coefficients: NDArray[np.float64],
        constants: NDArray[np.float64],
    ) -> None:
        import cupy

        order = np.argsort(rows, kind="stable")
        begins = np.searchsorted(rows[order], np.arange(len(constants) + 1))
        self._count = len(constants)
        tables = begins.astype(np.int32), places[order].astype(np.int32), coefficients[order], constants
        self._tables = tuple(cupy.asarray(table if table.size else np.zeros(1, table.dtype)) for table in tables)

    def run(self, shard: Any, numbers: Any, out: Any) -> None:
        """Queues them: from ``numbers`` to ``out``, of either precision, beside a shard."""
        check_size(out.size, self._count, "out")
        single = np.int32(out.dtype == np.float32)
        run("combine", shard, (self._count,), numbers, *self._tables, out, single, module="moves")


def add_up(shard: Any, numbers: Any, out: Any, constant: float = 0.0, value: Any = None) -> None:
    """Queues out[0] = the sum of doubles, in a fixed order, and, if it is asked for, value = that plus a constant, in
    either precision: arrays beside a shard."""
    check_size(out.size, 1, "out")
    single = np.int32(value is not None and value.dtype == np.float32)
    more = out, np.float64(constant), np.uint64(0) if value is None else value, single
    run("add_up", shard, (1,), numbers, count(numbers), *more, module="moves")


def count(things: Any) -> np.int32:
    return np.int32(len(things))


def totals(parts: Sequence[Any]) -> list[NDArray[np.float64]]:
    """The sums over the first axis of several arrays of doubles on one device, each flat: they are added up there, and
    the host waits once for all of them."""
    import cupy

    if not parts:
        return []
    with parts[0].device:
        sums = [part.reshape(len(part), -1).sum(axis=0) for part in parts]
        together = cupy.concatenate(sums).get()
    return np.split(together, np.cumsum([one.size for one in sums])[:-1])


def inner(bra: Any, ket: Any) -> complex:
    """Sum of conj(bra[i]) ket[i], accumulated in double."""
    return permuted_inner(bra, ket, [])


def permuted_inner(bra: Any, ket: Any, positions: Sequence[int]) -> complex:
    """Sum of conj(bra[i]) ket[j], where bit k of i is the bit at positions[k] of j; without positions j is i."""
    check_size(ket.size, bra.size, "the ket")
    if len(positions):
        check_permutation(positions, bra)
    sums = empty(bra, 2 * blocks(bra.size))
    launch("inner", bra, bra.size, bra, ket, np.uint64(bra.size), ints(bra, positions), count(positions), sums)
    return complex(sums.get().view(np.complex128).sum())
