"""An Engine's pipelines together with everything else it does, against one process; run on every rank of 4
and of 8 at once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from groups import Groups

import qdist as qd
from qdist import nn, optim
from qdist.comm import Communicator
from qdist.parallel.auto import Accuracy, Engine, InputSpec, Machine, ProcessMesh, Strategy, shard_op, shard_tensor
from qdist.tensor import Tensor, functional, manual_seed

F64 = np.float64
ROWS, STEPS = 8, 3


@pytest.fixture(scope="session")
def world() -> Communicator:
    return qd.comm.init(timeout=120)


@pytest.fixture(scope="session")
def groups(world: Communicator) -> Groups:
    return Groups(world)


class Block(nn.Module):
    """The gated perceptron of LLaMA, with a residual: weights are annotated with a stage and an axis "mp" at once."""

    def __init__(self, stage: ProcessMesh | None, annotate: bool) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(6, 8, dtype=F64), nn.Linear(6, 8, False, dtype=F64)
        self.down, self.norm = nn.Linear(8, 6, dtype=F64), nn.LayerNorm(6, dtype=F64)
        self.drop = nn.Dropout(0.2)
        self.forgets = False
        self.stage, self.annotate = stage, annotate and stage is not None and "mp" in stage.dim_names

    def forward(self, x: Tensor) -> Tensor:
        if self.annotate:  # Weights are (out, in).
            shard_tensor(self.norm.weight, self.stage, [None])
            shard_tensor(self.gate.weight, self.stage, ["mp", None])
            shard_tensor(self.up.weight, self.stage, ["mp", None])
            shard_tensor(self.down.weight, self.stage, [None, "mp"])
        if self.forgets:
            self.drop(x)  # Nobody uses what it gives.
        return x + self.drop(self.down(functional.silu(self.gate(self.norm(x))) * self.up(x)))


class Net(nn.Module):
    """Embedding, blocks, and a head that shares the table."""

    def __init__(self, mesh: ProcessMesh | None, annotate: bool = True, tied: bool = True, blocks: int = 4) -> None:
        super().__init__()
        stages = 1 if mesh is None else mesh.shape[0]
        self.table, self.tied = nn.Embedding(9, 6, dtype=F64), tied
        rows = [None if mesh is None else mesh[i * stages // blocks] for i in range(blocks)]
        self.blocks = nn.ModuleList([Block(row, annotate) for row in rows])
        self.head = None if tied else nn.Linear(6, 9, dtype=F64)
        self.rows = rows

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        for block, row in zip(self.blocks, self.rows):
            x = block(x) if row is None or block.annotate else shard_op(block, row)(x)
        return self.head(x) if self.head is not None else x @ self.table.weight.transpose(1, 0)


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [(rng.integers(0, 9, ROWS), rng.integers(0, 9, (ROWS,))) for _ in range(STEPS)]


@cache
def alone(tied: bool, blocks: int = 4) -> tuple[list[float], dict[str, np.ndarray]]:
    manual_seed(1)
    model = Net(None, tied=tied, blocks=blocks)
    for block in model.blocks:
        block.drop.p = 0.0
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for x, y in batches():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(Tensor(x)), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses, {name: value.numpy() for name, value in model.state_dict().items()}


def strategy_of(**parts: dict) -> Strategy:
    strategy = Strategy()
    for name, options in parts.items():
        for option, value in {"enable": True, **options}.items():
            setattr(getattr(strategy, name), option, value)
    return strategy


def engine_on(mesh: ProcessMesh, strategy: Strategy, tied: bool, annotate: bool = True, blocks: int = 4) -> Engine:
    manual_seed(1)
    model = Net(mesh, annotate, tied, blocks)
    for block in model.blocks:
        block.drop.p = 0.0
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Engine(model, nn.CrossEntropyLoss(), optimizer, Accuracy((1,)), strategy, mesh)


MESHES = {
    2: [((2,), ["pp"])],
    4: [((2, 2), ["pp", "dp"]), ((2, 2), ["pp", "mp"]), ((4,), ["pp"])],
    8: [((2, 2, 2), ["pp", "dp", "mp"]), ((4, 2), ["pp", "mp"])],
}


def more(*cases: tuple) -> list:
    """On eight ranks stages are divided as on four, and take long; each search has one of two ways to make stages, and
    recomputation one of two schedules."""
    return [pytest.param(*case, marks=pytest.mark.thorough) for case in cases]


PARTS = {
    "plain": {},
    "sharding 1": {"sharding": {"stage": 1}},
    "sharding 3": {"sharding": {"stage": 3}},
    "recompute": {"recompute": {"segments": 2}},
}


@pytest.mark.parametrize(
    ("size", "parts", "schedule"),
    [
        *((size, "plain", schedule) for size in (2, 4) for schedule in ("1f1b", "naive")),
        *((4, parts, "1f1b") for parts in list(PARTS)[1:]),
        (8, "sharding 3", "1f1b"),
        *more((4, "recompute", "naive"), (8, "plain", "1f1b"), (8, "plain", "naive")),
        *more((8, "sharding 1", "1f1b"), (8, "recompute", "1f1b")),
    ],
)
def test_stages_with_everything_train_as_one_process(groups, size: int, parts: str, schedule: str) -> None:
    comm = groups[size]
    for shape, names in MESHES[size]:
        if "sharding" in PARTS[parts] and "dp" not in names:
            continue
        mesh = ProcessMesh(np.arange(size).reshape(shape), names, comm)
        tied = "sharding" not in parts and schedule == "naive"
        strategy = strategy_of(pipeline={"accumulate_steps": 2, "schedule": schedule}, **PARTS[parts])
        blocks = 4 if parts == "recompute" else shape[names.index("pp")]
        engine = engine_on(mesh, strategy, tied, blocks=blocks)
        results = [engine.run(batch) for batch in batches()]
        expected, state = alone(tied, blocks)
        np.testing.assert_allclose([result["loss"] for result in results], expected, atol=1e-10)
        assert 0 <= results[0]["acc_top1"] <= 1
        got = engine.state_dict()
        for name, value in state.items():
            np.testing.assert_allclose(got[name], value, atol=1e-10, err_msg=f"{names} {parts} {name}")


SEARCHES = [
    (search, staged)
    for search in ("dynamic_programming", "recursive_programming", "sharding_propagation")
    for staged in ("by annotation", "by weight")
]
FEWER_SEARCHES = [SEARCHES[0], SEARCHES[3], SEARCHES[4], SEARCHES[5]]


@pytest.mark.parametrize(
    ("size", "search", "staged"),
    [
        *((4, *how) for how in FEWER_SEARCHES),
        *more(*((4, *how) for how in SEARCHES if how not in FEWER_SEARCHES), *((8, *how) for how in SEARCHES)),
    ],
)
def test_placements_are_searched_for_inside_of_every_stage(groups, size: int, search: str, staged: str) -> None:
    comm = groups[size]
    for shape, names in MESHES[size]:
        if "mp" not in names:
            continue
        mesh = ProcessMesh(np.arange(size).reshape(shape), names, comm)
        strategy = strategy_of(pipeline={"accumulate_steps": 2})
        strategy.auto, strategy.search_mode = True, search
        # What a rank computes costs, and messages nothing: something is cut wherever that can be.
        strategy.machine = Machine(flops=1e6, bandwidth=1e12, latency=0.0)
        blocks = shape[0]  # A block for each stage: the time of a search grows with them, on every rank.
        where = mesh if staged == "by annotation" else None
        engine = engine_on(where, strategy, tied=False, annotate=False, blocks=blocks)
        engine.mesh = mesh
        losses = [engine.run(batch)["loss"] for batch in batches()]
        expected, state = alone(False, blocks)
        np.testing.assert_allclose(losses, expected, atol=1e-10)
        got = engine.state_dict()
        for name, value in state.items():
            np.testing.assert_allclose(got[name], value, atol=1e-10, err_msg=f"{names} {search} {name}")
        splits = engine.pipeline.stage.runner.plan.splits
        free = [i for i, name in enumerate(n for n in names if n != "pp") if name != "dp"]
        assert any(split[axis].label is not None for split in splits.values() for axis in free)
        engine.evaluate([batches()[0]])


def test_a_rank_keeps_its_stage_alone(groups) -> None:
    comm = groups[4]
    mesh = ProcessMesh(np.arange(4).reshape(2, 2), ["pp", "mp"], comm)
    engine = engine_on(mesh, strategy_of(pipeline={"accumulate_steps": 2}), tied=False)
    engine.prepare(InputSpec([ROWS], np.int64, "tokens"), InputSpec([ROWS], np.int64, "label"))
    stage = mesh.place()[0]
    for name, parameter in engine.model.named_parameters():
        at = 0 if name == "table.weight" or name[7] in "01" else 1
        if name.startswith("head"):
            at = 1
        assert (parameter.local.size > 0) == (at == stage), name
        if "gate.weight" in name and at == stage:
            assert parameter.local.shape == (4, 6)
    text = engine.main_program
    assert f"stage {stage} of 2" in text
    assert "1f1b" in text
    words = (
        ["= recv(rank", "send(grad(", "loss_grad"] if stage else ["tokens : input", "send(%", "recv(rank", "embedding"]
    )
    assert all(word in text for word in words)
    assert f"blocks.{2 * stage}.gate.weight = sgd(" in text
    assert f"blocks.{2 - 2 * stage}.gate.weight = sgd(" not in text
    serial = engine.serial_main_program
    assert all(f"blocks.{i}.gate.weight = sgd(" in serial for i in range(4))
    assert "head.bias" in (engine.startup_program if stage else engine.serial_startup_program)


def test_annotated_stages_need_no_strategy(groups) -> None:
    comm = groups[4]
    mesh = ProcessMesh(np.arange(4).reshape(2, 2), ["pp", "mp"], comm)
    engine = engine_on(mesh, Strategy(), tied=False, annotate=comm.rank < 99)
    engine.mesh = None  # It is that of the annotations.
    results = [engine.run(batch)["loss"] for batch in batches()]
    np.testing.assert_allclose(results, alone(False)[0], atol=1e-10)
    assert engine.mesh == mesh


def test_mixed_precision_and_dropout_run_in_stages(groups) -> None:
    comm = groups[4]
    mesh = ProcessMesh(np.arange(4).reshape(2, 2), ["pp", "dp"], comm)
    amp = {"amp": {"dtype": np.float32}}
    engine = engine_on(mesh, strategy_of(pipeline={"accumulate_steps": 2}, **amp), tied=False)
    losses = [engine.run(batch)["loss"] for batch in batches()]
    np.testing.assert_allclose(losses, alone(False)[0], atol=1e-5)
    assert max(abs(np.array(losses) - alone(False)[0])) > 1e-10
    for block in engine.model.blocks:
        block.drop.p = 0.5
    x, y = batches()[0]
    dropping = engine_on(mesh, strategy_of(pipeline={"accumulate_steps": 2}), tied=False)
    for block in dropping.model.blocks:
        block.drop.p = 0.5
    plain = engine_on(mesh, strategy_of(pipeline={"accumulate_steps": 2}), tied=False)
    assert dropping.run((x, y), "eval")["loss"] == pytest.approx(plain.run((x, y), "eval")["loss"], abs=1e-12)
    np.testing.assert_allclose(dropping.run(x, "predict")["outputs"], plain.run(x, "predict")["outputs"], atol=1e-12)
    assert dropping.run((x, y))["loss"] != pytest.approx(plain.run((x, y))["loss"], abs=1e-6)


DROPPED = [
    (4, ((2, 2), ["pp", "dp"]), 2, {}),
    (4, ((2, 2), ["dp", "pp"]), 4, {}),
    (4, ((2, 2), ["pp", "mp"]), 2, {"recompute": {"segments": 2}}),
    *more((8, ((2, 2, 2), ["pp", "dp", "mp"]), 2, {"sharding": {"stage": 3}})),
]


@pytest.mark.parametrize(("size", "mesh", "steps", "parts"), DROPPED)
def test_dropout_in_stages_is_that_of_one_process(groups, size: int, mesh, steps: int, parts: dict) -> None:
    comm = groups[size]
    shape, names = mesh
    # Along "dp" first there are no rows of the mesh to annotate: operations are divided by their parameters.
    annotated = names[0] == "pp"
    where = ProcessMesh(np.arange(size).reshape(shape), names, comm)
    manual_seed(1)
    plain = Net(None, tied=False)
    manual_seed(1)
    model = Net(where if annotated else None, tied=False)
    for net in (plain, model):
        for block in net.blocks[1:]:
            block.forgets = True
    strategy = strategy_of(pipeline={"accumulate_steps": steps}, **parts)
    update = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    engine = Engine(model, nn.CrossEntropyLoss(), update, None, strategy, where)
    manual_seed(7 + comm.rank)  # The first rank's is taken.
    losses = []
    for step, batch in enumerate(batches()):
        losses.append(engine.run(batch)["loss"])
        engine.run(batch, "eval")  # It draws nothing.
        if step == 0 and comm.rank:
            manual_seed(70 + comm.rank)
    manual_seed(7)
    optimizer = optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    want = []
    for x, y in batches():
        optimizer.zero_grad()
        loss = functional.cross_entropy(plain(Tensor(x)), y)
        loss.backward()
        optimizer.step()
        want.append(float(loss))
    np.testing.assert_allclose(losses, want, atol=1e-10)
    got = engine.state_dict()
    for name, value in plain.state_dict().items():
        np.testing.assert_allclose(got[name], value.numpy(), atol=1e-10, err_msg=name)


def pair(output: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    seen = (labels != 0).to(output.dtype)
    return (functional.cross_entropy(output, labels, "none") * seen).sum(), seen.sum()


def hits(output: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {"hits": float((output.argmax(1) == labels).mean())}


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(ignore_index=0), pair, functional.cross_entropy])
@pytest.mark.parametrize("stages", [True, False])
def test_means_over_what_is_not_masked(groups, stages: bool, loss) -> None:
    comm = groups[4]
    shape, names = ((2, 2), ["pp", "dp"]) if stages else ((4,), ["dp"])
    mesh = ProcessMesh(np.arange(4).reshape(shape), names, comm)
    x, y = batches()[0]
    y[0], y[1:5] = 3, 0  # Micro-batches and replicas have very different numbers of what counts.
    amp = {"dtype": np.float64}  # No other precision, but a scaled loss.
    steps = {"pipeline": {"accumulate_steps": 2}} if stages else {}
    manual_seed(1)
    model = Net(mesh if stages else None, annotate=False, tied=False)
    manual_seed(1)
    plain = Net(None, tied=False)
    for block in (*model.blocks, *plain.blocks):
        block.drop.p = 0.0
    engine = Engine(model, loss, optim.SGD(model.parameters(), lr=0.1), hits, strategy_of(amp=amp, **steps), mesh)
    output = plain(Tensor(x))
    value = loss(output, Tensor(y))
    value = value[0] / value[1] if isinstance(value, tuple) else value
    value.backward()
    optim.SGD(plain.parameters(), lr=0.1).step()
    expected = hits(output.numpy(), y)["hits"]
    assert engine.run((x, y), "eval") == {"loss": pytest.approx(float(value)), "hits": pytest.approx(expected)}
    np.testing.assert_allclose(engine.run(x, "predict")["outputs"], output.numpy(), atol=1e-12)
    assert engine.run((x, y)) == {"loss": pytest.approx(float(value)), "hits": pytest.approx(expected)}
    got = engine.state_dict()
    for name, wanted in plain.state_dict().items():
        np.testing.assert_allclose(got[name], wanted.numpy(), atol=1e-10, err_msg=name)
    if stages:
        parts = [loss(output[a : a + 4], Tensor(y[a : a + 4])) for a in (0, 4)]
        parts = [float(part[0] / part[1]) if isinstance(part, tuple) else float(part) for part in parts]
        np.testing.assert_allclose(engine.pipeline.losses(), parts)


def test_files_go_from_any_mesh_to_any_other(groups) -> None:
    comm = groups[4]
    data = batches()
    for tied in (False, True):
        with TemporaryDirectory() as own:
            folder = Path(comm.broadcast_object(own))
            first = engine_on(
                ProcessMesh(np.arange(4).reshape(2, 2), ["pp", "dp"], comm),
                strategy_of(pipeline={"accumulate_steps": 2}),
                tied,
            )
            first.run(data[0])
            first.save(folder / "state.qdist")
            want = [first.run(batch)["loss"] for batch in data[1:]]
            mesh = ProcessMesh(np.arange(4).reshape(2, 2), ["pp", "mp"], comm)
            second = engine_on(mesh, strategy_of(pipeline={"accumulate_steps": 4}), tied)
            second.prepare(data[0][0], data[0][1])
            second.load(folder / "state.qdist")
            np.testing.assert_allclose([second.run(batch)["loss"] for batch in data[1:]], want, atol=1e-10)
            third = engine_on(mesh, Strategy(), tied, annotate=False)  # Whole batches.
            third.load(folder / "state.qdist")
            np.testing.assert_allclose([third.run(batch)["loss"] for batch in data[1:]], want, atol=1e-10)
            comm.barrier()
