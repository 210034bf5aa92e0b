"""Tensor and sequence parallelism: on ranks as in one process, bytes by the textbook, errors before sending."""

import copy
from collections import Counter

import numpy as np
import pytest

from qdist import nn
from qdist.comm import counting_communicator, init
from qdist.parallel import (
    ColumnParallelLinear,
    ParallelAttention,
    ParallelMLP,
    ParallelTransformerBlock,
    RowParallelLinear,
    SequenceDropout,
    VocabParallelEmbedding,
    collectives,
    divide_block,
    load_whole_state_dict,
    recompute,
    vocab_parallel_cross_entropy,
)
from qdist.parallel.tensor import parallel_linear
from qdist.tensor import Tensor, functional, manual_seed

BATCH, LENGTH, FEATURES, HEADS = 2, 16, 24, 8
ACTIVATION = BATCH * LENGTH * FEATURES * 8  # Bytes of one tensor between layers, float64.


# Bytes


def sent(ranks: int, sequence: bool, recomputed: bool = False) -> list:
    """The messages of one rank for one block, forward and backward."""
    comm = counting_communicator(ranks, rank=1)
    block = ParallelTransformerBlock(FEATURES, HEADS, comm, sequence_parallel=sequence, dtype=np.float64)
    if recomputed:
        recompute(block)
    length = LENGTH // ranks if sequence else LENGTH
    x = Tensor(np.ones((BATCH, length, FEATURES)), requires_grad=True)
    block(x).backward(np.ones(x.shape))
    return comm.messages


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_block_sends_four_all_reduces(ranks: int) -> None:
    messages = sent(ranks, sequence=False)
    assert [m.op for m in messages] == ["all_reduce"] * 4
    assert sum(m.wire_bytes for m in messages) == 4 * 2 * (ranks - 1) / ranks * ACTIVATION


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_slices_of_the_sequence_send_as_much_and_gather_two_inputs_again(ranks: int) -> None:
    messages = sent(ranks, sequence=True)
    large = [m for m in messages if m.op != "all_reduce"]
    assert Counter(m.op for m in large) == {"all_gather": 6, "reduce_scatter": 4}
    all_reduces = 4 * 2 * (ranks - 1) / ranks * ACTIVATION
    again = 2 * (ranks - 1) / ranks * ACTIVATION
    assert sum(m.wire_bytes for m in large) == all_reduces + again
    # Two layer norms' weights and biases and two biases after rows: one number a feature.
    assert [m.bytes for m in messages if m.op == "all_reduce"] == [FEATURES * 8] * 6


def test_a_recomputed_block_sends_its_forward_pass_twice() -> None:
    assert len(sent(4, sequence=False, recomputed=True)) == 6


def test_the_loss_sends_three_numbers_a_target() -> None:
    comm = counting_communicator(4)
    logits = Tensor(np.ones((5, 100)), requires_grad=True)
    vocab_parallel_cross_entropy(logits, np.arange(5), comm).backward()
    assert sum(m.bytes for m in comm.messages) == 3 * 5 * 8


class Watched:
    """A started communication that notes when it is waited for."""

    def __init__(self, work, events: list[str], name: str) -> None:
        self.work, self.events, self.name = work, events, name

    def wait(self):
        self.events.append(f"{self.name} there")
        return self.work.wait()


@pytest.mark.parametrize(
    ("sequence", "want"),
    [
        (False, ["all_reduce", "weights", "all_reduce there"]),
        (True, ["all_gather", "reduce_scatter", "all_gather there", "weights", "reduce_scatter there"]),
    ],
)
def test_gradients_of_columns_travel_while_others_are_computed(sequence, want, monkeypatch) -> None:
    comm, events = counting_communicator(4, 1), []
    layer = ColumnParallelLinear(4, 8, comm, gather_output=False, sequence_parallel=sequence)
    x = Tensor(np.ones((4, 4), np.float32), requires_grad=True)
    y = layer(x)

    def watch(name: str, call) -> None:
        def started(*args, **options):
            events.append(name)
            return Watched(call(*args, **options), events, name)

        monkeypatch.setattr(comm, name, started)

    for name in ("all_reduce", "all_gather", "reduce_scatter"):
        watch(name, getattr(comm, name))
    plain = parallel_linear.linear_vjp
    monkeypatch.setattr(parallel_linear, "linear_vjp", lambda *a: (events.append("weights"), plain(*a))[1])
    y.backward(np.ones(y.shape, np.float32))
    assert events == want


# One rank


def test_one_rank_is_the_plain_layer() -> None:
    comm = init()
    x = np.random.default_rng(0).normal(size=(3, 4, 6)).astype(np.float32)
    for plain, divided in [
        (lambda: nn.Linear(6, 5), lambda: ColumnParallelLinear(6, 5, comm)),
        (lambda: nn.Linear(6, 5), lambda: RowParallelLinear(6, 5, comm)),
        (
            lambda: nn.Sequential(nn.Linear(6, 8, bias=False), nn.GELU(), nn.Linear(8, 6, bias=False)),
            lambda: ParallelMLP(6, 8, comm, bias=False),
        ),
        (lambda: nn.MultiHeadAttention(6, 3), lambda: ParallelAttention(6, 3, comm)),
        (lambda: nn.TransformerBlock(6, 3), lambda: ParallelTransformerBlock(6, 3, comm, sequence_parallel=True)),
    ]:
        manual_seed(1)
        want = plain()(Tensor(x))
        manual_seed(1)
        np.testing.assert_allclose(divided()(Tensor(x)).numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def test_the_rows_of_an_embedding_and_its_gradient_add_up_over_ranks() -> None:
    """Ranks one after the other in this process: a counting communicator gives each one's term of the sum."""
    whole = nn.Embedding(12, 3, dtype=np.float64)
    tokens = np.array([[0, 5, 11], [10, 4, 5]])
    want = whole(tokens)
    want.backward(np.arange(18.0).reshape(2, 3, 3))
    terms, rows = [], []
    for rank in range(4):
        part = VocabParallelEmbedding.from_embedding(whole, counting_communicator(4, rank))
        terms.append(part(tokens))
        terms[-1].backward(np.arange(18.0).reshape(2, 3, 3))
        rows.append(part.weight.grad.numpy())
    np.testing.assert_array_equal(sum(t.numpy() for t in terms), want.numpy())
    np.testing.assert_array_equal(np.concatenate(rows), whole.weight.grad.numpy())


@pytest.mark.parametrize("sequence", [False, True])
def test_a_batch_without_rows(sequence: bool) -> None:
    comm = counting_communicator(4, 1)
    block = ParallelTransformerBlock(8, 4, comm, sequence_parallel=sequence, dropout=0.1)
    x = Tensor(np.ones((0, 8, 8), np.float32), requires_grad=True)
    y = block(x)
    y.backward(np.ones(x.shape, np.float32))
    assert y.shape == x.grad.shape == (0, 8, 8)
    table = VocabParallelEmbedding(8, 4, comm, sequence)
    assert table(np.ones((0, 8), np.int64)).shape == (0, 2 if sequence else 8, 4)
    loss = vocab_parallel_cross_entropy(np.ones((0, 5, 2)), np.ones((0, 5), np.int64), comm, "sum")
    assert loss.item() == 0


def test_a_copied_layer_has_its_own_weights_and_the_same_ranks() -> None:
    comm = counting_communicator(4, 1)
    layer = ParallelTransformerBlock(8, 4, comm, sequence_parallel=True)
    other = copy.deepcopy(layer)
    other.expand.weight.data += 1
    assert other.expand.comm is other.expand.weight.partition.comm is comm
    assert not np.array_equal(other.expand.weight.data, layer.expand.weight.data)


# Errors


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda c: ColumnParallelLinear(4, 10, c), "out_features is 10, which cannot be divided over 4 ranks"),
        (lambda c: RowParallelLinear(10, 4, c), "in_features is 10, which cannot be divided over 4 ranks"),
        (lambda c: ColumnParallelLinear(4, 8, c, blocks=3), "over 4 ranks in 3 blocks: take a multiple of 12"),
        (lambda c: VocabParallelEmbedding(10, 4, c), "count is 10"),
        (lambda c: ColumnParallelLinear(4, 8, c, whole=nn.Linear(4, 4)), "cannot be the whole of a layer from 4 to 8"),
        (lambda c: VocabParallelEmbedding(8, 4, c, whole=nn.Embedding(8, 2)), "cannot be the whole of a table of 8"),
        (lambda c: ParallelAttention(16, 8, c, whole=nn.MultiHeadAttention(16, 4)), "with 16 features and 8 heads"),
        (lambda c: ParallelAttention(12, 6, c), "heads is 6"),
        (lambda c: divide_block(nn.TransformerBlock(8, 4, 10), c), "hidden units is 10"),
        (lambda c: divide_block(nn.TransformerBlock(8, 4), None, True), "sequence_parallel needs comm"),
        (lambda c: ColumnParallelLinear(4, 8, c)(Tensor([1.0, 2.0])), r"takes \(..., 4\), got shape \(2,\)"),
        (
            lambda c: RowParallelLinear(8, 4, c, sequence_parallel=True)(Tensor(np.ones((6, 8), np.float32))),
            "sequence's length is 6",
        ),
        (
            lambda c: RowParallelLinear(8, 4, c, input_is_parallel=True)(Tensor(np.ones((6, 8), np.float32))),
            r"takes \(..., 2\)",
        ),
        (lambda c: VocabParallelEmbedding(8, 4, c, True)(np.arange(6)), "length is 6"),
        (lambda c: SequenceDropout(0.5, c)(Tensor([1.0])), "takes"),
        (lambda c: collectives.scatter(np.ones((4, 6)), c, 1), "axis 1 of shape .4, 6. has length 6"),
        (lambda c: collectives.reduce_scatter(np.ones(3), c, 0), "which 4 ranks do not divide"),
        (lambda c: collectives.gather(np.ones(3), c, 1), "axis 1 is out of range"),
        (lambda c: vocab_parallel_cross_entropy(np.ones((2, 3)), np.ones(2), c), "integer targets"),
        (lambda c: vocab_parallel_cross_entropy(np.ones((1, 3)), np.array([1]), c, "max"), "unknown reduction 'max'"),
        (lambda c: load_whole_state_dict(ColumnParallelLinear(2, 4, c), {"weight": np.ones((4, 3))}), "missing: bias"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_sent(make, text: str) -> None:
    comm = counting_communicator(4, rank=2)
    with pytest.raises(ValueError, match=text):
        make(comm)
    assert comm.messages == []


@pytest.mark.parametrize("token", [12, -13])
def test_tokens_outside_the_whole_vocabulary_are_refused(token: int) -> None:
    comm = counting_communicator(4)
    with pytest.raises(IndexError, match="the table has 12 rows"):
        VocabParallelEmbedding(12, 3, comm)([token, 0])
    with pytest.raises(IndexError, match="12 classes"):
        vocab_parallel_cross_entropy(np.ones((1, 3)), [token], comm)
    assert comm.messages == []


@pytest.mark.parametrize("tokens", [[1.0, 0.0], [True, False]])
def test_tokens_that_are_no_integers_are_refused_as_by_a_whole_table(tokens: list) -> None:
    comm = counting_communicator(4)
    for table in (nn.Embedding(12, 3), VocabParallelEmbedding(12, 3, comm)):
        with pytest.raises(TypeError, match=r"embedding takes integer indices, got (float32|float64|bool)"):
            table(np.array(tokens))
    assert comm.messages == []


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_tokens_of_any_integer_type(dtype: str) -> None:
    """Rank 3 of 4 has rows 192 to 255, of which uint8 has the numbers but not their differences to 192."""
    comm = counting_communicator(4, 3)
    table = VocabParallelEmbedding(256, 2, comm, dtype=np.float64)
    tokens = np.array([200, 3, 255]).astype(dtype)
    np.testing.assert_array_equal(table(tokens).numpy(), table.weight.numpy()[[8, 0, 63]] * [[1], [0], [1]])
    logits = np.random.default_rng(0).normal(size=(3, 64))
    loss = vocab_parallel_cross_entropy(logits, tokens, comm, "none").numpy()
    # The other ranks bring nothing to the sums: a target that they have counts as the largest logit.
    chosen = np.array([logits[0, 8], logits[1].max(), logits[2, 63]])
    np.testing.assert_allclose(loss, np.log(np.exp(logits).sum(1)) - chosen)


def test_masks_of_a_slice_are_slices_of_the_mask() -> None:
    x = np.ones((3, 16, 5), np.float32)
    manual_seed(3)
    whole = functional.dropout(x, 0.4).numpy()
    for rank in range(4):
        manual_seed(3)
        part = SequenceDropout(0.4, counting_communicator(4, rank))(Tensor(x[:, :4]))
        np.testing.assert_array_equal(part.numpy(), whole[:, 4 * rank : 4 * rank + 4])
    manual_seed(3)
    both = SequenceDropout(0.4, counting_communicator(2, 1), counting_communicator(2, 0))(Tensor(x[:, :4]))
    # Rank 0 of two has the first and the last of four chunks; of its 8 positions this is the second half.
    np.testing.assert_array_equal(both.numpy(), whole[:, 12:])


@pytest.mark.parametrize("layer", [ColumnParallelLinear, RowParallelLinear])
@pytest.mark.parametrize("given", [4, None, True])
def test_what_is_no_communicator_is_named(layer, given):
    with pytest.raises(TypeError, match=rf"{layer.__name__}: comm is a communicator.*, not {type(given).__name__}"):
        layer(4, 2, given)
