"""Engine, Strategy and the automatic mode: what can be seen in one process."""

import math
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import assert_same, batch, build, parameters_of, sgd, train_alone

from qdist import nn, optim
from qdist.comm import counting_communicator, init
from qdist.data import ArrayDataset
from qdist.parallel import LossScale, saved_bytes
from qdist.parallel.auto import (
    Accuracy,
    Callback,
    Engine,
    InputSpec,
    LossMonitor,
    Machine,
    ModelCheckpoint,
    ProcessMesh,
    Replicate,
    Shard,
    Strategy,
    cost_of,
    data_parallel,
    propagate,
    recursive,
    search,
    shard_op,
    shard_tensor,
    to_static,
    trace,
)
from qdist.parallel.auto.ir.lower import sent_bytes
from qdist.tensor import Tensor, functional, manual_seed, random


def grid(*degrees: int, names=None) -> ProcessMesh:
    size = int(np.prod(degrees))
    return ProcessMesh(np.arange(size).reshape(degrees), names, counting_communicator(size))


def mlp_graph(rows: int, widths: list[int]):
    model = nn.Sequential(*(m for a, b in pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())))
    x, y = Tensor(np.zeros((rows, widths[0]), np.float32)), Tensor(np.zeros((rows, widths[-1]), np.float32))
    return trace(model, functional.mse_loss, [x], [y])


# Running


@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_a_captured_graph_on_one_rank_trains_as_the_model_does(name) -> None:
    want = train_alone(name, steps=2)
    model = build(name)
    step = to_static(model, functional.cross_entropy, sgd(model.parameters()), comm=init())
    np.testing.assert_allclose([step(*batch(name, s)) for s in range(2)], want.losses, rtol=1e-12)
    assert_same(parameters_of(model), want.parameters)
    before = parameters_of(model)
    assert step.eval()(*batch(name, 2)) > 0
    assert_same(parameters_of(model), before, 0)


class Forgetful(nn.Module):
    """Drops elements of what nobody uses, before, between and after."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        self.drop(x)
        self.drop(self.drop(x).exp())
        hidden = functional.relu(self.drop(self.first(x)))
        self.drop(hidden)
        made = self.drop(self.second(hidden))
        self.drop(made)
        return made


@pytest.mark.parametrize("forgets", [False, True])
def test_a_captured_graph_drops_what_the_model_would_drop(forgets: bool) -> None:
    def net() -> nn.Module:
        manual_seed(3)
        return Forgetful() if forgets else nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.4), nn.ReLU(), nn.Linear(8, 3))

    x, y = np.ones((5, 6), np.float32), np.zeros(5, np.int64)
    losses = []
    for static in (False, True):
        model = net()
        engine = Engine(model, functional.cross_entropy, optim.SGD(model.parameters(), lr=0.1), comm=init())
        if static:
            engine.prepare(x, y)
        manual_seed(5)
        if static:
            losses.append([engine.run((x, y))["loss"] for _ in range(3)])
            assert engine.run((x, y), "eval") == engine.run((x, y), "eval")
        else:
            rule = optim.SGD(model.parameters(), lr=0.1)
            own = []
            for _ in range(3):
                rule.zero_grad()
                loss = functional.cross_entropy(model(Tensor(x)), Tensor(y))
                loss.backward()
                rule.step()
                own.append(loss.item())
            losses.append(own)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


class Noisy(nn.Module):
    """Adds noise of its own, which is no operation on Tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.drop = nn.Linear(6, 3), nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(self.drop(x))
        return x + random.default_generator().normal(x.shape) if self.training else x


def test_noise_that_a_graph_would_repeat_is_refused() -> None:
    model = Noisy()
    engine = Engine(model, functional.cross_entropy, optim.SGD(model.parameters(), lr=0.1), comm=init())
    x, y = np.ones((5, 6), np.float32), np.zeros(5, np.int64)
    with pytest.raises(RuntimeError, match="draws random numbers besides dropout: a captured graph would repeat"):
        engine.run((x, y))
    assert engine.run((x, y), "eval")["loss"] > 0


@pytest.mark.parametrize("outside", [-1, -9, 8])
@pytest.mark.parametrize("mode", ["train", "eval", "predict"])
def test_a_captured_graph_refuses_the_indices_that_the_model_refuses(outside: int, mode: str) -> None:
    model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8))
    engine = Engine(model, functional.cross_entropy, optim.SGD(model.parameters(), lr=0.1), comm=init())
    tokens = np.arange(8).reshape(2, 4)
    engine.run(tokens if mode == "predict" else (tokens, tokens), mode)
    wrong = np.where(tokens == 3, outside, tokens)
    for call in (
        lambda: model(Tensor(wrong)),
        lambda: engine.run(wrong if mode == "predict" else (wrong, tokens), mode),
    ):
        with pytest.raises(IndexError, match=r"embedding: indices go from .* but the table has 8 rows"):
            call()


@pytest.mark.parametrize("outside", [-1, -3, 3])
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"ignore_index": -7, "label_smoothing": 0.1}, "nll"])
def test_a_captured_graph_refuses_the_targets_that_the_loss_refuses(outside: int, mode: str, options) -> None:
    def loss(scores: Tensor, targets: Tensor) -> Tensor:
        if options == "nll":
            return functional.nll_loss(functional.log_softmax(scores), targets)
        return functional.cross_entropy(scores, targets, **options)

    model = nn.Linear(4, 3)
    engine = Engine(model, loss, optim.SGD(model.parameters(), lr=0.1), comm=init())
    x, y = np.ones((5, 4), np.float32), np.array([0, 1, 2, 1, 0])
    engine.run((x, y), mode)
    wrong = np.where(y == 2, outside, y)
    for call in (lambda: loss(model(Tensor(x)), Tensor(wrong)), lambda: engine.run((x, wrong), mode)):
        with pytest.raises(IndexError, match=r"(cross_entropy|nll_loss): targets go from .* but there are 3 classes"):
            call()
    engine.run((x, y), mode)


@pytest.mark.parametrize(("options", "message"), [({"epochs": -1}, "epochs=-1"), ({"steps_per_epoch": 0}, "epoch=0")])
def test_fewer_than_no_epochs_and_epochs_of_no_steps_are_refused(options: dict, message: str) -> None:
    model = build("mlp")
    engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), comm=init())
    with pytest.raises(ValueError, match=message):
        engine.fit([batch("mlp", 0, 4)], **options)
    assert engine.fit([batch("mlp", 0, 4)], epochs=0) == []


def test_fit_evaluate_and_predict_go_through_all_rows() -> None:
    model = build("mlp")
    engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), Accuracy((1, 5)), comm=init())
    x, y = batch("mlp", 0, 20)
    history = engine.fit(ArrayDataset(x, y), epochs=3, batch_size=8)  # the last batch has four rows
    assert [sorted(h) for h in history] == [["acc_top1", "acc_top5", "loss"]] * 3
    assert history[-1]["loss"] < history[0]["loss"]
    result = engine.evaluate([(x, y)])
    output = engine.run(x, "predict")["outputs"]
    assert result["acc_top1"] == (output.argmax(1) == y).mean()
    assert result["acc_top5"] == 1.0
    np.testing.assert_allclose(result["loss"], functional.cross_entropy(Tensor(output), Tensor(y)).item(), rtol=1e-12)
    assert_same(engine.state_dict(), parameters_of(model), 0)
    with pytest.raises(ValueError, match="not one batch"):
        engine.evaluate([])


def test_recomputed_segments_keep_less_and_give_the_same_gradients() -> None:
    kept, grads = [], []
    for enable in (False, True):
        model = build("transformer")
        strategy = Strategy()
        strategy.recompute.enable = enable
        engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), None, strategy, comm=init())
        x, y = (Tensor(a) for a in batch("transformer", 0))
        program = engine.prepare(x, y)._latest
        loss = program.run({"input": x, "label": y})[1]
        kept.append(saved_bytes(loss))
        loss.backward()
        grads.append({name: p.grad.numpy() for name, p in model.named_parameters()})
    assert kept[1] < kept[0] / 2
    assert_same(grads[1], grads[0])


def test_mixed_precision_follows_full_precision_and_leaves_out_overflows() -> None:
    x, y = (a.astype(np.float32) if a.dtype.kind == "f" else a for a in batch("mlp", 0))
    losses = []
    for enable in (False, True):
        model = build("mlp").to(np.float32)
        strategy = Strategy()
        if enable:
            strategy.amp.enable = True
            strategy.amp.loss_scale = LossScale(1024.0)
        engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), None, strategy, comm=init())
        losses.append([engine.run((x, y))["loss"] for _ in range(4)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=5e-3)
    assert losses[1] != losses[0]
    strategy.amp.loss_scale.value = 1e30
    before = parameters_of(model)
    with np.errstate(all="ignore"):
        engine.run((x, y))
    assert_same(parameters_of(model), before, 0)
    assert strategy.amp.loss_scale.value == 5e29


def test_a_file_keeps_the_loss_scale(tmp_path) -> None:
    x, y = (a.astype(np.float32) if a.dtype.kind == "f" else a for a in batch("mlp", 0))

    def engine(value: float) -> Engine:
        model, strategy = build("mlp").to(np.float32), Strategy()
        strategy.amp.enable, strategy.amp.loss_scale = True, LossScale(value, interval=3)
        return Engine(model, functional.cross_entropy, sgd(model.parameters()), None, strategy, comm=init())

    first, again = engine(8.0), engine(2.0**16)
    for _ in range(5):
        first.run((x, y))
    first.save(tmp_path / "model.qdist")
    again.load(tmp_path / "model.qdist")
    assert again.strategy.amp.loss_scale.state_dict() == {"value": 16.0, "good": 2}
    assert [again.run((x, y))["loss"] for _ in range(3)] == [first.run((x, y))["loss"] for _ in range(3)]
    assert again.strategy.amp.loss_scale.value == 32.0


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (lambda output, labels: {"loss": 0.0}, "named 'loss', which is the name of the loss"),
        ([Accuracy(), Accuracy()], "named 'acc_top1', which is the name of another"),
    ],
)
@pytest.mark.parametrize("staged", [False, True])
def test_metrics_with_the_name_of_the_loss_or_of_another_are_refused(metrics, message: str, staged: bool) -> None:
    model, strategy = build("mlp"), Strategy()
    if staged:
        strategy.pipeline.enable, strategy.pipeline.accumulate_steps = True, 2
    engine = Engine(model, functional.cross_entropy, sgd(model.parameters()), metrics, strategy, comm=init())
    for mode in ("train", "eval"):
        with pytest.raises(ValueError, match=message):
            engine.run(batch("mlp", 0), mode)


def test_a_sharded_model_takes_and_gives_whole_values() -> None:
    mesh = grid(2, names=["mp"])
    model = nn.Linear(4, 6)
    shard_tensor(model.weight, mesh, ["mp", None])
    value = np.arange(24, dtype=np.float32).reshape(6, 4)
    model.load_state_dict({"weight": value, "bias": np.zeros(6, np.float32)})
    np.testing.assert_array_equal(model.weight.data, value[:3])
    np.testing.assert_array_equal(Tensor(model.weight).data[:3], value[:3])
    assert model.state_dict()["weight"].shape == (6, 4)
    with pytest.raises(ValueError, match="shape of weight"):
        model.load_state_dict({"weight": value[:3], "bias": np.zeros(6, np.float32)})
    update = optim.SGD(model.parameters(), lr=1.0)
    (model(Tensor(np.ones((2, 4), np.float32))) ** 2).sum().backward()
    update.step()
    shard_tensor(model.bias, mesh, ["mp"])
    model.bias.grad = Tensor(np.zeros(3, np.float32))
    with pytest.raises(RuntimeError, match="shard parameters before"):
        update.step()


# Automatic mode


@settings(max_examples=15)
@given(
    rows=st.sampled_from([4, 8, 64]),
    widths=st.lists(st.sampled_from([4, 8, 12, 64, 96]), min_size=2, max_size=3),
    degrees=st.sampled_from([(2,), (4,), (2, 2), (2, 4), (3,)]),
    flops=st.sampled_from([1e9, 1e12]),
    latency=st.sampled_from([0.0, 1e-4]),
)
def test_the_search_never_predicts_more_than_data_parallel(rows, widths, degrees, flops, latency) -> None:
    graph = mlp_graph(rows, widths)
    mesh, machine = grid(*degrees), Machine(flops=flops, latency=latency)
    plan = search(graph, mesh, machine)
    cost = cost_of(plan, machine)
    assert cost.seconds <= cost_of(data_parallel(graph, mesh), machine).seconds
    assert cost.seconds <= cost_of(propagate(graph, mesh), machine).seconds
    assert set(plan.splits) == set(graph.operations)


def test_wide_layers_and_small_batches_are_tensor_parallel() -> None:
    graph = mlp_graph(8, [64, 4096, 64])
    mesh, machine = grid(4, names=["x"]), Machine()
    plan = search(graph, mesh, machine)
    placed = {value.name: plan.placements[value] for value in graph.parameters}
    assert placed["0.weight"] == (Shard(0),)
    assert placed["2.weight"] == (Shard(1),)
    assert cost_of(plan, machine).seconds < cost_of(data_parallel(graph, mesh), machine).seconds / 4
    # One all-reduce of the output; the second bias, whole, needs none.
    assert sum(sent_bytes(plan)) == 2 * 3 / 4 * 8 * 64 * 4


MEGATRON = {
    "attention.qkv.weight": Shard(0, 3),
    "attention.qkv.bias": Shard(0, 3),
    "attention.out.weight": Shard(1),
    "expand.weight": Shard(0),
    "expand.bias": Shard(0),
    "shrink.weight": Shard(1),
}


@pytest.mark.parametrize("how", ["search", "propagation"])
def test_a_transformer_block_is_cut_as_in_megatron(how) -> None:
    """Without an annotation by the search, with two of them by propagation; whole heads of q, k and v on each rank."""
    block = nn.TransformerBlock(64, 8)
    x = Tensor(np.zeros((2, 4, 64), np.float32))
    graph = trace(block, functional.mse_loss, [x], [x])
    mesh = grid(4, names=["mp"])
    if how == "search":
        plan = search(graph, mesh, Machine(latency=0.0))
    else:
        plan = propagate(graph, mesh, {name: (Shard(1),) for name in ("attention.out.weight", "shrink.weight")})
    for value in graph.parameters:
        assert plan.placements[value] == (MEGATRON.get(value.name, Replicate()),), value.name


@pytest.mark.parametrize(
    ("rows", "widths", "cut"), [(8, [512, 512, 512], Shard(0)), (4096, [16, 16, 16], Replicate())], ids=["wide", "tall"]
)
def test_double_recursion_cuts_what_is_large(rows, widths, cut) -> None:
    graph, mesh = mlp_graph(rows, widths), grid(2, 2, 2)
    plan = recursive(graph, mesh, Machine(latency=1e-6))
    weights = [value for value in graph.parameters if len(value.shape) == 2]
    kinds = {type(p) for value in weights for p in plan.placements[value]}
    assert kinds == {type(cut)}
    if isinstance(cut, Replicate):
        assert plan.placements[graph.inputs[0]] == (Shard(0),) * 3
    other = recursive(graph, mesh, Machine(latency=1e-6), {graph.inputs[0].name: (Replicate(),) * 3})
    assert other.placements[graph.inputs[0]] == (Replicate(),) * 3


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("degrees", [(4,), (2, 2), (2, 3)])
@pytest.mark.parametrize("flops", [1e6, 1e12])
def test_no_search_cuts_rows_that_there_are_not(rows, degrees, flops) -> None:
    graph, mesh = mlp_graph(rows, [5, 7, 3]), grid(*degrees)
    for planner in (search, recursive):
        plan = planner(graph, mesh, Machine(flops=flops, latency=0.0))
        for value in (*graph.inputs, *graph.parameters):
            for dim, length in enumerate(value.shape):
                cut = [n for n, p in zip(degrees, plan.placements[value]) if p == Shard(dim)]
                assert math.prod(cut) <= length, (value.name, plan.placements[value])


@pytest.mark.parametrize("planner", [search, recursive])
@pytest.mark.parametrize("degrees", [(2,), (2, 2)])
def test_inputs_that_nothing_takes_are_placed_too(planner, degrees) -> None:
    """A loss that needs no labels, and a model that does not look at all of its inputs."""
    model = nn.Linear(4, 2)
    model.forward = lambda x, unused: functional.linear(x, model.weight)
    x, mesh = Tensor(np.zeros((8, 4), np.float32)), grid(*degrees)
    graph = trace(model, lambda y, labels: y.abs2().mean(), [x, x], [x])
    plan = planner(graph, mesh, Machine())
    for value in graph.inputs[1:]:
        assert plan.placements[value] == plan.whole, value.name


@pytest.mark.parametrize("wanted", [Shard(0), Shard(1), Shard(1, 2)])
def test_placements_are_wished_of_operations_that_run_whole(wanted) -> None:
    """Indices in an array pick from the whole tensor, whatever lies behind them."""
    mesh, places = grid(2), np.array([3, 0, 1, 2])

    class Picks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return shard_tensor(functional.relu(shard_tensor(x[:, places], mesh, [wanted])), mesh, [wanted])

    x = Tensor(np.zeros((6, 4), np.float32))
    plan = propagate(trace(Picks(), None, [x], []), mesh, {"input": (Shard(0),)})
    picked = next(op for op in plan.graph.operations if op.rule.name == "index")
    assert not isinstance(plan.placements[picked.outputs[0]][0], Shard)
    assert plan.placements[plan.graph.output] == (wanted,)


def test_large_batches_are_data_parallel() -> None:
    graph = mlp_graph(4096, [8, 16, 8])
    plan = search(graph, grid(4), Machine())
    assert all(plan.placements[value] == (Replicate(),) for value in graph.parameters)
    assert all(plan.placements[value] == (Shard(0),) for value in graph.inputs)


def test_memory_decides_where_speed_would_not() -> None:
    graph = mlp_graph(4096, [32, 64, 32])
    mesh, fast = grid(4), Machine()
    free = cost_of(search(graph, mesh, fast), fast)
    tight = Machine(memory=free.memory - free.parameters / 2)
    plan = search(graph, mesh, tight)
    assert cost_of(plan, tight).memory <= tight.memory
    assert cost_of(plan, tight).seconds >= free.seconds
    with pytest.raises(MemoryError, match="use more ranks"):
        search(graph, mesh, Machine(memory=1000))


def test_explain_sets_the_plan_beside_data_parallel() -> None:
    model = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 64))
    mesh = grid(4, names=["dp"])
    engine = Engine(model, functional.mse_loss, optim.SGD(model.parameters(), lr=0.1), None, Strategy(auto=True), mesh)
    x = np.ones((8, 64), np.float32)
    lines = engine.prepare(x, x).explain().splitlines()
    own, plain = (float(line.split()[2]) for line in lines[-2:])
    assert lines[-2].startswith("this plan")
    assert lines[-1].startswith("data parallel")
    assert own < plain
    assert any(line.split()[0] == "0.weight" and "[S(0)]" in line for line in lines if line)
    assert model[0].weight.placements == (Shard(0),)


# Looking at it


def test_the_graph_is_printed_and_drawn_with_placements_and_local_shapes(tmp_path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    mesh = grid(2, 2, names=["dp", "mp"])
    shard_tensor(model[0].weight, mesh, ["mp", None])
    engine = Engine(model, functional.cross_entropy, optim.SGD(model.parameters(), lr=0.1), mesh=mesh)
    with pytest.raises(RuntimeError, match="prepare"):
        print(engine.main_program)
    engine.prepare(InputSpec((8, 8)), InputSpec((8,), np.int64))
    program = engine.main_program
    assert "input : input float32[8, 8] local [4, 8] [S(0), R]" in program
    assert "0.weight : parameter float32[16, 8] local [8, 8] [R, S(0)]" in program
    assert "2.weight : parameter float32[4, 16] local [4, 8] [R, S(1)]" in program
    assert "all_reduce over mp [0, 1], backward nothing" in program
    assert "copy over dp [0, 2], backward all_reduce" in program
    engine.draw(tmp_path / "graph.svg")
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    boxes = [e for e in root.iter() if e.tag.endswith("rect")]
    words = " ".join(e.text or "" for e in root.iter() if e.tag.endswith("text"))
    assert len(boxes) == sum(not line.startswith((" ", "#")) for line in program.splitlines())
    assert "local [4, 8]" in words
    assert "relu" in words


# Refusals


def test_what_cannot_be_done_is_refused_with_the_reason() -> None:
    model = nn.Linear(4, 4)
    x = np.ones((4, 4), np.float32)
    with pytest.raises(ValueError, match="needs a loss"):
        Engine(model, comm=init()).run((x, x))
    with pytest.raises(ValueError, match="needs an optimiser"):
        Engine(model, functional.mse_loss, comm=init()).run((x, x))
    with pytest.raises(ValueError, match="use one of"):
        Engine(model, functional.mse_loss, comm=init()).prepare(x, x, "test")
    with pytest.raises(TypeError, match="pair"):
        Engine(model, functional.mse_loss, comm=init()).run(x, "eval")
    norm = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    with pytest.raises(RuntimeError, match=r"changes its buffers 1.running_mean, 1.running_var"):
        trace(norm, None, [Tensor(np.ones((2, 1, 5, 5), np.float32))], [])
    engine = Engine(model, functional.mse_loss, optim.SGD(model.parameters(), lr=0.1), mesh=grid(4, names=["dp"]))
    # Rows that are too few for all ranks are whole on each.
    assert Shard(0) in engine.prepare(x, x).plan.placements[engine.plan.graph.inputs[0]]
    assert engine.prepare(x[:3], x[:3]).plan.placements[engine.plan.graph.inputs[0]] == (Replicate(),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: vars(s.sharding).update(enable=True, stage=4), "1, 2 or 3"),
        (lambda s: vars(s.recompute).update(enable=True, segments=0), "at least 1"),
        (lambda s: vars(s.amp).update(enable=True, dtype=np.int32), "floating"),
        (lambda s: vars(s.pipeline).update(enable=True), "micro_batch_size or accumulate_steps"),
        (lambda s: vars(s).update(auto=True, fully_use_devices=True), "decides by cost"),
    ],
)
def test_strategies_that_do_not_exist_are_refused(change, message) -> None:
    strategy = Strategy()
    change(strategy)
    with pytest.raises(ValueError, match=message):
        Engine(nn.Linear(2, 2), strategy=strategy)


@pytest.mark.parametrize(
    ("axis", "degree", "message"),
    [("dp", 3, "degree=3: .* has no axis of that size"), ("mp", None, "no axis 'dp'.*set sharding.degree to the size")],
)
def test_a_sharding_degree_without_an_axis_is_refused(axis, degree, message) -> None:
    model, strategy = nn.Linear(4, 4), Strategy()
    strategy.sharding.enable, strategy.sharding.degree = True, degree
    x = np.ones((4, 4), np.float32)
    engine = Engine(
        model, functional.mse_loss, optim.SGD(model.parameters(), lr=1.0), None, strategy, grid(2, names=[axis])
    )
    with pytest.raises(ValueError, match=message):
        engine.prepare(x, x)


def test_stages_out_of_order_are_refused() -> None:
    mesh = grid(2, names=["pp"])

    class Backwards(nn.Module):
        def forward(self, x):
            return shard_op(functional.relu, mesh[0])(shard_op(functional.gelu, mesh[1])(x))

    strategy = Strategy()
    strategy.pipeline.enable, strategy.pipeline.accumulate_steps = True, 2
    engine = Engine(Backwards(), functional.mse_loss, None, None, strategy, mesh)
    with pytest.raises(ValueError, match="in order"):
        engine.prepare(np.ones((4, 4), np.float32))
    strategy.pipeline.accumulate_steps = 3
    with pytest.raises(ValueError, match="micro-batches of"):
        engine.prepare(np.ones((4, 4), np.float32))


# What would be ignored


@pytest.mark.parametrize(
    ("set_option", "text"),
    [
        (lambda s: setattr(s.pipeline, "enabled", True), r"Pipeline has no option 'enabled': did you mean enable\?"),
        (lambda s: setattr(s, "gradient_merge", True), "Strategy has no option 'gradient_merge'.*pipeline"),
        (lambda s: setattr(s.sharding, "stages", 3), r"did you mean stage\?"),
        (lambda s: setattr(s, "recomputes", True), r"did you mean recompute\?"),
    ],
)
def test_options_that_do_not_exist_are_refused_when_they_are_set(set_option, text) -> None:
    with pytest.raises(AttributeError, match=text):
        set_option(Strategy())
    with pytest.raises(TypeError, match="gradient_merge"):
        Strategy(gradient_merge=True)


@pytest.mark.parametrize(
    ("set_option", "error", "text"),
    [
        (
            lambda s: setattr(s.pipeline, "schedule", "interleaved"),
            ValueError,
            "pipeline.schedule='interleaved': naive",
        ),
        (lambda s: setattr(s.sharding, "stage", 3), ValueError, r"sharding.stage=3 changes nothing.*enable = True"),
        (
            lambda s: setattr(s.pipeline, "accumulate_steps", 4),
            ValueError,
            "pipeline.accumulate_steps=4 changes nothing",
        ),
        (lambda s: setattr(s.amp, "dtype", np.float64), ValueError, "amp.dtype.* changes nothing"),
        (lambda s: setattr(s.amp, "loss_scale", LossScale(2.0)), ValueError, "amp.loss_scale.* changes nothing"),
        (
            lambda s: setattr(s, "dataset_strategy", "rows"),
            ValueError,
            "dataset_strategy='rows': full_batch or data_par",
        ),
        (lambda s: setattr(s, "pipeline", True), TypeError, "pipeline.enable = True"),
    ],
)
def test_options_that_would_change_nothing_are_refused_at_construction(set_option, error, text) -> None:
    strategy = Strategy()
    set_option(strategy)
    with pytest.raises(error, match=text):
        Engine(nn.Linear(2, 2), functional.mse_loss, strategy=strategy, comm=init())


# Passes over data, files and programs


def small() -> tuple[Engine, ArrayDataset]:
    manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4, dtype=np.float64), nn.Tanh(), nn.Linear(4, 2, dtype=np.float64))
    engine = Engine(model, nn.CrossEntropyLoss(), optim.Adam(model.parameters(), lr=0.1), comm=init())
    rng = np.random.default_rng(0)
    return engine, ArrayDataset(rng.normal(size=(10, 3)), rng.integers(0, 2, 10))


class Noting(Callback):
    def __init__(self) -> None:
        self.calls = []

    def on_train_begin(self, engine):
        self.calls.append("begin")

    def on_epoch_begin(self, engine, epoch):
        self.calls.append(("epoch", epoch))

    def on_batch_end(self, engine, epoch, step, result):
        self.calls.append((epoch, step, sorted(result)))

    def on_epoch_end(self, engine, epoch, result):
        self.calls.append(result)

    def on_train_end(self, engine):
        self.calls.append("end")


def test_callbacks_are_called_in_order_and_see_what_fit_gives(tmp_path) -> None:
    noting, lines = Noting(), []
    engine, data = small()
    monitor, files = LossMonitor(2, lines.append), ModelCheckpoint(tmp_path / "files", every=2)
    history = engine.fit(data, 2, 4, steps_per_epoch=2, valid_data=data, callbacks=[noting, monitor, files])
    first, second = ([("epoch", e), (e, 0, ["loss"]), (e, 1, ["loss"]), history[e]] for e in (0, 1))
    assert noting.calls == ["begin", *first, *second, "end"]
    assert sorted(history[1]) == ["loss", "val_loss"]
    assert history[1]["val_loss"] == pytest.approx(engine.evaluate(data, 4)["loss"], abs=1e-12)
    assert [line.partition(": loss: ")[0] for line in lines] == ["epoch 0, step 0", "epoch 1, step 0"]
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["epoch-1.qdist"]


def test_training_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path) -> None:
    engine, data = small()
    engine.fit(data, 1, 4)
    engine.save(tmp_path / "state.qdist")
    want = engine.fit(data, 1, 4)
    other, _ = small()
    other.load(tmp_path / "state.qdist")
    assert other.fit(data, 1, 4) == want
    x = data.arrays[0]
    np.testing.assert_allclose(other.predict(x.reshape(5, 2, 3)), engine.predict([x]), atol=1e-12)


def test_open_rows_wait_for_the_loader() -> None:
    engine, data = small()
    engine.prepare(InputSpec([None, 3], np.float64, "img"), InputSpec([None], np.int64, "label"))
    with pytest.raises(RuntimeError, match="nothing is planned yet"):
        print(engine.main_program)
    loader = engine.dataloader(dataset=data, batch_size=4, epochs=2, mode="train")
    assert "img : input float64[4, 3]" in engine.main_program
    for _ in range(2):
        assert len([engine.run(batch, mode="train") for batch in loader()]) == 3
    with pytest.raises(RuntimeError, match=r"made for 2 epoch\(s\)"):
        list(loader())
    with pytest.raises(ValueError, match="only the first length"):
        InputSpec([4, None])


def test_programs_have_the_way_back_and_the_updates(tmp_path) -> None:
    engine, data = small()
    engine.run((data.arrays[0], data.arrays[1]))
    text = engine.main_program
    assert [t for t in text.splitlines() if t.startswith("#")][1:] == ["# forward", "# backward", "# optimizer"]
    update = "0.bias = adam(0.bias, grad(0.bias), exp_avg(0.bias), exp_avg_sq(0.bias))"
    assert all(words in text for words in ("grad(2.weight)", "linear_grad(", "tanh_grad(", update))
    assert "exp_avg(2.bias) = zeros() : float64 local [2]" in engine.startup_program
    assert "2.bias = initial_values()" in engine.serial_startup_program
    assert engine.serial_main_program.count("= linear(") == 2
    for name in ("main_program", "startup_program", "serial_main_program", "serial_startup_program"):
        program = getattr(engine, name)
        program.draw(tmp_path / "program.svg")
        root = ElementTree.parse(tmp_path / "program.svg").getroot()
        boxes = [e for e in root.iter() if e.tag.endswith("rect")]
        assert len(boxes) == sum(not line.startswith((" ", "#")) for line in program.splitlines())
    engine.run((data.arrays[0], data.arrays[1]), "eval")
    assert "# backward" not in engine.main_program


def test_stop_gradient_is_the_opposite_of_requires_grad() -> None:
    x = Tensor([1.0, 2.0])
    assert x.stop_gradient
    x.stop_gradient = False
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    x.stop_gradient = True
    assert not (x * x).requires_grad
    labels = Tensor(np.array([1, 2]))
    labels.stop_gradient = True
    with pytest.raises(TypeError, match="int64"):
        labels.stop_gradient = False
    y = Tensor([1.0], requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        y.stop_gradient = True


def test_inputs_have_the_names_they_are_given() -> None:
    model = nn.Linear(3, 2)
    engine = Engine(model, functional.mse_loss, sgd(model.parameters()), comm=init())
    engine.prepare(InputSpec((4, 3), name="image"), InputSpec((4, 2)))
    assert [value.name for value in engine.plan.graph.inputs] == ["image", "label"]
    assert "image" in engine.main_program
    assert engine.run((np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)))["loss"] > 0
    with pytest.raises(ValueError, match=r"\['weight', 'label'\] need names of their own"):
        engine.prepare(InputSpec((5, 3), name="weight"), InputSpec((5, 2)))
