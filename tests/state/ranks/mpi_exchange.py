"""Exchanges put every amplitude where index arithmetic says, and send the bytes that it says; run on every rank."""

import os

import numpy as np
import pytest

import qdist as qd
from qdist.backends import on_host
from qdist.backends.errors import StateError
from qdist.comm.transports import window
from qdist.plan import Layout
from qdist.state import StateVector
from qdist.state.moves import exchange
from qdist.state.moves.exchange import partner_pieces, swap_bits
from qdist.state.moves.relayout import relayout

COMM = qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of small states in pieces, as those of large ones are."""
    monkeypatch.setattr(exchange, "SMALLEST_PIECE", 0)


def places(state: StateVector) -> np.ndarray:
    """The places of this rank's amplitudes."""
    return np.arange(*state.bounds(COMM.rank))


def numbered(n: int, dtype: str, factor: complex = 1) -> StateVector:
    """A state whose amplitude at place i is i + 1 times a factor."""
    state = StateVector(n, dtype, COMM)
    state.local[:] = state.backend.moved(((places(state) + 1) * factor).astype(dtype))
    return state


def swapped(index: np.ndarray, swaps: list[tuple[int, int]]) -> np.ndarray:
    for a, b in swaps:
        differ = (index >> a ^ index >> b) & 1
        index = index ^ (differ << a | differ << b)
    return index


def random_swaps(state: StateVector, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Close positions with far ones, and sometimes far ones with each other."""
    bits, n = state.shard_bits, state.num_qubits
    far = rng.permutation(np.arange(bits, n)).tolist()
    close = rng.permutation(bits).tolist()
    swaps = [(close.pop(), far.pop()) for _ in range(rng.integers(0, min(len(far), bits) + 1))]
    while len(far) > 1 and rng.random() < 0.5:
        swaps.append((far.pop(), far.pop()))
    return swaps


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_swaps_of_random_positions(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(12):
        # On a GPU small pieces go by the host, or for once as large ones do.
        monkeypatch.setattr(window, "SMALLEST", seed % 4 // 2 << 21)
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 11))
        ket, bra = numbered(n, dtype), numbered(n, dtype, 1j)
        swaps = random_swaps(ket, rng)
        share = int(rng.choice([1, 8, 64, 1 << 20]))
        swap_bits((ket, bra) if seed % 2 else ket, swaps, buffer_share=share)
        there = swapped(places(ket), swaps)
        np.testing.assert_array_equal(on_host(ket.local), there + 1)
        np.testing.assert_array_equal(on_host(bra.local), 1j * ((there if seed % 2 else places(ket)) + 1))
        # A swap is its own inverse: what leaves this rank are the amplitudes that go to places of other ranks.
        first, end = ket.bounds(COMM.rank)
        leaving = np.count_nonzero((there < first) | (there >= end))
        assert ket.traffic.bytes_sent == leaving * ket.dtype.itemsize
        assert ket.traffic.exchanges == bool(swaps)
        assert bra.traffic.bytes_sent == (ket.traffic.bytes_sent if seed % 2 else 0)


def test_pieces_are_no_larger_than_the_buffers_allow() -> None:
    """With 1/8 of a shard for all buffers, a message is at most 1/32 of it: two pieces under way, each in and out."""
    state = numbered(12, "complex64")
    far = state.num_qubits - state.shard_bits
    if far:
        for low in (0, state.shard_bits - far):
            before = state.traffic.messages, state.traffic.bytes_sent
            with COMM.recording() as messages:
                swap_bits(state, [(low + k, state.shard_bits + k) for k in range(far)])
            sent = [m.bytes for m in messages if m.op == "isendrecv"]
            assert max(sent) == 8 << state.shard_bits - 5
            assert (len(sent), sum(sent)) == (
                state.traffic.messages - before[0],
                state.traffic.bytes_sent - before[1],
            )
            if COMM.size & COMM.size - 1 == 0:
                assert sum(sent) == (8 << state.shard_bits) * (1 - 1 / COMM.size)


def test_messages_of_small_states_are_not_divided_for_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 64 KiB, or of a quarter of the shard, where a share of the shard would be less."""
    monkeypatch.setattr(exchange, "SMALLEST_PIECE", 1 << 16)
    for n in (10, 17):
        state = numbered(n, "complex128")
        size = min(1 << 16, (16 << state.shard_bits) // 4)
        assert exchange.piece_size(state) == size // 16
        if COMM.size > 1 and COMM.size & COMM.size - 1 == 0:
            swap_bits(state, [(0, state.shard_bits)])
            assert state.traffic.messages == (16 << state.shard_bits) // 2 // size


def test_messages_do_not_grow_beyond_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    state = numbered(12, "complex64")
    monkeypatch.setattr(type(state.backend), "largest_piece", 1 << 8)
    if COMM.size > 1:
        for close in (0, 7, state.shard_bits - 1):
            with COMM.recording() as messages:
                swap_bits(state, [(close, 11)], buffer_share=1)
            assert max(m.bytes for m in messages) == 1 << 8
            np.testing.assert_array_equal(on_host(state.local), swapped(places(state), [(close, 11)]) + 1)
            swap_bits(state, [(close, 11)], buffer_share=1)


def test_any_layout_from_any_other() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 11))
        ket = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
        here, there = Layout(rng.permutation(n)), Layout(rng.permutation(n))
        state = StateVector.from_amplitudes(ket, comm=COMM, layout=here)
        other = StateVector.from_amplitudes(2 * ket, comm=COMM, layout=here)
        relayout((state, other), there)
        assert state.layout == other.layout == there
        np.testing.assert_array_equal(on_host(state.local), ket[there.to_logical(places(state))])
        np.testing.assert_array_equal(on_host(other.local), on_host(2 * state.local))
        far = range(state.shard_bits, n)
        among_far = any(p in far and q in far and p != q for p, q in zip(here.positions, there.positions))
        assert state.traffic.exchanges <= (2 if among_far else 1)
        assert state.relayout(there) is state
        assert state.traffic.exchanges == other.traffic.exchanges


def test_partners_pieces_come_beside_the_own() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        state = numbered(8, "complex64")
        if state.shard_bits == 8:
            return
        flips = int(rng.integers(1 << state.shard_bits, 1 << 8))
        share = int(rng.choice([1, 8, 1 << 20]))
        seen = []
        for place, own, other in partner_pieces(state, flips, buffer_share=share):
            size = len(own)
            np.testing.assert_array_equal(on_host(own), np.arange(place, place + size) + 1)
            np.testing.assert_array_equal(on_host(other), (np.arange(place, place + size) ^ flips & -size) + 1)
            seen += range(place, place + size)
        np.testing.assert_array_equal(sorted(seen), places(state))


def test_refuses_what_cannot_be_swapped() -> None:
    state = numbered(8, "complex64")
    if COMM.size > 1:
        with pytest.raises(StateError, match="positions 0 and 1 cannot be exchanged between shards"):
            swap_bits(state, [(0, 1)])
        with pytest.raises(StateError, match="once at a time"):
            swap_bits(state, [(0, 7), (1, 7)])
    with pytest.raises(StateError, match="an exchange needs two states of one size and dtype"):
        swap_bits((state, numbered(8, "complex128")), [])
    with pytest.raises(StateError, match="layout is one of 3 qubits; the state has 8"):
        relayout(state, Layout.identity(3))
