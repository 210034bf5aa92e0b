"""Zero without other ranks: bytes and memory of every stage, configuration, and what is refused."""

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdist import nn, optim, parallel
from qdist.comm import counting_communicator
from qdist.parallel import DataParallel, LossScale, Zero, auto
from qdist.parallel.zero.shards import Unit
from qdist.tensor import Tensor, manual_seed, no_grad

WIDTH = 64


def net(layers: int = 4) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers)))


def rows(count: int = 2, width: int = WIDTH) -> Tensor:
    return Tensor(np.ones((count, width), np.float32))


def zero(stage: int, size: int, model: nn.Module | None = None, **options) -> Zero:
    model = net() if model is None else model
    return Zero(model, optim.Adam(model.parameters()), stage, counting_communicator(size), **options)


@pytest.mark.parametrize("size", [2, 8, 64])
@pytest.mark.parametrize(("stage", "volume"), [(1, 2), (2, 2), (3, 3)])
def test_bytes_of_a_step_are_the_papers(stage: int, volume: int, size: int) -> None:
    """2 psi for stages 1 and 2, as data parallel; 3 psi for stage 3 (section 7 of the paper)."""
    model = zero(stage, size)
    messages = model.comm.messages
    messages.clear()
    model.backward(model(rows()).mean())
    model.step()
    psi = 4 * (WIDTH * WIDTH + WIDTH)
    small = sum(m.wire_bytes for m in messages if m.op == "all_reduce" or m.bytes == 32)
    # What the loss is a mean over, and eight parameters' flags; the rows and the generator of each rank.
    assert small == 2 * (size - 1) / size * (16 + 8) + 32 * (size - 1)
    assert sum(m.wire_bytes for m in messages) - small == volume * (size - 1) / size * 4 * psi


@pytest.mark.parametrize(("stage", "gathers", "reduces"), [(1, 1, 1), (2, 1, 3), (3, 6, 3)])
def test_micro_batches_are_sent_as_the_stage_demands(stage: int, gathers: int, reduces: int) -> None:
    """Three passes a step: stage 1 sends gradients once, stage 2 every time, stage 3 gathers twice a pass as well."""
    model = zero(stage, 4, net(1), accumulate=3)
    model.comm.messages.clear()
    for _ in range(3):
        model.backward(model(rows()).mean())
        model.step()
    large = [m for m in model.comm.messages if m.bytes > 32]  # Without rows and generators.
    counts = {op: sum(m.op == op for m in large) for op in ("all_gather", "reduce_scatter")}
    assert counts == {"all_gather": gathers, "reduce_scatter": reduces}


def live_bytes(stage: int, size: int, layers: int, width: int, half: bool) -> int:
    """Of parameters, gradients and optimiser state on one rank, between the backward pass and the step."""

    def run() -> object:
        model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))
        optimizer = optim.Adam(model.parameters())
        comm = counting_communicator(size)
        if stage == 0:
            made = DataParallel(model, comm)
            made(rows(width=width)).mean().backward()
        else:
            options = {"precision": np.float16, "loss_scale": LossScale(1.0)} if half else {}
            made = Zero(model, optimizer, stage, comm, **options)
            made.backward(made(rows(width=width)).mean())
        return made, optimizer

    run()  # What is made once, such as caches of modules, is not the model's.
    tracemalloc.start()
    try:
        kept = run()
        assert kept
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("stage", "half"), [(0, False), (1, False), (2, False), (3, False), (1, True), (2, True), (3, True)]
)
def test_memory_of_a_rank_follows_the_papers_formula(stage: int, half: bool) -> None:
    """Section 5: parameters P, gradients G and optimiser state K, each whole or one N-th, in bytes a parameter.

    In float32, P = G = 4 and K = 8 (two averages). In float16, P = 2, K = 12 (also the master copy); G is 2 before it
    is reduced, and 4 in the shards, which are float32. Stage 2 keeps less than stage 1 by nearly all of the gradients.
    """
    size, layers, width = 16, 8, 256
    psi = layers * (width * width + width)
    P, G, shard, K = (2, 2, 4, 12) if half else (4, 4, 4, 8)
    formula = [P + G + K, P + G + K / size, P + (shard + K) / size, (P + shard + K) / size][stage] * psi
    measured = live_bytes(stage, size, layers, width, half)
    # Python's objects take a few kB a layer.
    assert 0.99 * formula < measured < 1.02 * formula + 10_000 * layers


def test_stage_3_holds_one_module_at_a_time() -> None:
    """Neither pass has more than a module's parameters beside the shards."""
    model = zero(3, 16, net(24))
    gathered: list[int] = []
    for unit in model.units:
        gather = unit.gather

        def counting(gather=gather):
            full = gather()
            gathered.append(sum(u.full is not None for u in model.units))
            return full

        unit.gather = counting
    loss = model(rows()).mean()
    assert all(u.full is None for u in model.units)
    forward = len(gathered)
    model.backward(loss)
    assert (forward, len(gathered)) == (24, 48)
    assert max(gathered) == 1


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 9))
def test_the_parts_of_all_ranks_are_every_parameter_once(sizes: list[int], ranks: int) -> None:
    values = [np.random.default_rng(size).normal(size=(size, 2)).astype(np.float32) for size in sizes]
    found = [np.full((size, 2), np.nan, np.float32) for size in sizes]
    for rank in range(ranks):
        parameters = [nn.Parameter(value.copy()) for value in values]
        unit = Unit(parameters, counting_communicator(ranks, rank), None, keep=rank % 2 == 0)
        for piece in unit.pieces:
            found[piece.index].reshape(-1)[piece.start : piece.stop] = piece.tensor.numpy()
            np.testing.assert_array_equal(unit.part(piece, unit.own), piece.tensor.numpy())
        assert 2 * sum(sizes) <= ranks * unit.length < 2 * sum(sizes) + ranks
    for got, want in zip(found, values):
        np.testing.assert_array_equal(got, want)


def test_a_configuration_is_read_and_checked() -> None:
    model = net()
    config = {
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "Adam", "params": {"lr": 0.5}},
        "zero_optimization": {"stage": 2},
        "gradient_clipping": 1.5,
        "fp16": {"enabled": True, "initial_scale_power": 3},
    }
    made = Zero.from_config(config, model, comm=counting_communicator(4))
    assert (made.stage, made.accumulate, made.max_norm) == (2, 4, 1.5)
    assert made.loss_scale is not None
    assert (made.loss_scale.value, made.loss_scale.dynamic) == (8.0, True)
    assert isinstance(made.optimizer, optim.Adam)
    assert made.optimizer.param_groups[0]["lr"] == 0.5
    by_steps = {**config, "gradient_accumulation_steps": 8}
    del by_steps["train_micro_batch_size_per_gpu"]
    assert Zero.from_config(by_steps, net(), comm=counting_communicator(4)).accumulate == 8
    own = optim.SGD(net().parameters())
    with pytest.raises(ValueError, match="does not have"):
        Zero.from_config({"zero_optimization": {"stage": 1}}, net(), own, counting_communicator(2))
    for wrong, text in [
        ({"zero": {}}, "unknown key zero"),
        ({"zero_optimization": {"offload": True}}, "unknown key offload"),
        ({}, "give an optimiser"),
        ({"optimizer": {"type": "lamb"}}, "'lamb'"),
        ({**config, "gradient_accumulation_steps": 3}, "train_batch_size=64"),
        ({**config, "train_batch_size": 66}, "train_batch_size=66"),
        ({**config, "zero_optimization": {"stage": 4}}, "stage=4"),
        ({**config, "train_micro_batch_size_per_gpu": 0}, "train_micro_batch_size_per_gpu=0: at least 1"),
        ({**by_steps, "train_batch_size": 66}, "train_batch_size=66 is not micro-batch of any size x 4 ranks x 8"),
        ({**by_steps, "train_batch_size": 16}, "train_batch_size=16"),
    ]:
        with pytest.raises(ValueError, match=text):
            Zero.from_config(wrong, net(), comm=counting_communicator(4))


def test_what_is_refused_before_anything_is_sent() -> None:
    comm = counting_communicator(2)
    model = net(1)
    adam = optim.Adam(model.parameters())
    with pytest.raises(ValueError, match="stage=0"):
        Zero(model, adam, 0, comm)
    with pytest.raises(TypeError, match=r"optimiser of qdist\.optim"):
        Zero(model, None, 1, comm)
    with pytest.raises(ValueError, match="precision"):
        Zero(model, adam, 1, comm, precision=np.float64)
    with pytest.raises(ValueError, match="loss scale is for"):
        Zero(model, adam, 1, comm, loss_scale=LossScale())
    double = nn.Linear(2, 2, dtype=np.float64)
    with pytest.raises(ValueError, match="float32 model"):
        Zero(double, optim.Adam(double.parameters()), 1, comm, precision=np.float16)
    with pytest.raises(ValueError, match="max_norm"):
        Zero(model, adam, 1, comm, max_norm=-1.0)
    with pytest.raises(ValueError, match="accumulate"):
        Zero(model, adam, 1, comm, accumulate=0)
    with pytest.raises(ValueError, match="unit_types are for stage 3"):
        Zero(model, adam, 2, comm, unit_types=[nn.Linear])
    with pytest.raises(ValueError, match="no buckets"):
        Zero(model, adam, 3, comm, bucket_bytes=100)
    with pytest.raises(TypeError, match="classes of modules"):
        Zero(model, adam, 3, comm, unit_types=["Linear"])
    assert comm.messages == []
    made = Zero(model, adam, 1, comm)
    comm.messages.clear()
    with pytest.raises(ValueError, match="sharded by a Zero already"):
        DataParallel(made.module, comm)
    with pytest.raises(ValueError, match="does not have"):
        Zero(made.module, adam, 1, comm)
    assert comm.messages == []


def test_states_that_do_not_fit_change_nothing() -> None:
    model = zero(2, 2, net(1))
    before = model.state_dict()
    with pytest.raises(ValueError, match=r"missing: 0.bias"):
        model.load_state_dict({"0.weight": before["0.weight"]})
    with pytest.raises(ValueError, match=r"shape of 0.bias"):
        model.load_state_dict({**before, "0.bias": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"dtype of 0.bias: complex64 given, real numbers needed"):
        model.load_state_dict({**before, "0.bias": np.zeros(WIDTH, np.complex64)})
    full = model.full_state_dict()
    del full["optimizer"]["state"]["1"]["exp_avg"]
    with pytest.raises(ValueError, match="parameter 1"):
        model.load_full_state_dict(full)
    with_momentum = optim.SGD(net(1).parameters(), momentum=0.9).state_dict()
    plain = net(1)
    sharded = Zero(plain, optim.SGD(plain.parameters()), 1, counting_communicator(64))
    with pytest.raises(ValueError, match=r"parameter 0: the state has .*momentum_buffer.* keeps \[\]"):
        sharded.load_full_state_dict({"model": sharded.state_dict(), "optimizer": with_momentum})
    other = zero(3, 2, net(2), unit_types=[nn.Sequential])
    with pytest.raises(ValueError, match="cut differently"):
        other.load_sharded_state_dict(zero(3, 2, net(2)).sharded_state_dict())


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("make", [optim.Adam, optim.SGD, partial(optim.SGD, momentum=0.9)])
def test_states_of_a_partly_frozen_model_are_those_of_the_plain_optimiser(stage: int, make: Any) -> None:
    def frozen() -> tuple[nn.Module, optim.Optimizer]:
        manual_seed(0)
        model = net(2)
        model[0].bias.requires_grad_(False)
        model[1].weight.requires_grad_(False)
        parameters = list(model.parameters())
        return model, make([{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.5}])

    plain, update = frozen()
    plain(rows()).mean().backward()
    update.step()
    model, optimizer = frozen()
    sharded = Zero(model, optimizer, stage, counting_communicator(1))
    sharded.backward(sharded(rows()).mean())
    sharded.step()
    state, want = sharded.full_state_dict()["optimizer"], update.state_dict()
    assert state["param_groups"] == want["param_groups"]
    assert state["state"].keys() == want["state"].keys()
    for number, entry in want["state"].items():
        assert state["state"][number].keys() == entry.keys()
        for name, value in entry.items():
            np.testing.assert_allclose(state["state"][number][name], value, rtol=1e-6)
    resumed, again = frozen()
    again.load_state_dict(state)
    Zero(resumed, again, stage, counting_communicator(1)).load_full_state_dict(sharded.full_state_dict())


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_what_was_left_out_of_the_shards_is_not_trained_without_a_word(stage: int) -> None:
    model = net(2)
    model[1].weight.requires_grad_(False)
    sharded = Zero(model, optim.SGD(model[1].parameters()), stage, counting_communicator(1))
    sharded.backward(sharded(rows()).mean())
    sharded.step()
    model[1].weight.requires_grad_(True)
    sharded.backward(sharded(rows()).mean())
    with pytest.raises(ValueError, match=r"'1.weight' was frozen when Zero was made.*thaw it before Zero"):
        sharded.step()
    model[1].weight.requires_grad_(False)
    sharded.step()
    sharded.optimizer.add_param_group({"params": model[0].parameters()})
    sharded.backward(sharded(rows()).mean())
    with pytest.raises(ValueError, match=r"was given a parameter of shape \(.*when Zero had divided the others"):
        sharded.step()


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_what_is_divided_is_neither_clipped_nor_updated_as_if_it_were_here(stage: int) -> None:
    model = net(2)
    sharded = Zero(model, optim.SGD(model.parameters()), stage, counting_communicator(1))
    sharded.backward(sharded(rows()).mean())
    with pytest.raises(RuntimeError, match=r"a part of the model's parameters: call Zero.step\(\)"):
        sharded.optimizer.step()
    for clip in (optim.clip_grad_norm_, optim.clip_grad_value_, parallel.clip_grad_norm_):
        with pytest.raises(ValueError, match=r"ranks have different parts .* take Zero.clip_grad_norm\(max_norm\)"):
            clip(model.parameters(), 0.1)
    plain = net(2)
    plain.load_state_dict(sharded.state_dict())
    plain(rows()).mean().backward()
    norm = sharded.clip_grad_norm(0.1)
    np.testing.assert_allclose(norm, np.sqrt(sum((p.grad.numpy() ** 2).sum() for p in plain.parameters())), rtol=1e-6)
    divided = parallel.ColumnParallelLinear(4, 4, counting_communicator(2))
    with pytest.raises(ValueError, match=r"take parallel.clip_grad_norm_\("):
        optim.clip_grad_norm_(divided.parameters(), 0.1)
    placed = nn.Linear(4, 4)
    auto.shard_tensor(placed.weight, auto.ProcessMesh([0, 1], ["mp"], counting_communicator(2)), ["mp", None])
    with pytest.raises(ValueError, match=r"take parallel.auto.clip_grad_norm_\("):
        optim.clip_grad_norm_(placed.parameters(), 0.1)


@pytest.mark.parametrize("precision", [None, "float16"])
@pytest.mark.parametrize("stage", [1, 2])
def test_a_change_of_a_parameter_is_kept_or_refused(stage: int, precision: str | None) -> None:
    model = net(1)
    sharded = Zero(model, optim.SGD(model.parameters(), lr=0.0), stage, counting_communicator(1), precision=precision)
    before = sharded.state_dict()
    with no_grad():
        model[0].weight.mul_(0.5)
    sharded.backward(sharded(rows()).mean())
    if precision is not None:
        with pytest.raises(ValueError, match=r"'0.weight' was changed since the last step, in float16"):
            sharded.step()
        sharded.load_state_dict({**before, "0.weight": before["0.weight"] * 0.5})
    sharded.step()
    np.testing.assert_allclose(sharded.state_dict()["0.weight"].numpy(), before["0.weight"].numpy() / 2, rtol=1e-3)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_states_have_untrained_parameters_as_they_were_given(stage: int) -> None:
    """The model computes with them in half precision."""

    def made(seed: int) -> Zero:
        manual_seed(seed)
        model = net(3)
        model[1].weight.requires_grad_(False)
        model[2].bias.requires_grad_(False)
        rule = optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)  # It does not have all that could be trained.
        return Zero(model, rule, stage, counting_communicator(1), precision="float16")

    manual_seed(0)
    want = {name: value.numpy() for name, value in net(3).state_dict().items() if name[0] != "0"}
    zero = made(0)
    zero.backward(zero(rows()).mean())
    zero.step()
    assert zero.module[1].weight.dtype == zero.module[2].weight.dtype == np.float16
    full, shard = made(1), made(1)
    full.load_full_state_dict(zero.full_state_dict())
    shard.load_sharded_state_dict(zero.sharded_state_dict())
    for each in (zero, full, shard):
        state = each.state_dict()
        for name, value in want.items():
            assert state[name].dtype == np.float32
            np.testing.assert_array_equal(state[name].numpy(), value, err_msg=name)
        np.testing.assert_array_equal(each(rows()).numpy(), zero(rows()).numpy())


def test_a_scheduler_goes_on_setting_the_rate() -> None:
    model = net(1)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    schedule = optim.StepLR(optimizer, 1, 0.5)
    made = Zero(model, optimizer, 1, counting_communicator(1))
    before = made.state_dict()["0.bias"].numpy()
    schedule.step()
    made.backward(made(rows(1)).sum())
    made.step()
    np.testing.assert_allclose(made.state_dict()["0.bias"].numpy(), before - 0.5, rtol=1e-6)


def test_more_ranks_than_numbers() -> None:
    model = zero(2, 64, nn.Linear(2, 1))
    assert [len(unit.pieces) for unit in model.units] == [1]
    model.backward(model(rows(2, 2)).mean())
    assert model.step()


def test_loss_scale_adapts() -> None:
    scale = LossScale(8.0, interval=2)
    for finite, value in [(False, 4.0), (True, 4.0), (True, 8.0), (True, 8.0), (False, 4.0), (True, 4.0)]:
        scale.update(finite)
        assert scale.value == value
    fixed = LossScale(8.0, dynamic=False)
    fixed.update(False)
    assert fixed.value == 8.0
    for value in (0, np.nan, np.inf):
        with pytest.raises(ValueError, match="positive"):
            LossScale(value)
    # A state from a longer interval.
    shorter = LossScale(8.0, interval=2)
    shorter.load_state_dict({"value": 8.0, "good": 5})
    shorter.update(True)
    assert shorter.value == 16.0


def test_a_config_beside_an_optimiser_describes_it() -> None:
    model, comm = nn.Linear(2, 2), counting_communicator(2)
    adam = optim.Adam(model.parameters(), lr=1e-3, betas=(0.8, 0.9))
    for options in ({}, {"lr": 1e-3}, {"lr": 1e-3, "betas": [0.8, 0.9]}):
        Zero.from_config({"optimizer": {"type": "Adam", "params": options}}, nn.Linear(2, 2), None, comm)
    with pytest.raises(ValueError, match="names optimizer 'sgd', and a Adam is given"):
        Zero.from_config({"optimizer": {"type": "sgd"}}, model, adam, comm)
    with pytest.raises(ValueError, match=r"has lr=0\.5, the given optimiser lr=0\.001"):
        Zero.from_config({"optimizer": {"type": "adam", "params": {"lr": 0.5}}}, model, adam, comm)
    assert Zero.from_config({"optimizer": {"type": "adam", "params": {"betas": [0.8, 0.9]}}}, model, adam, comm)


def test_stage_2_holds_fewer_gradients_than_stage_1_also_of_a_small_model() -> None:
    def most_at_once(stage: int) -> int:
        model = zero(stage, 4, net(64))
        parameters, most = list(model.module.parameters()), 0

        def count(_: Tensor) -> None:
            nonlocal most
            most = max(most, sum(p.grad.nbytes for p in parameters if p.grad is not None))

        for p in parameters:
            p.register_post_accumulate_hook(count)
        model.backward(model(rows()).mean())
        return most

    whole = 64 * 4 * (WIDTH * WIDTH + WIDTH)
    assert most_at_once(1) == whole
    assert most_at_once(2) <= whole / 4
