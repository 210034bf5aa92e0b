"""Moves: from one placement to another along one mesh axis, on arrays, and what that sends.

    from      to        communication    back (gradients)
    Shard     Replicate all_gather       own slice, or reduce_scatter when the ranks' uses differ
    Replicate Shard     none (slice)     all_gather
    Partial   Replicate all_reduce       none, or all_reduce when the ranks' uses differ
    Partial   Shard     reduce_scatter   all_gather
    Shard     Shard     all_to_all       all_to_all
    Replicate Partial   none (the first rank keeps it, the others have zeros)
    Shard     Partial   none (zeros around the slice)

The gradient of a tensor lies as the tensor does, except that the gradient of a Partial one is Replicate: every term of
a sum has the sum's gradient.
"""

from __future__ import annotations

import math
from typing import Any

from qdist.comm import Communicator
from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard, cut, joined, opened, part
from qdist.parallel.collectives import as_rows, join_rows
from qdist.tensor.arrays import Array, module_of

__all__ = ["gradient_of", "move", "wire_bytes"]


def move(x: Array, comm: Communicator, source: Placement, target: Placement, whole: tuple[int, ...]) -> Array:
    """This rank's part of a tensor of shape `whole`, placed anew along the axis of `comm`."""
    if source == target or comm.size == 1:
        return x
    for shard in (source, target):
        if isinstance(shard, Shard) and shard.blocks > 1:
            return _move_blocks(x, comm, source, target, whole, shard)
    if isinstance(target, Shard):
        length = whole[target.dim]
        if isinstance(source, Replicate):
            return cut(x, target, comm.size, comm.rank)
        if isinstance(source, Partial):
            return _reduce_scatter(x, comm, target.dim, length)
        assert isinstance(source, Shard)
        return _all_to_all(x, comm, source.dim, target.dim, whole)
    if isinstance(target, Replicate):
        if isinstance(source, Shard):
            return _all_gather(x, comm, source.dim, whole[source.dim])
        return comm.all_reduce(x)
    if isinstance(source, Shard):
        full = module_of(x).zeros(whole, x.dtype)
        cut(full, source, comm.size, comm.rank)[...] = x
        return full
    return x if comm.rank == 0 else module_of(x).zeros_like(x)


def _move_blocks(x: Array, comm: Communicator, source: Any, target: Any, whole: tuple[int, ...], shard: Shard) -> Array:
    """A move from or to a dimension of several blocks, as a move of the dimension inside of a block."""
    inside = Shard(shard.dim + 1)
    length = whole[shard.dim] // shard.blocks
    opened_whole = (*whole[: shard.dim], shard.blocks, length, *whole[shard.dim + 1 :])
    start, stop = (inside if p == shard else p for p in (source, target))
    return joined(move(opened(x, shard), comm, start, stop, opened_whole), shard)


def gradient_of(placement: Placement, differs: bool = False) -> Placement:
    """How the gradient lies of a tensor with this placement.

    Args:
        placement: the tensor's.
        differs: the ranks of the axis use it each in its own way, so that the gradients of a Replicate tensor are
            terms of a sum.
    """
    if isinstance(placement, Shard):
        return placement
    return Partial() if differs and isinstance(placement, Replicate) else Replicate()


def wire_bytes(source: Placement, target: Placement, degree: int, whole: float) -> float:
    """Bytes that a rank sends to move a tensor of `whole` bytes along an axis of `degree` ranks (ring algorithms)."""
    if source == target or degree == 1:
        return 0.0
    share = whole * (degree - 1) / degree
    if isinstance(source, Partial):
        return 2 * share if isinstance(target, Replicate) else share
    if isinstance(source, Shard) and isinstance(target, Shard):
        return share / degree
    return share if isinstance(source, Shard) and isinstance(target, Replicate) else 0.0


def _cut(x: Array, dim: int, start: int, stop: int) -> Array:
    return x[(slice(None),) * dim + (slice(start, stop),)]


def _padded(x: Array, dim: int, length: int) -> Array:
    """x with zeros behind it along `dim`, up to `length`: collectives take equal parts."""
    missing = length - x.shape[dim]
    if missing == 0:
        return x
    return module_of(x).pad(x, [(0, missing if i == dim else 0) for i in range(x.ndim)])


def _all_gather(x: Array, comm: Communicator, dim: int, length: int) -> Array:
    longest = -(-length // comm.size)
    rows = comm.all_gather(_padded(x, dim, longest))
    if length % comm.size == 0:
        return join_rows(rows, dim)
    sizes = [stop - start for start, stop in (part(length, comm.size, r) for r in range(comm.size))]
    return module_of(x).concatenate([_cut(rows[r], dim, 0, n) for r, n in enumerate(sizes)], axis=dim)


def _reduce_scatter(x: Array, comm: Communicator, dim: int, length: int) -> Array:
    if length % comm.size == 0:
        return comm.reduce_scatter(as_rows(x, comm.size, dim))
    longest = -(-length // comm.size)
    spans = [part(length, comm.size, r) for r in range(comm.size)]
    rows = module_of(x).stack([_padded(_cut(x, dim, *span), dim, longest) for span in spans])
    start, stop = spans[comm.rank]
    return _cut(comm.reduce_scatter(rows), dim, 0, stop - start)


def _all_to_all(x: Array, comm: Communicator, source: int, target: int, whole: tuple[int, ...]) -> Array:
    xp = module_of(x)
    pieces = [_cut(x, target, *part(whole[target], comm.size, r)) for r in range(comm.size)]
    start, stop = part(whole[target], comm.size, comm.rank)
    shapes = []
    for r in range(comm.size):
        first, last = part(whole[source], comm.size, r)
        shapes.append(
            tuple(last - first if i == source else stop - start if i == target else n for i, n in enumerate(x.shape))
        )
    sizes = [math.prod(shape) for shape in shapes]
    flat = xp.concatenate([piece.reshape(-1) for piece in pieces])
    received = comm.all_to_all(flat, send_counts=[p.size for p in pieces], recv_counts=sizes)
    parts: list[Any] = []
    offset = 0
    for shape, size in zip(shapes, sizes):
        parts.append(received[offset : offset + size].reshape(shape))
        offset += size
    return xp.concatenate(parts, axis=source)
