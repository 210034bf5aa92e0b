"""Context parallelism: attention over a sequence that is divided over ranks.

This is ring attention (Liu et al., arXiv 2310.01889). Queries stay, keys and values go round the ring of ranks. Each
rank keeps a running softmax, so nothing that grows with the square of the sequence is ever held. In the backward pass
keys and values go round again, and their gradients behind them. Sending overlaps with computing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from qdist.comm import Communicator
from qdist.nn import MultiHeadAttention
from qdist.parallel.collectives import gather, scatter
from qdist.parallel.sequence.positions import chunks_of, positions_of
from qdist.tensor import Rule, Tensor, apply, random
from qdist.tensor.arrays import Array, is_half, module_of
from qdist.tensor.functional import as_tensor
from qdist.tensor.methods import normal_axis
from qdist.tensor.random import Span, Ticket

__all__ = ["RingAttention", "ring_attention", "shard_sequence", "unshard_sequence", "visible_blocks"]


def shard_sequence(x: Any, comm: Communicator, axis: int = 1, balanced: bool = True) -> Tensor:
    """This rank's positions of x along `axis`; x is equal on all ranks. See `positions` for which they are."""
    x = as_tensor(x)
    axis = normal_axis(axis, x.ndim)
    order = _order(comm.size, x.shape[axis], balanced)
    return scatter(_reordered(x, order, axis), comm, axis)


def unshard_sequence(x: Any, comm: Communicator, axis: int = 1, balanced: bool = True) -> Tensor:
    """The whole sequence from the ranks' positions: the inverse of shard_sequence, for a use equal on all ranks."""
    x = as_tensor(x)
    axis = normal_axis(axis, x.ndim)
    back = np.argsort(_order(comm.size, x.shape[axis] * comm.size, balanced))
    return _reordered(gather(x, comm, axis), back, axis)


def _reordered(x: Tensor, order: Array, axis: int) -> Tensor:
    return x[(slice(None),) * axis + (Tensor(order, device=x.device),)]


def _order(size: int, length: int, balanced: bool) -> Array:
    return np.concatenate([positions_of(rank, size, length, balanced) for rank in range(size)])


def ring_attention(
    q: Any,
    k: Any,
    v: Any,
    comm: Communicator,
    *,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    balanced: bool = True,
    spans: Sequence[Span] = (),
) -> Tensor:
    """softmax(q k^T scale) v over the whole sequence, for this rank's queries.

    Args:
        q, k, v: (..., positions, d), (..., positions, d), (..., positions, e): this rank's positions of each.
        comm: the ranks that the sequence is divided over; all bring equally many positions.
        causal: each query sees only keys up to its own position.
        scale: 1 / sqrt(d) when not given.
        dropout: probability of dropping a weight; the mask is the one that `functional.attention` would draw for the
            whole sequence.
        balanced: positions are divided as shard_sequence does by default, which gives equal work under `causal`.
        spans: of leading axes, when these are part of larger ones (heads); for the mask of what is dropped.

    Returns:
        (..., positions, e).
    """
    q, k, v = as_tensor(q), as_tensor(k), as_tensor(v)
    if q.shape != k.shape or k.shape[:-1] != v.shape[:-1]:
        raise ValueError(f"ring_attention: shapes {q.shape}, {k.shape}, {v.shape} do not fit together")
    if balanced and q.shape[-2] % 2:
        raise ValueError(
            f"ring_attention: balanced shards are two chunks of equal length, and {q.shape[-2]} positions are odd; "
            "pad the sequence to a multiple of twice the ranks, or give balanced=False"
        )
    return apply(
        _RULE,
        q,
        k,
        v,
        comm=comm,
        causal=causal,
        # Without features all scores are 0, on any scale.
        scale=1 / math.sqrt(q.shape[-1] or 1) if scale is None else scale,
        balanced=balanced,
        p=dropout,
        ticket=random.ticket(q.shape, *spans) if dropout > 0 else None,
        half=q.dtype if is_half(q.dtype) and q.dtype == k.dtype == v.dtype else None,
    )


class RingAttention(MultiHeadAttention):
    """Self-attention on this rank's positions: (batch, positions, features) to the same shape.

    Args:
        features, heads, dropout, bias: as for MultiHeadAttention.
        comm: the ranks that the sequence is divided over, as shard_sequence does.

    Every rank has all weights; each one's gradient is the share of its positions. Gradients travel between ranks within
    a backward pass, so ranks begin it with losses of the same scale: sums over their positions, not means over those of
    them that are not masked (`DataParallel.loss` and `parallelize` see to it).
    """

    def __init__(
        self,
        features: int,
        heads: int,
        comm: Communicator,
        dropout: float = 0.0,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(features, heads, dropout, bias, dtype)
        self.comm = comm

    @classmethod
    def from_attention(cls, layer: MultiHeadAttention, comm: Communicator) -> Self:
        """The context-parallel form of a layer, which takes over its two linear maps."""
        made = cls.__new__(cls)  # The constructor would draw weights and so change the draws that follow.
        super(MultiHeadAttention, made).__init__()
        made.features, made.heads, made.dropout, made.comm = layer.features, layer.heads, layer.dropout, comm
        made.qkv, made.out = layer.qkv, layer.out
        return made

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool) -> Tensor:
        refuse_mask(mask)
        return ring_attention(q, k, v, self.comm, causal=causal, dropout=self.dropout if self.training else 0.0)


def refuse_mask(mask: Any) -> None:
    """Raise ValueError for a mask: a rank would need its rows for all positions."""
    if mask is not None:
        raise ValueError("ring attention takes no mask; give causal=True, or attend on one rank")


# The ring ------------------------------------------------------------------------------------------------------------


def _pass_on(comm: Communicator, block: Array) -> Callable[[], Array]:
    """Start sending a block to the right neighbour; the result waits for the one that comes from the left."""
    incoming = module_of(block).empty_like(block)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    works = [comm.irecv(incoming, left), comm.isend(block, right)]
    works[-1].is_completed()  # Over NCCL messages start when somebody asks; here, while this rank computes.

    def arrive() -> Array:
        for work in works:
            work.wait()
        return incoming

    return arrive


def _travel(comm: Communicator, block: Array, half: np.dtype | None) -> Iterator[tuple[int, Array]]:
    """Every rank's block once, its owner with it, this rank's first; the next one travels meanwhile.

    half: the precision that the block's values were stored in, if it is not the one that is computed in: they travel
    in it.
    """
    work = block.dtype
    block = block if half is None else block.astype(half)
    for step in range(comm.size):
        arrive = _pass_on(comm, block) if step + 1 < comm.size else None
        yield (comm.rank - step) % comm.size, block.astype(work, copy=False)
        if arrive is not None:
            block = arrive()


class Block(NamedTuple):
    """A chunk of this rank's queries and a chunk of some rank's keys that it sees."""

    rows: slice
    """Of this rank's queries."""
    columns: slice
    """Of the owner's keys."""
    places: tuple[tuple[int, int], tuple[int, int]]
    """(start, stop) of the queries and of the keys in the whole sequence."""
    diagonal: bool
    """The two are the same chunk, so that causal queries see only part of it."""


def visible_blocks(rank: int, owner: int, size: int, length: int, causal: bool, balanced: bool) -> list[Block]:
    """The blocks of rank `rank`'s queries and rank `owner`'s keys, `length` each, that have to be computed."""
    mine, theirs = chunks_of(rank, size, balanced), chunks_of(owner, size, balanced)
    count = length // len(mine)

    def run(number: int) -> tuple[int, int]:
        return number * count, (number + 1) * count

    return [
        Block(slice(*run(i)), slice(*run(j)), (run(query), run(key)), causal and query == key)
        for i, query in enumerate(mine)
        for j, key in enumerate(theirs)
        if count and (query >= key or not causal)
    ]


def _scores(xp: Any, q: Array, k: Array, block: Block, scale: float) -> Array:
    scores = xp.matmul(q, k.swapaxes(-1, -2)) * scale
    if block.diagonal:
        hidden = xp.full(scores.shape[-2:], -math.inf, scores.dtype)
        scores += xp.triu(hidden, 1)
    return scores


def _drop(xp: Any, weights: Array, block: Block, whole: int, p: float, ticket: Ticket | None) -> Array | None:
    """For each weight of the block 0 or the factor of what is kept; None without dropout."""
    if ticket is None:
        return None
    spans = [Span(weights.ndim - 2 + i, whole, (place,)) for i, place in enumerate(block.places)]
    keep, factor = random.keep_mask(xp, ticket.within(*spans), weights.shape, p)
    return keep * weights.dtype.type(factor)


def _forward(xp: Any, q: Array, k: Array, v: Array, **how: Any) -> Any:
    comm, scale, p, ticket = how["comm"], how["scale"], how["p"], how["ticket"]
    d, length = q.shape[-1], q.shape[-2]
    out = xp.zeros(v.shape, v.dtype)
    top = xp.full((*q.shape[:-1], 1), -math.inf, q.dtype)
    total = xp.zeros_like(top)
    for owner, kv in _travel(comm, xp.concatenate([k, v], axis=-1), how["half"]):
        for block in visible_blocks(comm.rank, owner, comm.size, length, how["causal"], how["balanced"]):
            rows = (..., block.rows, slice(None))
            theirs = kv[..., block.columns, :]
            scores = _scores(xp, q[rows], theirs[..., :d], block, scale)
            # Online softmax: what was summed up relative to the old maximum is scaled to the new one.
            highest = xp.maximum(top[rows], scores.max(axis=-1, keepdims=True))
            rescale = xp.exp(top[rows] - highest)
            weights = xp.exp(scores - highest)
            total[rows] = total[rows] * rescale + weights.sum(axis=-1, keepdims=True)
            kept = _drop(xp, weights, block, length * comm.size, p, ticket)
            if kept is not None:
                weights *= kept
            out[rows] = out[rows] * rescale + xp.matmul(weights, theirs[..., d:])
            top[rows] = highest
    out /= total
    return out, (q, k, v, out, top + xp.log(total))


def _vjp(xp: Any, g: Array, saved: Any, needs: Any, **how: Any) -> Any:
    comm, scale, p, ticket = how["comm"], how["scale"], how["p"], how["ticket"]
    q, k, v, out, log_total = saved
    d, length = q.shape[-1], q.shape[-2]
    # Each row's mean slope, sum_n w dw, equals g . out.
    mean = xp.einsum("...d,...d->...", g, out)[..., None]
    gq = xp.zeros_like(q)
    own: Any = None
    arrive: Callable[[], Array] | None = None
    for owner, kv in _travel(comm, xp.concatenate([k, v], axis=-1), how["half"]):
        gkv = xp.zeros_like(kv)
        for block in visible_blocks(comm.rank, owner, comm.size, length, how["causal"], how["balanced"]):
            rows, columns = (..., block.rows, slice(None)), (..., block.columns, slice(None))
            theirs = kv[columns]
            weights = xp.exp(_scores(xp, q[rows], theirs[..., :d], block, scale) - log_total[rows])
            slopes = xp.matmul(g[rows], theirs[..., d:].swapaxes(-1, -2))
            kept = _drop(xp, weights, block, length * comm.size, p, ticket)
            used = weights
            if kept is not None:
                used = weights * kept
                slopes *= kept
            slopes -= mean[rows]
            slopes *= weights
            slopes *= scale
            gq[rows] += xp.matmul(slopes, theirs[..., :d])
            gkv[columns][..., :d] += xp.matmul(slopes.swapaxes(-1, -2), q[rows])
            gkv[columns][..., d:] += xp.matmul(used.swapaxes(-1, -2), g[rows])
        # What the owner computed itself stays; the others' sum follows its keys round the ring and comes home last.
        if owner == comm.rank:
            own = gkv
            continue
        if arrive is not None:
            gkv += arrive()
        arrive = _pass_on(comm, gkv)
    if arrive is not None:
        own += arrive()
    return gq, own[..., :d], own[..., d:]


_RULE = Rule("ring_attention", _forward, _vjp)
