"""Sums over ranks of half-precision arrays: half precision travels, float32 is added up.

What ranks add up has been rounded to half precision where it was made, and the sum is rounded again, as one process
rounds it. So each rank gets everybody's terms of its slice, adds them up in float32, rounds, and sends the slice to
all: half the bytes of a sum in float32, which is all that MPI could compute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qdist.comm import Communicator
from qdist.tensor.arrays import FLOAT32, Array, is_half, module_of

__all__ = ["all_reduce", "reduce_scatter", "start_all_reduce", "start_reduce_scatter"]


def all_reduce(x: Array, comm: Communicator) -> Array:
    """The sum of the ranks' x, in its dtype; of half precision as above."""
    return start_all_reduce(x, comm)() if is_half(x.dtype) else comm.all_reduce(x)


def reduce_scatter(rows: Array, comm: Communicator) -> Array:
    """This rank's row of the sum of the ranks' rows, (size, ...), in their dtype; of half precision as above."""
    return start_reduce_scatter(rows, comm)() if is_half(rows.dtype) else comm.reduce_scatter(rows)


def start_all_reduce(x: Array, comm: Communicator) -> Callable[[], Array]:
    """all_reduce() of a half-precision array, under way: call what it gives, on all ranks, for the result."""
    length = -(-x.size // comm.size)
    rows = module_of(x).empty((comm.size, length), x.dtype)
    flat = rows.reshape(-1)
    flat[: x.size] = x.reshape(-1)
    flat[x.size :] = 0
    arrive = start_reduce_scatter(rows, comm)

    def finish() -> Array:
        whole = comm.all_gather(_bits(arrive())).view(x.dtype)
        return whole.reshape(-1)[: x.size].reshape(x.shape)

    return finish


def start_reduce_scatter(rows: Array, comm: Communicator) -> Callable[[], Array]:
    """reduce_scatter() of a half-precision array, under way: call what it gives for the result."""
    work: Any = comm.all_to_all(_bits(rows), async_op=True)

    def finish() -> Array:
        terms = work.wait().view(rows.dtype)
        return terms.astype(FLOAT32).sum(axis=0).astype(rows.dtype)

    return finish


def _bits(x: Array) -> Array:
    """As integers, which every transport takes: MPI and NCCL do not know all half precisions."""
    return module_of(x).ascontiguousarray(x).view(np.uint16)
