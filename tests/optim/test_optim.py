"""Optimisers, clipping and schedules against torch and their formulas."""

import copy
import pickle

import numpy as np
import pytest

from qdist import checkpoint, nn, optim
from qdist.tensor import Tensor, enable_grad, no_grad

SETTINGS = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd-decay": ("SGD", {"lr": 0.1, "weight_decay": 0.05}),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "adam": ("Adam", {"lr": 0.02}),
    "adam-decay": ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.02, "weight_decay": 0.1}),
    "rmsprop": ("RMSprop", {"lr": 0.02}),
    "rmsprop-momentum": ("RMSprop", {"lr": 0.02, "momentum": 0.9, "alpha": 0.9, "weight_decay": 0.01}),
    "adagrad": ("Adagrad", {"lr": 0.1, "weight_decay": 0.01}),
}
SHAPES = [(3, 4), (4,), (2, 2, 2), (40_000,)]


def parameters(dtype=np.float64):
    rng = np.random.default_rng(0)
    return [nn.Parameter(rng.standard_normal(s).astype(dtype)) for s in SHAPES]


def set_gradients(params, seed, missing=()):
    rng = np.random.default_rng(seed)
    for i, p in enumerate(params):
        g = rng.standard_normal(tuple(p.shape))
        p.grad = None if i in missing else g


@pytest.mark.parametrize("setting", SETTINGS)
def test_ten_steps_equal_torch(setting):
    torch = pytest.importorskip("torch")
    name, options = SETTINGS[setting]
    mine = parameters()
    theirs = [torch.tensor(p.numpy().copy(), requires_grad=True) for p in mine]
    a, b = getattr(optim, name)(mine, **options), getattr(torch.optim, name)(theirs, **options)
    for step in range(10):
        # A parameter without a gradient in some steps keeps its own step count.
        missing = {1} if step in (0, 3) else set()
        set_gradients(mine, step, missing)
        for p, q in zip(mine, theirs):
            q.grad = None if p.grad is None else torch.tensor(p.grad)
            p.grad = None if p.grad is None else Tensor(p.grad)
        a.step()
        b.step()
    for p, q in zip(mine, theirs):
        np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_complex_parameters_equal_torch(name):
    torch = pytest.importorskip("torch")
    z = np.array([1 + 2j, -0.5j])
    mine, theirs = nn.Parameter(z.copy()), torch.tensor(z.copy(), requires_grad=True)
    a, b = getattr(optim, name)([mine], lr=0.1), getattr(torch.optim, name)([theirs], lr=0.1)
    for step in range(4):
        g = z * (step + 1) + 0.3j
        mine.grad, theirs.grad = Tensor(g.copy()), torch.tensor(g.copy())
        a.step()
        b.step()
    np.testing.assert_allclose(mine.numpy(), theirs.detach().numpy(), rtol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "complex128"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_parameters_with_gaps_in_memory_are_updated_as_others(setting, dtype):
    name, options = SETTINGS[setting]
    draw = np.random.default_rng(3)
    values = (draw.normal(size=(4, 5, 6)) + 1j * draw.normal(size=(4, 5, 6))).astype("complex128")
    values = (values if dtype.startswith("complex") else values.real).astype(dtype)
    views = [values[0, 0, ::2], values[1, :, 0][::-1], values[2].T, values[3, ::-2, ::3], values[3, 1, 1:2][::-1]]
    found = []
    for lay in (np.copy, lambda view: view):
        params = [nn.Parameter(lay(view)) for view in views]
        optimizer = getattr(optim, name)(params, **options)
        for step in range(4):
            if step == 2:
                # States come in any order of memory too.
                saved = optimizer.state_dict()
                for entry in saved["state"].values():
                    for slot, state in entry.items():
                        if slot != "step" and lay is not np.copy:
                            entry[slot] = Tensor(np.repeat(state.numpy(), 2, axis=-1)[..., ::2])
                optimizer = getattr(optim, name)(params, **options)
                optimizer.load_state_dict(saved)
            for p in params:
                gradient = np.sin(step + np.arange(p.size)).reshape(p.shape).astype(dtype)
                p.grad = Tensor(lay(np.repeat(gradient, 2, axis=0)[::2]))
            optimizer.step()
        found.append([p.numpy().copy() for p in params])
        assert all(np.shares_memory(p.numpy(), values) for p in params) == (lay is not np.copy)
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_state_dict_continues_exactly(setting):
    name, options = SETTINGS[setting]
    runs = []
    for interrupted in (False, True):
        params = parameters(np.float32)
        optimizer = getattr(optim, name)(params, **options)
        for step in range(6):
            if step == 3 and interrupted:
                state = optimizer.state_dict()
                optimizer = getattr(optim, name)(params, **{**options, "lr": 99.0})
                optimizer.load_state_dict(state)
            set_gradients(params, step)
            for p in params:
                p.grad = Tensor(p.grad, dtype=np.float32)
            optimizer.step()
        runs.append([p.numpy() for p in params])
    for plain, resumed in zip(*runs):
        np.testing.assert_array_equal(plain, resumed)


def test_a_state_of_another_shape_is_refused():
    a = optim.Adam([nn.Parameter(np.ones(3))])
    with pytest.raises(ValueError, match="exp_avg has shape"):
        a.load_state_dict(optim.Adam([nn.Parameter(np.ones(4))]).state_dict())
    with pytest.raises(ValueError, match="groups of"):
        a.load_state_dict(optim.Adam([nn.Parameter(np.ones(3)), nn.Parameter(np.ones(3))]).state_dict())


@pytest.mark.parametrize(
    ("make", "other", "named"),
    [
        (lambda p: optim.SGD(p), lambda p: optim.SGD(p, momentum=0.9), "momentum_buffer"),
        (lambda p: optim.SGD(p), lambda p: optim.Adam(p), "betas, decoupled, eps, exp_avg, exp_avg_sq"),
        (lambda p: optim.Adagrad(p), lambda p: optim.QuantumNaturalGradient(p, np.copy), "damping"),
    ],
)
def test_a_state_of_another_optimiser_is_refused_and_changes_nothing(make, other, named):
    p = nn.Parameter(np.ones(3))
    optimizer = make([p])
    p.grad = Tensor(np.ones(3))
    before = optimizer.state_dict()["param_groups"]
    with pytest.raises(ValueError, match=f"another optimiser.* has no {named}"):
        optimizer.load_state_dict(other([nn.Parameter(np.ones(3))]).state_dict())
    assert optimizer.state_dict()["param_groups"] == before
    optimizer.step()


def test_groups_have_options_of_their_own():
    a, b = nn.Parameter(np.ones(1)), nn.Parameter(np.ones(1, np.float32))
    optimizer = optim.SGD([{"params": [a], "lr": 1.0}, {"params": [b]}], lr=0.5)
    a.grad, b.grad = Tensor(np.ones(1)), Tensor(np.ones(1, np.float32))
    optimizer.step()
    assert (a.item(), b.item()) == (0.0, 0.5)
    optimizer.zero_grad()
    assert a.grad is None


def test_the_update_is_in_place_and_counts_as_a_change():
    p = nn.Parameter(np.ones(2))
    memory = p.data
    loss = (p * p).sum()
    p.grad = Tensor(np.ones(2))
    optim.SGD([p], lr=0.1).step()
    assert p.data is memory
    with pytest.raises(RuntimeError, match="changed in place"):
        (loss + 0).backward()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: optim.SGD([]), "at least one"),
        (lambda p: optim.SGD([p], lr=-1), "negative"),
        (lambda p: optim.SGD([p], nesterov=True), "nesterov needs"),
        (lambda p: optim.Adam([p], betas=(1.0, 0.9)), r"\[0, 1\)"),
        (lambda p: optim.Adam([p], betas=(0.9,)), "two numbers"),
        (lambda p: optim.SGD([p], lr=np.nan), "must not be negative, got nan"),
        (lambda p: optim.RMSprop([p], alpha=2.0), "alpha must be in"),
        (lambda p: optim.RMSprop([p], momentum=-0.5), "momentum must not be negative"),
        (lambda p: optim.SGD([p], momentum=float("nan")), "momentum must not be negative"),
        (lambda p: optim.WarmupLR(optim.SGD([p]), 3, after=optim.StepLR(optim.SGD([p]), 1)), "the same optimiser"),
        (lambda p: optim.clip_grad_value_([p], np.nan), "positive"),
        (lambda p: optim.SGD([p, p]), "twice"),
        (lambda p: optim.SGD([{"params": [p], "speed": 3}]), "no option speed"),
        (lambda p: optim.StepLR(optim.SGD([p]), 0), "at least 1"),
        (lambda p: optim.clip_grad_norm_([p], 0.0), "positive"),
    ],
)
def test_wrong_arguments_are_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call(nn.Parameter(np.ones(1)))


def test_integers_are_no_parameters():
    with pytest.raises(TypeError, match="of real or complex numbers"):
        optim.SGD([Tensor(np.arange(3))])


def test_clipping_scales_all_gradients_together():
    a, b = nn.Parameter(np.zeros(2)), nn.Parameter(np.zeros(1, np.complex128))
    a.grad, b.grad = Tensor(np.array([3.0, 0.0])), Tensor(np.array([4j]))
    assert optim.clip_grad_norm_([a, b], 1.0) == 5.0
    np.testing.assert_allclose(a.grad.numpy(), [0.6, 0.0])
    np.testing.assert_allclose(b.grad.numpy(), [0.8j])
    assert optim.clip_grad_norm_([a, b], 2.0) == pytest.approx(1.0)
    optim.clip_grad_value_([a], 0.5)
    np.testing.assert_allclose(a.grad.numpy(), [0.5, 0.0])


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [3, 5000])
def test_clipping_of_half_precision_adds_up_squares_in_float32(half, size):
    if half == "bfloat16":
        pytest.importorskip("ml_dtypes")
    given = [np.random.default_rng(s).normal(0, scale, size) for s, scale in ((0, 300.0), (1, 1e-3))]
    parameters = [nn.Parameter(np.zeros(size, np.float32)).to(half) for _ in given]
    for p, values in zip(parameters, given):
        p.grad = Tensor(values).to(half)
    exact = [p.grad.numpy().astype(np.float64) for p in parameters]
    norm = np.sqrt(sum((g**2).sum() for g in exact))
    assert optim.clip_grad_norm_(parameters, 1.0) == pytest.approx(norm, rel=1e-5)
    assert optim.clip_grad_norm_(parameters[1:], 1.0) == pytest.approx(np.linalg.norm(exact[1]) / norm, rel=0.1)
    for p, g in zip(parameters[:1], exact):
        np.testing.assert_allclose(p.grad.numpy().astype(np.float64), g / norm, rtol=1e-2, atol=1e-5)


def test_clipping_by_value_refuses_complex_gradients_and_changes_nothing():
    a, b = nn.Parameter(np.zeros(2)), nn.Parameter(np.zeros(1, np.complex64))
    a.grad, b.grad = Tensor(np.array([3.0, 0.0])), Tensor(np.array([3 + 4j], np.complex64))
    with pytest.raises(ValueError, match="take clip_grad_norm_"):
        optim.clip_grad_value_(iter([a, b]), 1.0)
    assert a.grad.tolist() == [3.0, 0.0]


def test_clipping_refuses_what_is_not_finite():
    p = nn.Parameter(np.zeros(1))
    p.grad = Tensor(np.array([np.nan]))
    with pytest.raises(RuntimeError, match="nan"):
        optim.clip_grad_norm_([p], 1.0)


def rates(make, steps, lr=0.5):
    optimizer = optim.SGD([nn.Parameter(np.ones(1))], lr=lr)
    scheduler = make(optimizer)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    return seen


def test_step_schedule():
    assert rates(lambda o: optim.StepLR(o, 2, 0.1), 5) == pytest.approx([0.5, 0.5, 0.05, 0.05, 0.005])


def test_cosine_schedule():
    seen = rates(lambda o: optim.CosineLR(o, 4, final=0.1), 6)
    assert seen == pytest.approx([0.5, 0.5 * (0.1 + 0.9 * 0.8535534), 0.275, 0.5 * (0.1 + 0.9 * 0.1464466), 0.05, 0.05])


def test_warm_up_grows_linearly_to_the_scaled_rate_and_then_follows_the_schedule():
    seen = rates(lambda o: optim.WarmupLR(o, 4, scale=8, after=optim.StepLR(o, 2, 0.1)), 8, lr=0.1)
    assert seen == pytest.approx([0.1, 0.275, 0.45, 0.625, 0.8, 0.8, 0.08, 0.08])


def test_warm_up_without_scaling_starts_low():
    assert rates(lambda o: optim.WarmupLR(o, 4), 6, lr=1.0) == pytest.approx([0.25, 0.4375, 0.625, 0.8125, 1, 1])


@pytest.mark.parametrize("after", [False, True])
def test_a_group_that_is_added_later_follows_the_schedule(after):
    def made():
        optimizer = optim.SGD([nn.Parameter(np.ones(1))], lr=1.0)
        step = optim.StepLR(optimizer, 1, 0.5)
        return optimizer, optim.WarmupLR(optimizer, 0, after=step) if after else step

    optimizer, scheduler = made()
    scheduler.step()
    optimizer.add_param_group({"params": [nn.Parameter(np.ones(1))], "lr": 8.0})
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 2.0]
    state = optimizer.state_dict(), scheduler.state_dict()
    optimizer, scheduler = made()
    optimizer.add_param_group({"params": [nn.Parameter(np.ones(1))], "lr": 8.0})
    optimizer.load_state_dict(state[0])
    scheduler.load_state_dict(state[1])
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.125, 1.0]


def test_a_schedule_continues_from_its_state():
    optimizer = optim.SGD([nn.Parameter(np.ones(1))], lr=0.5)
    scheduler = optim.StepLR(optimizer, 1, 0.5)
    scheduler.step()
    other = optim.SGD([nn.Parameter(np.ones(1))], lr=7.0)
    resumed = optim.StepLR(other, 1, 0.5)
    resumed.load_state_dict(scheduler.state_dict())
    assert other.param_groups[0]["lr"] == 0.25


def test_dampening_without_a_momentum_is_refused():
    with pytest.raises(ValueError, match=r"dampening=0\.5 changes nothing without a momentum"):
        optim.SGD([Tensor([1.0], requires_grad=True)], dampening=0.5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
def test_adam_updates_in_one_pass_as_its_direction_says(dtype):
    """The kernel that updates a parameter in one pass beside the rule's formulas, which need gradients in one array."""

    class Plain(optim.AdamW):
        def _direction(self, *given):
            super()._direction(*given)

    draw = np.random.default_rng(4)
    values = draw.normal(size=(2, 5, 7))
    found = []
    for kind in (optim.AdamW, Plain):
        # One whose numbers do not lie end to end, and a single number.
        parameters = [nn.Parameter(a.astype(dtype)) for a in (values[0], values[1].T.copy().T, values[0, 0, 0])]
        optimizer = kind([{"params": parameters[:1], "weight_decay": 0.0}, {"params": parameters[1:]}], lr=0.1)
        for step in range(3):
            for p in parameters:
                p.grad = Tensor(((step + 1) * p.data / 3).astype(dtype))
            optimizer.step()
        found.append([p.numpy().astype(np.complex128) for p in parameters])
        gathered = ["update" in bucket.__dict__ for buckets in optimizer._buckets for bucket in buckets]
        assert gathered == [kind is Plain] * 2
    for one_pass, formulas in zip(*found):
        np.testing.assert_allclose(one_pass, formulas, rtol=0, atol=2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize(
    "given", [lambda net: net, lambda net: net.parameters, lambda net: net.weight, lambda net: 0.1]
)
def test_what_is_given_in_place_of_parameters_is_named(given):
    wrong = given(nn.Linear(2, 2))
    with pytest.raises(TypeError, match=rf"such as those of model\.parameters\(\), not {type(wrong).__name__}"):
        optim.Adam(wrong)


def test_parameters_of_other_kinds_are_named():
    with pytest.raises(TypeError, match=r"got numpy\.ndarray"):
        optim.SGD([np.zeros(2)])
    with pytest.raises(TypeError, match="computed from others"):
        optim.SGD([nn.Linear(2, 2).weight * 2])


@pytest.mark.parametrize(
    ("options", "text"), [({"lr": "0.1"}, "lr is a number, not '0.1'"), ({"betas": 0.9}, "betas are two numbers")]
)
def test_options_that_are_no_numbers_are_named(options, text):
    with pytest.raises(TypeError, match=f"Adam: {text}"):
        optim.Adam(nn.Linear(2, 2).parameters(), **options)


@pytest.mark.parametrize("saved", [None, {}, {"state": {}}, "adam.qdist"])
def test_what_is_no_state_of_an_optimiser_is_refused(saved):
    with pytest.raises(ValueError, match=r"state_dict\(\) gave"):
        optim.Adam(nn.Linear(2, 2).parameters()).load_state_dict(saved)


def test_schedules_name_what_they_are_given():
    net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"of an optimiser of qdist\.optim, not Linear"):
        optim.StepLR(net, 1)
    sgd = optim.SGD(net.parameters())
    for make in (optim.CosineLR, optim.StepLR, optim.WarmupLR):
        with pytest.raises(ValueError, match="got '10'"):
            make(sgd, "10")
    with pytest.raises(ValueError, match="max_norm must be positive, got '1'"):
        optim.clip_grad_norm_(net.parameters(), "1")


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop", "Adagrad"])
@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (Tensor(np.ones((1, 3))), r"shape \(1, 3\).* shape \(2, 3\)"),
        (Tensor(1.0), r"shape \(\).* shape \(2, 3\)"),
        (Tensor(np.ones((3, 2))), r"shape \(3, 2\).* shape \(2, 3\)"),
        (Tensor(np.full((2, 3), 1 + 2j)), r"complex128.* float64"),
        (np.ones((2, 3)), r"a gradient is a Tensor, not numpy\.ndarray: p\.grad = Tensor\(gradient\)"),
    ],
)
def test_gradients_that_do_not_fit_their_parameter_are_refused(kind, gradient, message):
    first, p = nn.Parameter(np.ones(2)), nn.Parameter(np.ones((2, 3)))
    optimizer = getattr(optim, kind)([first, p], lr=0.1)
    first.grad, p.grad = Tensor(np.ones(2)), gradient
    with pytest.raises((ValueError, TypeError), match=message):
        optimizer.step()
    assert p.tolist() == np.ones((2, 3)).tolist()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
def test_a_real_gradient_of_a_complex_parameter_counts_as_a_complex_one(kind):
    found = []
    for dtype in (np.float64, np.complex128):
        p = nn.Parameter(np.full(3, 1 + 1j))
        optimizer = getattr(optim, kind)([p], lr=0.1, weight_decay=0.1)
        p.grad = Tensor(np.arange(3).astype(dtype))
        optimizer.step()
        found.append(p.numpy())
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_group_may_be_one_parameter(recorded):
    weight, bias = nn.Parameter(np.ones((2, 3))), nn.Parameter(np.ones(()))
    with enable_grad() if recorded else no_grad():
        optimizer = optim.SGD([{"params": weight, "lr": 0.5}, {"params": bias}], lr=0.1)
    weight.grad, bias.grad = Tensor(np.ones((2, 3))), Tensor(np.ones(()))
    optimizer.step()
    np.testing.assert_allclose(weight.numpy(), 0.5)
    np.testing.assert_allclose(bias.numpy(), 0.9)


def test_clipping_takes_one_parameter_and_refuses_modules():
    p = nn.Parameter(np.zeros((2, 2)))
    p.grad = Tensor(np.array([[3.0, 0.0], [0.0, 4.0]]))
    assert optim.clip_grad_norm_(p, 1.0) == 5.0
    np.testing.assert_allclose(p.grad.numpy(), [[0.6, 0.0], [0.0, 0.8]])
    optim.clip_grad_value_(p, 0.7)
    np.testing.assert_allclose(p.grad.numpy(), [[0.6, 0.0], [0.0, 0.7]])
    for net in (nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))):
        for clip in (optim.clip_grad_norm_, optim.clip_grad_value_):
            with pytest.raises(TypeError, match=rf"such as those of model\.parameters\(\), not {type(net).__name__}"):
                clip(net, 1.0)


@pytest.mark.parametrize("saved_by", [optim.Adam, optim.AdamW])
def test_states_of_adam_and_adamw_are_told_apart(saved_by):
    own = optim.AdamW if saved_by is optim.Adam else optim.Adam
    saved = saved_by([nn.Parameter(np.ones(3))], weight_decay=0.1).state_dict()
    optimizer = own([nn.Parameter(np.ones(3))])
    before = optimizer.state_dict()["param_groups"]
    with pytest.raises(ValueError, match=r"another optimiser, .* weight decay"):
        optimizer.load_state_dict(saved)
    assert optimizer.state_dict()["param_groups"] == before


@pytest.mark.parametrize("setting", ["nesterov", "adamw", "rmsprop-momentum"])
def test_options_that_are_numpy_numbers_come_back_from_a_checkpoint(tmp_path, setting):
    name, options = SETTINGS[setting]
    found = []
    for number in (float, np.float64, np.float32):
        given = {key: number(value) if type(value) is float else value for key, value in options.items()}
        if name == "AdamW":
            given["betas"] = (number(0.5), number(0.75))
        p = nn.Parameter(np.ones(3))
        optimizer = getattr(optim, name)([p], **given)
        p.grad = Tensor(np.arange(3.0))
        optimizer.step()
        checkpoint.save(tmp_path / "c", optimizer.state_dict())
        again = getattr(optim, name)([p])
        if name != "AdamW":
            again = getattr(optim, name)([p], momentum=0.5)
        again.load_state_dict(checkpoint.load(tmp_path / "c"))
        assert {type(v) for v in again.param_groups[0].values()} <= {float, bool, tuple, list}
        again.step()
        found.append(p.numpy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], rtol=1e-6)


@pytest.mark.parametrize("setting", ["momentum", "adam", "rmsprop-momentum"])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_copy_of_parameters_and_optimiser_goes_its_own_way(setting, duplicate):
    name, options = SETTINGS[setting]
    p = nn.Parameter(np.ones(3))
    optimizer = getattr(optim, name)([p], **options)
    p.grad = Tensor(np.arange(3.0))
    optimizer.step()
    other_p, other = duplicate((p, optimizer))
    at = p.numpy().copy()
    other.step()
    np.testing.assert_array_equal(p.numpy(), at)
    optimizer.step()
    np.testing.assert_array_equal(p.numpy(), other_p.numpy())
    assert (p.numpy() != at).any()


@pytest.mark.parametrize("kind", ["Adam", "SGD", "RMSprop"])
@pytest.mark.parametrize(("before", "after"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_a_model_may_change_its_precision_until_the_first_step(kind, before, after):
    options = {"momentum": 0.9} if kind != "Adam" else {}
    found = []
    for first in (before, after):
        p = nn.Parameter(np.arange(3).astype(first))
        optimizer = getattr(optim, kind)([p], lr=0.1, **options)
        p.convert(after)
        for step in range(3):
            p.grad = Tensor(np.full(3, 1 / (3 + step), after))
            optimizer.step()
        found.append(p.numpy())
        assert optimizer.state_dict()["state"]["0"][optimizer.slots[0]].dtype == after
    np.testing.assert_array_equal(*found)
    p.convert(before)
    p.grad = Tensor(np.ones(3, before))
    with pytest.raises(RuntimeError, match="changed its precision after the optimiser's first step"):
        optimizer.step()
