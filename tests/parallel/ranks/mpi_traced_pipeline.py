"""Pipelines of models that are no list of layers train as in one process; run on every rank at once."""

from __future__ import annotations

from functools import cache
from typing import Any

import models
import numpy as np
import pytest
from meshes import assert_trains_as, share_of
from models import F64, Trained, adam, from_first, sgd
from traced_models import GPT, batches, build, loss_of

import qdist as qd
from qdist import nn
from qdist.comm import Communicator, Mesh
from qdist.parallel import Pipeline, Plan, forecast_memory, load_plain, parallelize
from qdist.tensor import Tensor, random

ROWS = 9

# (model, degrees, options of the plan) for each number of ranks.
BLOCKS = {"wte": "vocabulary", "blocks.*": "block"}
INTERLEAVED = {"schedule": "interleaved", "virtual_stages": 2, "micro_batches": 2}
CASES: dict[int, list[tuple[str, dict[str, int], dict[str, Any]]]] = {
    2: [
        ("gpt", {"pp": 2}, {"micro_batches": 3}),
        ("gpt-call-head", {"pp": 2}, {"micro_batches": 2, "schedule": "f-then-b", "recompute": ["blocks.[02]"]}),
        ("gpt", {"pp": 2}, {"stages": ["blocks.1"], "schedule": "naive", "micro_batches": 2}),
        ("gpt", {"pp": 2}, {**INTERLEAVED, "stages": [1, 2, 3, 1]}),
        ("unet", {"pp": 2}, {"micro_batches": 3}),
        ("unet", {"pp": 2}, INTERLEAVED),
    ],
    4: [
        ("gpt", {"pp": 4}, {"micro_batches": 3}),
        ("gpt", {"dp": 2, "pp": 2}, {"micro_batches": 2, "zero": 3}),
        ("gpt-call-head", {"dp": 2, "pp": 2}, {"micro_batches": 2, "zero": 1, **INTERLEAVED}),
        ("gpt-call-head", {"pp": 2, "tp": 2}, {"layers": {"blocks.*": "block"}, "micro_batches": 2}),
        ("gpt-table-read-module", {"pp": 2, "cp": 2}, {"positions": ["wpe.weight"], "micro_batches": 2}),
        ("gpt-call-head-module", {"pp": 2, "cp": 2}, {"micro_batches": 2, "zero": 2}),
        ("unet", {"pp": 4}, {"micro_batches": 2, "stages": ["encoder.layers.1", "middle", "up.1"]}),
        ("unet", {"pp": 4}, {**INTERLEAVED, "zero": 1}),
    ],
}


@pytest.fixture(scope="session")
def comm() -> Communicator:
    return qd.comm.init(timeout=120)


@cache
def alone(kind: str, with_adam: bool) -> Trained:
    return from_first(lambda: train_alone(kind, with_adam))


def train_alone(kind: str, with_adam: bool) -> Trained:
    model, loss = build(kind), loss_of(kind)
    update = (adam if with_adam else sgd)(model.parameters())
    random.manual_seed(31)
    losses = []
    for x, y in batches(kind, ROWS):
        update.zero_grad()
        value = loss(model(Tensor(x)), Tensor(y))
        value.backward()
        update.step()
        losses.append(value.item())
    return Trained(losses, models.gradients_of(model), models.state_of(model))


@cache
def mesh_of(comm: Communicator, shape: tuple[tuple[str, int], ...]) -> Mesh:
    return Mesh(comm, **dict(shape))


def cases() -> list[Any]:
    size = qd.comm.init(timeout=120).size
    return CASES.get(size, [])


@pytest.mark.parametrize(("kind", "shape", "options"), cases(), ids=str)
def test_losses_gradients_and_parameters_are_those_of_one_process(
    comm: Communicator, kind: str, shape: dict[str, int], options: dict[str, Any]
) -> None:
    mesh = mesh_of(comm, tuple(shape.items()))
    plan = Plan(**options)
    make = adam if plan.zero else sgd
    want = alone(kind, bool(plan.zero))
    x, _ = batches(kind, ROWS)[0]
    trained = parallelize(build(kind), mesh, plan, optimizer=make, loss=loss_of(kind), example=x[:1])
    random.manual_seed(31, comm.rank)
    assert_trains_as(want, trained, [share_of(mesh, x, y) for x, y in batches(kind, ROWS)])
    x, y = share_of(mesh, *batches(kind, ROWS)[1])
    foreseen = forecast_memory(build(kind), shape, plan, optimizer=make, loss=loss_of(kind), inputs=x, targets=y)
    assert trained.memory()[comm.rank] == foreseen[comm.rank]
    plain = build(kind)
    plain.load_state_dict(want.parameters)
    plain.eval()
    x, y = batches(kind, ROWS)[1]
    value = loss_of(kind)(plain(Tensor(x)), Tensor(y)).item()
    np.testing.assert_allclose(trained.eval_batch(*share_of(mesh, x, y)), value, rtol=1e-10)
    mine = share_of(mesh, x, y)[0]
    np.testing.assert_allclose(trained.predict(mine).numpy(), plain(Tensor(mine)).numpy(), rtol=1e-10, atol=1e-10)


def test_a_file_of_one_process_goes_on_in_stages(comm: Communicator, tmp_path_factory: Any) -> None:
    path = comm.broadcast_object(str(tmp_path_factory.mktemp("traced") / "file"))
    mesh, want = mesh_of(comm, (("pp", comm.size),)), alone("gpt", True)
    rows = batches("gpt", ROWS)
    first = parallelize(
        build("gpt"), mesh, Plan(micro_batches=2), optimizer=adam, loss=loss_of("gpt"), example=rows[0][0][:1]
    )
    random.manual_seed(31)
    first.train_batch(*rows[0])
    first.save(path, {"steps": 1})
    manual = build("gpt")
    second = parallelize(
        manual, mesh, Plan(schedule="f-then-b"), optimizer=adam, loss=loss_of("gpt"), example=rows[0][0][:1]
    )
    assert second.load(path) == {"steps": 1}
    value = second.train_batch(*rows[1])
    np.testing.assert_allclose(value, want.losses[1], rtol=1e-10)
    state = {name: tensor.numpy() for name, tensor in second.state_dict().items()}
    models.assert_same(state, want.parameters)


class PartlyUsed(nn.Module):
    """Modules, a parameter and buffers that no pass comes to, and a weight that only one of its names leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({"spare": nn.Linear(7, 2, dtype=F64), "used": nn.Linear(7, 3, dtype=F64)})
        self.layers = nn.ModuleList(nn.Linear(7, 7, dtype=F64) for _ in range(4))
        self.norm = nn.BatchNorm1d(7, dtype=F64)
        self.skipped = nn.Parameter(np.ones(5))
        self.other = nn.Linear(7, 7, dtype=F64)
        self.other.weight = self.layers[2].weight
        self.table = nn.Linear(7, 7, dtype=F64)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return self.heads["used"](x @ self.table.weight)


@pytest.mark.parametrize("zero", [0, 2, 3])
def test_what_no_stage_uses_stays_in_the_model(comm: Communicator, tmp_path_factory: Any, zero: int) -> None:
    path = comm.broadcast_object(str(tmp_path_factory.mktemp("partly") / "file"))
    mesh = mesh_of(comm, (("pp", 2), ("dp", comm.size // 2)))
    rng, loss = np.random.default_rng(3), nn.MSELoss()
    rows = [(rng.normal(size=(9, 7)), rng.normal(size=(9, 3))) for _ in range(2)]
    random.manual_seed(5)
    plain = PartlyUsed()
    random.manual_seed(5 + comm.rank)  # The first rank's weights are taken.
    plan = Plan(micro_batches=2, zero=zero)
    trained = parallelize(PartlyUsed(), mesh, plan, optimizer=adam, loss=loss, example=rows[0][0][:1])
    update = adam(plain.parameters())
    for x, y in rows:
        update.zero_grad()
        loss(plain(Tensor(x)), Tensor(y)).backward()
        update.step()
        trained.backward(*share_of(mesh, x, y))
        models.assert_same(trained.gradients(), models.gradients_of(plain))
        trained.step()
    models.assert_same(models.state_of(trained), models.state_of(plain))
    trained.save(path)
    again = PartlyUsed()
    load_plain(path, again, adam(again.parameters()))
    models.assert_same(models.state_of(again), models.state_of(plain))
    trained.load(path)
    models.assert_same(models.state_of(trained), models.state_of(plain))


def test_pipedream_runs_a_traced_model(comm: Communicator) -> None:
    """With one micro-batch nothing is stale: it is what one process computes."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c, self.d = (nn.Linear(4, 4, dtype=F64) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x).tanh()
            return self.d(self.c(self.b(y)) + y * x)

    random.manual_seed(2)
    plain = Plain()
    random.manual_seed(2)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(6, 4)), rng.normal(size=(6, 4))
    pipeline = Pipeline(Plain(), nn.MSELoss(), comm, micro_batches=1, schedule="pipedream", example=x[:2])
    update, own = sgd(plain.parameters()), pipeline.make_optimizer(lambda parameters: sgd(parameters))
    for _ in range(2):
        update.zero_grad()
        value = nn.MSELoss()(plain(Tensor(x)), Tensor(y))
        value.backward()
        update.step()
        np.testing.assert_allclose(pipeline.train_batch(x, y, own), value.item(), rtol=1e-10)
    models.assert_same({name: t.numpy() for name, t in pipeline.whole_state_dict().items()}, models.state_of(plain))


def test_a_rank_keeps_the_parameters_of_its_stage_alone(comm: Communicator) -> None:
    model = GPT(tied="head")
    pipeline = Pipeline(model, nn.CrossEntropyLoss(), comm, micro_batches=1, example=np.zeros((1, 4), int))
    held = sum(p.nbytes for p in pipeline.parameters())
    everything = sum(p.nbytes for p in GPT(tied="head").parameters())
    assert held < everything * (0.8 if comm.size == 2 else 0.6)
    kept = {id(p) for p in pipeline.parameters()}
    for block in model.blocks:
        for p in block._inner.parameters():
            assert p.deferred == (id(p) not in kept)


def test_shapes_that_the_example_did_not_have_are_run(comm: Communicator) -> None:
    loss = nn.CrossEntropyLoss()
    random.manual_seed(4)
    plain = GPT(dropout=0.0)
    random.manual_seed(4)
    pipeline = Pipeline(GPT(dropout=0.0), loss, comm, micro_batches=2, example=np.zeros((1, 4), int))
    plain.eval()
    for length, rows in ((4, 3), (7, 2), (4, 5), (2, 1)):
        x = np.random.default_rng(length).integers(0, 24, (rows, length))
        want = loss(plain(Tensor(x)), Tensor(x)).item()
        np.testing.assert_allclose(pipeline.eval_batch(x, x), want, rtol=1e-10)
