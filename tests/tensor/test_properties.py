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
any_size = st.sampled_from([0, 0, 1, 3, 9])
"""With nothing at all, and with enough for kernels that take several at once."""
any_shapes = st.lists(any_size, min_size=1, max_size=4).map(tuple)
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
            wanted = np.zeros(y.shape) if y.grad is None else y.grad.numpy()  # None where there is nothing to sum.
            np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-9, atol=1e-10)


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
        lambda a: functional.softmax(a.transpose(order), axis),
        lambda a: torch.softmax(a.permute(*order), axis),
        x,
    )
    compare(
        lambda a: functional.log_softmax(a.transpose(order), axis),
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


@given(shape=shapes, smaller=st.lists(st.integers(0, 4), min_size=4, max_size=4), data=st.data(), seed=seeds)
def test_gather_and_scatter_with_indices_for_a_part_of_the_tensor(shape, smaller, data, seed):
    axis = data.draw(st.integers(0, len(shape) - 1))
    part = [max(1, n - less) for n, less in zip(shape, smaller)]
    part[axis] = data.draw(size)
    index = np.random.default_rng(seed).integers(0, shape[axis], part)
    table, source = rand(seed, *shape), rand(seed + 1, *part)
    compare(lambda a, i: a.gather(i, axis), lambda a, i: a.gather(axis, i), table, index)
    compare(lambda a, i, s: a.scatter_add(i, s, axis), lambda a, i, s: a.scatter_add(axis, i, s), table, index, source)


@given(batch=st.lists(any_size, max_size=2), m=any_size, k=any_size, n=any_size, seed=seeds)
def test_products_of_any_sizes(batch, m, k, n, seed):
    f = lambda a, b: a @ b  # noqa: E731
    a, weight = rand(seed, *batch, m, k), rand(seed + 1, n, k)
    for other in (rand(seed, *batch, k, n), rand(seed, k, n), rand(seed, k)):
        compare(f, f, a, other)
    compare(f, f, rand(seed, k), rand(seed + 1, *batch, k, n))
    compare(functional.linear, tf.linear, a, weight, rand(seed, n))
    compare(functional.linear, tf.linear, rand(seed, k), weight)


@given(shape=any_shapes, data=st.data(), keep=st.booleans(), seed=seeds)
def test_reductions_and_norms_of_any_sizes(shape, data, keep, seed):
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = rand(seed, *shape)
    compare(lambda a: a.prod(axis, keep), lambda a: a.prod(axis, keep), x)
    compare(lambda a: a.prod(), lambda a: a.prod(), x)
    with np.errstate(divide="ignore"):
        compare(lambda a: a.logsumexp(axis, keep), lambda a: a.logsumexp(axis, keep), x)
    compare(lambda a: functional.softmax(a, axis), lambda a: a.softmax(axis), x)
    compare(lambda a: functional.log_softmax(a, axis), lambda a: a.log_softmax(axis), x)
    inner = shape[axis:]
    affine = rand(seed + 1, *inner), rand(seed + 2, *inner)
    # Apart enough for the deviation of two numbers to be known in all digits.
    x += np.arange(x.size).reshape(shape) % 7
    compare(
        lambda x, w, b: functional.layer_norm(x, inner, w, b), lambda x, w, b: tf.layer_norm(x, inner, w, b), x, *affine
    )
    compare(lambda x: functional.layer_norm(x, inner), lambda x: tf.layer_norm(x, inner), x)
    compare(lambda x, w: functional.rms_norm(x, inner, w), lambda x, w: tf.rms_norm(x, inner, w, 1e-6), x, affine[0])


@pytest.mark.filterwarnings("error:Mean of empty slice", "error:invalid value", "error:divide by zero")
@given(n=st.sampled_from([0, 2]), groups=st.integers(1, 2), h=size, w=size, seed=seeds)
def test_images_and_none(n, groups, h, w, seed):
    x, weight, bias = rand(seed, n, 2 * groups, h + 2, w + 2), rand(seed, 3 * groups, 2, 3, 2), rand(seed, 3 * groups)
    back = rand(seed + 1, 2 * groups, 3, 3, 2)
    compare(
        lambda *a: functional.conv2d(*a, stride=(2, 1), padding=1, groups=groups),
        lambda *a: tf.conv2d(*a, stride=(2, 1), padding=1, groups=groups),
        *(x, weight, bias),
    )
    compare(
        lambda *a: functional.conv_transpose2d(*a, stride=(2, 1), padding=1, groups=groups),
        lambda *a: tf.conv_transpose2d(*a, stride=(2, 1), padding=1, groups=groups),
        *(x, back, bias),
    )
    line = weight[..., 0]
    compare(
        lambda *a: functional.conv1d(*a, groups=groups), lambda *a: tf.conv1d(*a, groups=groups), x[..., 0], line, bias
    )
    for name in ("max_pool2d", "avg_pool2d"):
        mine, theirs = getattr(functional, name), getattr(tf, name)
        compare(lambda a, f=mine: f(a, 2, padding=1), lambda a, f=theirs: f(a, 2, padding=1), x)
    compare(
        lambda *a: functional.batch_norm(*a)[0],
        lambda x, w, b: tf.batch_norm(x, None, None, w, b, training=True),
        *(x, rand(seed, 2 * groups), rand(seed + 1, 2 * groups)),
    )


@given(batch=st.lists(any_size, max_size=3), m=any_size, n=any_size, d=any_size, e=any_size, seed=seeds)
def test_attention_of_any_sizes(batch, m, n, d, e, seed):
    arrays = rand(seed, *batch, m, d), rand(seed + 1, *batch, n, d), rand(seed + 2, *batch, n, e)
    compare(functional.attention, tf.scaled_dot_product_attention, *arrays)
    compare(functional.attention, tf.scaled_dot_product_attention, *arrays, rand(seed, m, n))


@given(a=size, b=size, c=size, seed=seeds)
def test_joining_and_cutting(a, b, c, seed):
    x, y = rand(seed, a, c), rand(seed + 1, b, c)
    compare(lambda x, y: qt.concatenate([x, y]) ** 2, lambda x, y: torch.cat([x, y]) ** 2, x, y)
    f = lambda x: x.split(2)[0].exp()  # noqa: E731
    compare(f, f, x)
