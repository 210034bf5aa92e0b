"""What is sent: as much as hand-written tensor-parallel modules send, and where it is sent."""

import numpy as np
import pytest
from thread_ranks import on_threads

from qdist import nn
from qdist.comm import counting_communicator
from qdist.optim import SGD
from qdist.parallel import ParallelAttention, ParallelMLP, ParallelTransformerBlock
from qdist.parallel.auto import (
    Engine,
    Operator,
    Partial,
    ProcessMesh,
    Replicate,
    Shard,
    matmul,
    reshard,
    shard_op,
    shard_tensor,
)
from qdist.parallel.auto.ir.lower import sent_bytes
from qdist.tensor import Tensor, checkpoint, functional

BATCH, LENGTH, FEATURES, HEADS = 2, 6, 16, 8
F64 = np.float64


class Attention(nn.Module):
    """Attention over all heads, with a product each for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(FEATURES, FEATURES, dtype=F64) for _ in range(3))
        self.out = nn.Linear(FEATURES, FEATURES, dtype=F64)

    def forward(self, x):
        def heads(y):
            return y.reshape(BATCH, LENGTH, HEADS, FEATURES // HEADS).swapaxes(1, 2)

        joined = functional.attention(heads(self.q(x)), heads(self.k(x)), heads(self.v(x)))
        return self.out(joined.swapaxes(1, 2).reshape(BATCH, LENGTH, FEATURES))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 4 * FEATURES, dtype=F64), nn.GELU(), nn.Linear(4 * FEATURES, FEATURES, dtype=F64)
    )


def annotate(model: nn.Module, mesh: ProcessMesh) -> nn.Module:
    """Every second product cut by columns of the weight, the others by rows; "qkv" in blocks for the three of them."""
    linears = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    for name, layer in linears.items():
        if name.endswith(("out", "shrink", "2")):
            shard_tensor(layer.weight, mesh, [None, "mp"])
            continue
        blocks = 3 if name.endswith("qkv") else 1
        shard_tensor(layer.weight, mesh, [Shard(0, blocks)])
        shard_tensor(layer.bias, mesh, [Shard(0, blocks)])
    return model


def hand_written(kind: str, ranks: int) -> list:
    """The messages of one rank, forward and backward."""
    comm = counting_communicator(ranks, 1)
    if kind == "mlp":
        model: nn.Module = ParallelMLP(FEATURES, 4 * FEATURES, comm, dtype=F64)
    elif kind == "block":
        model = ParallelTransformerBlock(FEATURES, HEADS, comm, dtype=F64)
    else:
        model = ParallelAttention(FEATURES, HEADS, comm, dtype=F64)
    x = Tensor(np.ones((BATCH, LENGTH, FEATURES)), True)
    model(x).backward(np.ones(x.shape))
    return comm.messages


KINDS = {
    "mlp": mlp,
    "attention": Attention,
    "joint attention": lambda: nn.MultiHeadAttention(FEATURES, HEADS, dtype=F64),
    "block": lambda: nn.TransformerBlock(FEATURES, HEADS, dtype=F64),
}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_annotated_weights_send_what_the_hand_written_module_sends(kind, ranks) -> None:
    want = hand_written(kind, ranks)
    mesh = ProcessMesh(list(range(ranks)), ["mp"], counting_communicator(ranks, 1))
    model = annotate(KINDS[kind](), mesh)
    x = Tensor(np.ones((BATCH, LENGTH, FEATURES)), True)
    model(shard_tensor(x, mesh, [Replicate()])).full().backward(np.ones(x.shape))
    got = mesh.group(0).messages
    assert [(m.op, m.bytes, m.wire_bytes) for m in got] == [(m.op, m.bytes, m.wire_bytes) for m in want]
    assert len(want) == (4 if kind == "block" else 2)
    assert x.grad is not None


@pytest.mark.parametrize("kind", ["mlp", "attention"])
def test_a_captured_graph_sends_the_same_with_two_annotations_alone(kind) -> None:
    """The static form: only the first weights are annotated, and the last follows."""
    ranks = 4
    want = hand_written(kind, ranks)
    mesh = ProcessMesh(list(range(ranks)), ["mp"], counting_communicator(ranks, 1))
    model = mlp() if kind == "mlp" else Attention()
    before = nn.Linear(FEATURES, FEATURES, dtype=F64)  # so that a gradient travels back to the input
    whole = nn.Sequential(before, model)
    *first, last = [m for m in model.modules() if isinstance(m, nn.Linear)]
    for layer in first:
        shard_tensor(layer.weight, mesh, ["mp", None])
    engine = Engine(whole, functional.mse_loss, SGD(whole.parameters(), lr=0.1), mesh=mesh)
    x = np.ones((BATCH, LENGTH, FEATURES))
    engine.prepare(x, x)
    mesh.group(0).messages.clear()
    engine.run((x, x))
    got = [m for m in mesh.group(0).messages if m.bytes > 8]  # without the loss, which is told to everybody
    assert [(m.op, m.wire_bytes) for m in got] == [(m.op, m.wire_bytes) for m in want]
    assert last.weight.placements == (Shard(1),)
    assert last.bias.shape == (FEATURES,)
    assert sum(sent_bytes(engine.plan)) == sum(m.wire_bytes for m in want)


def test_gradients_of_a_data_parallel_step_are_all_that_is_sent() -> None:
    mesh = ProcessMesh(list(range(4)), ["dp"], counting_communicator(4))
    model = mlp()
    x = shard_tensor(np.ones((8, FEATURES)), mesh, [Shard(0)])
    (model(x) ** 2).mean().backward()
    sent = sorted(m.bytes for m in mesh.group(0).messages)
    assert sent == sorted(p.nbytes for p in model.parameters())
    assert {m.op for m in mesh.group(0).messages} == {"all_reduce"}


def test_a_tensor_that_several_products_use_travels_once() -> None:
    mesh = ProcessMesh([0, 1], ["mp"], counting_communicator(2))
    x = shard_tensor(Tensor(np.ones((4, 6)), True), mesh, [Shard(1)]) * 1.0
    weights = [shard_tensor(nn.Parameter(np.ones((6, 8))), mesh, [Shard(1)]) for _ in range(3)]
    made = [x @ w for w in weights]
    assert all(y.placements == (Shard(1),) for y in made)
    assert [m.op for m in mesh.group(0).messages] == ["all_gather"]


def test_a_loss_over_classes_that_are_cut_sends_three_numbers_a_row() -> None:
    mesh = ProcessMesh(list(range(4)), ["mp"], counting_communicator(4))
    head = nn.Linear(FEATURES, 16, bias=False, dtype=F64)
    shard_tensor(head.weight, mesh, ["mp", None])
    engine = Engine(head, functional.cross_entropy, SGD(head.parameters(), lr=0.1), mesh=mesh)
    x, y = np.ones((10, FEATURES)), np.arange(10)
    for _ in range(2):
        engine.run((x, y))  # The first steps compare the ranks' rows as well.
    mesh.group(0).messages.clear()
    engine.run((x, y))
    assert sum(m.bytes for m in mesh.group(0).messages) == 3 * 10 * 8
    assert sum(m.wire_bytes for m in mesh.group(0).messages) == sum(sent_bytes(engine.plan))


def test_batch_norm_over_cut_rows_sends_numbers_of_channels_alone() -> None:
    def work(comm):
        model = nn.Sequential(nn.BatchNorm2d(3, dtype=F64))
        mesh = None if comm is None else ProcessMesh([0, 1], ["dp"], comm)
        x = Tensor(np.random.default_rng(0).normal(size=(6, 3, 4, 4)), True)
        y = model(x if mesh is None else shard_tensor(x, mesh, [Shard(0)]))
        sent = [] if comm is None else list(comm.sent)
        (y**3).sum().backward()
        state = {name: t.numpy() for name, t in model.state_dict().items()}
        return [y.numpy(), x.grad.numpy(), model[0].weight.grad.numpy(), *state.values()], sent

    want, _ = work(None)
    for got, sent in on_threads(2, work):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
        # The two statistics, and both once more for the running averages; besides, digests of two numbers.
        assert [(op, np.prod(shape)) for op, _, shape in sent if shape != (2,)] == [("all_reduce", 3)] * 4


def test_recomputed_layers_of_distributed_tensors_give_the_same_gradients() -> None:
    x = np.random.default_rng(0).normal(size=(4, FEATURES))

    def work(comm):
        found = []
        for recomputed in (False, True):
            model = mlp()
            model.load_state_dict(alone.state_dict())
            mesh = ProcessMesh([0, 1], ["mp"], comm)
            leaf = Tensor(x, True)
            placed = shard_tensor(leaf, mesh, [Shard(0)])
            made = checkpoint(model, placed) if recomputed else model(placed)
            assert made.shape == x.shape
            (made**2).sum().backward()
            found.append([leaf.grad.numpy(), *(p.grad.numpy() for p in model.parameters())])
        return found

    alone, whole = mlp(), Tensor(x, True)
    (alone(whole) ** 2).sum().backward()
    want = [whole.grad.numpy(), *(p.grad.numpy() for p in alone.parameters())]
    for plain, again in on_threads(2, work):
        for a, b, c in zip(plain, again, want, strict=True):
            np.testing.assert_allclose(a, c, rtol=1e-10)
            np.testing.assert_allclose(b, c, rtol=1e-10)


# Choices


@pytest.fixture
def mesh() -> ProcessMesh:
    return ProcessMesh([[0, 1], [2, 3]], ["dp", "mp"], counting_communicator(4))


def test_output_placements_follow_from_those_of_the_inputs(mesh) -> None:
    whole = [Replicate(), Replicate()]

    def at(shape, *placements):
        return shard_tensor(np.ones(shape), mesh, list(placements) or whole)

    x = at((8, 8), Shard(0), Replicate())
    assert (x @ at((8, 8), Replicate(), Shard(1))).placements == (Shard(0), Shard(1))
    k = at((8, 8), Shard(0), Shard(1))
    assert (k @ at((8, 8), Replicate(), Shard(0))).placements == (Shard(0), Partial())
    assert k.sum(1).placements == (Shard(0), Partial())
    assert k.mean().placements == (Partial(), Partial())
    assert functional.relu(k).placements == (Shard(0), Shard(1))
    assert (k.sum(1) * 2.0).placements == (Shard(0), Partial())
    assert functional.relu(k.sum(1)).placements == (Shard(0), Replicate())
    assert functional.softmax(k, 0).placements == (Shard(1), Shard(1))
    assert k.T.placements == (Shard(1), Shard(0))
    assert at((4, 2, 6), Shard(0), Shard(1)).reshape(8, 6).placements == (Shard(0), Shard(0))
    assert at((8, 6), Shard(0), Shard(0)).reshape(4, 2, 6).placements == (Shard(0), Shard(0))
    table = at((12, 4), Replicate(), Shard(0))
    assert functional.embedding(table, at((6,), Shard(0), Replicate()).to(np.int64)).placements == (Shard(0), Partial())


def test_shard_op_places_what_goes_in_and_what_comes_out(mesh) -> None:
    product = shard_op(lambda a, b: a @ b, mesh, [["dp", None], [None, "mp"]], [[Replicate(), Replicate()]])
    y = product(Tensor(np.ones((4, 6))), Tensor(np.ones((6, 8))))
    assert y.placements == (Replicate(), Replicate())
    assert [m.op for m in mesh.group(0).messages + mesh.group(1).messages] == ["all_gather", "all_gather"]
    with pytest.raises(ValueError, match="2 placements given for 1 input"):
        product(Tensor(np.ones((4, 6))), 3.0)


def test_a_strategy_that_does_not_fit_the_operator_is_refused() -> None:
    comm = counting_communicator(8)
    a, b = np.ones((16, 32)), np.ones((32, 16))
    for strategy, message in [
        (((2, 4), (2, 1)), "both need the same number"),
        (((2, 4),), "1 inputs named"),
        (((2, 4, 1), (4, 1)), "input 0 has 2 dimension"),
        (((3, 1), (1, 1)), "needs 3 ranks"),
        (((32, 1), (1, 1)), "cannot be cut into 32"),
    ]:
        with pytest.raises(ValueError, match=message):
            matmul.shard(strategy, comm)(a, b)
    with pytest.raises(ValueError, match="1 part or more"):
        matmul.shard(((0, 1), (1, 1)))
    # Before anything is sent: unequal parts would be refused by some ranks alone.
    x = np.ones((2, 5, 3))
    for strategy, shape in [((1, 4, 1), (2, 15)), ((1, 2, 1), (10, 3)), ((2, 2, 1), (2, 15))]:
        reshape = Operator("reshape").shard((strategy,), comm)
        with pytest.raises(ValueError, match=r"5 cannot be cut into [24] equal parts|has to be whole"):
            reshape(x, shape=shape)
    assert comm.messages == []


def test_what_a_strategy_leaves_over_repeats_the_work() -> None:
    y = matmul.shard(((2, 1), (1, 2)), counting_communicator(8))(np.ones((16, 32)), np.ones((32, 16)))
    assert y.mesh.shape == (2, 2, 2)
    assert y.placements == (Shard(0), Shard(1), Replicate())
    assert y.local.shape == (8, 8)


# Graphs


def test_a_resharding_that_is_undone_is_dropped(mesh) -> None:
    class Detour(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8, dtype=F64)

        def forward(self, x):
            cut = shard_tensor(x, mesh, [Shard(0), Replicate()])
            whole = reshard(functional.relu(cut), mesh, [Replicate(), Replicate()])
            again = reshard(whole, mesh, [Shard(0), Replicate()])
            return self.layer(again)

    model = Detour()
    engine = Engine(model, functional.mse_loss, SGD(model.parameters(), lr=0.1), mesh=mesh)
    engine.prepare(np.ones((8, 8)), np.ones((8, 8)))
    assert "all_gather(" not in engine.main_program
    assert sent_bytes(engine.plan)[0] == 0.0


def test_wishes_of_later_operations_reach_earlier_ones(mesh) -> None:
    """Only the second weight is annotated; the first product then cuts its own output."""
    model = mlp()
    shard_tensor(model[2].weight, mesh, [None, "mp"])
    engine = Engine(model, functional.mse_loss, SGD(model.parameters(), lr=0.1), mesh=mesh)
    engine.prepare(np.ones((8, FEATURES)), np.ones((8, FEATURES)))
    assert model[0].weight.placements == (Replicate(), Shard(0))
    assert model[0].bias.placements == (Replicate(), Shard(0))
