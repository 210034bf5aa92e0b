"""Operators on stages, run one by one, against one process; run on every rank of 4 at once."""

from __future__ import annotations

import numpy as np
import pytest

import qdist as qd
from qdist import nn, optim
from qdist.comm import Communicator
from qdist.parallel.auto import (
    Partial,
    ProcessMesh,
    Replicate,
    Shard,
    clip_grad_norm_,
    reshard,
    shard_op,
    shard_tensor,
)
from qdist.tensor import Tensor, functional, manual_seed, no_grad

F64 = np.float64


@pytest.fixture(scope="session")
def comm() -> Communicator:
    return qd.comm.init(timeout=120)


class Net(nn.Module):
    """Linear layers with a residual across the stages, a tied weight and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 12, dtype=F64), nn.Linear(12, 8, dtype=F64)
        self.third, self.scale = nn.Linear(8, 4, dtype=F64), nn.Parameter(np.linspace(1, 2, 8))

    def forward(self, x: Tensor, mesh: ProcessMesh | None) -> Tensor:
        def on(stage: int, layer: nn.Module) -> nn.Module:
            return layer if mesh is None else shard_op(layer, mesh[stage])

        start = x * self.scale  # On all ranks, with a gradient.
        h = on(0, self.first)(start)
        h = functional.dropout(self.second(h), 0.25, self.training)
        back = on(1, nn.Tanh())(h)
        back = on(0, nn.Tanh())(back + h)  # From the second stage to the first again.
        back = on(1, lambda x: x @ self.second.weight)(back + start)  # A weight of the first stage.
        return functional.relu(on(1, self.third)(back @ self.second.weight.transpose(1, 0)))


def train(mesh: ProcessMesh | None, steps: int = 3) -> tuple[list[float], dict[str, np.ndarray]]:
    manual_seed(2)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(steps):
        x, y = Tensor(rng.normal(size=(6, 8))), rng.integers(0, 4, 6)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x, mesh), y)
        loss.backward()
        (nn_clip if mesh is None else clip_grad_norm_)(model.parameters(), 0.5)
        optimizer.step()
        losses.append(float(loss))
    if mesh is not None:
        held = {name: p.local.size for name, p in model.named_parameters() if name != "scale"}
        inside = [mesh[stage].coordinates is not None for stage in (0, 1)]
        assert [held[n] > 0 for n in ("first.weight", "second.bias", "third.weight")] == [*inside[:1] * 2, inside[1]]
    return losses, {name: value.numpy() for name, value in model.state_dict().items()}


nn_clip = optim.clip_grad_norm_


@pytest.mark.parametrize("ranks", [[0, 1], [3, 2], [[0, 1], [2, 3]], [2, 0]])
def test_stages_train_as_one_process(comm: Communicator, ranks: list) -> None:
    names = ["pp", "mp"][: np.ndim(ranks)]
    losses, state = train(ProcessMesh(ranks, names, comm))
    expected, values = train(None)
    np.testing.assert_allclose(losses, expected, atol=1e-10)
    for name, value in values.items():
        np.testing.assert_allclose(state[name], value, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("source", [[Shard(0)], [Shard(1)], [Replicate()], [Partial()]])
@pytest.mark.parametrize("target", [[Shard(0)], [Shard(1)], [Replicate()]])
@pytest.mark.parametrize("others", [[2, 3], [1, 2], [3], [0, 1, 2]])
def test_reshard_to_other_ranks_and_back(comm: Communicator, source: list, target: list, others: list) -> None:
    here, there = ProcessMesh([0, 1], ["x"], comm), ProcessMesh(others, ["y"], comm)
    values = np.arange(15.0).reshape(5, 3)
    leaf = Tensor(values, True)
    moved = reshard(shard_tensor(leaf, here, source), there, target)
    assert moved.shape == (5, 3)
    assert (moved.local.size > 0) == (comm.rank in others)
    np.testing.assert_array_equal(moved.numpy(), values)
    ((moved * moved).sum() * 3).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), 6 * values)  # On all ranks: all of them had the leaf.


def test_evaluation_and_errors_reach_all_ranks(comm: Communicator) -> None:
    mesh = ProcessMesh([0, 1], ["pp"], comm)
    layer = nn.Linear(3, 2, dtype=F64)
    with no_grad():
        value = shard_op(layer, mesh[1])(Tensor(np.ones((4, 3))))
    assert not value.requires_grad
    assert value.numpy().shape == (4, 2)
    kind = ValueError if comm.rank == 1 else RuntimeError
    with pytest.raises(kind, match=r"mismatch|rank 1 failed"):
        value @ Tensor(np.ones((7, 7)))
    comm.barrier()


def looked_up(x: Tensor, table: Tensor) -> Tensor:
    return functional.embedding(table, x.abs().clip(0, 4).floor().long()) * x.sum()


def signs(x: Tensor, table: Tensor) -> Tensor:
    """Only the table gets a gradient."""
    return (x.sign() + 0.5 * (x > 0.2).to(x.dtype)) @ table[:3]


def numbers(x: Tensor, y: Tensor) -> Tensor:
    """Gradients of single numbers, which NumPy does not give as arrays, are sent back."""
    return (x * x + 0.5) ** (y * 3)


@pytest.mark.parametrize("work", [looked_up, signs, numbers])
@pytest.mark.parametrize("ranks", [[1], [3, 0], [2, 1, 3]])
def test_what_runs_on_some_ranks_alone_has_the_gradients_of_one_process(comm: Communicator, work, ranks) -> None:
    def gradients(mesh: ProcessMesh | None) -> list[np.ndarray | None]:
        rng = np.random.default_rng(4)
        x, table = (Tensor(rng.normal(size=shape), True) for shape in ((4, 3), (5, 2)))
        given = (x.mean(), table[0, 0]) if work is numbers else (x * 1.5, table)
        made = (work if mesh is None else shard_op(work, mesh))(*given)
        (made * made).sum().backward()
        return [made.numpy(), *(None if t.grad is None else t.grad.numpy() for t in (x, table))]

    for got, want in zip(gradients(ProcessMesh(ranks, ["x"], comm)), gradients(None), strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(got, want, atol=1e-12)
    comm.barrier()


def test_a_deferred_weight_is_drawn_where_it_is_placed(comm: Communicator) -> None:
    manual_seed(3)
    plain = nn.Linear(6, 4, dtype=F64)
    manual_seed(3)
    with nn.deferred():
        layer = nn.Linear(6, 4, dtype=F64)
    mesh = ProcessMesh([1, 2], ["mp"], comm)
    shard_tensor(layer.weight, mesh, [Shard(0)])
    assert layer.weight.local.shape == ((2, 6) if comm.rank in (1, 2) else (0,))
    np.testing.assert_array_equal(layer.weight.numpy(), plain.weight.numpy())


def test_a_mesh_of_its_own_communicator_needs_no_other_rank(comm: Communicator) -> None:
    pair = comm.split([[0, 1]])
    if pair is not None:
        mesh = ProcessMesh([0, 1], ["dp"], pair)
        placed = shard_tensor(Tensor(np.ones((4, 3))), mesh, [Shard(0)])
        assert (placed * 2).sum().item() == 24
    comm.barrier()
