"""Random shapes and arguments against torch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdist import tensor as qt
from qdist.tensor import Tensor, functional

torch = pytest.importorskip("torch")
tf = torch.nn.functional

size = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(size, min_size=1, max_size=4).map(tuple)


def pairs(low, high):
    return st.tuples(st.integers(low, high), st.integers(low, high))


def compare(mine, theirs, *arrays):
    """Forward and, with a random cotangent, backward of both libraries must agree."""
    a = [Tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]
    b = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]
    out, expected = mine(*a), theirs(*b)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-10)
    g = np.random.default_rng(1).standard_normal(out.shape)
    out.backward(g)
    expected.backward(torch.tensor(g))
    for x, y in zip(a, b):
        if y.requires_grad:
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-9, atol=1e-10)


def rand(seed, *shape):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


@given(shape=shapes, drop=st.integers(0, 3), ones=st.lists(st.booleans(), min_size=4, max_size=4), seed=seeds)
def test_broadcasting(shape, drop, ones, seed):
    other = tuple(1 if one else n for n, one in zip(shape, ones))[min(drop, len(shape)) :]
    f = lambda a, b: a * b + a / (b * b + 1) - b  # noqa: E731
    compare(f, f, rand(seed, *shape), rand(seed + 1, *other))


@given(shape=shapes, data=st.data(), keep=st.booleans(), seed=seeds)
def test_reductions(shape, data, keep, seed):
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda a: a % len(shape), min_size=1))
    axes = tuple(axes)
    x = rand(seed, *shape)
    compare(lambda a: a.sum(axes, keep), lambda a: a.sum(axes, keep), x)
    compare(lambda a: a.mean(axes, keep), lambda a: a.mean(axes, keep), x)
    compare(lambda a: a.max(axes, keep), lambda a: a.amax(axes, keep), x)
    compare(lambda a: a.logsumexp(axes, keep), lambda a: a.logsumexp(axes, keep), x)


@given(
    batch=st.lists(size, max_size=2),
    ones=st.lists(st.booleans(), min_size=2, max_size=2),
    m=size,
    k=size,
    n=size,
    seed=seeds,
)
def test_matmul(batch, ones, m, k, n, seed):
    other = [1 if one else b for b, one in zip(batch, ones)]
    f = lambda a, b: a @ b  # noqa: E731
    compare(f, f, rand(seed, *batch, m, k), rand(seed + 1, *other, k, n))
    compare(f, f, rand(seed, *batch, m, k), rand(seed + 1, k, n))


@given(shape=shapes, data=st.data(), seed=seeds)
def test_slices(shape, data, seed):
    key = tuple(
        data.draw(
            st.one_of(st.integers(-n, n - 1), st.builds(slice, st.integers(0, n - 1), st.just(n), st.integers(1, 3)))
        )
        for n in shape
    )
    compare(lambda a: a[key], lambda a: a[key], rand(seed, *shape))


@given(shape=shapes, data=st.data(), seed=seeds)
def test_transposed_softmax(shape, data, seed):
    order = data.draw(st.permutations(range(len(shape))))
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = rand(seed, *shape)
    compare(
        lambda a: functional.softmax(a.transpose(*order), axis),
        lambda a: torch.softmax(a.permute(*order), axis),
        x,
    )
    compare(
        lambda a: functional.log_softmax(a.transpose(*order), axis),
        lambda a: torch.log_softmax(a.permute(*order), axis),
        x,
    )


@given(
    n=st.integers(1, 3),
    groups=st.integers(1, 2),
    c=st.integers(1, 3),
    f=st.integers(1, 3),
    kernel=pairs(1, 3),
    extra=pairs(0, 4),
    stride=pairs(1, 3),
    padding=pairs(0, 2),
    dilation=pairs(1, 2),
    seed=seeds,
)
def test_conv2d(n, groups, c, f, kernel, extra, stride, padding, dilation, seed):
    h, w = (d * (k - 1) + 1 + e for k, e, d in zip(kernel, extra, dilation))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    compare(
        lambda x, k, b: functional.conv2d(x, k, b, **options),
        lambda x, k, b: tf.conv2d(x, k, b, **options),
        rand(seed, n, c * groups, h, w),
        rand(seed + 1, f * groups, c, *kernel),
        rand(seed + 2, f * groups),
    )


@given(
    n=st.integers(1, 3),
    c=st.integers(1, 3),
    kernel=pairs(1, 3),
    extra=pairs(0, 4),
    stride=pairs(1, 3),
    pad=st.booleans(),
    seed=seeds,
)
def test_pooling(n, c, kernel, extra, stride, pad, seed):
    padding = tuple(k // 2 if pad else 0 for k in kernel)
    x = rand(seed, n, c, kernel[0] + extra[0], kernel[1] + extra[1])
    for name in ("max_pool2d", "avg_pool2d"):
        compare(
            lambda a, name=name: getattr(functional, name)(a, kernel, stride, padding),
            lambda a, name=name: getattr(tf, name)(a, kernel, stride, padding),
            x,
        )


@given(
    batch=st.lists(size, max_size=2),
    m=size,
    n=size,
    d=size,
    causal=st.booleans(),
    masked=st.booleans(),
    seed=seeds,
)
def test_attention(batch, m, n, d, causal, masked, seed):
    m = n if causal else m
    arrays = [rand(seed, *batch, m, d), rand(seed + 1, *batch, n, d), rand(seed + 2, *batch, n, d)]
    if masked and not causal:
        visible = np.random.default_rng(seed).random((m, n)) < 0.5
        visible[:, 0] = True
        arrays.append(visible)
    compare(
        lambda *a: functional.attention(*a, causal=causal),
        lambda *a: tf.scaled_dot_product_attention(*a, is_causal=causal),
        *arrays,
    )


@given(shape=shapes, width=st.integers(2, 6), seed=seeds)
def test_layer_norm(shape, width, seed):
    compare(
        lambda x, w, b: functional.layer_norm(x, (width,), w, b),
        lambda x, w, b: tf.layer_norm(x, (width,), w, b),
        rand(seed, *shape, width),
        rand(seed + 1, width),
        rand(seed + 2, width),
    )


@given(rows=size, columns=size, count=st.integers(1, 8), seed=seeds)
def test_gather_scatter_and_embedding(rows, columns, count, seed):
    rng = np.random.default_rng(seed)
    table, source = rand(seed, rows, columns), rand(seed + 1, count, columns)
    index = rng.integers(0, rows, (count, columns))
    compare(lambda a, i: a.gather(i, 0), lambda a, i: a.gather(0, i), table, index)
    compare(lambda a, i, s: a.scatter_add(i, s, 0), lambda a, i, s: a.scatter_add(0, i, s), table, index, source)
    compare(functional.embedding, lambda w, i: tf.embedding(i, w), table, index)


@given(a=size, b=size, c=size, seed=seeds)
def test_joining_and_cutting(a, b, c, seed):
    x, y = rand(seed, a, c), rand(seed + 1, b, c)
    compare(lambda x, y: qt.concatenate([x, y]) ** 2, lambda x, y: torch.cat([x, y]) ** 2, x, y)
    f = lambda x: x.split(2)[0].exp()  # noqa: E731
    compare(f, f, x)
