"""Divided models against the same model in one process, and collectives against NumPy; run on every rank of 4
and of 8 at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from groups import Groups
from language import BATCH, FEATURES, LENGTH, assert_trained, batches, language, part, train
from models import Trained, assert_same, batch, build, gradients_of, loss_of, parameters_of, sgd, train_alone

import qdist as qd
from qdist import nn
from qdist.comm import Communicator, Mesh
from qdist.parallel import (
    ColumnParallelLinear,
    ParallelAttention,
    ParallelMLP,
    RowParallelLinear,
    collectives,
    load_whole_state_dict,
    recompute,
    recompute_attention,
    ring_attention,
    shard_sequence,
    unshard_sequence,
    whole_state_dict,
)
from qdist.tensor import Tensor, functional, manual_seed


@pytest.fixture(scope="session")
def world() -> Communicator:
    return qd.comm.init(timeout=120)


@pytest.fixture(scope="session")
def groups(world: Communicator) -> Groups:
    return Groups(world)


@pytest.fixture(scope="session", params=[2, 3, 4, 8])
def group(request, groups: Groups) -> Communicator:
    return groups[request.param]


def mesh(world: Communicator, tp: int, cp: int) -> Mesh:
    if (tp * cp == 8) != (world.size == 8):
        pytest.skip(f"{tp * cp} ranks are those of another job")
    return Mesh(world, dp=-1, cp=cp, tp=tp)


reference = cache(train_alone)


@cache
def alone() -> Trained:
    return train(language(), batches())


def assert_as_alone(model: nn.Module, context: Communicator | None = None) -> None:
    assert_trained(model, train(model, batches(), context), alone())


# Collectives


def arrays(size: int, *shape: int) -> np.ndarray:
    """Every rank's array, the same on all of them."""
    return np.random.default_rng([size, *shape]).normal(size=(size, *shape))


def run(function: Callable[[Tensor], Tensor], x: np.ndarray, cotangent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tensor = Tensor(x, requires_grad=True)
    y = function(tensor)
    y.backward(cotangent)
    return y.numpy(), tensor.grad.numpy()


def test_copy_and_reduce(group) -> None:
    n, r = group.size, group.rank
    x, g = arrays(n, 3, 4), arrays(n, 4, 3).swapaxes(1, 2)
    y, gx = run(lambda t: collectives.copy(t, group), x[0], g[r])
    np.testing.assert_array_equal(y, x[0])
    np.testing.assert_allclose(gx, g.sum(0), rtol=1e-13)
    y, gx = run(lambda t: collectives.reduce(t, group), x[r], g[0])
    np.testing.assert_allclose(y, x.sum(0), rtol=1e-13)
    np.testing.assert_array_equal(gx, g[0])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_slices_and_their_conjugates(group, axis: int) -> None:
    n, r = group.size, group.rank
    large, parts = arrays(n, 2 * n, n, 3 * n), arrays(n, 2, 3, 4)
    joined = np.concatenate(list(parts), axis)
    cut = [np.split(w, n, axis) for w in large]
    summed = np.split(large.sum(0), n, axis)[r]

    y, gx = run(lambda t: collectives.scatter(t, group, axis), large[0], cut[1][r])
    np.testing.assert_array_equal(y, cut[0][r])
    np.testing.assert_array_equal(gx, large[1])
    y, gx = run(lambda t: collectives.gather(t, group, axis), parts[r], joined * 2)
    np.testing.assert_array_equal(y, joined)
    np.testing.assert_array_equal(gx, 2 * parts[r])
    y, gx = run(lambda t: collectives.all_gather(t, group, axis), cut[0][r], large[r])
    np.testing.assert_array_equal(y, large[0])
    np.testing.assert_allclose(gx, summed, rtol=1e-13, atol=1e-14)
    y, gx = run(lambda t: collectives.reduce_scatter(t, group, axis), large[r], cut[0][r])
    np.testing.assert_allclose(y, summed, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(gx, large[0])


@pytest.mark.parametrize(("split", "join"), [(0, 1), (1, 0), (2, 2), (-1, 0)])
def test_all_to_all_turns_the_slicing_round(group, split: int, join: int) -> None:
    n, r = group.size, group.rank
    x = arrays(n, n, 2 * n, 3 * n)
    want = np.concatenate([np.split(x[s], n, split)[r] for s in range(n)], join)
    y, back = run(lambda t: collectives.all_to_all(t, group, split, join), x[r], want)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(back, x[r])


# Models


@pytest.mark.parametrize("sequence", [False, True], ids=["tensor", "sequence"])
def test_a_divided_model_trains_as_one_process(group, sequence: bool) -> None:
    assert_as_alone(language(tensor=group, sequence=sequence))


def test_recomputation_changes_nothing(world) -> None:
    model = language(tensor=mesh(world, 4, 1)["tp"], sequence=True)
    recompute_attention(model.blocks[0])
    recompute(model.blocks[1])
    assert_as_alone(model)


def test_a_divided_sequence_trains_as_one_process(group) -> None:
    assert_as_alone(language(context=group), group)


@pytest.mark.parametrize(("tp", "cp", "sequence"), [(2, 2, False), (2, 4, True)])
def test_heads_and_sequence_divided_at_once(world, tp: int, cp: int, sequence: bool) -> None:
    axes = mesh(world, tp, cp)
    model = language(tensor=axes["tp"], context=axes["cp"], sequence=sequence)
    assert_as_alone(model, axes["cp"])


def test_the_whole_state_moves_between_plain_and_divided_models(group) -> None:
    plain, divided = language(seed=7), language(seed=8, tensor=group)
    plain.head.weight, divided.head.weight = plain.table.weight, divided.table.weight  # Tied: one array, two names.
    load_whole_state_dict(divided, plain.state_dict())
    state = whole_state_dict(divided)
    assert_same({k: v.numpy() for k, v in state.items()}, {k: v.numpy() for k, v in plain.state_dict().items()}, 0)
    assert divided.head.weight.shape[0] * group.size == plain.head.weight.shape[0]


class Hybrid(nn.Module):
    """A circuit between divided layers, its amplitudes divided over the same ranks."""

    def __init__(self, comm: Communicator | None) -> None:
        super().__init__()
        qubits = 8
        x, w = qd.ParameterVector("x", qubits), qd.ParameterVector("w", qubits)
        circuit = qd.Circuit(qubits)
        for q in range(qubits):
            circuit.rx(x[q], q).ry(w[q], q)
        for q in range(qubits):
            circuit.cx(q, (q + 1) % qubits).rx(x[q], q)
        observables = [f"Z{q}" for q in range(qubits)]
        sizes = [(12, 16), (16, qubits), (qubits, 24), (24, 5)]
        if comm is None:
            layers: list[Any] = [nn.Linear(*size, dtype=np.float64) for size in sizes]
        else:
            layers = [
                ColumnParallelLinear(*sizes[0], comm, gather_output=False, dtype=np.float64),
                RowParallelLinear(*sizes[1], comm, input_is_parallel=True, dtype=np.float64),
                ColumnParallelLinear(*sizes[2], comm, dtype=np.float64),
                RowParallelLinear(*sizes[3], comm, bias=True, dtype=np.float64),
            ]
        self.expand, self.shrink, self.widen, self.last = layers
        self.quantum = nn.QuantumLayer(circuit, observables, x, w, comm=comm, dtype="complex128", seed=3)

    def forward(self, x: np.ndarray, y: np.ndarray) -> Tensor:
        seen = self.quantum(self.shrink(self.expand(Tensor(x)).tanh()))
        return functional.cross_entropy(self.last(self.widen(seen).tanh()), Tensor(y))


@pytest.mark.parametrize("size", [2, 8])
def test_a_quantum_layer_between_divided_layers(world, size: int) -> None:
    tp = mesh(world, size, 1)["tp"]
    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(2, 12)), rng.integers(0, 5, 2)) for _ in range(2)]
    manual_seed(2)
    want = train(Hybrid(None), data)
    manual_seed(2)
    model = Hybrid(tp)
    assert_trained(model, train(model, data), want)


@pytest.mark.parametrize("sequence", [False, True], ids=["tensor", "sequence"])
def test_a_perceptron(group, sequence: bool) -> None:
    rng = np.random.default_rng(8)
    x, g = rng.normal(size=(2, 3, 24, 6))
    manual_seed(9)
    plain = nn.Sequential(nn.Linear(6, 48, dtype=np.float64), nn.GELU(), nn.Linear(48, 6, dtype=np.float64))
    inputs = Tensor(x, requires_grad=True)
    want = plain(inputs)
    want.backward(g)
    manual_seed(9)
    divided = ParallelMLP(6, 48, group, sequence_parallel=sequence, dtype=np.float64)
    own = Tensor(x, requires_grad=True)
    got = divided(collectives.scatter(own, group, 1) if sequence else own)
    got = collectives.gather(got, group, 1) if sequence else got
    got.backward(g)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)
    np.testing.assert_allclose(own.grad.numpy(), inputs.grad.numpy(), rtol=1e-10, atol=1e-13)
    for a, b in zip(divided.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), part(a, b.grad.numpy()), rtol=1e-10, atol=1e-13)


DIVIDED: dict[str, dict[int, Callable[..., nn.Module]]] = {
    "mlp": {
        0: partial(ColumnParallelLinear.from_linear, gather_output=False),
        2: partial(RowParallelLinear.from_linear, input_is_parallel=True),
        4: ColumnParallelLinear.from_linear,
        6: RowParallelLinear.from_linear,
    },
    "cnn": {7: RowParallelLinear.from_linear},
}


@pytest.mark.parametrize("name", DIVIDED)
@pytest.mark.parametrize("size", [2, 4, 8])
def test_linear_layers_of_a_model_exchanged_for_divided_ones(world, name: str, size: int) -> None:
    tp = mesh(world, size, 1)["tp"]
    model = build(name)
    for number, divide in DIVIDED[name].items():
        setattr(model, str(number), divide(model[number], tp))
    update = sgd(model.parameters())
    losses = []
    for step in range(3):
        update.zero_grad()
        loss = loss_of(model, *batch(name, step))
        loss.backward()
        update.step()
        losses.append(loss.item())
    assert_trained(model, Trained(losses, gradients_of(model), parameters_of(model)), reference(name))


# Attention by itself


@pytest.mark.parametrize("kind", ["heads", "shared", "bool"])
def test_masks_of_divided_heads(group, kind: str) -> None:
    rng = np.random.default_rng(1)
    x, g = rng.normal(size=(BATCH, 6, FEATURES)), rng.normal(size=(BATCH, 6, FEATURES))
    shapes = {"heads": (1, 24, 6, 6), "shared": (6, 6), "bool": (1, 1, 6, 6)}
    added = rng.normal(size=shapes[kind])

    def go(layer: nn.Module) -> tuple[np.ndarray, ...]:
        inputs = Tensor(x, requires_grad=True)
        mask = Tensor(added > -0.5) if kind == "bool" else Tensor(added, requires_grad=True)
        out = layer(inputs, mask)
        out.backward(g)
        return out.numpy(), inputs.grad.numpy(), *(() if mask.grad is None else (mask.grad.numpy(),))

    manual_seed(4)
    want = go(nn.MultiHeadAttention(FEATURES, 24, dropout=0.3, bias=False, dtype=np.float64))
    manual_seed(4)
    got = go(ParallelAttention(FEATURES, 24, group, dropout=0.3, bias=False, dtype=np.float64))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("balanced", [True, False], ids=["zigzag", "slices"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
def test_ring_attention_is_attention(group, causal: bool, balanced: bool) -> None:
    rng = np.random.default_rng(2)
    q, k = rng.normal(size=(2, 2, 3, LENGTH, 4))
    v, g = rng.normal(size=(2, 2, 3, LENGTH, 5))
    undivided = [Tensor(t, requires_grad=True) for t in (q, k, v)]
    manual_seed(6)
    want = functional.attention(*undivided, causal=causal, scale=0.7, dropout=0.25)
    want.backward(g)

    parts = [Tensor(t, requires_grad=True) for t in (q, k, v)]
    sliced = [shard_sequence(t, group, 2, balanced) for t in parts]
    manual_seed(6)
    own = ring_attention(*sliced, group, causal=causal, scale=0.7, dropout=0.25, balanced=balanced)
    got = unshard_sequence(own, group, -2, balanced)
    got.backward(g)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10, atol=1e-12)
    for a, b in zip(parts, undivided):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-10, atol=1e-12)
