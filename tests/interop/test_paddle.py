"""Paddle's surface: what one process shows of it, and what it refuses; whole programs are in tests/seeds/paddle."""

from pathlib import Path

import numpy as np
import pytest

from qdist.interop import paddle
from qdist.interop.paddle.distributed import communication, fleet, sharding
from qdist.interop.paddle.distributed.fleet import topology
from qdist.interop.paddle.distributed.fleet.meta_parallel import LayerDesc, PipelineLayer
from qdist.interop.paddle.io import BatchSampler, DataLoader, DistributedBatchSampler
from qdist.nn import Parameter
from qdist.tensor import Tensor


@pytest.fixture(autouse=True)
def arranged_anew():
    yield
    topology.reset()
    paddle.disable_static()
    paddle.set_default_dtype("float32")


def strategy(**configs) -> fleet.DistributedStrategy:
    made = fleet.DistributedStrategy()
    made.hybrid_configs = configs
    return made


def test_a_linear_layer_has_its_weight_the_other_way_round() -> None:
    layer = paddle.nn.Linear(3, 5)
    assert layer.weight.shape == (3, 5)
    assert not layer.bias.numpy().any()
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), x @ layer.weight.numpy(), rtol=1e-6)
    assert paddle.nn.Linear(3, 5, bias_attr=False).bias is None
    with pytest.raises(ValueError, match="at least 1"):
        paddle.nn.Linear(0, 5)


def test_labels_may_have_a_last_axis_of_one() -> None:
    scores, labels = np.random.default_rng(0).normal(size=(4, 3)), np.array([0, 2, 1, 1])
    flat = paddle.nn.CrossEntropyLoss()(input=scores, label=labels)
    column = paddle.nn.functional.cross_entropy(input=scores, label=labels[:, None])
    assert float(flat) == float(column)


def test_accuracy_counts_the_likeliest() -> None:
    scores = np.array([[3.0, 2, 1], [1, 2, 3], [2, 3, 1]])
    assert float(paddle.metric.accuracy(scores, [[0], [0], [0]], k=1)) == pytest.approx(1 / 3)
    assert float(paddle.metric.accuracy(scores, [0, 0, 0], k=2)) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="at least 1"):
        paddle.metric.accuracy(scores, [0, 0, 0], k=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("classes", [3, 10, 17, 64, 300])
def test_of_equal_scores_the_first_classes_are_the_likeliest(dtype: str, classes: int) -> None:
    """As behind a relu, where many scores are 0: the metric of an Engine and this one count the same rows."""
    rng = np.random.default_rng(classes)
    scores = np.maximum(rng.integers(-3, 3, (40, classes)), 0).astype(dtype)
    labels = rng.integers(0, classes, (40, 1))
    for k in (1, 2, 5):
        likeliest = [sorted(range(classes), key=lambda i, row=row: (-row[i], i))[:k] for row in scores]
        want = np.mean([label in first for first, (label,) in zip(likeliest, labels.tolist(), strict=True)])
        assert float(paddle.metric.accuracy(scores, labels, k=k)) == pytest.approx(want, rel=1e-6)
        assert paddle.metric.Accuracy((k,))(scores, labels)[f"acc_top{k}"] == pytest.approx(want)


def test_momentum_steps_as_its_formula() -> None:
    weight = paddle.to_tensor(np.array([1.0, -2.0]), stop_gradient=False)
    optimizer = paddle.optimizer.Momentum(0.1, 0.9, [weight], weight_decay=paddle.regularizer.L2Decay(0.5))
    p, v = np.array([1.0, -2.0]), 0.0
    for _ in range(3):
        optimizer.minimize((weight * weight).sum())
        optimizer.clear_grad()
        v = 0.9 * v + 2 * p + 0.5 * p
        p = p - 0.1 * v
    np.testing.assert_allclose(weight.numpy(), p, rtol=1e-12)
    assert optimizer.get_lr() == 0.1
    with pytest.raises(TypeError, match=r"paddle\.nn\.ClipGradByGlobalNorm"):
        paddle.optimizer.Momentum(0.1, parameters=[weight], grad_clip=1.0)
    with pytest.raises(ValueError, match="has its parameters already"):
        optimizer.take([weight])


def test_gradients_are_clipped_as_their_formulas() -> None:
    g = np.array([3.0, -4.0]), np.array([12.0])
    clips = {
        paddle.nn.ClipGradByGlobalNorm(6.5): (g[0] / 2, g[1] / 2),
        paddle.nn.ClipGradByNorm(5.0): (g[0], g[1] * 5 / 12),
        paddle.nn.ClipGradByValue(3.5): (np.array([3.0, -3.5]), np.array([3.5])),
        paddle.nn.ClipGradByValue(10.0, 0.0): (np.array([3.0, 0.0]), np.array([10.0])),
    }
    for clip, want in clips.items():
        weights = [Parameter(np.zeros(n)) for n in (2, 1)]
        optimizer = paddle.optimizer.SGD(1.0, parameters=weights, grad_clip=clip)
        for weight, slope in zip(weights, g):
            weight.grad = Tensor(slope.copy())
        optimizer.step()
        for weight, slope in zip(weights, want):
            np.testing.assert_allclose(weight.numpy(), -slope, rtol=1e-12)
    with pytest.raises(ValueError, match="must be positive"):
        paddle.nn.ClipGradByNorm(0.0)
    with pytest.raises(ValueError, match="min is greater than max"):
        paddle.nn.ClipGradByValue(1.0, 2.0)


def test_a_scaler_leaves_out_steps_and_says_when_it_is_used_wrongly() -> None:
    weight = paddle.to_tensor(np.array([1.0]), stop_gradient=False)
    optimizer = paddle.optimizer.SGD(0.5, parameters=[weight])
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0, incr_every_n_steps=1)
    scaler.scale((weight * 3.0).sum()).backward()
    assert weight.grad.item() == 24.0
    scaler.unscale_(optimizer)
    assert weight.grad.item() == 3.0
    with pytest.raises(RuntimeError, match="called already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert (weight.item(), scaler.value) == (-0.5, 16.0)
    weight.grad = Tensor(np.array([np.nan]))
    scaler.minimize(optimizer, None)
    assert (weight.item(), scaler.value) == (-0.5, 8.0)
    with pytest.raises(RuntimeError, match="comes after step"):
        scaler.update()
    assert paddle.amp.GradScaler(enable=False).scale(Tensor(2.0)).item() == 2.0
    with pytest.raises(ValueError, match="doubled, and halved"):
        paddle.amp.GradScaler(incr_ratio=3.0)


def test_a_scaler_counts_every_optimiser() -> None:
    weights = [paddle.to_tensor(np.array([1.0]), stop_gradient=False) for _ in range(3)]
    optimizers = [paddle.optimizer.SGD(1.0, parameters=[weight]) for weight in weights]
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0)
    for scale, finite in ((8.0, True), (8.0, False), (4.0, True)):
        assert scaler.value == scale
        before = [weight.item() for weight in weights]
        scaler.scale(sum((weight * (k + 2.0)).sum() for k, weight in enumerate(weights))).backward()
        if not finite:
            weights[1].grad.data[:] = np.inf
        scaler.unscale_(optimizers[2])
        for optimizer in optimizers:
            scaler.step(optimizer)
            with pytest.raises(RuntimeError, match="called already"):
                scaler.step(optimizer)
            optimizer.clear_grad()
        scaler.update()
        steps = [2.0, 3.0 * finite, 4.0]
        assert [weight.item() for weight in weights] == [b - step for b, step in zip(before, steps)]


def test_a_scaler_that_is_not_enabled_changes_nothing() -> None:
    weight = paddle.to_tensor(np.array([1.0]), stop_gradient=False)
    optimizer = paddle.optimizer.SGD(0.5, parameters=[weight])
    scaler = paddle.amp.GradScaler(enable=False)
    scaler.update()
    for slope, want in ((2.0, 0.0), (np.inf, -np.inf)):
        weight.grad = Tensor(np.array([slope]))
        scaler.unscale_(optimizer)
        scaler.minimize(optimizer, None)
        assert weight.item() == want
    fleet.init(is_collective=True)
    layer = PipelineLayer([LayerDesc(paddle.nn.Linear, 2, 2)], paddle.nn.CrossEntropyLoss())
    trained, weight = fleet.distributed_model(layer), next(iter(layer.parameters()))
    with np.errstate(all="ignore"):
        data = [Tensor(np.full((2, 2), np.inf, np.float32)), Tensor(np.zeros(2, np.int64))]
        trained.train_batch(data, paddle.optimizer.SGD(0.5, parameters=layer.parameters()), scaler=scaler)
    assert not np.isfinite(weight.numpy()).all()


def test_fleets_arrangements_train_as_one_process(pass_on_ranks) -> None:
    pass_on_ranks(4, [Path(__file__).parent / "ranks" / "mpi_paddle_fleet.py"])


def test_batches_are_what_the_sampler_says() -> None:
    data = list(range(10))
    assert list(BatchSampler(data, batch_size=4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(BatchSampler(data, batch_size=4, drop_last=True)) == 2
    shuffled = BatchSampler(data, shuffle=True, batch_size=10)
    first, second = next(iter(shuffled)), next(iter(shuffled))
    assert first != second
    shuffled.set_epoch(0)
    assert next(iter(shuffled)) == first
    loader = DataLoader(data, batch_sampler=BatchSampler(data, batch_size=4), num_workers=1)
    assert [batch.tolist() for batch in loader()] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(loader) == 3
    mine = DistributedBatchSampler(data, 2, num_replicas=2, rank=1)
    assert list(mine) == [[1, 3], [5, 7], [9]]
    with pytest.raises(ValueError, match="leave batch_size"):
        DataLoader(data, batch_sampler=mine, batch_size=2)
    with pytest.raises(ValueError, match="rank beside num_replicas"):
        DistributedBatchSampler(data, 2, num_replicas=2)
    with pytest.raises(ValueError, match="one of the two"):
        BatchSampler(data, sampler=mine)


def test_what_fleet_cannot_arrange_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"fleet\.init"):
        fleet.distributed_model(paddle.nn.ReLU())
    with pytest.raises(ValueError, match="unknown tp_degree"):
        fleet.init(strategy=strategy(tp_degree=2))
    with pytest.raises(ValueError, match="sharding_degree=2 does not divide the 1 ranks"):
        fleet.init(strategy=strategy(sharding_degree=2))
    with pytest.raises(ValueError, match="sharding_degree=0: at least 1"):
        fleet.init(strategy=strategy(sharding_degree=0))
    with pytest.raises(ValueError, match="parameter_server"):
        fleet.init(is_collective=False)
    fleet.init()
    assert (fleet.worker_index(), fleet.worker_num()) == (0, 1)
    with pytest.raises(ValueError, match="num_stages=2"):
        PipelineLayer([LayerDesc(paddle.nn.ReLU)], paddle.nn.CrossEntropyLoss(), num_stages=2)
    model = paddle.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="os, os_g, p_g_os"):
        sharding.group_sharded_parallel(model, paddle.optimizer.SGD(parameters=model.parameters()), "all")


def test_a_batch_that_does_not_fit_the_micro_batches_is_refused() -> None:
    chosen = strategy()
    chosen.pipeline_configs = {"accumulate_steps": 2, "micro_batch_size": 3}
    fleet.init(strategy=chosen)
    layer = PipelineLayer([LayerDesc(paddle.nn.Linear, 2, 2)], paddle.nn.CrossEntropyLoss())
    model = fleet.distributed_model(layer)
    optimizer = paddle.optimizer.SGD(parameters=layer.parameters())
    x, y = np.ones((6, 2), np.float32), np.zeros((6, 1), np.int64)
    assert float(model.train_batch([x, y], optimizer)) > float(model.eval_batch([x, y]))
    with pytest.raises(ValueError, match="4 rows is not accumulate_steps=2"):
        model.train_batch([x[:4], y[:4]], optimizer)
    with pytest.raises(RuntimeError, match="train_batch"):
        layer(x)


def test_a_static_program_is_fed_and_fetched_by_name() -> None:
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.default_main_program()):
        x = paddle.static.data("x", [None, 2])
        total = paddle.mean(x.reshape(x.shape[0], 1, 2) * 2.0)
    exe = paddle.static.Executor()
    for rows in (1, 5):
        (value,) = exe.run(feed={"x": np.full((rows, 2), 3.0, np.float32)}, fetch_list=[total.name])
        assert value == 6
    with pytest.raises(ValueError, match=r"missing \['x'\]"):
        exe.run(feed={"y": 1}, fetch_list=[total])
    with pytest.raises(ValueError, match="no result is named 'nothing'"):
        exe.run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=["nothing"])
    with pytest.raises(ValueError, match="has shape"):
        exe.run(feed={"x": np.ones((1, 3), np.float32)}, fetch_list=[total])
    paddle.disable_static()
    with pytest.raises(RuntimeError, match="enable_static"), paddle.static.program_guard(paddle.static.Program()):
        pass


@pytest.mark.parametrize("rows", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("fixed", [True, False])
def test_written_lengths_stay_and_open_ones_follow_the_data(rows: int, fixed: bool) -> None:
    """Every function also runs on NumPy arrays, which is what it must give."""

    functions = {
        "a constant is reshaped": lambda x, c: c.reshape(3, 1),
        "rows and one axis more": lambda x, c: x.reshape(x.shape[0], 1, 4),
        "rows as the second axis": lambda x, c: x.reshape(2, x.shape[0], 2),
        "arithmetic of rows": lambda x, c: x.reshape(x.shape[0] * 2, 2),
        "by a NumPy integer": lambda x, c: x.reshape(np.int64(2) * x.shape[0], 2),
        "half of it": lambda x, c: x.reshape(2 * x.shape[0], 2).reshape((2 * x.shape[0]) // 2, 4),
        "more than rows": lambda x, c: (x * 2.0).T.reshape(-1, (x * 2.0).T.shape[1]),
        "without the last": lambda x, c: x[: x.shape[0] - 1],
        "the last": lambda x, c: x[x.shape[0] - 1],
        "literal slice": lambda x, c: x[:1].reshape(1, 4),
        "the sum of four columns": lambda x, c: x.sum(1) * 1.0,
    }
    own = np.arange(rows * 4.0, dtype=np.float32).reshape(rows, 4)
    constant = np.arange(3.0, dtype=np.float32)
    for name, function in functions.items():
        paddle.enable_static()
        program = paddle.static.Program()
        with paddle.static.program_guard(program):
            x = paddle.static.data("x", [rows if fixed else None, 4])
            made = function(x, paddle.to_tensor(constant)) * 1.0
        (got,) = paddle.static.Executor().run(program, {"x": own}, [made])
        np.testing.assert_array_equal(got, function(own, constant), err_msg=name)


@pytest.mark.parametrize("rows", [1, 3, 6])
def test_constants_are_expanded_as_written(rows: int) -> None:
    paddle.enable_static()
    program, own = paddle.static.Program(), np.ones((rows, 4), np.float32)
    with paddle.static.program_guard(program):
        x = paddle.static.data("x", [None, 4])
        one = paddle.to_tensor(np.ones((1, 4), np.float32))
        three, each = one.expand(3, 4).sum() + x.sum() * 0, one.expand(x.shape[0], 4).sum(1)
        split = (x + one.expand(x.shape[0], 4)).reshape(x.shape[0], 2, 2).mean([1, 2])
    three, each, split = paddle.static.Executor().run(program, {"x": own}, [three, each, split])
    assert three == 12
    np.testing.assert_array_equal(each, np.full(rows, 4))
    np.testing.assert_array_equal(split, np.full(rows, 2))


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_network_captured_with_open_rows_is_the_network(rows: int) -> None:
    def network(x, labels):
        hidden = first(x)
        scaled = (hidden - hidden.mean(1, keepdims=True)) / (hidden.var(1, keepdims=True) + 1.0)
        middle = scaled.unsqueeze(1).flatten(1).reshape(-1, 3, 2).swapaxes(1, 2).flatten(1)
        parts = paddle.nn.functional.softmax(middle).split(3, axis=1)
        scores = second(parts[0] * parts[1])
        return scores, paddle.nn.functional.cross_entropy(scores, labels)

    rng = np.random.default_rng(rows)
    own, labels = rng.normal(size=(rows, 4)).astype(np.float32), rng.integers(0, 3, (rows, 1))
    first, second = paddle.nn.Linear(4, 6), paddle.nn.Linear(3, 3)
    wanted = network(Tensor(own), Tensor(labels))
    paddle.enable_static()
    program = paddle.static.Program()
    with paddle.static.program_guard(program):
        x, y = paddle.static.data("x", [None, 4]), paddle.static.data("y", [None, 1], "int64")
        fetched = network(x, y)
    for got, want in zip(paddle.static.Executor().run(program, {"x": own, "y": labels}, fetched), wanted):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)


def test_a_fixed_number_of_rows_is_no_open_one() -> None:
    paddle.enable_static()
    program, own = paddle.static.Program(), np.arange(24, dtype=np.float32).reshape(6, 4)
    with paddle.static.program_guard(program):
        x = paddle.static.data("x", [6, 4])
        y = x.reshape(3, -1)
        z = (y * y).sum(axis=1)
    first, second = paddle.static.Executor().run(program, {"x": own}, [y, z])
    np.testing.assert_array_equal(first, own.reshape(3, -1))
    np.testing.assert_array_equal(second, (own.reshape(3, -1) ** 2).sum(axis=1))
    with pytest.raises(ValueError, match=r"has shape \(5, 4\), the program \(6, 4\)"):
        paddle.static.Executor().run(program, {"x": own[:5]}, [y])


def test_what_an_open_number_of_rows_cannot_do_is_refused() -> None:
    paddle.enable_static()
    refused = {
        "no number to compute with": [
            lambda x: x.sum() / x.shape[0],
            lambda x: x * x.shape[0],
            lambda x: x.sum() * (1 / x.shape[0]),
            lambda x: x * float(x.shape[0]),
            lambda x: x * (x.shape[0] * 0.5),
            lambda x: x * (np.float32(2) * x.shape[0]),
            lambda x: x * (np.ones(1) * x.shape[0]),
            lambda x: x.var(0),
        ],
        r"write x\.shape\[0\]": [
            lambda x: x.reshape(3, 2, 2),
            lambda x: x + np.ones((3, 1), np.float32),
            lambda x: x * float(len(x)),
        ],
    }
    for match, functions in refused.items():
        for function in functions:
            with paddle.static.program_guard(paddle.static.Program()):
                x = paddle.static.data("x", [None, 4])
                with pytest.raises((TypeError, ValueError), match=match):
                    function(x)


def test_plain_tensors_are_clipped_as_parameters() -> None:
    for clip in (paddle.nn.ClipGradByGlobalNorm(6.5), paddle.nn.ClipGradByNorm(5.0), paddle.nn.ClipGradByValue(3.5)):
        stepped = []
        for make in (Parameter, lambda values: paddle.to_tensor(values, stop_gradient=False)):
            weights = [make(np.zeros(2)), make(np.zeros(1)), make(np.zeros(3))]
            optimizer = paddle.optimizer.SGD(1.0, parameters=weights, grad_clip=clip)
            ((weights[0] * np.array([3.0, -4.0])).sum() + (weights[1] * 12.0).sum()).backward()
            optimizer.step()
            stepped.append(np.concatenate([weight.numpy() for weight in weights]))
        np.testing.assert_array_equal(*stepped)
        assert np.abs(stepped[0]).max() > 1


@pytest.mark.parametrize("axis", [None, 1, -1, [0], [0, 2], (0, 2), [-1, 1], [0, 1, 2]])
def test_axes_may_be_lists(axis: object) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    axes = tuple(axis) if isinstance(axis, list) else axis
    np.testing.assert_allclose(paddle.mean(x=Tensor(x), axis=axis).numpy(), x.mean(axes), rtol=1e-12)
    np.testing.assert_allclose(paddle.mean(Tensor(x), axis, True).numpy(), x.mean(axes, keepdims=True), rtol=1e-12)
    for name in ("sum", "mean", "max", "min", "prod", "var"):
        np.testing.assert_allclose(getattr(Tensor(x), name)(axis).numpy(), getattr(x, name)(axes), rtol=1e-12)
    with pytest.raises(ValueError, match="twice"):
        paddle.mean(Tensor(x), [0, 0])


def test_collectives_of_one_rank_leave_the_tensor() -> None:
    x, gathered = Tensor(np.arange(3.0)), []
    communication.all_reduce(x)
    communication.broadcast(x, 0)
    communication.reduce(x, 0)
    communication.all_gather(gathered, x)
    communication.reduce_scatter(x, [Tensor(np.arange(3.0))])
    np.testing.assert_array_equal(x.numpy(), np.arange(3.0))
    np.testing.assert_array_equal(gathered[0].numpy(), x.numpy())
    with pytest.raises(ValueError, match="2 tensors for 1 ranks"):
        communication.reduce_scatter(x, [x, x])
