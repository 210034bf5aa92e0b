"""Every operation of the table against a finite difference and against torch."""

import zlib
from functools import partial

import numpy as np
import pytest
from cases import CASES, anyhow_in_memory

from qdist import tensor as qt
from qdist.tensor import RULES, Tensor

differentiable = [c for c in CASES if RULES[c.op].vjp is not None]
ids = [c.id for c in CASES]


def inputs_of(case):
    return case.make(np.random.default_rng(zlib.crc32(case.id.encode())))


def is_inexact(a):
    return a.dtype.kind in "fc"


def run(case, arrays, cotangent_seed=None, lay=np.asarray):
    """Output and gradients (of floating inputs) for a fixed random cotangent, which `lay` may place in memory."""
    tensors = [Tensor(a, requires_grad=is_inexact(a) and cotangent_seed is not None) for a in arrays]
    out = case.call(*tensors)
    if cotangent_seed is None:
        return out, None, None
    rng = np.random.default_rng(cotangent_seed)
    g = rng.standard_normal(out.shape)
    if out.dtype.kind == "c":
        g = g + 1j * rng.standard_normal(out.shape)
    xp = np if out.device == "cpu" else __import__("cupy")
    out.backward(xp.asarray(lay(g)))
    return out, [t.grad for t in tensors], g


def test_every_operation_of_the_table_has_a_case():
    assert set(RULES) == {c.op for c in CASES}


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_case_runs_the_operation_it_is_named_after(case):
    used = set()
    with qt.tracing(lambda rule, *_: used.add(rule.name)):
        case.call(*(Tensor(a) for a in inputs_of(case)))
    assert case.op in used


@pytest.mark.parametrize("case", differentiable, ids=[c.id for c in differentiable])
def test_gradient_is_the_finite_difference(case, xp):
    arrays = inputs_of(case)
    _, grads, g = run(case, [xp.asarray(a) for a in arrays], cotangent_seed=5)

    def loss(values):
        out, _, _ = run(case, [xp.asarray(v) for v in values])
        return float(np.sum(np.real(np.conj(g) * out.numpy())))

    h = 1e-5
    for i, a in enumerate(arrays):
        if not is_inexact(a):
            assert grads[i] is None
            continue
        numeric = np.zeros(a.shape, a.dtype)
        for place in np.ndindex(a.shape):
            for direction in (1, 1j) if a.dtype.kind == "c" else (1,):
                plus, minus = a.copy(), a.copy()
                plus[place] += h * direction
                minus[place] -= h * direction
                up, down = (loss([*arrays[:i], v, *arrays[i + 1 :]]) for v in (plus, minus))
                numeric[place] += direction * (up - down) / (2 * h)
        assert grads[i].dtype == a.dtype
        np.testing.assert_allclose(grads[i].numpy(), numeric, rtol=1e-6, atol=5e-8)


@pytest.mark.parametrize("double", [True, False], ids=["double", "single"])
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_forward_and_backward_equal_torch(case, double, xp):
    if case.torch is None:
        pytest.skip("torch has no counterpart")
    torch = pytest.importorskip("torch")
    arrays = inputs_of(case)
    if not double:
        down = {"f": np.float32, "c": np.complex64}
        arrays = [a.astype(down[a.dtype.kind]) if is_inexact(a) else a for a in arrays]
        if case.op == "cast":
            pytest.skip("the case converts to double precision")
    has_gradient = RULES[case.op].vjp is not None
    out, grads, g = run(case, [xp.asarray(a) for a in arrays], 5 if has_gradient else None)
    theirs = [torch.tensor(a, requires_grad=is_inexact(a) and has_gradient) for a in arrays]
    expected = case.torch(torch, *theirs)
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if double else {"rtol": 3e-5, "atol": 3e-6}
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), **tolerance)
    if not has_gradient:
        return
    assert out.numpy().dtype == expected.detach().numpy().dtype
    expected.backward(torch.tensor(g).to(expected.dtype))
    for mine, other in zip(grads, theirs):
        if other.requires_grad:
            reference = np.zeros(other.shape) if other.grad is None else other.grad.resolve_conj().numpy()
            np.testing.assert_allclose(np.zeros(1) if mine is None else mine.numpy(), reference, **tolerance)


@pytest.mark.parametrize("double", [True, False], ids=["double", "single"])
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_order_of_numbers_in_memory_changes_none(case, double):
    down = {"f": np.float32, "c": np.complex64}
    arrays = [a if double or not is_inexact(a) else a.astype(down[a.dtype.kind]) for a in inputs_of(case)]
    seed = None if RULES[case.op].vjp is None else 5
    expected, wanted, _ = run(case, arrays, seed)
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if double and case.op != "cast" else {"rtol": 3e-5, "atol": 3e-6}
    for trial in range(6):
        rng = np.random.default_rng(trial)
        out, grads, _ = run(case, [anyhow_in_memory(rng, a) for a in arrays], seed, partial(anyhow_in_memory, rng))
        np.testing.assert_allclose(out.numpy(), expected.numpy(), **tolerance)
        for mine, other in zip(grads or (), wanted or ()):
            if other is not None:
                np.testing.assert_allclose(mine.numpy(), other.numpy(), **tolerance)


@pytest.mark.parametrize("case", differentiable, ids=[c.id for c in differentiable])
def test_single_precision_stays_single(case, xp):
    if case.op == "cast":
        pytest.skip("the case converts to double precision")
    down = {"f": np.float32, "c": np.complex64}
    arrays = [xp.asarray(a.astype(down[a.dtype.kind]) if is_inexact(a) else a) for a in inputs_of(case)]
    out, grads, _ = run(case, arrays, 5)
    assert out.dtype in (np.float32, np.complex64)
    assert all(g is None or g.dtype == a.dtype for g, a in zip(grads, arrays))
