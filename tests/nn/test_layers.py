"""Layers, losses and initialisers against torch and against their definitions."""

import numpy as np
import pytest

from qdist import nn, tensor
from qdist.tensor import Tensor


def to_torch(mine, theirs):
    torch = pytest.importorskip("torch")
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in mine.state_dict().items()}, strict=False)
    return torch


def check(mine, theirs, x, torch, **tolerance):
    """Equal outputs, input gradients and parameter gradients."""
    tolerance = tolerance or {"rtol": 2e-4, "atol": 2e-5}
    a, b = Tensor(x, requires_grad=x.dtype.kind == "f"), torch.tensor(x, requires_grad=x.dtype.kind == "f")
    out, expected = mine(a), theirs(b)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), **tolerance)
    g = np.random.default_rng(0).standard_normal(out.shape).astype(np.float32)
    out.backward(g)
    expected.backward(torch.tensor(g))
    if a.requires_grad:
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), **tolerance)
    others = dict(theirs.named_parameters())
    for name, p in mine.named_parameters():
        np.testing.assert_allclose(p.grad.numpy(), others[name].grad.numpy(), **tolerance)


def images(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "arguments", "x"),
    [
        ("Linear", (4, 3), images(5, 4)),
        ("Conv2d", (4, 6, 3, 2, 1, 1, 2), images(2, 4, 7, 6)),
        ("MaxPool2d", (2,), images(2, 3, 6, 6)),
        ("AvgPool2d", (3, 2, 1), images(2, 3, 6, 7)),
        ("Embedding", (7, 3), np.array([[1, 2], [1, 6]])),
        ("LayerNorm", (6,), images(4, 6)),
        ("BatchNorm2d", (3,), images(4, 3, 5, 5)),
        ("Flatten", (), images(2, 3, 4)),
        ("ReLU", (), images(3, 4)),
        ("GELU", (), images(3, 4)),
        ("GELU", ("none",), images(3, 4)),
        ("GELU", ("tanh",), images(3, 4)),
        ("Sigmoid", (), images(3, 4)),
        ("Tanh", (), images(3, 4)),
        ("Softmax", (1,), images(3, 4)),
    ],
)
def test_layer_equals_torch(name, arguments, x):
    torch = pytest.importorskip("torch")
    mine, theirs = getattr(nn, name)(*arguments), getattr(torch.nn, name)(*arguments)
    to_torch(mine, theirs)
    check(mine, theirs, x, torch)


def test_sizes_may_be_integers_of_numpy():
    four, two = np.int64(4), np.int32(2)
    assert nn.LayerNorm(four)(tensor.zeros(3, 4)).shape == (3, 4)
    assert nn.RMSNorm(four)(tensor.zeros(3, 4)).shape == (3, 4)
    assert nn.Conv2d(1, 2, two, two)(tensor.zeros(1, 1, 4, 4)).shape == (1, 2, 2, 2)
    assert nn.MaxPool2d(two)(tensor.zeros(1, 1, 4, 4)).shape == (1, 1, 2, 2)


def test_batch_norm_keeps_running_statistics_as_torch_does():
    torch = pytest.importorskip("torch")
    mine, theirs = nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(seed, 1 + seed, (4, 3, 5, 5)).astype(np.float32)
        mine(Tensor(x))
        theirs(torch.tensor(x))
    np.testing.assert_allclose(mine.running_mean.numpy(), theirs.running_mean.numpy(), rtol=1e-5)
    np.testing.assert_allclose(mine.running_var.numpy(), theirs.running_var.numpy(), rtol=1e-5)
    mine.eval(), theirs.eval()
    check(mine, theirs, x, torch)


@pytest.mark.parametrize("stored", [False, True], ids=["mixed", "stored"])
def test_batch_norm_evaluates_channels_whose_variance_half_precision_cannot_hold(stored):
    deviations = np.array([0.01, 1.0, 300.0, 900.0], np.float32)
    layer = nn.BatchNorm2d(4).eval()
    layer.running_mean, layer.running_var = np.array([1.0, -2.0, 100.0, 0.0]), deviations**2
    x = np.random.default_rng(0).normal(size=(3, 4, 2, 2)).astype(np.float32) * deviations[:, None, None]
    x = x + layer.running_mean.numpy()[:, None, None]
    half = x.astype(np.float16)
    want = (half.astype(np.float64) - layer.running_mean.numpy()[:, None, None]) / np.sqrt(deviations**2 + 1e-5)[
        :, None, None
    ]
    if stored:
        for parameter in layer.parameters():  # As ZeRO has them: half precision beside averages in float32.
            parameter.convert("float16")
        got = layer(Tensor(half))
    else:
        with tensor.computing_in("float16"):
            got = layer(Tensor(half))
    assert got.dtype == np.float16
    # Of a mean a hundred times the deviation, half precision leaves little.
    np.testing.assert_allclose(got.numpy()[:, 1:], want[:, 1:], atol=0.01)
    np.testing.assert_allclose(got.numpy()[:, 0], want[:, 0], atol=0.2)


def test_transformer_block_equals_torchs_encoder_layer():
    torch = pytest.importorskip("torch")
    mine = nn.TransformerBlock(8, 2, hidden=12)
    theirs = torch.nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    names = {
        "attention.qkv.weight": "self_attn.in_proj_weight",
        "attention.qkv.bias": "self_attn.in_proj_bias",
        "attention.out": "self_attn.out_proj",
        "expand": "linear1",
        "shrink": "linear2",
    }
    state = {}
    for name, value in mine.state_dict().items():
        for ours, other in names.items():
            name = name.replace(ours, other)
        state[name] = torch.tensor(value.numpy())
    theirs.load_state_dict(state)
    x = images(2, 5, 8)
    np.testing.assert_allclose(mine(Tensor(x)).numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_causal_block_does_not_look_ahead():
    block = nn.TransformerBlock(8, 2, causal=True)
    x = images(1, 6, 8)
    before = block(Tensor(x)).numpy().copy()
    x[:, 4:] += 1
    after = block(Tensor(x)).numpy()
    np.testing.assert_allclose(after[:, :4], before[:, :4], atol=1e-6)
    assert np.abs(after[:, 4:] - before[:, 4:]).max() > 1e-3


def test_dropout_layers_do_nothing_in_eval_mode():
    block = nn.TransformerBlock(8, 2, dropout=0.5)
    x = Tensor(images(1, 4, 8))
    assert not np.array_equal(block(x).numpy(), block(x).numpy())
    block.eval()
    assert np.array_equal(block(x).numpy(), block(x).numpy())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("MSELoss", lambda rng: (rng.standard_normal((4, 3)), rng.standard_normal((4, 3)))),
        ("BCELoss", lambda rng: (rng.uniform(0.05, 0.95, (4, 3)), rng.integers(0, 2, (4, 3)).astype(float))),
        ("BCEWithLogitsLoss", lambda rng: (10 * rng.standard_normal((4, 3)), rng.uniform(0, 1, (4, 3)))),
        ("CrossEntropyLoss", lambda rng: (rng.standard_normal((4, 3)), rng.integers(0, 3, 4))),
        ("NLLLoss", lambda rng: (-rng.uniform(0.1, 2, (4, 3)), rng.integers(0, 3, 4))),
    ],
)
def test_loss_equals_torch(name, make, reduction):
    torch = pytest.importorskip("torch")
    x, y = make(np.random.default_rng(2))
    a, b = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    loss = getattr(nn, name)(reduction)(a, Tensor(y))
    expected = getattr(torch.nn, name)(reduction=reduction)(b, torch.tensor(y))
    np.testing.assert_allclose(loss.numpy(), expected.detach().numpy(), rtol=1e-10)
    loss.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-10, atol=1e-14)


def test_losses_of_certain_predictions_stay_finite():
    certain = Tensor([0.0, 1.0], requires_grad=True)
    loss = nn.BCELoss()(certain, Tensor([1.0, 0.0]))
    assert loss.item() == 100.0
    loss.backward()
    assert np.isfinite(certain.grad.numpy()).all()
    assert np.isfinite(nn.BCEWithLogitsLoss()(Tensor([1e4, -1e4]), Tensor([0.0, 1.0])).item())
    assert np.isfinite(nn.CrossEntropyLoss()(Tensor([[1e4, -1e4]]), Tensor([1])).item())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Linear(0, 1), "at least 1"),
        (lambda: nn.Linear(2, 1)(Tensor([1.0])), r"takes \(..., 2\)"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "do not divide"),
        (lambda: nn.Dropout(1.0), "not in"),
        (lambda: nn.BatchNorm2d(2)(Tensor(images(1, 2, 1, 1))), "more than one"),
        (lambda: nn.BatchNorm2d(2)(Tensor(images(1, 3, 1, 1))), "takes"),
        (lambda: nn.MultiHeadAttention(5, 2), "do not divide"),
        (lambda: nn.LSTM(2, 3)(tensor.zeros(4, 0, 2)), r"at least one position, got shape \(4, 0, 2\)"),
        (lambda: nn.GRU(2, 3)(tensor.zeros(4, 5, 3)), r"takes \(batch, sequence, 2\)"),
        (
            lambda: nn.LSTM(2, 3, 2)(tensor.zeros(4, 5, 2), (tensor.zeros(3, 4, 3),) * 2),
            r"\(2, 4, 3\), got \(3, 4, 3\)",
        ),
        (lambda: nn.LSTM(2, 3)(tensor.zeros(4, 5, 2), (tensor.zeros(1, 1, 3),) * 2), r"\(1, 4, 3\), got \(1, 1, 3\)"),
        (lambda: nn.GRU(2, 3)(tensor.zeros(4, 5, 2), tensor.zeros(2, 4, 3)), r"\(1, 4, 3\), got \(2, 4, 3\)"),
        (lambda: nn.GroupedQueryAttention(4, 2)(tensor.zeros(5, 4)), r"takes \(batch, sequence, features\)"),
        (lambda: nn.BatchNorm1d(2)(tensor.zeros(1, 2)), "BatchNorm1d needs more than one value"),
        (lambda: nn.Conv2d(2, 3, 1, 0)(tensor.zeros(1, 2, 3, 3)), "stride 0, .* are at least 1"),
        (lambda: nn.Conv2d(2, 3, 1, padding=-1)(tensor.zeros(1, 2, 3, 3)), "padding -1"),
        (lambda: nn.Conv2d(2, 3, 2, dilation=0)(tensor.zeros(1, 2, 3, 3)), "dilation 0"),
        (lambda: nn.MaxPool2d(2, 0)(tensor.zeros(1, 2, 3, 3)), "a kernel of 2 with stride 0"),
        (lambda: nn.AvgPool2d(0)(tensor.zeros(1, 2, 3, 3)), "a kernel of 0"),
        (lambda: nn.ConvTranspose1d(2, 3, 1, padding=3)(tensor.zeros(1, 2, 3)), "leaves nothing of an input of 3"),
        (lambda: nn.ConvTranspose2d(2, 3, 2, padding=2)(tensor.zeros(1, 2, 3, 3)), "leaves nothing of an input of 3"),
        (lambda: nn.ConvTranspose1d(2, 3, 2, padding=-1)(tensor.zeros(1, 2, 3)), "padding -1"),
        (lambda: nn.ConvTranspose1d(2, 3, 2, dilation=0)(tensor.zeros(1, 2, 3)), "dilation 0"),
        (lambda: nn.ConvTranspose2d(2, 3, 2, 1, 0, 2, dilation=2)(tensor.zeros(1, 2, 3, 3)), "or the dilation"),
        (lambda: nn.GELU("erf")(tensor.zeros(1)), 'approximate=\'erf\': use "none" or "tanh"'),
        (lambda: nn.MSELoss("avg"), "unknown reduction"),
        (lambda: nn.init.kaiming_normal_(tensor.zeros(2, 2), "swish"), "unknown nonlinearity"),
        (lambda: nn.init.xavier_normal_(tensor.zeros(2)), "at least 2"),
    ],
)
def test_wrong_arguments_are_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("half", [None, "float16"])
@pytest.mark.parametrize(
    ("make", "shape", "out"),
    [
        (lambda: nn.Linear(9, 12), (0, 9), (0, 12)),
        (lambda: nn.Linear(9, 12), (2, 0, 9), (2, 0, 12)),
        (lambda: nn.Conv2d(4, 6, 3, groups=2), (0, 4, 5, 6), (0, 6, 3, 4)),
        (lambda: nn.Conv1d(4, 6, 3), (0, 4, 5), (0, 6, 3)),
        (lambda: nn.ConvTranspose2d(4, 6, 3, groups=2), (0, 4, 5, 6), (0, 6, 7, 8)),
        (lambda: nn.ConvTranspose1d(4, 6, 3), (0, 4, 5), (0, 6, 7)),
        (lambda: nn.MaxPool2d(2), (0, 4, 6, 6), (0, 4, 3, 3)),
        (lambda: nn.MaxPool2d(2), (3, 0, 6, 6), (3, 0, 3, 3)),
        (lambda: nn.AvgPool2d(2), (0, 4, 6, 6), (0, 4, 3, 3)),
        (lambda: nn.LayerNorm(9), (0, 9), (0, 9)),
        (lambda: nn.LayerNorm((0,)), (3, 0), (3, 0)),
        (lambda: nn.RMSNorm(9), (0, 9), (0, 9)),
        (lambda: nn.BatchNorm2d(3).eval(), (0, 3, 2, 2), (0, 3, 2, 2)),
        (lambda: nn.MultiHeadAttention(4, 2), (0, 5, 4), (0, 5, 4)),
        (lambda: nn.MultiHeadAttention(4, 2), (2, 0, 4), (2, 0, 4)),
        (lambda: nn.TransformerBlock(4, 2), (0, 5, 4), (0, 5, 4)),
        (lambda: nn.LlamaBlock(4, 2), (2, 0, 4), (2, 0, 4)),
    ],
)
def test_layers_of_an_empty_batch(make, shape, out, half):
    layer, x = make(), tensor.zeros(*shape).requires_grad_()
    with tensor.computing_in(half):
        y = layer(x)
    assert y.shape == out
    y.backward(np.zeros(out, y.dtype))
    assert x.grad.shape == shape
    assert all((p.grad.numpy() == 0).all() for p in layer.parameters())


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 3, 3)])
def test_empty_weights_are_filled_with_nothing(shape):
    for name in ("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_"):
        assert getattr(nn.init, name)(tensor.zeros(*shape)).shape == shape


@pytest.mark.parametrize(
    ("fill", "variance"),
    [
        (lambda t: nn.init.uniform_(t, -1, 1), 1 / 3),
        (lambda t: nn.init.normal_(t, std=2.0), 4.0),
        (nn.init.xavier_uniform_, 2 / (300 + 200)),
        (nn.init.xavier_normal_, 2 / (300 + 200)),
        (nn.init.kaiming_uniform_, 2 / 300),
        (nn.init.kaiming_normal_, 2 / 300),
    ],
)
def test_initial_values_have_the_variance_they_promise(fill, variance):
    tensor.manual_seed(0)
    t = fill(tensor.zeros(200, 300))
    assert abs(t.numpy().var() / variance - 1) < 0.02
    assert abs(t.numpy().mean()) < 0.05 * np.sqrt(variance)
    assert t.dtype == np.float32


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 2)])
def test_orthogonal_rows_or_columns(shape):
    q = nn.init.orthogonal_(tensor.zeros(*shape, dtype=np.float64)).numpy().reshape(shape[0], -1)
    small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-12)


def test_constants():
    assert nn.init.ones_(tensor.zeros(2)).tolist() == [1.0, 1.0]
    assert nn.init.zeros_(tensor.ones(2)).tolist() == [0.0, 0.0]
    assert nn.init.constant_(nn.Parameter(np.zeros(1)), 3.0).item() == 3.0


@pytest.mark.parametrize("size", ["4", 4.0, None])
def test_sizes_are_whole_numbers(size):
    with pytest.raises(TypeError, match=f"Linear: in_features is a whole number, not {size!r}"):
        nn.Linear(size, 2)
    assert nn.Linear(np.int64(4), 2)(Tensor(np.zeros((1, 4), np.float32))).shape == (1, 2)


def test_a_probability_of_dropout_is_a_number():
    with pytest.raises(ValueError, match=r"'0\.5' is not in"):
        nn.Dropout("0.5")


@pytest.mark.parametrize("worst", [-0.25, 1.5])
def test_binary_cross_entropy_takes_probabilities(worst):
    given = np.array([0.0, worst, 1.0], np.float32)
    with pytest.raises(ValueError, match=r"from 0 to 1, got .*BCEWithLogitsLoss"):
        nn.BCELoss()(given, np.zeros(3, np.float32))
    assert nn.BCELoss()(given[::2], np.float32([0, 1])).item() == 0


@pytest.mark.parametrize("given", [[[1.0, 2.0]], None, "x", 0.5])
def test_inputs_that_are_no_arrays_are_named(given):
    for module in (nn.Linear(2, 2), nn.LSTM(2, 2), nn.Sequential(nn.Linear(2, 2)), nn.BatchNorm1d(2)):
        with pytest.raises(TypeError, match=rf"takes a Tensor or an array, not {type(given).__name__}"):
            module(given)


def test_errors_of_own_modules_stay():
    class Own(nn.Module):
        def forward(self, x):
            return x.shape + self.nothing

    with pytest.raises(AttributeError, match="nothing"):
        Own()(np.zeros(1))
