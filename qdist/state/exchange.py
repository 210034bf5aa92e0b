"""Index-bit swaps between shards: the only place where amplitudes travel.

Swapping k close bit positions with k far ones exchanges parts of shards inside groups of 2^k shards: of the 2^k parts
that the close bits make of a shard, each stays or goes to the shard whose far bits have its number. Shards meet in
pairs, one pair a round, and swap one part each, through a buffer of bounded size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.state.statevector import StateVector

__all__ = ["swap_bits"]

_BUFFER_SHARE = 8
"""The buffer of a shard is this part of it."""


def swap_bits(state: StateVector, swaps: Sequence[tuple[int, int]]) -> None:
    """Swaps bit positions (close, far) of the amplitudes' places, in pairs, on all ranks together. The layout is not
    touched: whoever swaps says what moved."""
    bits = state.shard_bits
    shards = {first >> bits: shard for first, shard in state.shards()}
    close = [a for a, _ in swaps]
    for turn in range(1, 1 << len(swaps)):
        distance = sum(1 << (b - bits) for k, (_, b) in enumerate(swaps) if turn >> k & 1)
        pairs = []
        for number, shard in shards.items():
            own = sum((number >> (b - bits) & 1) << k for k, (_, b) in enumerate(swaps))
            partner = number ^ distance
            part = _part(shard, close, own ^ turn)
            if partner not in shards:
                pairs.append((number, partner, part))
            elif number < partner:
                theirs = _part(shards[partner], close, own)
                kept = part.copy()
                part[...] = theirs
                theirs[...] = kept
        _trade(state, pairs)


def _trade(state: StateVector, pairs: list[tuple[int, int, NDArray[Any]]]) -> None:
    """Each (own shard, other rank's shard, part): swaps the part with the other's, piece by piece."""
    if not pairs:
        return
    comm = state.comm
    example = pairs[0][2]
    pieces = max(1, min(example.shape[0], example.size * _BUFFER_SHARE >> state.shard_bits))
    for piece in range(pieces):
        works, arrivals = [], []
        for number, partner, part in pairs:
            view = np.array_split(part, pieces, axis=0)[piece]
            outgoing = np.ascontiguousarray(view)
            incoming = np.empty_like(outgoing)
            owner = state.owner(partner)
            works += [comm.irecv(incoming, owner, tag=number), comm.isend(outgoing, owner, tag=partner)]
            arrivals.append((view, incoming))
        # What is sent may be the shard's own memory: nothing may be written before all of it has gone.
        for work in works:
            work.wait()
        for view, incoming in arrivals:
            view[...] = incoming


def _part(shard: NDArray[Any], close: Sequence[int], value: int) -> NDArray[Any]:
    """The amplitudes of a shard whose bit close[k] is bit k of ``value``, as a view."""
    order = sorted(close, reverse=True)
    shape: list[int] = []
    index: list[Any] = []
    top = shard.size.bit_length() - 1
    for position in order:
        shape += [1 << (top - position - 1), 2]
        index += [slice(None), value >> close.index(position) & 1]
        top = position
    return shard.reshape(*shape, 1 << top)[tuple(index)]
