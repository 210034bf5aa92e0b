"""Shapes and dtypes that travel ahead of the data, where receivers cannot know them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from qdist.comm.messages import objects
from qdist.comm.messages.arrays import Array, as_input, module_of
from qdist.comm.messages.group import Collectives

__all__ = ["all_to_all_of_list", "of_root"]

_DIMS = 8
"""A header has room for so many dimensions."""


def of_root(comm: Collectives, shape: tuple[int, ...], dtype: Any, root: int) -> tuple[tuple[int, ...], np.dtype]:
    """Root's row shape and dtype, on every rank: scatter's receivers need not know them.

    Raises ValueError for rows that a header cannot describe.
    """
    if len(shape) > _DIMS:
        raise ValueError(f"scatter takes rows of at most {_DIMS} dimensions, not {len(shape)}")
    if comm.backend == "counting":
        if dtype is None:
            raise TypeError("scatter on a rank that is not root needs out= on a counting communicator")
        return shape, np.dtype(dtype)
    header = np.zeros(2 + _DIMS, np.int64)
    if comm.rank == root:
        header[0] = len(shape)
        header[1 : 1 + len(shape)] = shape
        # The code of a dtype with fields says nothing of them.
        header[-1] = 0 if dtype.kind == "V" else int.from_bytes(dtype.str.encode(), "little")
    header = comm.broadcast(header, root)
    rows = tuple(int(d) for d in header[1 : 1 + header[0]])
    if header[-1] == 0:
        return rows, objects.broadcast(comm, dtype, root)
    return rows, np.dtype(int(header[-1]).to_bytes(8, "little").rstrip(b"\0").decode())


def all_to_all_of_list(comm: Collectives, parts: Sequence[Any], async_op: bool) -> Any:
    """all_to_all of one array a rank, of any shapes: the shapes first, then the data in one ragged call."""
    if len(parts) != comm.size:
        raise ValueError(f"all_to_all takes one array a rank: {comm.size}, not {len(parts)}")
    arrays = [as_input(p) for p in parts]
    first = arrays[0]
    for index, a in enumerate(arrays):
        if a.dtype != first.dtype:
            raise TypeError(f"all_to_all sends one dtype: array 0 is {first.dtype}, array {index} is {a.dtype}")
        if a.ndim > _DIMS:
            raise ValueError(f"all_to_all of a list takes at most {_DIMS} dimensions, not {a.ndim}")
    headers = np.full((comm.size, 1 + _DIMS), -1, np.int64)
    for row, a in zip(headers, arrays):
        row[0] = a.ndim
        row[1 : 1 + a.ndim] = a.shape
    shapes = [tuple(int(d) for d in row[1 : 1 + row[0]]) for row in comm.all_to_all(headers)]
    counts = [math.prod(shape) for shape in shapes]
    flat = module_of(first).concatenate([a.reshape(-1) for a in arrays])

    def cut(target: Array) -> list[Array]:
        ends = np.cumsum(counts)
        return [target[end - n : end].reshape(s) for end, n, s in zip(ends, counts, shapes)]

    sends = [a.size for a in arrays]
    got = comm.all_to_all(flat, send_counts=sends, recv_counts=counts, async_op=async_op)
    return got.then(cut) if async_op else cut(got)
