"""Which positions of a sequence a rank has.

Under a causal mask late positions see more than early ones. So the sequence is cut into twice as many chunks as ranks,
and rank r has chunk r and, counted from the end, chunk r again: all ranks then have the same work (zig-zag). Slices of
one piece each are the unbalanced alternative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qdist.comm import Communicator
from qdist.parallel.collectives import slice_of
from qdist.parallel.partition import check_divides
from qdist.tensor.random import Span

__all__ = ["chunks_of", "positions_of", "sequence_span"]


def chunks_of(rank: int, size: int, balanced: bool) -> tuple[int, ...]:
    """The numbers of the chunks that a rank has, in the order in which it has them."""
    return (rank, 2 * size - 1 - rank) if balanced else (rank,)


def positions_of(rank: int, size: int, length: int, balanced: bool = True) -> NDArray[np.int64]:
    """The positions, of a sequence of `length`, that rank `rank` of `size` has, in its order.

    Raises ValueError for a length that cannot be divided so.
    """
    check_divides("the sequence's length", length, size, 2 if balanced else 1)
    count = length // (2 * size if balanced else size)
    return np.concatenate([np.arange(c * count, (c + 1) * count) for c in chunks_of(rank, size, balanced)])


def sequence_span(axis: int, length: int, tensor: Communicator | None, context: Communicator | None) -> Span:
    """Where this rank's `length` positions along `axis` lie in the whole sequence.

    It is divided over `context` in the balanced way first, then over `tensor` in slices; None is not divided over.
    """
    tensor_rank, tensor_size = (0, 1) if tensor is None else (tensor.rank, tensor.size)
    context_rank, context_size = (0, 1) if context is None else (context.rank, context.size)
    whole = length * tensor_size * context_size
    held = positions_of(context_rank, context_size, whole, balanced=context_size > 1)
    own = slice_of(held, tensor_rank, tensor_size, 0)
    breaks = np.flatnonzero(np.diff(own) != 1) + 1
    runs = np.split(own, breaks)
    return Span(axis, whole, tuple((int(run[0]), int(run[-1]) + 1) for run in runs))
