"""Ring attention without ranks: who computes what, what is sent, what is kept, what is refused."""

import numpy as np
import pytest

from qdist import nn
from qdist.comm import counting_communicator
from qdist.parallel import RingAttention, ring_attention, shard_sequence
from qdist.parallel.sequence import context
from qdist.parallel.sequence.positions import positions_of
from qdist.parallel.sequence.watch import watching
from qdist.tensor import Tensor, functional, random

LENGTH = 32


def tensors(ranks: int) -> list[Tensor]:
    rng = np.random.default_rng(0)
    return [Tensor(rng.normal(size=(2, 3, LENGTH // ranks, 4)), requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_positions_are_all_of_them_each_once(ranks: int, balanced: bool) -> None:
    held = [positions_of(rank, ranks, LENGTH, balanced) for rank in range(ranks)]
    assert sorted(np.concatenate(held)) == list(range(LENGTH))
    assert {len(h) for h in held} == {LENGTH // ranks}
    sums = {int(h.sum()) for h in held}
    assert len(sums) == (1 if balanced else ranks)


def work(rank: int, ranks: int, balanced: bool, monkeypatch: pytest.MonkeyPatch) -> int:
    """Pairs of query and key that a causal rank computes forward and backward; half a chunk's on the diagonal."""
    pairs = 0
    scores = context._scores

    def counted(xp, q, k, block, scale):
        nonlocal pairs
        pairs += q.shape[-2] * k.shape[-2] // (2 if block.diagonal else 1)
        return scores(xp, q, k, block, scale)

    with monkeypatch.context() as patch:
        patch.setattr(context, "_scores", counted)
        comm = counting_communicator(ranks, rank)
        out = ring_attention(*tensors(ranks), comm, causal=True, balanced=balanced)
        out.backward(np.ones(out.shape))
    return pairs


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_zigzag_shards_share_the_causal_work_equally(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    balanced = [work(rank, ranks, True, monkeypatch) for rank in range(ranks)]
    assert balanced == [2 * LENGTH * LENGTH // 2 // ranks] * ranks
    slices = [work(rank, ranks, False, monkeypatch) for rank in range(ranks)]
    assert sum(slices) == sum(balanced)
    assert slices[-1] == (2 * ranks - 1) * slices[0]


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("length", "features"), [(0, 3), (4, 0), (0, 0)])
def test_nothing_to_attend_to_is_attention_too(length: int, features: int, causal: bool, balanced: bool) -> None:
    """No positions, or vectors without numbers, of which all scores are 0: as one process has it."""
    v = np.arange(2.0 * length * 5).reshape(2, length, 5)
    given = [[Tensor(x, True) for x in (np.ones((2, length, features)),) * 2 + (v,)] for _ in range(2)]
    alone = functional.attention(*given[0], causal=causal)
    ring = ring_attention(*given[1], counting_communicator(1), causal=causal, balanced=balanced)
    np.testing.assert_allclose(ring.numpy(), alone.numpy())
    for out in (alone, ring):
        (out * out).sum().backward()
    for one, other in zip(*given):
        assert one.grad.shape == one.shape
        np.testing.assert_allclose(other.grad.numpy(), one.grad.numpy())


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_bytes_of_the_ring(ranks: int) -> None:
    comm = counting_communicator(ranks, 1)
    q, k, v = (Tensor(np.ones((1, 2, 6, 4)), requires_grad=True) for _ in range(3))
    out = ring_attention(q, k, v, comm)
    pair = k.nbytes + v.nbytes

    def passed() -> float:
        assert {m.op for m in comm.messages} == {"isend", "irecv"}
        return sum(m.wire_bytes for m in comm.messages)

    assert passed() == (ranks - 1) * pair
    comm.messages.clear()
    out.backward(np.ones(out.shape))
    # Keys and values once more, and their gradients behind them.
    assert passed() == 2 * (ranks - 1) * pair


def test_keys_and_values_travel_while_a_block_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    comm, events = counting_communicator(3, 1), []
    scores, isend = context._scores, comm.isend
    monkeypatch.setattr(context, "_scores", lambda *a: (events.append("block"), scores(*a))[1])
    monkeypatch.setattr(comm, "isend", lambda *a: (events.append("send"), isend(*a))[1])
    q, k, v = (Tensor(np.ones((1, 4, 2)), requires_grad=True) for _ in range(3))
    out = ring_attention(q, k, v, comm, balanced=False)
    assert events == ["send", "block", "send", "block", "block"]
    events.clear()
    out.backward(np.ones(out.shape))
    # Behind the second and third block goes the sum of gradients for its owner.
    assert events == ["send", "block", "send", "block", "send", "block", "send"]


def test_what_is_kept_does_not_grow_with_the_square_of_the_sequence() -> None:
    out = ring_attention(*tensors(2), counting_communicator(2), causal=True)
    assert max(array.size for array in out.node.saved) == 2 * 3 * LENGTH // 2 * 4


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda c: ring_attention(np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 4)), c), "do not fit together"),
        (lambda c: ring_attention(*[np.ones((3, 4))] * 3, c), "3 positions are odd"),
        (lambda c: shard_sequence(np.ones((1, 12)), c), "length is 12, which cannot be divided over 4 ranks in 2"),
        (lambda c: shard_sequence(np.ones((1, 10)), c, balanced=False), "length is 10"),
        (
            lambda c: RingAttention.from_attention(nn.MultiHeadAttention(4, 2), c)(
                Tensor(np.ones((1, 4, 4), np.float32)), mask=np.ones((4, 4), bool)
            ),
            "ring attention takes no mask",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_sent(make, text: str) -> None:
    comm = counting_communicator(4)
    with pytest.raises(ValueError, match=text):
        make(comm)
    assert comm.messages == []


def test_vectors_of_positions_may_come_from_an_earlier_stage() -> None:
    words, places = Tensor(np.ones((3, 4, 6))), Tensor(np.ones((4, 6)))
    with random.placed(random.Place(positions=np.array([0, 1, 6, 7]))), watching((words, places), 2):
        assert (words + places).shape == (3, 4, 6)
        with pytest.raises(ValueError, match="joins a tensor of shape"):
            words + Tensor(np.ones((4, 6)))
