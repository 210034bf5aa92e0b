"""Semi-automatic and automatic parallelism against one process; run on every rank of 4 and of 8 at once."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from groups import Groups
from models import assert_same, batch, build, gradients_of, loss_of, parameters_of, sgd, train_alone

import qdist as qd
from qdist import nn
from qdist.comm import Communicator
from qdist.data import ArrayDataset
from qdist.parallel.auto import (
    Accuracy,
    Engine,
    Machine,
    Partial,
    ProcessMesh,
    Replicate,
    Shard,
    Strategy,
    clip_grad_norm_,
    matmul,
    reshard,
    shard_tensor,
    to_static,
)
from qdist.tensor import Tensor, functional, manual_seed

sys.path.append(str(Path(__file__).parents[3] / "circuits"))
import auto_parallel

# What is cut in the same way on every number of ranks is run on one of them; the examples run on all.
CASES = [("transformer", 4), ("cnn", 2), ("hybrid", 8)]
reference = cache(train_alone)


@pytest.fixture(scope="session")
def world() -> Communicator:
    return qd.comm.init(timeout=120)


@pytest.fixture(scope="session")
def groups(world: Communicator) -> Groups:
    return Groups(world)


def line(comm: Communicator, name: str) -> ProcessMesh:
    """All ranks on one axis."""
    return ProcessMesh(list(range(comm.size)), [name], comm)


def meshes(comm: Communicator) -> list[ProcessMesh]:
    """All ranks on one axis, and where there are enough of them on two."""
    found = [line(comm, "dp")]
    if comm.size >= 4:
        found.append(ProcessMesh(np.arange(comm.size).reshape(2, -1), ["dp", "mp"], comm))
    return found


def annotate(model: nn.Module, mesh: ProcessMesh) -> None:
    """Weights cut along the mesh's last axis: first by rows, then by columns, as in Megatron."""
    others = [Replicate()] * (len(mesh.shape) - 1)
    linears = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear) and min(m.weight.shape) >= 8]
    for i, (name, layer) in enumerate(linears):
        rows = Shard(0, 3 if name.endswith("qkv") else 1)
        shard_tensor(layer.weight, mesh, [*others, Shard(1) if i % 2 else rows])
        if not i % 2:
            shard_tensor(layer.bias, mesh, [*others, rows])


def train(name: str, mesh: ProcessMesh, tensor_parallel: bool) -> None:
    want = reference(name, steps=2)
    model = build(name)
    update = sgd(model.parameters())
    if tensor_parallel:
        annotate(model, mesh)
    rows = [Shard(0) if axis == "dp" else Replicate() for axis in mesh.dim_names]
    losses = []
    for step in range(2):
        x, y = batch(name, step)
        update.zero_grad()
        loss = functional.cross_entropy(model(shard_tensor(x, mesh, rows)), shard_tensor(y, mesh, rows))
        loss.backward()
        update.step()
        losses.append(loss.item())
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)
    assert_same(gradients_of(model), want.gradients)
    assert_same(parameters_of(model), want.parameters)


@pytest.mark.parametrize(("name", "size"), CASES)
def test_a_model_whose_input_alone_is_cut_is_data_parallel(name, size, groups) -> None:
    train(name, line(groups[size], "dp"), tensor_parallel=False)


@pytest.mark.parametrize(("name", "size"), [("mlp", 8), ("transformer", 4)])
def test_annotated_weights_train_as_one_process_does(name, size, groups) -> None:
    if name == "mlp":
        train(name, line(groups[size], "mp"), tensor_parallel=True)
    train(name, meshes(groups[size])[-1], tensor_parallel=True)


def strategies() -> dict[str, Strategy]:
    made = {name: Strategy() for name in ["plain", "stage 1", "stage 3", "recompute", "auto", "all devices"]}
    made["stage 1"].sharding.enable = made["stage 3"].sharding.enable = True
    made["stage 3"].sharding.stage = 3
    made["recompute"].recompute.enable = True
    made["auto"].auto = True
    made["auto"].machine = Machine(latency=0.0, flops=1e9)
    made["all devices"].fully_use_devices = True
    return made


@pytest.mark.parametrize("strategy", strategies())
def test_an_engine_trains_as_one_process_does(strategy, groups) -> None:
    engine_as_alone("mlp", strategies()[strategy], meshes(groups[4])[-1])


def test_an_engine_trains_a_transformer(groups) -> None:
    engine_as_alone("transformer", strategies()["stage 3"], meshes(groups[4])[-1])


def engine_as_alone(name: str, strategy: Strategy, mesh: ProcessMesh) -> None:
    want = reference(name, steps=2)
    model = build(name)
    engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), None, strategy, mesh)
    losses = []
    for step in range(2):
        # Another graph over the same parameters in between: it must find and leave them as they lie.
        losses.append(engine.run(batch(name, step), "eval")["loss"])
        losses.append(engine.run(batch(name, step))["loss"])
    np.testing.assert_allclose(losses, np.repeat(want.losses, 2), rtol=1e-10)
    assert_same(engine.state_dict(), want.parameters)


@pytest.mark.parametrize(("name", "size"), CASES[1:])
def test_to_static_trains_other_networks_data_parallel(name, size, groups) -> None:
    want = reference(name, steps=2)
    model = build(name)
    step = to_static(model, functional.cross_entropy, sgd(model.parameters()), comm=groups[size])
    np.testing.assert_allclose([step(*batch(name, s)) for s in range(2)], want.losses, rtol=1e-10)
    assert_same(parameters_of(model), want.parameters)


def test_masks_are_those_of_one_process(groups) -> None:
    """Dropout on rows of the batch, and in a captured graph whose weights are cut too."""

    def losses(comm: Communicator | None, static: bool) -> list[float]:
        manual_seed(2)
        model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 8)).to(np.float64)
        rule = sgd(model.parameters())
        x, y = np.random.default_rng(0).normal(size=(2, 16, 8))
        mesh = None if comm is None else line(comm, "mp" if static else "dp")
        if static and mesh is not None:
            shard_tensor(model[0].weight, mesh, ["mp", None])
            engine = Engine(model, functional.mse_loss, rule, mesh=mesh)
            engine.prepare(x, y)
            manual_seed(9)
            return [engine.run((x, y))["loss"] for _ in range(2)]
        manual_seed(9)
        found = []
        for _ in range(2):
            rule.zero_grad()
            rows = Tensor(x) if mesh is None else shard_tensor(x, mesh, [Shard(0)])
            loss = functional.mse_loss(model(rows), Tensor(y))
            loss.backward()
            rule.step()
            found.append(loss.item())
        return found

    want = losses(None, False)
    for static in (False, True):
        np.testing.assert_allclose(losses(groups[4], static), want, rtol=1e-10)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("options", [{}, {"sharding": 1}, {"sharding": 3}, {"axes": ["mp"]}])
def test_a_last_batch_may_have_fewer_rows_than_there_are_ranks(groups, size: int, options: dict[str, Any]) -> None:
    strategy = Strategy()
    if "sharding" in options:
        strategy.sharding.enable, strategy.sharding.stage = True, options["sharding"]
    mesh = line(groups[size], *options.get("axes", ["dp"]))
    x, y = batch("mlp", 0, 9)
    plain, model = build("mlp"), build("mlp")
    update = sgd(plain.parameters())
    losses = []
    for rows in (slice(0, 4), slice(4, 8), slice(8, 9)):
        update.zero_grad()
        loss = loss_of(plain, x[rows], y[rows])
        loss.backward()
        update.step()
        losses.append(loss.item())
    engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), Accuracy(), strategy, mesh)
    (history,) = engine.fit(ArrayDataset(x, y), 1, 4)
    np.testing.assert_allclose(history["loss"], np.average(losses, weights=[4, 4, 1]), rtol=1e-10)
    assert_same(engine.state_dict(), parameters_of(plain))
    outputs = plain(Tensor(x)).numpy()
    np.testing.assert_allclose(engine.predict(x, 4), outputs, atol=1e-10)
    found = engine.evaluate([(x[:8], y[:8]), (x[8:], y[8:])])
    np.testing.assert_allclose(found["loss"], loss_of(plain, x, y).item(), rtol=1e-10)
    assert found["acc_top1"] == pytest.approx((outputs.argmax(1) == y).mean())


def test_clipping_counts_every_part_once(groups) -> None:
    comm = groups[max(groups)]
    norms = []
    for mesh in (None, line(comm, "mp"), meshes(comm)[-1]):
        model = build("mlp")
        if mesh is not None:
            annotate(model, mesh)
        loss_of(model, *batch("mlp", 0)).backward()
        norms.append(clip_grad_norm_(model.parameters(), 0.1))
        norms.append(clip_grad_norm_(model.parameters(), 10.0))
    np.testing.assert_allclose(norms[::2], norms[0], rtol=1e-12)
    np.testing.assert_allclose(norms[1::2], 0.1, rtol=1e-12)


def sizes_of_examples() -> list[Any]:
    """Each net on another number of ranks; --thorough has every net on all."""
    cases = [(net, size) for net in auto_parallel.NETS for size in (2, 4, 8)]
    usual = [(net, (4, 2)[k % 2]) for k, net in enumerate(auto_parallel.NETS)]
    return [pytest.param(*case, marks=[pytest.mark.thorough] * (case not in usual)) for case in cases]


@pytest.mark.parametrize(("net", "size"), sizes_of_examples())
def test_the_examples_give_the_losses_of_one_process_in_every_mode(net, size, groups) -> None:
    def losses(*words: str) -> list[float]:
        small = ["--width", "16", "--inner", "32", "--rows", "16", "--steps", "2", "--precision", "float64", "--net"]
        return auto_parallel.train(auto_parallel.parser().parse_args([*small, net, *words]), groups[size])

    want = losses("--mode", "alone")
    for mode in auto_parallel.MODES[1:]:
        np.testing.assert_allclose(losses("--mode", mode), want, rtol=1e-10, err_msg=mode)
        if mode != "auto":
            np.testing.assert_allclose(losses("--mode", mode, "--static"), want, rtol=1e-10, err_msg=f"static {mode}")


def test_an_example_with_fewer_rows_than_ranks_has_the_losses_of_one_process(groups) -> None:
    few = ["--width", "8", "--inner", "8", "--rows", "2", "--steps", "2", "--precision", "float64", "--mode"]
    alone, sharded = (auto_parallel.parser().parse_args([*few, mode]) for mode in ("alone", "sharded"))
    np.testing.assert_allclose(auto_parallel.train(sharded, groups[4]), auto_parallel.train(alone, groups[4]))


@pytest.mark.parametrize("size", [2, 8])
def test_random_placements_in_and_resharded_out_have_the_same_value(size, groups) -> None:
    rng = np.random.default_rng(3)
    for mesh in meshes(groups[size]):
        for _ in range(10):
            shape = tuple(int(n) for n in rng.integers(size, size + 5, 2))
            value = rng.standard_normal(shape)
            ways = [Replicate(), Partial(), Shard(0), Shard(1)]
            x = Tensor(value, True)
            y = shard_tensor(x, mesh, [ways[i] for i in rng.integers(0, 4, len(mesh.shape))])
            y = reshard(y, mesh, [ways[i] for i in rng.integers(0, 4, len(mesh.shape))])
            np.testing.assert_allclose(y.numpy(), value, rtol=1e-12)
            (y * Tensor(value)).sum().backward()
            np.testing.assert_allclose(x.grad, value, rtol=1e-12)


class TwoProducts(nn.Module):
    """The net of the MindSpore tutorial: two matrix products with a ReLU between."""

    def __init__(self, strategy, comm=None) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.empty((32, 16)))
        self.weight2 = nn.Parameter(np.empty((16, 16)))
        manual_seed(1)
        nn.init.normal_(self.weight, std=0.1)
        nn.init.normal_(self.weight2, std=0.1)
        self.matmul = matmul if strategy is None else matmul.shard(strategy, comm)

    def forward(self, x):
        return matmul(functional.relu(self.matmul(x, self.weight)), self.weight2)


def test_the_two_product_net_has_the_shapes_and_the_group_of_the_tutorial(groups) -> None:
    world = groups[8]
    rng = np.random.default_rng(1)
    x, y = rng.random((16, 32)), rng.random((16, 16))
    alone = TwoProducts(None)
    optimizer = qd.optim.SGD(alone.parameters(), lr=0.2, momentum=0.1)
    want = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.mse_loss(alone(Tensor(x)), Tensor(y))
        loss.backward()
        optimizer.step()
        want.append(loss.item())

    net = TwoProducts(((2, 4), (4, 1)), world)
    strategy = Strategy(fully_use_devices=True)
    engine = Engine(net, functional.mse_loss, qd.optim.SGD(net.parameters(), lr=0.2, momentum=0.1), strategy=strategy)
    losses = [engine.run((x, y))["loss"] for _ in range(3)]
    np.testing.assert_allclose(losses, want, rtol=1e-10)
    lines = [line.strip() for line in engine.main_program.splitlines()]
    first = 4 * (world.rank // 4)
    # %12 MatMul (8, 8), (8, 16) -> (8, 16); %13 AllReduce over 0-1-2-3; %14 slice to (8, 4); %15 ReLU; %17 MatMul.
    product = next(i for i, line in enumerate(lines) if "= matmul" in line)
    assert "local [8, 8]" in lines[product + 1]
    assert "local [8, 16]" in lines[product + 1]
    reduce = next(line for line in lines[product:] if "all_reduce(" in line)
    assert f"all_reduce over d1 {list(range(first, first + 4))}" in reduce
    relu = next(i for i, line in enumerate(lines) if "= relu" in line)
    assert lines[relu + 1].count("local [8, 4]") == 2
    second = next(i for i, line in enumerate(lines) if "= matmul" in line and i > relu)
    assert "local [8, 4]" in lines[second + 1]
    assert "local [4, 16]" in lines[second + 1]
    assert "local [8, 16]" in lines[second + 1]
    assert net.weight.local.shape == (8, 16)
    assert net.weight2.local.shape == (4, 16)


def test_ranks_that_pass_different_rows_are_told(groups) -> None:
    comm = groups[4]
    x, y = batch("mlp", 0)
    for strategy in (Strategy(), _pipelined()):
        model = build("mlp")
        mesh = ProcessMesh(np.arange(4).reshape(2, 2), ["pp", "dp"] if strategy.pipeline.enable else ["dp", "mp"], comm)
        engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), strategy=strategy, mesh=mesh)
        with pytest.raises(ValueError, match=r'different rows.*dataset_strategy = "data_parallel"'):
            engine.run((np.roll(x, comm.rank, 0), y))


def _pipelined() -> Strategy:
    strategy = Strategy()
    strategy.pipeline.enable, strategy.pipeline.accumulate_steps = True, 2
    return strategy


@pytest.mark.parametrize("name", ["plain", "stage 3", "auto"])
def test_parameters_that_are_frozen_and_thawed_between_steps_train_as_in_one_process(groups, name) -> None:
    def trained(step: Any, model: nn.Module) -> None:
        weights = [p for p in model.parameters() if p.ndim == 2]
        for at, (first, last) in enumerate(((False, True), (True, True), (True, False))):
            weights[0].requires_grad, weights[-1].requires_grad = first, last
            step(*batch("mlp", at))

    alone, model = build("mlp"), build("mlp")
    update = sgd(alone.parameters())

    def plainly(x: Any, y: Any) -> None:
        update.zero_grad()
        functional.cross_entropy(alone(Tensor(x)), y).backward()
        update.step()

    trained(plainly, alone)
    strategy, rule = strategies()[name], sgd(model.parameters())
    engine = Engine(model, functional.cross_entropy, rule, strategy=strategy, mesh=line(groups[4], "dp"))
    trained(lambda x, y: engine.run((x, y)), model)
    assert_same(engine.state_dict(), parameters_of(alone))


@pytest.mark.parametrize("kind", ["propagated", "auto", "pipeline"])
def test_rows_of_each_ranks_own_are_the_batch_together(groups, kind) -> None:
    comm, steps = groups[4], 3
    want = reference("mlp", steps)
    strategy = _pipelined() if kind == "pipeline" else Strategy(auto=kind == "auto")
    strategy.dataset_strategy = "data_parallel"
    mesh = ProcessMesh(np.arange(4).reshape(2, 2), ["pp", "dp"] if kind == "pipeline" else ["mp", "dp"], comm)
    model = build("mlp")
    seen = lambda output, labels: {"rows": float(len(output)), "same": float(len(output) == len(labels))}  # noqa: E731
    engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), seen, strategy, mesh)
    place = mesh.place()[1]
    got = []
    for step in range(steps):
        x, y = batch("mlp", step)
        half = slice(place * len(x) // 2, (place + 1) * len(x) // 2)
        got.append(engine.run((x[half], y[half])))
    np.testing.assert_allclose([result["loss"] for result in got], want.losses, rtol=1e-10)
    assert got[0]["rows"] == len(x) / (2 if kind == "pipeline" else 1)
    assert got[0]["same"] == 1
    assert_same(engine.state_dict(), want.parameters)
    with pytest.raises(ValueError, match='mesh axis "dp"'):
        Engine(model, functional.cross_entropy, engine.optimizer, strategy=strategy, mesh=line(comm, "mp")).run((x, y))


def test_ranks_that_place_different_values_are_told_and_parameters_are_the_first_ranks(groups) -> None:
    comm = groups[8]
    own = np.full((16, 4), float(comm.rank))
    same = np.arange(64.0).reshape(16, 4)
    grid = np.arange(8).reshape(2, 4)
    for mesh, other in ((line(comm, "mp"), 1), (ProcessMesh(grid, ["dp", "mp"], comm), 1)):
        cut = [Replicate()] * (len(mesh.shape) - 1) + [Shard(0)]
        with pytest.raises(ValueError, match=rf"ranks 0 and {other} have different values of one tensor.*same seed"):
            shard_tensor(own, mesh, cut)
        with pytest.raises(ValueError, match="have different shapes or types"):
            shard_tensor(own if comm.rank else own[:, :2], mesh, cut)
        placed = shard_tensor(same, mesh, cut)
        np.testing.assert_array_equal(placed.numpy(), same)
        # Beside a DistTensor a plain tensor stands for a whole one.
        with pytest.raises(ValueError, match="different values"):
            placed - Tensor(own)
        with pytest.raises(ValueError, match="different values"):
            placed @ nn.Parameter(own[:4].T)
        weight = nn.Parameter(own.copy())
        assert shard_tensor(weight, mesh, cut) is weight
        np.testing.assert_array_equal(weight.numpy(), np.zeros(own.shape))
    some = ProcessMesh([3, 1], ["mp"], comm)
    if comm.rank in (1, 3):
        with pytest.raises(ValueError, match="ranks 3 and 1 have different values"):
            shard_tensor(own, some, [Shard(0)])
    # Rounding that differs between processors is no mistake.
    close = shard_tensor(same * (1.0 + 4e-16 * comm.rank), line(comm, "mp"), [Shard(0)])
    np.testing.assert_allclose(close.numpy(), same, rtol=1e-13)
