"""Exchanges without ranks: what they would send on any number of them, and what happens when a rank breaks off."""

import re
from pathlib import Path

import numpy as np
import pytest
from states import address, random_ket, random_layout

from qdist.backends import on_host
from qdist.comm import counting_communicator
from qdist.native import kernels
from qdist.plan import Layout
from qdist.state.moves import exchange
from qdist.state.moves.exchange import swap_bits
from qdist.state.moves.relayout import relayout, reorder
from qdist.state.statevector import StateVector

FAULTY = Path(__file__).parent / "faulty_exchange.py"


@pytest.mark.parametrize("ranks", [2, 8, 64, 4096])
@pytest.mark.parametrize("swapped", [1, 2, 3])
def test_bytes_are_what_k_swapped_bits_leave_of_a_shard(
    ranks: int, swapped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank keeps 1/2^k of its shard and sends the rest, to 2^k - 1 others."""
    monkeypatch.setattr(exchange, "SMALLEST_PIECE", 0)
    far = ranks.bit_length() - 1
    if swapped > far:
        return
    comm = counting_communicator(ranks, rank=ranks // 2)
    state = StateVector(far + 9, comm=comm)
    shard = state.local.nbytes
    swap_bits(state, [(8 - k, 9 + k) for k in range(swapped)])
    sent = [m for m in comm.messages if m.op == "isendrecv"]
    assert sum(m.bytes for m in sent) == state.traffic.bytes_sent == shard - (shard >> swapped)
    assert len({m.group for m in sent}) == (1 << swapped) - 1
    assert len(sent) == state.traffic.messages == 32 - (32 >> swapped)
    assert state.traffic.exchanges == 1


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_pack_unpack_and_swap_of_any_bits(dtype: str, threads: int) -> None:
    rng = np.random.default_rng(3)
    for bits in (1, 3, 6, 15):
        for _ in range(12):
            within = int(rng.integers(1 << bits))
            base = int(rng.integers(1 << bits)) & ~within
            index = np.arange(1 << bits)
            chosen = index[(index & ~within) == base]
            shard = rng.normal(size=1 << bits).astype(dtype)
            out = np.empty(len(chosen), dtype)
            kernels.pack(shard, base, within, out)
            np.testing.assert_array_equal(out, shard[chosen])
            target = np.zeros_like(shard)
            kernels.unpack(out, target, base, within)
            np.testing.assert_array_equal(target, np.where((index & ~within) == base, shard, 0))
            other = rng.normal(size=1 << bits).astype(dtype)
            first, second = shard.copy(), other.copy()
            there = int(rng.integers(1 << bits)) & ~within
            kernels.swap_parts(first, base, second, there, within)
            np.testing.assert_array_equal(first[chosen], other[chosen ^ base ^ there])
            np.testing.assert_array_equal(second[chosen ^ base ^ there], shard[chosen])
            assert np.count_nonzero(first != shard) <= len(chosen) >= np.count_nonzero(second != other)


def test_kernels_refuse_what_would_be_written_outside() -> None:
    shard, out = np.zeros(8, np.complex64), np.zeros(4, np.complex64)
    for base, within in ((8, 3), (0, 9), (1, 3)):
        with pytest.raises(ValueError, match="bits of the shard's indices"):
            kernels.pack(shard, base, within, out)
    with pytest.raises(ValueError, match="must hold"):
        kernels.unpack(out, shard, 0, 1)
    with pytest.raises(ValueError, match="in pairs"):
        kernels.swap_positions(shard, [1, 2, 0])


@pytest.mark.parametrize("n", [1, 2, 5, 11, 15])
def test_any_order_of_bits_in_place(n: int, threads: int) -> None:
    ket = random_ket(n).astype(np.complex64)
    for seed in range(5):
        here, there = random_layout(n, seed), random_layout(n, seed + 100)
        state = StateVector.from_amplitudes(ket, layout=here)
        memory = address(state.local)
        relayout(state, there)
        assert (state.layout, address(state.local)) == (there, memory)
        whole = on_host(state.local).copy()
        np.testing.assert_array_equal(whole, ket[there.to_logical(np.arange(1 << n))])
        reorder(whole, there)
        np.testing.assert_array_equal(whole, ket)
        assert state.relayout(Layout.identity(n)) is state
        np.testing.assert_array_equal(on_host(state.local), ket)


@pytest.mark.parametrize(
    ("what", "message"),
    [("kill", r"Killed \(signal 9\)|signal 9 \(Killed\)"), ("sleep", r"isendrecv\(complex64\[\d+\], dest=3\)")],
)
def test_a_rank_that_breaks_off_in_an_exchange_ends_all(run_ranks, device: str, what: str, message: str) -> None:
    done = run_ranks(4, [FAULTY, what, device], timeout=60)
    assert done.returncode != 0
    assert "went through" not in done.stdout
    assert re.search(message, done.stdout + done.stderr), done.stdout + done.stderr
