"""Half precision: every operation of the table beside float64, mixed precision, and what is kept for derivatives."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from cases import CASES
from test_rules import inputs_of

from qdist import nn, optim
from qdist.tensor import RULES, Tensor, checkpoint, computing_in, functional, no_grad, tracing
from qdist.tensor.arrays import as_dtype, common_dtype, is_half
from qdist.tensor.half import widened

needs_bfloat16 = pytest.mark.skipif(find_spec("ml_dtypes") is None, reason="bfloat16 needs ml_dtypes")
HALVES = ["float16", pytest.param("bfloat16", marks=needs_bfloat16)]
EPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
real = [c for c in CASES if RULES[c.op].vjp is not None and all(a.dtype.kind != "c" for a in inputs_of(c))]
real = [c for c in real if c.op not in ("complex", "move", "cast") and c.id != "ratio"]


def half_of(a, half):
    return a.astype(np.float32).astype(as_dtype(half)) if a.dtype.kind == "f" else a


def outputs_and_gradients(case, tensors, seed=5):
    out = case.call(*tensors)
    if out.dtype.kind == "c":
        pytest.skip("complex numbers have no half precision")
    g = np.random.default_rng(seed).standard_normal(out.shape)
    # The same cotangent in all precisions.
    half = np.asarray(g, np.float32).astype(as_dtype("float16")).astype(np.float64).round(1)
    out.backward(out.data.dtype.type(0) + half.astype(out.dtype) if out.ndim == 0 else half.astype(out.dtype))
    return out, [t.grad for t in tensors]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("case", real, ids=[c.id for c in real])
def test_every_operation_computes_in_float32_and_rounds(case, half):
    stored = [half_of(a, half) for a in inputs_of(case)]
    exact = [a.astype(np.float64) if is_half(a.dtype) else a for a in stored]
    used = []
    with tracing(lambda rule, *_: used.append(rule.name)):
        wanted, slopes = outputs_and_gradients(case, [Tensor(a, a.dtype.kind == "f") for a in exact])
    made, grads = outputs_and_gradients(case, [Tensor(a, is_half(a.dtype)) for a in stored])
    assert made.dtype == as_dtype(half)
    scale = np.abs(wanted.numpy()).max() if wanted.size else 0.0
    # One rounding of the result; inner float32 steps are far below it. Several operations round in between.
    inner = 1e-5 if len(used) == 1 else len(used) * EPS[half]
    np.testing.assert_allclose(made.numpy().astype(float), wanted.numpy(), rtol=1.1 * EPS[half], atol=inner * scale)
    for grad, slope in zip(grads, slopes, strict=True):
        assert (grad is None) == (slope is None)
        if slope is not None:
            assert grad.dtype == as_dtype(half)
            # What the derivative needs of the forward pass is rounded, and the result once more.
            largest = np.abs(slope.numpy()).max() if slope.size else 0.0
            np.testing.assert_allclose(grad.numpy().astype(float), slope.numpy(), rtol=0, atol=6 * EPS[half] * largest)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("case", real, ids=[c.id for c in real])
def test_mixed_precision_rounds_inputs_and_leaves_gradients_float32(case, half):
    """As if the inputs were stored in half precision; but their gradients are not rounded."""
    given = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in inputs_of(case)]
    stored, _ = outputs_and_gradients(case, [Tensor(half_of(a, half), a.dtype.kind == "f") for a in given])
    leaves = [Tensor(a, a.dtype.kind == "f") for a in given]
    with computing_in(half):
        out, grads = outputs_and_gradients(case, leaves)
    made, wanted = (array.numpy().astype(as_dtype(half)).astype(float) for array in (out, stored))
    # A mask that is added to scores keeps its precision.
    np.testing.assert_allclose(made, wanted, rtol=0, atol=4 * EPS[half] if case.id == "attention-bias" else 0)
    for leaf, grad in zip(leaves, grads, strict=True):
        assert grad is None or grad.dtype == leaf.dtype


@pytest.mark.parametrize("half", HALVES)
def test_products_are_summed_in_float32(half):
    """2048 ones: a sum in half precision would stop at 256 or 2048, where adding 1 changes nothing any more."""
    ones = Tensor(np.ones((1, 4096), as_dtype(half)), True)
    column = Tensor(np.ones((4096, 1), as_dtype(half)), True)
    assert (ones @ column).item() == 4096
    assert ones.sum().item() == 4096
    ones.expand(3, 4096).sum().backward()
    assert set(ones.grad.numpy().astype(float).reshape(-1)) == {3.0}
    table = Tensor(np.zeros((1, 1), as_dtype(half)), True)
    functional.embedding(table, np.zeros(4096, np.int64)).sum().backward()
    assert table.grad.item() == 4096


@pytest.mark.parametrize("half", HALVES)
def test_gradients_of_several_passes_are_added_up_in_float32(half):
    x = Tensor(np.ones(1, as_dtype(half)), True)
    for _ in range(300 if half == "bfloat16" else 3000):
        (x * 1.0).sum().backward()
    assert x.grad.item() == (300 if half == "bfloat16" else 3000)


@pytest.mark.parametrize("half", HALVES)
def test_a_model_of_half_precision_keeps_half_the_bytes_of_its_activations(half):
    from qdist.parallel.activation_memory import saved_bytes

    x = np.random.default_rng(0).standard_normal((4, 16, 32)).astype(np.float32)
    block = nn.TransformerBlock(32, 4, dropout=0.1)
    whole = saved_bytes(block(Tensor(x)).sum())
    with computing_in(half):
        mixed = saved_bytes(block(Tensor(x)).sum())
    assert mixed < 0.6 * whole
    stored = saved_bytes(block.to(half)(Tensor(x).to(half)).sum())
    assert stored < 0.6 * whole


@pytest.mark.parametrize("half", HALVES)
def test_mixed_precision_keeps_no_second_copy_of_parameters(half):
    """The graph holds the float32 parameter itself, not its rounded copy."""
    layer = nn.Linear(64, 64)
    with computing_in(half):
        out = layer(Tensor(np.ones((2, 64), np.float32)))
    held = [s for s in out.node.saved if isinstance(s, np.ndarray)]
    assert any(s is layer.weight._data for s in held)


@pytest.mark.parametrize("half", HALVES)
def test_recomputation_has_the_precision_of_the_first_run(half):
    layer, x = nn.Linear(8, 8), Tensor(np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32), True)
    gradients = []
    for run in (lambda f, a: f(a), checkpoint):
        layer.zero_grad()
        with computing_in(half):
            out = run(lambda a: functional.gelu(layer(a)), x)
        assert out.dtype == as_dtype(half)
        widened(out).sum().backward()
        gradients.append(layer.weight.grad.numpy().copy())
    np.testing.assert_array_equal(*gradients)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_optimisers_update_half_precision_with_a_float32_state(kind, half):
    rng = np.random.default_rng(2)
    start, slope = rng.standard_normal(50).astype(as_dtype(half)), rng.standard_normal(50).astype(as_dtype(half))
    options = {"lr": 0.01, "weight_decay": 0.1} | ({"momentum": 0.9} if kind in ("SGD", "RMSprop") else {})
    made = []
    for dtype in (half, "float32"):
        p = nn.Parameter(start.astype(as_dtype(dtype)))
        optimizer = getattr(optim, kind)([p], **options)
        for _ in range(2):
            p.grad = Tensor(slope.astype(as_dtype(dtype)))
            optimizer.step()
        made.append(p.numpy().astype(float))
        for entry in optimizer.state_dict()["state"].values():
            assert {v.dtype for v in entry.values() if isinstance(v, Tensor)} <= {np.dtype(np.float32)}
        optimizer.load_state_dict(optimizer.state_dict())
    np.testing.assert_allclose(*made, rtol=3 * EPS[half], atol=1e-3)


@pytest.mark.parametrize("half", HALVES)
def test_layers_draw_the_same_numbers_in_every_precision(half):
    from qdist.tensor import manual_seed

    layers = []
    for dtype in (half, "float32"):
        manual_seed(3)
        parts = [nn.Linear(3, 4, dtype=dtype), nn.LayerNorm(4, dtype=dtype), nn.RMSNorm(4, dtype=dtype)]
        parts += [nn.LSTM(4, 5, dtype=dtype), nn.Conv1d(4, 5, 3, dtype=dtype), nn.BatchNorm1d(5, dtype=dtype)]
        layers.append(nn.ModuleList(parts))
    for own, other in zip(layers[0].parameters(), layers[1].parameters(), strict=True):
        assert own.dtype == as_dtype(half)
        np.testing.assert_array_equal(own.numpy(), other.numpy().astype(as_dtype(half)))


@needs_bfloat16
def test_running_averages_do_not_stand_still_in_bfloat16():
    norm = nn.BatchNorm1d(1)
    x = np.random.default_rng(4).standard_normal((64, 1)).astype(np.float32) + 100
    with no_grad(), computing_in("bfloat16"):
        for _ in range(100):
            norm(Tensor(x))
    assert abs(norm.running_mean.item() - 100) < 0.3  # 99.0 and 99.5 are neighbours: steps of 0.1 would be lost.


@needs_bfloat16
def test_dtypes_that_meet():
    bfloat16, float16 = as_dtype("bfloat16"), np.dtype(np.float16)
    assert common_dtype("add", [bfloat16, np.dtype(np.int64)], [1.5]) == bfloat16
    assert common_dtype("add", [bfloat16, np.dtype(np.float32)], []) == np.float32
    assert common_dtype("add", [bfloat16, float16], []) == np.float32
    assert common_dtype("mul", [bfloat16], [1j]) == np.complex64
    with pytest.raises(TypeError, match="bfloat16 and float64 do not mix"):
        common_dtype("add", [bfloat16, np.dtype(np.float64)], [])


def test_bfloat16_without_its_package_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    for ask in (
        lambda: Tensor([1.0]).to("bfloat16"),
        lambda: Tensor([1.0], dtype="bfloat16"),
        lambda: nn.Linear(2, 2, dtype="bfloat16"),
        lambda: nn.LayerNorm(2, dtype="bfloat16"),
        lambda: nn.Linear(2, 2).to("bfloat16"),
        lambda: computing_in("bfloat16").__enter__(),
    ):
        with pytest.raises(ImportError, match=r"bfloat16 needs the package ml_dtypes"):
            ask()


def test_computing_in_takes_half_precisions_alone():
    with pytest.raises(ValueError, match="float64"), computing_in("float64"):
        pass
