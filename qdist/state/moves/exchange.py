"""Exchanges of amplitudes between shards: distributed swaps of index bits.

Swapping k close bit positions with k far ones is an all-to-all inside groups of 2^k shards: the k close bits divide a
shard into 2^k parts, and part j of shard i changes places with part i of shard j. So shards meet in pairs, and a pair
trades one part each. Parts are sent in pieces through buffers of bounded size: while one piece is in flight, the one
before it is unpacked and the next is packed.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends import on_host
from qdist.backends.errors import StateError
from qdist.comm.work import Work
from qdist.state.checking.alike import check_alike
from qdist.state.shards import Shards

__all__ = ["BUFFER_SHARE", "checksums", "partner_pieces", "piece_size", "swap_bits", "together"]

_log = logging.getLogger("qdist.state")

BUFFER_SHARE = 8
"""The buffers of an exchange take this part of a shard, or less; of a small shard up to all of it (SMALLEST_PIECE)."""

SMALLEST_PIECE = 1 << 16
"""Bytes below which a piece of a message costs more by being one more than by its size: some ten microseconds."""

_IN_FLIGHT = 2
"""Pieces in flight at a time (double buffering)."""

_TAG = 32_767
"""The highest tag that every MPI supports, so that it does not collide with a program's own. Two ranks send each other
their pieces in the same order, so one tag suffices."""


class _Checks(threading.local):
    """Of this thread: whether pieces have checksums, and what did not match."""

    wanted = False
    found: str = ""


_checks = _Checks()


@contextmanager
def checksums(wanted: bool = True) -> Iterator[None]:
    """Inside, a CRC-32 rides along with every piece that this thread exchanges between ranks; one that does not match
    raises StateError, on all ranks. All ranks enter alike."""
    before, _checks.wanted = _checks.wanted, wanted or _checks.wanted
    try:
        yield
    finally:
        _checks.wanted = before


class _Checked:
    """A message whose checksum comes behind it."""

    def __init__(self, state: Shards, peer: int, outgoing: NDArray[Any], incoming: NDArray[Any], work: Work) -> None:
        self._peer, self._incoming, self._work = peer, incoming, work
        self._sum = np.zeros(1, np.uint32)
        own = np.array([_crc(outgoing)], np.uint32)
        self._sums = state.comm.isendrecv(own, peer, self._sum, peer, _TAG)

    def wait(self) -> None:
        self._work.wait()
        self._sums.wait()
        if _crc(self._incoming) != int(self._sum[0]):
            _checks.found = f"what rank {self._peer} sent in an exchange came with other bits"


def _crc(array: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(on_host(array)).view(np.uint8).data)


class _Trade(NamedTuple):
    """A part of a local shard that is exchanged with a part of another rank's shard."""

    state: Shards
    shard: NDArray[Any]
    base: int
    """Index of the part's first amplitude in the shard."""
    peer: int
    """The other rank."""


class _Piece(NamedTuple):
    """A piece of a trade, in flight."""

    trade: _Trade
    base: int
    incoming: NDArray[Any]
    work: Work | _Checked


def swap_bits(
    states: Shards | Sequence[Shards],
    swaps: Iterable[tuple[int, int]],
    buffer_share: int = BUFFER_SHARE,
) -> None:
    """Swaps pairs of bit positions of the amplitudes' physical indices; a collective of all ranks.

    Args:
        states: one state or several on the same ranks, which are then sent in the same rounds.
        swaps: pairs (close position, far position); also (far, far), which moves whole shards. No position twice.
        buffer_share: the buffers take at most 1/buffer_share of a shard, or, where that is little, four pieces of
            SMALLEST_PIECE bytes or of a quarter of the shard.

    The layouts are not touched: whoever swaps says what moved. What it cost is added to each state's ``traffic``.

    Raises:
        StateError: for states that are not alike, and for positions that cannot be swapped.
    """
    group = together(states)
    pairs = _checked(group[0], list(swaps))
    if not pairs:
        return
    bits = group[0].shard_bits
    close = sum(1 << a for a, _ in pairs if a < bits)
    rest = (1 << bits) - 1 & ~close
    trades = []
    for state in group:
        state.traffic.exchanges += 1
        shards = {first >> bits: shard for first, shard in state.shards()}
        for round_number, number, partner, base, partner_base in _pairings(bits, pairs, shards):
            if partner not in shards:
                trade = _Trade(state, shards[number], base, state.owner(partner))
                trades.append(((round_number, min(number, partner)), trade))
            elif number < partner:
                _swap_inside(state, shards[number], base, shards[partner], partner_base, rest)
    if _log.isEnabledFor(logging.DEBUG):
        parts = f"{len(trades)} parts with ranks {sorted({trade.peer for _, trade in trades})}"
        _log.debug("exchange of positions %s: %d states, %s", pairs, len(group), parts)
    # Both ranks of a pair reach their common pieces in the same global order, so there is no deadlock.
    trades.sort(key=lambda item: item[0])
    _carry_out([trade for _, trade in trades], rest, piece_size(group[0], buffer_share))
    if _checks.wanted:
        found_here, _checks.found = _checks.found, ""
        for rank, found in enumerate(group[0].comm.all_gather_object(found_here)):
            if found:
                raise StateError(f"corrupted amplitudes on rank {rank}: {found}")


def partner_pieces(
    state: Shards, flips: int, buffer_share: int = BUFFER_SHARE
) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
    """This rank's amplitudes beside those whose physical indices differ in given bits, in contiguous pieces.

    Args:
        state: all ranks iterate over all pieces together.
        flips: mask of bit positions, at least one of them far.
        buffer_share: as for ``swap_bits``.

    Yields:
        The physical index of a piece's first amplitude, the piece (a view), and the piece whose index differs in the
        flips above the bits inside of a piece. The last array is valid until the next piece; where no close position is
        flipped, the view may be written to.
    """
    bits = state.shard_bits
    size = piece_size(state, buffer_share)
    shards = {first >> bits: shard for first, shard in state.shards()}
    buffers = state.backend.empty((_IN_FLIGHT, size), state.dtype)
    inside = flips & (1 << bits) - 1 & -size
    state.traffic.exchanges += 1
    steps = []
    for number, shard in shards.items():
        partner = number ^ flips >> bits
        steps += [(min(number, partner), start, number, partner, shard) for start in range(0, len(shard), size)]
    steps.sort(key=lambda step: step[:3])
    waiting: deque[tuple[int, NDArray[Any], NDArray[Any], Work | _Checked | None]] = deque()

    def finished() -> tuple[int, NDArray[Any], NDArray[Any]]:
        first, own, other, work = waiting.popleft()
        if work is not None:
            _wait(state, work)
        return first, own, other

    for count, (_, start, number, partner, shard) in enumerate(steps):
        own, there = shard[start : start + size], slice(start ^ inside, (start ^ inside) + size)
        if partner in shards:
            work = None
            other = shards[partner][there]
        else:
            other = buffers[count % _IN_FLIGHT]
            work = _start(state, state.owner(partner), shard[there], other)
        waiting.append((number << bits | start, own, other, work))
        if len(waiting) == _IN_FLIGHT:
            yield finished()
    while waiting:
        yield finished()


def together(states: Shards | Sequence[Shards]) -> Sequence[Shards]:
    """One state or several as a list. Raises StateError unless all have the same size, dtype, ranks and layout."""
    group = states if isinstance(states, Sequence) else (states,)
    for state in group[1:]:
        check_alike("an exchange", group[0], state)
        if state.layout != group[0].layout:
            raise StateError(f"states that are exchanged together must have one layout; got {group[0]!r} and {state!r}")
    return group


def _checked(state: Shards, swaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    positions = [p for pair in swaps for p in pair]
    for close, far in swaps:
        if not (0 <= close < state.num_qubits and state.shard_bits <= far < state.num_qubits):
            raise StateError(
                f"positions {close} and {far} cannot be exchanged between shards: the second must be one that selects "
                f"the rank, {state.shard_bits} to {state.num_qubits - 1}"
            )
    if len(set(positions)) != len(positions):
        raise StateError(f"positions can be exchanged once at a time; got {swaps}")
    return swaps


def _pairings(
    bits: int, swaps: list[tuple[int, int]], shards: Iterable[int]
) -> Iterator[tuple[int, int, int, int, int]]:
    """The pairwise all-to-all: (round, own shard, other shard, first index of the own part, of the other's part)."""
    crossing = [(a, b) for a, b in swaps if a < bits]
    far = [(a - bits, b - bits) for a, b in swaps if a >= bits]
    for round_number in range(1 << len(crossing)):
        chosen = [pair for k, pair in enumerate(crossing) if round_number >> k & 1]
        distance, shift = sum(1 << b - bits for _, b in chosen), sum(1 << a for a, _ in chosen)
        for number in shards:
            partner = number ^ distance
            for a, b in far:
                if (partner >> a ^ partner >> b) & 1:
                    partner ^= 1 << a | 1 << b
            if partner != number:
                own = sum((number >> b - bits & 1) << a for a, b in crossing)
                yield round_number, number, partner, own ^ shift, own


def piece_size(state: Shards, buffer_share: int = BUFFER_SHARE) -> int:
    """Amplitudes in a piece of a shard: a power of two, the same on every rank, for buffers of bounded size."""
    shard, buffers = state.dtype.itemsize << state.shard_bits, 2 * _IN_FLIGHT
    budget = max(shard // (buffer_share * buffers), min(SMALLEST_PIECE, shard // buffers))
    most = max(1, min(budget, state.backend.largest_piece) // state.dtype.itemsize)
    return 1 << most.bit_length() - 1


def _carry_out(trades: list[_Trade], rest: int, size: int) -> None:
    """Exchanges all parts, piece by piece. ``rest``: the index bits within a part."""
    if not trades:
        return
    within = _lowest_set(rest, size.bit_length() - 1)
    steps = _settings(rest & ~within)
    size = 1 << within.bit_count()  # A part may be smaller than a piece.
    buffers = trades[0].state.backend.empty((_IN_FLIGHT, 2, size), trades[0].state.dtype)
    waiting: deque[_Piece] = deque()
    count = 0
    for trade in trades:
        for step in steps:
            if len(waiting) == _IN_FLIGHT:
                _put_away(waiting.popleft(), within)
            outgoing, incoming = buffers[count % _IN_FLIGHT]
            waiting.append(_send_off(trade, trade.base | step, within, outgoing, incoming))
            count += 1
    while waiting:
        _put_away(waiting.popleft(), within)


def _send_off(trade: _Trade, base: int, within: int, outgoing: NDArray[Any], incoming: NDArray[Any]) -> _Piece:
    if within == len(outgoing) - 1:
        # Contiguous memory needs no packing: it is overwritten only after the message is complete.
        outgoing = trade.shard[base : base + len(outgoing)]
    else:
        _pack(trade.state, trade.shard, base, within, outgoing)
    return _Piece(trade, base, incoming, _start(trade.state, trade.peer, outgoing, incoming))


def _put_away(piece: _Piece, within: int) -> None:
    state = piece.trade.state
    _wait(state, piece.work)
    _unpack(state, piece.incoming, piece.trade.shard, piece.base, within)


def _swap_inside(state: Shards, own: Any, base: int, other: Any, other_base: int, rest: int) -> None:
    """Trades parts of two shards of this rank."""
    start = perf_counter()
    state.backend.kernels.swap_parts(own, base, other, other_base, rest)
    state.traffic.pack_seconds += perf_counter() - start


def _pack(state: Shards, shard: Any, base: int, within: int, outgoing: Any) -> None:
    start = perf_counter()
    state.backend.kernels.pack(shard, base, within, outgoing)
    state.traffic.pack_seconds += perf_counter() - start


def _unpack(state: Shards, incoming: Any, shard: Any, base: int, within: int) -> None:
    start = perf_counter()
    state.backend.kernels.unpack(incoming, shard, base, within)
    state.traffic.pack_seconds += perf_counter() - start


def _start(state: Shards, peer: int, outgoing: NDArray[Any], incoming: NDArray[Any]) -> Work | _Checked:
    """Starts sending to another rank and receiving from it."""
    start = perf_counter()
    # NCCL sends only GPU arrays, and has no tags.
    tag = 0 if state.comm.backend == "nccl" and not state.backend.is_host else _TAG
    work = state.comm.isendrecv(outgoing, peer, incoming, peer, tag)
    state.traffic.messages += 1
    state.traffic.bytes_sent += outgoing.nbytes
    state.traffic.network_seconds += perf_counter() - start
    return _Checked(state, peer, outgoing, incoming, work) if _checks.wanted else work


def _wait(state: Shards, work: Work | _Checked) -> None:
    start = perf_counter()
    work.wait()
    state.traffic.network_seconds += perf_counter() - start


def _lowest_set(mask: int, count: int) -> int:
    """The lowest ``count`` bits that are set in the mask."""
    result = 0
    for _ in range(count):
        result |= mask & -mask & ~result
        mask &= mask - 1
    return result


def _settings(mask: int) -> list[int]:
    """All numbers that have bits of the mask alone, in order."""
    result = [0]
    while mask:
        bit = mask & -mask
        result += [value | bit for value in result]
        mask ^= bit
    return result
