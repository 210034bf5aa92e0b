"""DataParallel and Zero give what one process gives on the whole batch; run on every rank at once."""

import copy
import time
import tracemalloc
from functools import cache, partial
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from models import MODELS, ROWS, Trained, adam, assert_same, batch, build, gradients_of, loss_of, parameters_of, sgd
from models import train_alone as _train_alone

import qdist as qd
from qdist import checkpoint, data, nn, optim
from qdist.parallel import DataParallel, LossScale, Zero, average_gradients, share_rows
from qdist.tensor import Tensor, functional, manual_seed, no_grad
from qdist.tensor import checkpoint as recomputing

UNEVEN = 23
train_alone = cache(_train_alone)


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=120)


def start(way: str, name: str, comm: qd.comm.Communicator, optimizer=adam, **options):
    """A model on ranks, each of which begins with weights of its own."""
    model = build(name, seed=comm.rank)
    if way == "dp":
        model = DataParallel(model, comm, **options)
        return model, optimizer(model.parameters())
    return Zero(model, optimizer(model.parameters()), int(way[-1]), comm, **options), None


def step(model, update, name: str, number: int, rows: int, comm) -> tuple[float, dict[str, np.ndarray]]:
    """One training step; gives the whole batch's loss and gradients."""
    x, y = share_rows(batch(name, number, rows), comm)
    loss = loss_of(model, x, y)
    if update is None:
        model.backward(loss)
        gradients = model.gradients()
        model.step()
    else:
        update.zero_grad()
        loss.backward()
        gradients = gradients_of(model)
        update.step()
    # The mean over no rows is not a number, and counts nothing.
    mine = loss.item() * len(x) / rows if len(x) else 0.0
    return float(comm.all_reduce(np.array(mine))), gradients


def values_of(model) -> dict[str, np.ndarray]:
    return {key: value.numpy() for key, value in model.state_dict().items()}


def train(way: str, name: str, comm, steps: int = 3, rows: int = UNEVEN, optimizer=adam, **options) -> Trained:
    model, update = start(way, name, comm, optimizer, **options)
    losses = []
    for number in range(steps):
        loss, gradients = step(model, update, name, number, rows, comm)
        losses.append(loss)
    return Trained(losses, gradients, values_of(model))


def assert_trained_alike(got: Trained, want: Trained) -> None:
    np.testing.assert_allclose(got.losses, want.losses, rtol=1e-10)
    assert_same(got.gradients, want.gradients)
    assert_same(got.parameters, want.parameters)


@pytest.mark.parametrize("way", ["dp", "zero1", "zero2", "zero3"])
@pytest.mark.parametrize("name", MODELS)
def test_losses_gradients_and_parameters_are_those_of_one_process(comm, name: str, way: str) -> None:
    got = train(way, name, comm)
    assert_trained_alike(got, train_alone(name, rows=UNEVEN, optimizer=adam))
    for key, value in got.parameters.items():
        for other in comm.all_gather(value):
            np.testing.assert_array_equal(value, other, err_msg=key)  # To the last bit: they never drift apart.


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("way", ["dp", "zero2"])
@pytest.mark.parametrize("rows", [1, ROWS], ids=["fewer rows than ranks", "equal shares"])
def test_any_number_of_rows_can_be_shared_out(comm, way: str, rows: int) -> None:
    with np.errstate(invalid="ignore", divide="ignore"):  # The mean of no rows.
        got = train(way, "mlp", comm, rows=rows, optimizer=sgd, bucket_bytes=4000)
    assert_trained_alike(got, train_alone("mlp", rows=rows, optimizer=sgd))


def test_zero3_gathers_whole_blocks(comm) -> None:
    got = train("zero3", "transformer", comm, unit_types=[nn.TransformerBlock])
    assert_trained_alike(got, train_alone("transformer", rows=UNEVEN, optimizer=adam))


@pytest.mark.parametrize("whole", [False, True], ids=["piece by piece", "whole blocks"])
def test_zero3_recomputes_blocks(comm, whole: bool) -> None:
    model = build("transformer", seed=comm.rank)
    for block in model[1:3]:
        block.forward = partial(recomputing, block.forward)
    types = [nn.TransformerBlock] if whole else []
    zero = Zero(model, adam(model.parameters()), 3, comm, unit_types=types)
    losses, gradients = zip(*(step(zero, None, "transformer", number, UNEVEN, comm) for number in range(3)))
    got = Trained(list(losses), gradients[-1], values_of(zero))
    assert_trained_alike(got, train_alone("transformer", rows=UNEVEN, optimizer=adam))


@pytest.mark.parametrize("way", ["dp", "zero1", "zero2", "zero3"])
def test_micro_batches_add_up(comm, way: str) -> None:
    """Two micro-batches of different sizes a step, each of equal weight."""
    plain = build("mlp")
    alone = adam(plain.parameters())
    model, update = start(way, "mlp", comm, **({} if way == "dp" else {"accumulate": 2}))
    for number in range(2):
        parts = [batch("mlp", 2 * number, 13), batch("mlp", 2 * number + 1, 9)]
        alone.zero_grad()
        for x, y in parts:
            (loss_of(plain, x, y) / 2).backward()
        alone.step()
        first, second = (share_rows(part, comm) for part in parts)
        if way == "dp":
            update.zero_grad()
            with model.no_sync():
                (loss_of(model, *first) / 2).backward()
            (loss_of(model, *second) / 2).backward()
            update.step()
        else:
            with model.no_sync():
                model.backward(loss_of(model, *first))
            assert not model.step()
            model.backward(loss_of(model, *second))
            assert model.step()
    assert_same(values_of(model), parameters_of(plain))


def test_losses_that_are_sums(comm) -> None:
    x, y = batch("mlp", 0, UNEVEN)
    plain = build("mlp")
    functional.cross_entropy(plain(Tensor(x)), Tensor(y), "sum").backward()
    model = DataParallel(build("mlp"), comm, reduction="sum")
    mine, targets = share_rows((Tensor(x), Tensor(y)), comm)
    functional.cross_entropy(model(mine), targets, "sum").backward()
    assert_same(gradients_of(model), gradients_of(plain))


class Branches(nn.Module):
    """Four heads: one for even rows, one for odd ones, one that is only added, one that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(12, 5, dtype=np.float64) for _ in range(4)])

    def forward(self, x: Tensor, head: int) -> Tensor:
        return self.heads[head](x) + self.heads[2].bias


@pytest.mark.parametrize("way", ["dp", "zero1", "zero2"])
def test_parameters_that_some_or_all_ranks_do_not_use(comm, way: str) -> None:
    x, y = batch("mlp", 0, 2 * comm.size)
    manual_seed(0)
    plain = Branches()
    alone = sgd(plain.parameters())
    manual_seed(0)
    model = DataParallel(Branches(), comm) if way == "dp" else Branches()
    update = sgd(model.parameters())
    model = model if way == "dp" else Zero(model, update, int(way[-1]), comm)
    for _ in range(2):
        alone.zero_grad()
        for rank in range(comm.size):
            rows = slice(2 * rank, 2 * rank + 2)
            (functional.cross_entropy(plain(Tensor(x[rows]), rank % 2), Tensor(y[rows])) / comm.size).backward()
        alone.step()
        mine, targets = share_rows((Tensor(x), Tensor(y)), comm)
        loss = functional.cross_entropy(model(mine, comm.rank % 2), targets)
        if way == "dp":
            update.zero_grad()
            loss.backward()
            assert_same(gradients_of(model), gradients_of(plain))
            update.step()
        else:
            model.backward(loss)
            assert_same(model.gradients(), gradients_of(plain))
            model.step()
    # The last head has no gradient anywhere, so neither weight decay nor momentum moves it.
    assert_same(values_of(model), parameters_of(plain))


class Sometimes(nn.Module):
    """A parameter that a forward pass may leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.ones(2))

    def forward(self, x: Tensor, use: bool) -> Tensor:
        return (x * self.weight).sum() if use else x.sum()


def test_a_rank_without_any_gradient_takes_part(comm) -> None:
    model = DataParallel(Sometimes(), comm)
    x = Tensor(np.full((1, 2), 3.0), requires_grad=True)
    model(x, comm.rank == 0).backward()
    np.testing.assert_allclose(model.module.weight.grad.numpy(), np.full(2, 3 / comm.size), rtol=1e-12)


def test_a_loop_of_ones_own_averages_gradients(comm) -> None:
    plain = train_alone("cnn", steps=1, rows=UNEVEN)
    model = build("cnn")
    mine = share_rows(batch("cnn", 0, UNEVEN), comm)
    loss_of(model, *mine).backward()
    average_gradients(model, comm, rows=len(mine[0]))
    assert_same(gradients_of(model), plain.gradients)


def test_buffers_are_the_first_ranks(comm) -> None:
    model = DataParallel(nn.BatchNorm2d(2, dtype=np.float64), comm)
    x = np.random.default_rng(comm.rank).normal(comm.rank, 1.0, size=(4, 2, 3, 3))
    for _ in range(2):
        model(Tensor(x))
    own = model.module.running_mean.numpy().copy()
    first = comm.broadcast(own)
    if comm.rank > 0:
        assert abs(own - first).max() > 1e-3  # The second pass moved each rank's buffers by its own rows.
    model(Tensor(x))
    expected = 0.9 * first + 0.1 * x.mean(axis=(0, 2, 3))
    np.testing.assert_allclose(model.module.running_mean.numpy(), expected, rtol=1e-12)


def test_ranks_with_different_models_are_told(comm) -> None:
    model = nn.Linear(2, 3 if comm.rank == comm.size - 1 else 4)
    text = (
        rf"rank {comm.size - 1} has another model than rank 0: weight float32\[3, 2\] in the place of weight float32\[4"
    )
    with pytest.raises(ValueError, match=text):
        DataParallel(model, comm)
    with pytest.raises(ValueError, match=text):
        Zero(model, sgd(model.parameters()), 1, comm)


def test_a_rank_may_evaluate_alone(comm) -> None:
    model, _ = start("dp", "mlp", comm)
    if comm.rank == 0:
        with no_grad():
            assert model(Tensor(batch("mlp", 0)[0])).shape == (ROWS, 5)
    comm.barrier()


@pytest.mark.parametrize("way", ["dp", "zero1", "zero3"])
def test_gradients_of_the_module_itself_are_not_left_to_each_rank(comm, way: str) -> None:
    model, _ = start(way, "mlp", comm)
    x, y = share_rows(batch("mlp", 0, UNEVEN), comm)
    loss = loss_of(model.module, x, y)
    if comm.size > 1:
        with pytest.raises(RuntimeError, match=r"a forward pass of the module itself.* call the .*, model\(x\)"):
            loss.backward()
    with model.no_sync():
        loss_of(model.module, x, y).backward()  # Its own gradients, if that is what is wanted.


@pytest.mark.parametrize("way", ["dp", "zero2"])
def test_copies_of_the_module_are_plain_models(comm, way: str) -> None:
    want = train_alone("mlp", steps=1, rows=UNEVEN, optimizer=adam)
    model, optimizer = start(way, "mlp", comm)
    early = copy.deepcopy(model.module)
    step(model, optimizer, "mlp", 0, UNEVEN, comm)
    late = copy.deepcopy(model.module)
    assert_same(values_of(late), want.parameters)
    if comm.rank == 0:  # Alone: nothing is sent.
        for plain in (early, late):
            plain.zero_grad()
            loss_of(plain, *batch("mlp", 0, UNEVEN)).backward()
        assert_same(gradients_of(early), want.gradients)
    comm.barrier()


@pytest.mark.parametrize("way", ["zero1", "zero3"])
def test_full_states_go_from_ranks_to_one_process_and_back(comm, way: str) -> None:
    want = train_alone("mlp", steps=4, rows=UNEVEN, optimizer=adam)
    model, _ = start(way, "mlp", comm)
    for number in range(2):
        step(model, None, "mlp", number, UNEVEN, comm)
    state = model.full_state_dict()
    plain = build("mlp", seed=9)
    alone = adam(plain.parameters())
    plain.load_state_dict(state["model"])
    alone.load_state_dict(state["optimizer"])
    alone.zero_grad()
    loss_of(plain, *batch("mlp", 2, UNEVEN)).backward()
    alone.step()
    # An optimiser that has made steps keeps their state when it is sharded.
    again = Zero(plain, alone, 2, comm)
    step(again, None, "mlp", 3, UNEVEN, comm)
    assert_same(values_of(again), want.parameters)
    fresh, _ = start("zero2", "mlp", comm)
    fresh.load_full_state_dict(state)
    for number in (2, 3):
        step(fresh, None, "mlp", number, UNEVEN, comm)
    assert_same(values_of(fresh), want.parameters)


@pytest.mark.parametrize("way", ["zero2", "zero3"])
def test_sharded_states_resume(comm, way: str) -> None:
    want = train_alone("mlp", steps=4, rows=UNEVEN, optimizer=adam)
    model, _ = start(way, "mlp", comm)
    for number in range(2):
        step(model, None, "mlp", number, UNEVEN, comm)
    with comm.recording() as messages:
        state = model.sharded_state_dict()
    assert messages == []
    fresh, _ = start(way, "mlp", comm)
    with TemporaryDirectory() as folder:
        checkpoint.save(f"{folder}/shard", state)
        fresh.load_sharded_state_dict(checkpoint.load(f"{folder}/shard"))
    for number in (2, 3):
        step(fresh, None, "mlp", number, UNEVEN, comm)
    assert_same(values_of(fresh), want.parameters)
    with pytest.raises(ValueError, match=f"of rank {comm.rank + 1} of {comm.size}"):
        fresh.load_sharded_state_dict({**state, "rank": comm.rank + 1})


@pytest.mark.parametrize("way", ["zero1", "zero2", "zero3"])
def test_clipping_sees_the_norm_of_all_shards(comm, way: str) -> None:
    plain = build("mlp")
    loss_of(plain, *batch("mlp", 0)).backward()
    norm = optim.clip_grad_norm_(plain.parameters(), 0.1)
    model, _ = start(way, "mlp", comm)
    model.backward(loss_of(model, *share_rows(batch("mlp", 0), comm)))
    np.testing.assert_allclose(model.clip_grad_norm(0.1), norm, rtol=1e-10)
    assert_same(model.gradients(), gradients_of(plain))


class Single(nn.Module):
    """A float32 perceptron for half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_half_precision_follows_single_precision_with_a_float32_master(comm, stage: int) -> None:
    x, y = batch("mlp", 0)
    manual_seed(0)
    plain = Single()
    alone = optim.SGD(plain.parameters(), lr=0.05, momentum=0.9)
    manual_seed(0)
    model = Single()
    model = Zero(model, optim.SGD(model.parameters(), lr=0.05, momentum=0.9), stage, comm, precision=np.float16)
    assert {unit.own.dtype for unit in model.units} == {np.dtype(np.float16)}
    assert {unit.master.dtype for unit in model.units} == {np.dtype(np.float32)}
    for _ in range(10):
        alone.zero_grad()
        functional.cross_entropy(plain(Tensor(x.astype(np.float32))), Tensor(y)).backward()
        alone.step()
        mine, targets = share_rows((Tensor(x.astype(np.float32)), Tensor(y)), comm)
        scores = model(mine)
        assert scores.dtype == np.float32
        model.backward(functional.cross_entropy(scores, targets))
        norm = optim.clip_grad_norm_(plain.parameters(), 1e6)
        np.testing.assert_allclose(model.clip_grad_norm(1e6), norm, rtol=1e-2)  # Not the scaled loss's.
        assert model.step()
    for key, value in plain.state_dict().items():
        # Half precision has 11 bits; what ten steps of it leave stays within a few units of the last.
        np.testing.assert_allclose(values_of(model)[key], value.numpy(), atol=3e-3)
    # The master moves by less than half precision can tell: those steps are not lost.
    assert any((unit.master != unit.own.astype(np.float32)).any() for unit in model.units if unit.length > 8)


def test_overflow_on_one_rank_skips_the_step_on_all(comm) -> None:
    manual_seed(0)
    model = Single()
    zero = Zero(model, optim.SGD(model.parameters()), 2, comm, precision=np.float16, loss_scale=LossScale(4.0))
    before = values_of(zero)
    x = np.ones((2, 12), np.float32)
    loss = zero(Tensor(x)).sum() * (1e30 if comm.rank == comm.size - 1 else 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        zero.backward(loss)
    assert not zero.step()
    assert zero.loss_scale.value == 2.0
    assert_same(values_of(zero), before, 0)
    assert zero.gradients() == {}


class Tied(nn.Module):
    """A table of tokens that is also the output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(8, 4, dtype=np.float64), nn.Linear(4, 8, dtype=np.float64)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table(tokens).tanh())


def test_zero3_frees_parameters_after_each_module_and_shares_tied_ones(comm) -> None:
    tokens = np.arange(4 * comm.size).reshape(2 * comm.size, 2) % 8
    manual_seed(1)
    plain = Tied()
    loss_of(plain, tokens, tokens).backward()
    manual_seed(1)
    model = Tied()
    zero = Zero(model, sgd(model.parameters()), 3, comm)
    loss = loss_of(zero, *share_rows((tokens, tokens), comm))
    assert all(unit.full is None for unit in zero.units)
    with pytest.raises(RuntimeError, match=r"sharded \(ZeRO stage 3\)"):
        model.table.weight.numpy()
    zero.backward(loss)
    assert all(unit.full is None for unit in zero.units)
    assert all(p.grad is None for p in model.parameters())
    assert_same(zero.gradients(), gradients_of(plain))


class _Counts(nn.Module):
    """Counts its rows in a buffer, by assignment."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 1)
        self.register_buffer("seen", np.zeros(1))

    def forward(self, x):
        self.seen = self.seen + len(x)
        return self.linear(x)


@pytest.mark.parametrize("way", ["dp", "zero1", "zero3"])
def test_buffers_that_are_assigned_to_stay_broadcast_and_saved(comm, way):
    model = _Counts()
    wrapped = DataParallel(model, comm) if way == "dp" else Zero(model, sgd(model.parameters()), int(way[-1]), comm)
    for _ in range(3):
        loss = wrapped(Tensor(np.ones((comm.rank + 1, 2), np.float32))).mean()
        loss.backward() if way == "dp" else wrapped.backward(loss)
    # At the start of each pass all have rank 0's count, which sees one row each time.
    assert model.seen.item() == 2 + comm.rank + 1
    assert wrapped.state_dict()["seen"].numpy().item() == model.seen.item()


@pytest.mark.parametrize("shuffle", [False, True])
def test_samplers_and_split_data_know_their_rank(comm, shuffle):
    n = 4 * comm.size
    mine = list(data.DistributedSampler(n, shuffle=shuffle))
    assert len(mine) == 4
    assert sorted(comm.all_gather(np.array(mine)).ravel()) == list(range(n))
    rows, _ = data.split_data(np.arange(n), np.arange(n), shuffle)
    assert sorted(comm.all_gather(rows).ravel()) == list(range(n))
    loader = data.DataLoader(data.ArrayDataset(np.arange(n)), 2, sampler=data.DistributedSampler(range(n)))
    assert sum(len(x) for (x,) in loader) == 4


def test_on_one_node_gradients_are_sent_when_the_pass_is_over(comm) -> None:
    """There the cores that send are those that compute, and MPI moves nothing by itself."""
    model = DataParallel(build("mlp", seed=0), comm, bucket_bytes=1)
    large: list[int] = []

    def count() -> int:
        return sum(message.op == "all_reduce" and message.bytes >= 256 for message in messages)

    for parameter in model.parameters():
        parameter.register_post_accumulate_hook(lambda _: large.append(count()))
    x, y = share_rows(batch("mlp", 0, UNEVEN), comm)
    with comm.recording() as messages:
        loss_of(model, x, y).backward()
        assert len(large) > 1
        assert not any(large)
        assert count() > 0


def test_stage_2_has_no_more_than_a_few_gradients_at_a_time(comm) -> None:
    """Not all of them under way, as where ranks are out of step."""
    layers, width = 16, 128
    x, peaks = np.ones((2, width), np.float32), {}
    for stage in (1, 2):
        manual_seed(0)
        model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))
        zero = Zero(model, optim.SGD(model.parameters(), lr=0.1), stage, comm, bucket_bytes=4 * width * width)
        tracemalloc.start()
        loss = zero(Tensor(x)).sum()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        if comm.rank == 0:
            time.sleep(0.2)  # The others are ahead of it.
        zero.backward(loss)
        peaks[stage] = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        zero.step()
    gradient = 4 * width * width
    assert peaks[1] > 0.9 * layers * gradient
    # This rank's parts, two that are under way, the next, and what a product takes.
    assert peaks[2] < (layers / comm.size + 6) * gradient
