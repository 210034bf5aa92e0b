"""Pipelines compute what one process computes; run on every rank of 2, 3, 4 or 8 at once."""

import weakref
from functools import partial
from itertools import pairwise
from typing import Any

import models
import numpy as np
import pytest
from models import F64, FEATURES, HEADS, assert_same, gradients_of, parameters_of

import qdist as qd
from qdist import nn, optim
from qdist.parallel import Action, Pipeline, PipelineTraining, Schedule, make_schedule, recompute
from qdist.parallel.pipeline.executor import Run
from qdist.parallel.pipeline.stage_messages import Channels
from qdist.tensor import Tensor, functional, manual_seed

ROWS, STEPS = 8, 2
LOSS = nn.CrossEntropyLoss()
SCHEDULES = ("naive", "f-then-b", "1f1b", "interleaved")
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3}


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=120)


@pytest.fixture(scope="session")
def alone(comm: qd.comm.Communicator) -> qd.comm.Communicator:
    """This rank as a pipeline of one."""
    return comm.split([[rank] for rank in range(comm.size)])


def tied() -> nn.Sequential:
    """A transformer of eight layers whose first and last share their weights."""
    tokens = models.Tokens()
    blocks = [nn.TransformerBlock(FEATURES, HEADS, 16, causal=True, dtype=F64) for _ in range(5)]
    return nn.Sequential(tokens, *blocks, nn.LayerNorm(FEATURES, dtype=F64), models.Scores(tokens.table))


def hybrid() -> nn.Sequential:
    """A circuit between linear layers, eight layers in all."""
    more = [nn.Linear(models.CLASSES, 12, dtype=F64), nn.Tanh(), nn.Linear(12, models.CLASSES, dtype=F64), nn.Tanh()]
    return nn.Sequential(*models.hybrid(), *more)


def deep(width: int = 6, pairs: int = 8) -> nn.Sequential:
    """Layers enough for two stages on each of eight ranks."""
    layers: list[nn.Module] = []
    for a in [12, *[width] * (pairs - 1)]:
        layers += [nn.Linear(a, width, dtype=F64), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, models.CLASSES, dtype=F64))


MAKERS = {"mlp": models.mlp, "cnn": models.cnn, "transformer": tied, "hybrid": hybrid, "deep": deep}


def build(name: str) -> nn.Sequential:
    manual_seed(0)
    return MAKERS[name]()


def batch(name: str, step: int, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    return models.batch("mlp" if name == "deep" else name, step, rows)


@pytest.fixture(scope="session")
def one_process(comm: qd.comm.Communicator) -> Any:
    """Losses, gradients and parameters of a plain training loop, computed once for each model, on one rank."""
    known: dict[tuple[str, int], models.Trained] = {}

    def train(name: str, rows: int = ROWS) -> models.Trained:
        if (name, rows) not in known:
            known[name, rows] = comm.broadcast_object(plain_training(name, rows) if comm.rank == 0 else None)
        return known[name, rows]

    return train


def plain_training(name: str, rows: int) -> models.Trained:
    batches = [batch(name, step, rows) for step in range(STEPS)]
    return models.train_plainly(build(name), batches, partial(optim.SGD, **SGD))


def mine(whole: dict[str, np.ndarray], pipeline: Pipeline) -> dict[str, np.ndarray]:
    """The entries of this rank's parameters; the tied one has another name where only the last layer is."""
    names = {name: name if name in whole else "0.table.weight" for name, _ in pipeline.module.named_parameters()}
    return {name: whole[other] for name, other in names.items()}


def train(pipeline: Pipeline, name: str, rows: int = ROWS) -> list[float]:
    optimizer = pipeline.make_optimizer(optim.SGD, **SGD)
    return [pipeline.train_batch(*batch(name, step, rows), optimizer) for step in range(STEPS)]


def stages_of(schedule: str) -> dict[str, Any]:
    return {"schedule": schedule, "virtual_stages": 2 if schedule == "interleaved" else 1}


EVEN, UNEVEN = {"micro_batches": 4}, {"micro_batch_size": 3}
CASES = [
    *[("mlp", schedule, micro) for schedule in SCHEDULES for micro in (EVEN, UNEVEN)],
    ("mlp", "1f1b", {"micro_batches": 1}),
    ("cnn", "f-then-b", UNEVEN),
    ("cnn", "1f1b", EVEN),
    ("transformer", "f-then-b", UNEVEN),
    ("transformer", "1f1b", EVEN),
    ("transformer", "interleaved", UNEVEN),
    ("hybrid", "1f1b", UNEVEN),
    ("hybrid", "interleaved", EVEN),
    ("deep", "interleaved", UNEVEN),
]


@pytest.mark.parametrize(("name", "schedule", "micro"), CASES, ids=str)
def test_losses_gradients_and_parameters_are_those_of_one_process(comm, one_process, name, schedule, micro) -> None:
    layers = build(name)
    if schedule == "interleaved" and len(layers) < 2 * comm.size:
        pytest.skip("fewer layers than stages")
    want = one_process(name)
    partition = "parameters" if schedule == "1f1b" else "count"
    pipeline = Pipeline(layers, LOSS, comm, **stages_of(schedule), partition=partition, **micro)
    losses = train(pipeline, name)
    np.testing.assert_allclose(losses, want.losses, rtol=1e-12)
    assert_same(gradients_of(pipeline.module), mine(want.gradients, pipeline))
    assert_same(parameters_of(pipeline.module), mine(want.parameters, pipeline))
    np.testing.assert_array_equal(comm.all_gather(np.array(losses)), [losses] * comm.size)


def test_the_whole_state_is_that_of_the_plain_model_and_tied_copies_stay_equal(comm, one_process) -> None:
    pipeline = Pipeline(
        build("transformer"), LOSS, comm, micro_batches=3, partition=[1] * (comm.size - 1) + [9 - comm.size]
    )
    train(pipeline, "transformer")
    state = pipeline.whole_state_dict()
    plain = build("transformer")
    assert state.keys() == plain.state_dict().keys()
    copy = dict(pipeline.module.named_parameters()).get("7.table.weight", state["0.table.weight"])
    np.testing.assert_array_equal(copy.numpy(), state["0.table.weight"].numpy())
    plain.load_state_dict(state)
    assert_same(parameters_of(plain), one_process("transformer").parameters)
    again = Pipeline(build("transformer"), LOSS, comm, micro_batches=2)
    again.load_whole_state_dict(plain.state_dict())
    x, y = batch("transformer", 7)
    np.testing.assert_allclose(again.eval_batch(x, y), models.loss_of(plain, x, y).item(), rtol=1e-12)
    np.testing.assert_allclose(again.predict(x).numpy(), plain(Tensor(x)).numpy(), rtol=1e-10)
    with pytest.raises(ValueError, match="missing"):
        again.load_whole_state_dict({})
    with pytest.raises(ValueError, match=r"unknown: 9\.weight"):
        again.load_whole_state_dict(plain.state_dict() | {"9.weight": 1.0})


def test_gradients_of_several_batches_add_up_and_are_clipped_over_all_stages(comm) -> None:
    plain = build("transformer")
    pipeline = Pipeline(build("transformer"), LOSS, comm, micro_batches=3)
    for step in range(2):
        models.loss_of(plain, *batch("transformer", step)).backward()
        pipeline.train_batch(*batch("transformer", step))
    assert_same(gradients_of(pipeline.module), mine(gradients_of(plain), pipeline))
    norm = optim.clip_grad_norm_(plain.parameters(), 0.01)
    np.testing.assert_allclose(pipeline.clip_grad_norm_(0.01), norm, rtol=1e-12)
    assert_same(gradients_of(pipeline.module), mine(gradients_of(plain), pipeline))

    optimizer = optim.SGD(plain.parameters(), lr=0.1)
    optimizer.zero_grad()
    models.loss_of(plain, *batch("transformer", 3)).backward()
    optim.clip_grad_norm_(plain.parameters(), 0.5)
    optimizer.step()
    own = pipeline.make_optimizer(optim.SGD, lr=0.1)
    for parameter in pipeline.parameters():
        parameter.grad = Tensor(np.full(parameter.shape, 1e6))  # Left over from before: the optimiser forgets it.
    pipeline.train_batch(*batch("transformer", 3), own, max_norm=0.5)
    assert_same(parameters_of(pipeline.module), mine(parameters_of(plain), pipeline))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_bytes_and_messages_of_a_step(comm, schedule) -> None:
    layers, options = build("deep"), stages_of(schedule)
    pipeline = Pipeline(layers, LOSS, comm, micro_batches=4, **options)
    steps = [batch("deep", step) for step in range(2)]
    pipeline.train_batch(*steps[0])
    with pipeline.recording() as messages:
        pipeline.train_batch(*steps[1])
    # Every stage but the last sends each row's activations down, every one but the first their gradients up.
    virtual = options["virtual_stages"]
    stages = range(comm.rank, comm.size * virtual, comm.size)
    sends = sum((s < comm.size * virtual - 1) + (s > 0) for s in stages)
    row = 6 * 8
    passed = [m for m in messages if m.op == "isend"]
    assert len(passed) == 4 * sends
    assert sum(m.bytes for m in passed) == ROWS * row * sends
    # Besides, 56 bytes a rank to agree on the batch and its random draws, and 40 for the loss and for problems.
    others = sorted((m.op, m.bytes) for m in messages if m.op not in ("isend", "irecv"))
    assert others == [("all_gather", 56), ("all_reduce", 40)]
    wire = ROWS * row * sends + (comm.size - 1) * 56 + 2 * (comm.size - 1) * 40 / comm.size
    assert sum(m.wire_bytes for m in messages) == wire


class Watched(nn.Module):
    """Counts its results, and those of others with the same set, that a graph still keeps alive."""

    def __init__(self, alive: weakref.WeakSet) -> None:
        super().__init__()
        self.alive = alive
        self.peak = 0

    def forward(self, x: Tensor) -> Tensor:
        out = x * 2.0
        self.alive.add(out if out.node is None else out.node)
        self.peak = max(self.peak, len(self.alive))
        return out


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_live_activations_are_as_many_as_the_schedule_says(comm, schedule) -> None:
    options, micro_batches = stages_of(schedule), 2 * comm.size + 1
    alive: weakref.WeakSet = weakref.WeakSet()
    watched = [Watched(alive) for _ in range(comm.size * options["virtual_stages"])]
    # Weights before each: the graph of inputs that want no gradient would keep nothing.
    layers = [layer for watch in watched for layer in (nn.Linear(3, 3, dtype=F64), watch)]
    pipeline = Pipeline(layers, nn.MSELoss(), comm, micro_batches=micro_batches, **options)
    rows = np.ones((micro_batches, 3))
    pipeline.train_batch(rows, rows)
    expected = pipeline.schedule(micro_batches).peak_live()[comm.rank]
    assert pipeline.peak_live == expected
    assert max(watch.peak for watch in watched) == expected
    assert len(alive) == 0
    pipeline.eval_batch(rows, rows)
    assert len(alive) == 0
    if schedule == "1f1b":
        everything = Pipeline(layers, nn.MSELoss(), comm, micro_batches=micro_batches, schedule="f-then-b")
        everything.train_batch(rows, rows)
        assert pipeline.peak_live < everything.peak_live == micro_batches


class TwoWays(nn.Module):
    """Takes and gives two streams, a mask of integers, and the first stream once more."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6, dtype=F64), nn.Linear(6, 6, dtype=F64)

    def forward(self, x: Tensor, y: Tensor, mask: Tensor, old: Tensor) -> tuple[Tensor, ...]:
        return (self.a(x) * mask.to(F64)).tanh(), self.b(y) + old, mask, x


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
@pytest.mark.parametrize("recompute", [False, True])
def test_several_tensors_between_stages_with_some_layers_frozen(comm, schedule, recompute) -> None:
    def layers() -> list[Any]:
        manual_seed(3)
        made = [TwoWays() for _ in range(2 * comm.size)]
        # The first layers pass on what wants no gradient; the last one's second stream goes nowhere.
        for parameter in made[0].parameters():
            parameter.requires_grad_(False)
        return [lambda x, y, mask: (x, y, mask, y), *made, lambda x, y, mask, old: (x, y)]

    def loss(output: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]) -> Tensor:
        return functional.mse_loss(output[0], target[0], "sum") + functional.mse_loss(output[1], target[1], "sum")

    rng = np.random.default_rng(1)
    inputs = (rng.normal(size=(5, 6)), rng.normal(size=(5, 6)), rng.integers(0, 2, (5, 6)))
    targets = (rng.normal(size=(5, 6)), rng.normal(size=(5, 6)))
    plain = layers()
    values: Any = tuple(map(Tensor, inputs))
    for layer in plain:
        values = layer(*values)
    want = loss(values, tuple(map(Tensor, targets)))
    want.backward()
    pipeline = Pipeline(
        layers(), loss, comm, micro_batches=2, reduction="sum", recompute=recompute, **stages_of(schedule)
    )
    got = pipeline.train_batch(inputs, targets)
    np.testing.assert_allclose(got, want.item(), rtol=1e-12)
    whole = {
        f"{k}.{n}": p for k, layer in enumerate(plain) if k and k <= 2 * comm.size for n, p in layer.named_parameters()
    }
    for name, parameter in pipeline.module.named_parameters():
        if whole[name].grad is None:
            assert parameter.grad is None or not np.any(parameter.grad.numpy())
        else:
            np.testing.assert_allclose(parameter.grad.numpy(), whole[name].grad.numpy(), rtol=1e-10, atol=1e-12)
    for a, b in zip(pipeline.predict(inputs), values):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10)
    # Thawed, the first layers pass on what wants gradients: the ranks learn of it.
    for name, parameter in [*pipeline.module.named_parameters(), *whole.items()]:
        if name.startswith("1."):
            parameter.requires_grad_(True)
            parameter.grad = None
    pipeline.train_batch(inputs, targets)
    values = tuple(map(Tensor, inputs))
    for layer in plain:
        values = layer(*values)
    loss(values, tuple(map(Tensor, targets))).backward()
    for name, parameter in pipeline.module.named_parameters():
        if name.startswith("1."):
            np.testing.assert_allclose(parameter.grad.numpy(), whole[name].grad.numpy(), rtol=1e-10, atol=1e-12)


def test_dropout_is_the_same_whatever_the_stages_and_the_order(comm, alone) -> None:
    def run(where: Any, schedule: str, **options: Any) -> tuple[list[float], dict[str, Tensor]]:
        manual_seed(5)
        layers = [nn.Linear(12, 6, dtype=F64), nn.Dropout(0.5)]
        layers += [nn.Sequential(nn.Linear(6, 6, dtype=F64), nn.Dropout(0.3)) for _ in range(2 * comm.size)]
        pipeline = Pipeline(layers, LOSS, where, micro_batches=3, schedule=schedule, seed=11, **options)
        return train(pipeline, "mlp"), pipeline.whole_state_dict()

    losses, state = run(alone, "naive")
    for schedule, options in [("1f1b", {}), ("f-then-b", {"recompute": True}), ("interleaved", {"virtual_stages": 2})]:
        other_losses, other_state = run(comm, schedule, **options)
        np.testing.assert_allclose(other_losses, losses, rtol=1e-12)
        for name, value in state.items():
            np.testing.assert_allclose(other_state[name].numpy(), value.numpy(), rtol=1e-10, atol=1e-12)


def test_pipelines_side_by_side_train_on_all_rows(comm, one_process) -> None:
    if comm.size % 2:
        pytest.skip("no mesh of two pipelines")
    rows = 11  # 6 and 5: unequal shares.
    half = comm.size // 2
    for name, dp, pp in [("transformer", 2, half), ("hybrid", half, 2)]:
        mesh = qd.comm.Mesh(comm, dp=dp, pp=pp)
        want = one_process(name, rows)
        pipeline = Pipeline(build(name), LOSS, mesh, micro_batches=2)
        optimizer = pipeline.make_optimizer(optim.SGD, **SGD)
        losses = []
        for step in range(STEPS):
            x, y = (models.share(a, mesh["dp"].rank, dp) for a in batch(name, step, rows))
            losses.append(pipeline.train_batch(x, y, optimizer))
        np.testing.assert_allclose(losses, want.losses, rtol=1e-12)
        assert_same(gradients_of(pipeline.module), mine(want.gradients, pipeline))
        assert_same(parameters_of(pipeline.module), mine(want.parameters, pipeline))


def test_pipelines_side_by_side_without_rows_and_with_running_averages(comm) -> None:
    if comm.size % 2:
        pytest.skip("no mesh of two pipelines")
    mesh = qd.comm.Mesh(comm, dp=comm.size, pp=1)
    manual_seed(1)
    layers = [nn.Conv2d(1, 2, 3, dtype=F64), nn.BatchNorm2d(2, dtype=F64), nn.Flatten(), nn.Linear(72, 5, dtype=F64)]
    pipeline = Pipeline(layers, LOSS, mesh, micro_batches=1)
    x, y = batch("cnn", 0, comm.size)
    pipeline.train_batch(x[[comm.rank]], y[[comm.rank]])
    mean = layers[1].running_mean.numpy()
    np.testing.assert_array_equal(comm.all_gather(mean), [mean] * comm.size)
    # A batch of one row: the other pipelines have none, and the same gradient.
    pipeline = Pipeline(build("mlp"), LOSS, mesh, micro_batches=2)
    x, y = batch("mlp", 0, 1)
    own = slice(0, 1) if comm.rank == comm.size - 1 else slice(0, 0)
    loss = pipeline.train_batch(x[own], y[own])
    plain = build("mlp")
    want = models.loss_of(plain, x, y)
    want.backward()
    np.testing.assert_allclose(loss, want.item(), rtol=1e-12)
    assert_same(gradients_of(pipeline.module), gradients_of(plain))
    with pytest.raises(ValueError, match="at least one row"):
        pipeline.train_batch(x[:0], y[:0])


def test_a_schedule_of_ones_own(comm, one_process) -> None:
    gpipe = make_schedule("f-then-b", comm.size, 4)
    # GPipe's own order: the last micro-batch comes back first.
    back = [Action("B", 0, m) for m in (3, 2, 1, 0)]
    lists = [(*a[:4], *(Action("B", rank, b.micro_batch) for b in back)) for rank, a in enumerate(gpipe.actions)]
    own = Schedule("reversed", comm.size, comm.size, 4, tuple(lists))
    pipeline = Pipeline(build("mlp"), LOSS, comm, schedule=own)
    np.testing.assert_allclose(train(pipeline, "mlp"), one_process("mlp").losses, rtol=1e-12)
    assert_same(parameters_of(pipeline.module), mine(one_process("mlp").parameters, pipeline))
    with pytest.raises(ValueError, match="3 rows does not make the schedule's 4 micro-batches"):
        pipeline.train_batch(*batch("mlp", 0, 3))


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
def test_no_receive_waits_on_a_gpu_while_a_rank_computes(comm, one_process, monkeypatch, schedule: str) -> None:
    """As over NCCL, where computing might wait for it: what an action needs is received when its turn has come."""
    asked: list[bool] = []
    expect, receive = Run._expect, Channels.receive
    monkeypatch.setattr(Run, "_expect", lambda self, action, ask: (asked.append(ask), expect(self, action, ask)))
    early: list[bool] = []
    monkeypatch.setattr(Channels, "receive", lambda *args: (early.append(not asked[-1]), receive(*args))[1])
    monkeypatch.setattr(Channels, "may_receive_ahead", lambda *_: False)
    name = "deep" if schedule == "interleaved" else "mlp"
    pipeline = Pipeline(build(name), LOSS, comm, **EVEN, **stages_of(schedule))
    np.testing.assert_allclose(train(pipeline, name), one_process(name).losses, rtol=1e-12)
    assert early
    assert not any(early)


def test_what_the_ranks_do_not_agree_on_is_refused_on_every_rank(comm) -> None:
    x, y = batch("mlp", 0)
    pipeline = Pipeline(build("mlp"), LOSS, comm, micro_batches=2)
    last = comm.size - 1
    with pytest.raises(ValueError, match="rank 0 has the first stage and was given no inputs"):
        pipeline.train_batch(None, y)
    with pytest.raises(ValueError, match=f"rank {last} has the last stage and was given no targets"):
        pipeline.eval_batch(x)
    with pytest.raises(ValueError, match="at least one row"):
        pipeline.eval_batch(x[:0], y[:0])
    with pytest.raises(ValueError, match=f"rank {last} has targets of 7 rows, rank 0 inputs of 8"):
        pipeline.train_batch(x, y[:7] if comm.rank == last else None)
    with pytest.raises(ValueError, match=f"rank {last} calls predict, rank 0 calls train_batch"):
        pipeline.predict(x) if comm.rank == last else pipeline.train_batch(x, y)
    message = (
        r"inputs must have a row for each sample.*\(8, 12\), \(3, 12\)" if comm.rank == 0 else "rank 0 cannot take"
    )
    with pytest.raises(ValueError, match=message):
        pipeline.train_batch((x, x[:3]) if comm.rank == 0 else x, y)
    with pytest.raises(ValueError, match=f"the options of rank {last} are .*, those of rank 0"):
        Pipeline(build("mlp"), LOSS, comm, micro_batches=2 + (comm.rank == last))
    with pytest.raises(ValueError, match=f"the parameters of rank {last} are"):
        Pipeline(build("mlp" if comm.rank < last else "deep")[:9], LOSS, comm, micro_batches=2)
    # And it goes on: nothing was left behind. The ranks in between need no data.
    np.testing.assert_allclose(
        pipeline.eval_batch(x if comm.rank == 0 else None, y if comm.rank == last else None),
        models.loss_of(build("mlp"), x, y).item(),
        rtol=1e-12,
    )


def test_training_from_a_dictionary(comm) -> None:
    x, y = batch("mlp", 0, 20)
    data = qd.data.ArrayDataset(x, y)
    config = {
        "backend": "mpi",
        "train_batch_size": 8,
        "train_micro_batch_size_per_gpu": 3,
        "epochs": 2,
        "optimizer": {"type": "Adam", "params": {"lr": 0.01}},
        "local_rank": comm.local_rank,
        "pipeline_parallel_size": comm.size // (1 if comm.size % 2 else 2),
        "seed": 42,
        "loss": LOSS,
        "gradient_clipping": 1.0,
    }
    training = PipelineTraining(config, list(build("mlp")), data, comm)
    for _ in range(config["epochs"]):
        training.train()

    model = build("mlp")
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    sampler = qd.data.RandomSampler(20, seed=42)
    losses = []
    for _ in range(2):
        order = sampler.indices()
        for a, b in pairwise((0, 8, 16, 20)):
            rows = order[a:b]
            optimizer.zero_grad()
            loss = models.loss_of(model, x[rows], y[rows])
            loss.backward()
            optim.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    np.testing.assert_allclose(list(training.loss_dict.values()), losses, rtol=1e-10)
    assert list(training.loss_dict) == list(range(6))
    assert_same(parameters_of(training.pipeline.module), mine(parameters_of(model), training.pipeline))
    shorter = PipelineTraining(config | {"steps": 4}, list(build("mlp")), data, comm)
    shorter.train()
    np.testing.assert_allclose(list(shorter.loss_dict.values()), losses[:4], rtol=1e-10)
    with pytest.raises(ValueError, match="config: loss must be given"):
        PipelineTraining({k: v for k, v in config.items() if k != "loss"}, [], data, comm)


@pytest.mark.parametrize("again", ["nothing", "stages", "layers"])
@pytest.mark.parametrize("micro_batches", [1, 6])
def test_pipedream_takes_the_weights_that_its_schedule_says(comm, micro_batches: int, again: str) -> None:
    """Stage s of S has made max(0, m - (S - 1 - s)) updates when micro-batch m goes forward, and goes back so.

    again: what runs once more in the backward pass, with the weights of its forward pass.
    """
    stages, rate = comm.size, 0.05
    manual_seed(7)
    layers = [nn.Linear(5, 5, dtype=np.float64) for _ in range(stages)]
    start = [(layer.weight.numpy().copy(), layer.bias.numpy().copy()) for layer in layers]
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2 * micro_batches, 5))
    if again == "layers":
        layers = [nn.Sequential(recompute(layer), nn.Identity()) for layer in layers]
    options = {"micro_batches": micro_batches, "schedule": "pipedream", "recompute": again == "stages"}
    pipeline = Pipeline(layers, nn.MSELoss(), comm, **options)
    optimizer = pipeline.make_optimizer(optim.SGD, lr=rate)
    loss = pipeline.train_batch(x, y, optimizer)

    versions = [[pair] for pair in start]
    losses = []
    for m in range(micro_batches):
        rows = slice(2 * m, 2 * m + 2)
        used = [versions[s][max(0, m - (stages - 1 - s))] for s in range(stages)]
        values = [x[rows]]
        for w, b in used:
            values.append(values[-1] @ w.T + b)
        error = values[-1] - y[rows]
        losses.append((error**2).mean())
        g = 2 * error / error.size
        for s in reversed(range(stages)):
            w, b = versions[s][m]
            versions[s].append((w - rate * g.T @ values[s], b - rate * g.sum(0)))
            g = g @ used[s][0]
    assert loss == pytest.approx(np.mean(losses), abs=1e-10)
    state = pipeline.whole_state_dict()
    for s in range(stages):
        name = f"{s}.0" if again == "layers" else f"{s}"
        np.testing.assert_allclose(state[f"{name}.weight"].numpy(), versions[s][-1][0], atol=1e-10)
        np.testing.assert_allclose(state[f"{name}.bias"].numpy(), versions[s][-1][1], atol=1e-10)
    assert pipeline.peak_live == min(micro_batches, stages - comm.rank)
    evaluated = pipeline.eval_batch(x, y)
    assert evaluated == pytest.approx(float(((pipeline.predict(x).numpy() - y) ** 2).mean()), abs=1e-10)
    with pytest.raises(ValueError, match="no stage knows the norm"):
        pipeline.train_batch(x, y, optimizer, max_norm=1.0)
