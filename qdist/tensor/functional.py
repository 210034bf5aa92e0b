"""Functions of several tensors, and those that networks are made of."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import arrays, random
from .kernels.convolution import output_size, transposed_size
from .losses import (
    Terms,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    check_classes,
    check_reduction,
    check_targets,
    cross_entropy,
    mse_loss,
    nll_loss,
    reduce_loss,
)
from .methods import normal_axis
from .tensor import Tensor, apply

__all__ = [
    "Size",
    "Terms",
    "arctan2",
    "as_tensor",
    "attention",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "check_classes",
    "check_reduction",
    "check_targets",
    "complex",
    "concatenate",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "cross_entropy",
    "dropout",
    "einsum",
    "embedding",
    "erf",
    "from_dlpack",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "matmul",
    "max_pool2d",
    "maximum",
    "minimum",
    "mse_loss",
    "nll_loss",
    "ones",
    "pair",
    "rand",
    "randn",
    "reduce_loss",
    "relu",
    "rms_norm",
    "rotary",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "stack",
    "where",
    "zeros",
]

Size = int | tuple[int, int]

_NUMBERS = (int, float, builtins.complex, np.generic)


def as_tensor(value: Any) -> Tensor:
    """The value itself when it is a Tensor, else a new one."""
    return value if isinstance(value, Tensor) else Tensor(value)


def from_dlpack(source: Any) -> Tensor:
    """A Tensor that shares memory with any object that speaks DLPack (torch, CuPy, JAX ...)."""
    return Tensor(arrays.from_dlpack(source))


def _shape(given: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], tuple | list) else given


def zeros(*shape: Any, dtype: Any = np.float32) -> Tensor:
    """A tensor of zeros. The shape is given as numbers, here as below, or as one tuple of them."""
    return Tensor(np.zeros(_shape(shape), dtype))


def ones(*shape: Any, dtype: Any = np.float32) -> Tensor:
    """A tensor of ones."""
    return Tensor(np.ones(_shape(shape), dtype))


def randn(*shape: Any, dtype: Any = np.float32) -> Tensor:
    """Normally distributed numbers from the default generator."""
    return Tensor(random.default_generator().normal(_shape(shape), dtype=dtype))


def rand(*shape: Any, dtype: Any = np.float32) -> Tensor:
    """Numbers in [0, 1) from the default generator."""
    return Tensor(random.default_generator().uniform(_shape(shape), dtype=dtype))


def concatenate(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Join tensors along an existing axis."""
    tensors = [as_tensor(t) for t in tensors]
    if not tensors:
        raise ValueError("concatenate needs at least one tensor")
    return apply("concatenate", *tensors, axis=normal_axis(axis, tensors[0].ndim))


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Join tensors of equal shape along a new axis."""
    tensors = [as_tensor(t) for t in tensors]
    if not tensors:
        raise ValueError("stack needs at least one tensor")
    return apply("stack", *tensors, axis=normal_axis(axis, tensors[0].ndim + 1))


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """a where the condition holds, b elsewhere."""
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
        # The condition is not what their dtype depends on.
        a = Tensor(a.item() if isinstance(a, np.generic) else a)
    return apply("where", condition, a, b)


def maximum(a: Any, b: Any) -> Tensor:
    """The larger of two elements, everywhere; equal ones share the gradient."""
    return apply("maximum", a, b)


def minimum(a: Any, b: Any) -> Tensor:
    """The smaller of two elements, everywhere; equal ones share the gradient."""
    return apply("minimum", a, b)


def arctan2(y: Any, x: Any) -> Tensor:
    """The angle of the point (x, y), from -pi to pi."""
    return apply("arctan2", y, x)


def complex(real: Any, imag: Any) -> Tensor:
    """real + i imag."""
    return apply("complex", real, imag)


def matmul(a: Any, b: Any) -> Tensor:
    """The matrix product over the last two axes; the others broadcast."""
    return apply("matmul", a, b)


def einsum(subscripts: str, *operands: Any) -> Tensor:
    """Sums of products in Einstein's notation, as numpy.einsum: with or without "->", with "..."."""
    tensors = [as_tensor(t) for t in operands]
    return apply("einsum", *tensors, subscripts=_explicit(subscripts, [t.ndim for t in tensors]))


def _explicit(subscripts: str, ndims: list[int]) -> str:
    """Write out the ellipsis and the output of an einsum expression."""
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum {subscripts!r} names {len(terms)} operand(s), {len(ndims)} given")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in subscripts]
    longest = 0
    written = []
    for term, ndim in zip(terms, ndims):
        named = term.replace("...", "")
        extra = ndim - len(named)
        if extra < 0 or (extra > 0 and "..." not in term):
            raise ValueError(f"einsum {subscripts!r}: {term!r} does not fit an operand of {ndim} dimension(s)")
        longest = max(longest, extra)
        # Ellipses align at their last axis.
        written.append((term, extra))
    batch = free[:longest]
    expanded = [term.replace("...", "".join(batch[longest - extra :])) for term, extra in written]
    if arrow:
        result = output.replace("...", "".join(batch))
    else:
        letters = "".join(terms).replace("...", "")
        result = "".join(batch) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return ",".join(expanded) + "->" + result


def relu(x: Any) -> Tensor:
    return apply("relu", x)


def gelu(x: Any, approximate: bool | str = False) -> Tensor:
    """x Phi(x), with Phi the normal distribution function; approximate=True, or "tanh", takes the tanh form."""
    if isinstance(approximate, str) and approximate not in ("none", "tanh"):
        raise ValueError(f'approximate={approximate!r}: use "none" or "tanh"')
    return apply("gelu_tanh" if approximate and approximate != "none" else "gelu", x)


def silu(x: Any) -> Tensor:
    """x sigmoid(x)."""
    return apply("silu", x)


def sigmoid(x: Any) -> Tensor:
    return apply("sigmoid", x)


def softplus(x: Any) -> Tensor:
    """log(1 + exp(x))."""
    return apply("softplus", x)


def erf(x: Any) -> Tensor:
    return apply("erf", x)


def softmax(x: Any, axis: int = -1) -> Tensor:
    x = as_tensor(x)
    return apply("softmax", x, axis=normal_axis(axis, x.ndim))


def log_softmax(x: Any, axis: int = -1) -> Tensor:
    x = as_tensor(x)
    return apply("log_softmax", x, axis=normal_axis(axis, x.ndim))


def dropout(x: Any, p: float = 0.5, training: bool = True, spans: Sequence[random.Span] = ()) -> Tensor:
    """Zero each element with probability p and scale the rest so that the expectation stays.

    Nothing happens when not training. The mask comes from the default generator, p in steps of 1/65536. With `spans`,
    x is that part of a larger tensor and gets its part of the larger mask.
    """
    if not 0 <= p < 1:
        raise ValueError(f"dropout probability {p} is not in [0, 1)")
    if not training or p == 0:
        return as_tensor(x)
    x = as_tensor(x)
    return apply("dropout", x, p=p, ticket=random.ticket(x.shape, *spans))


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x @ weight.T + bias for x (..., in), weight (out, in), bias (out,)."""
    return apply("linear", x, weight) if bias is None else apply("linear", x, weight, bias)


def embedding(table: Any, indices: Any) -> Tensor:
    """Rows of a (vocabulary, ...) table for integer indices of any shape.

    Raises:
        IndexError: for an index outside the table.
        TypeError: for indices that are not integers.
    """
    table, indices = as_tensor(table), as_tensor(indices)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"embedding takes integer indices, got {indices.dtype}")
    check_rows(indices._data, len(table))
    return apply("embedding", table, indices)


def check_rows(indices: arrays.Array, count: int) -> None:
    """Raises IndexError for an index outside of a table of so many rows."""
    # A tensor that is divided among ranks can be empty here.
    if indices.size:
        # Arrays would count a negative one from the end, and a GPU wrap a large one around, in silence.
        low, high = int(indices.min()), int(indices.max())
        if low < 0 or high >= count:
            raise IndexError(f"embedding: indices go from {low} to {high}, but the table has {count} rows")


def rms_norm(x: Any, shape: tuple[int, ...], weight: Any = None, eps: float = 1e-6) -> Tensor:
    """Divide the last axes, which must have `shape`, by their root mean square, and multiply by weight."""
    x = as_tensor(x)
    if tuple(x.shape[x.ndim - len(shape) :]) != tuple(shape):
        raise ValueError(f"rms_norm over {tuple(shape)} does not fit an input of shape {x.shape}")
    return apply("rms_norm", x, *(() if weight is None else (weight,)), dims=len(shape), eps=eps)


def rotary(x: Any, positions: Any, base: float = 10000.0) -> Tensor:
    """Rotary positions: turn the pairs (i, i + d / 2) of x (..., positions, d) by position / base^(2 i / d).

    positions: their numbers, as many as x has.
    """
    x = as_tensor(x)
    width = x.shape[-1]
    if width % 2 or len(positions) != x.shape[-2]:
        raise ValueError(f"rotary: {len(positions)} positions do not fit shape {x.shape}, or its last axis is odd")
    angles = np.outer(np.asarray(positions), base ** (-np.arange(0, width, 2) / width))
    turns = np.concatenate([angles, angles], axis=1)
    dtype = arrays.FLOAT32 if arrays.is_half(x.dtype) else x.dtype
    cos, sin = (Tensor(f(turns).astype(dtype), device=x.device) for f in (np.cos, np.sin))
    return apply("rotary", x, cos, sin)


def layer_norm(x: Any, shape: tuple[int, ...], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Normalise over the last axes, which must have `shape`; weight and bias come together or not at all."""
    x = as_tensor(x)
    if tuple(x.shape[x.ndim - len(shape) :]) != tuple(shape):
        raise ValueError(f"layer_norm over {tuple(shape)} does not fit an input of shape {x.shape}")
    if (weight is None) != (bias is None):
        raise ValueError("layer_norm takes both weight and bias or neither")
    affine = () if weight is None else (weight, bias)
    return apply("layer_norm", x, *affine, dims=len(shape), eps=eps)


def batch_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise each channel (axis 1) over the batch; gives the output and the batch's mean and variance."""
    return apply("batch_norm", x, weight, bias, eps=eps)


def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    spans: Sequence[random.Span] = (),
) -> Tensor:
    """Scaled dot-product attention, softmax(q k^T scale + mask) v.

    Args:
        q, k, v: (..., queries, d), (..., keys, d), (..., keys, e), with equal leading axes.
        mask: broadcasts to (..., queries, keys); bool (True may be seen) or numbers added to the scores.
        causal: each query sees only keys up to its own position, counted from the end.
        scale: 1 / sqrt(d) when not given.
        dropout: probability of dropping a weight.
        spans: the weights (..., queries, keys) are this part of larger ones, and so is the mask of what is dropped.

    Returns:
        (..., queries, e). A query that may see nothing gives zeros.
    """
    q, k, v = as_tensor(q), as_tensor(k), as_tensor(v)
    if q.shape[:-2] != k.shape[:-2] or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1]:
        raise ValueError(f"attention: shapes {q.shape}, {k.shape}, {v.shape} do not fit together")
    extra: tuple[Tensor, ...] = ()
    if mask is not None:
        mask = as_tensor(mask)
        extra = (mask if mask.dtype == bool else mask.to(q.dtype),)
    return apply(
        "attention",
        q,
        k,
        v,
        *extra,
        # Without features all scores are 0, on any scale.
        scale=1 / math.sqrt(q.shape[-1] or 1) if scale is None else scale,
        causal=causal,
        p=dropout,
        ticket=random.ticket((*q.shape[:-1], k.shape[-2]), *spans) if dropout > 0 else None,
    )


def pair(value: Size) -> tuple[int, int]:
    """(value, value) for an int."""
    return (value, value) if isinstance(value, int | np.integer) else (int(value[0]), int(value[1]))


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate x (n, c, h, w) with weight (filters, c / groups, kh, kw); bias is (filters,).

    Returns:
        (n, filters, (h + 2 padding - dilation (kh - 1) - 1) // stride + 1, ...).
    """
    x, weight = as_tensor(x), as_tensor(weight)
    stride, padding, dilation = pair(stride), pair(padding), pair(dilation)
    if x.ndim != 4 or weight.ndim != 4:
        raise ValueError(f"conv2d takes 4-dimensional input and weight, got {x.shape} and {weight.shape}")
    if groups < 1 or x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise ValueError(
            f"conv2d: {x.shape[1]} channels and {weight.shape[0]} filters in {groups} group(s) do not fit "
            f"a weight of shape {weight.shape}"
        )
    for i in (0, 1):
        output_size(x.shape[2 + i], weight.shape[2 + i], stride[i], padding[i], dilation[i])
    extra = () if bias is None else (bias,)
    return apply("conv2d", x, weight, *extra, stride=stride, padding=padding, dilation=dilation, groups=groups)


def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """The transpose of conv2d: x (n, c, h, w) with weight (c, filters / groups, kh, kw); bias is (filters,).

    Returns:
        (n, filters, (h - 1) stride - 2 padding + dilation (kh - 1) + 1 + output_padding, ...).
    """
    x, weight = as_tensor(x), as_tensor(weight)
    stride, padding, dilation, extra = pair(stride), pair(padding), pair(dilation), pair(output_padding)
    if x.ndim != 4 or weight.ndim != 4:
        raise ValueError(f"conv_transpose2d takes 4-dimensional input and weight, got {x.shape} and {weight.shape}")
    if groups < 1 or x.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        raise ValueError(
            f"conv_transpose2d: {x.shape[1]} channels in {groups} group(s) do not fit a weight of shape {weight.shape}"
        )
    if any(not 0 <= e < max(s, d) for e, s, d in zip(extra, stride, dilation)):
        raise ValueError(
            f"conv_transpose2d: output_padding {extra} must be less than the stride {stride} or the dilation {dilation}"
        )
    for i in (0, 1):
        transposed_size(x.shape[2 + i], weight.shape[2 + i], stride[i], padding[i], dilation[i], extra[i])
    more = () if bias is None else (bias,)
    options = {"stride": stride, "padding": padding, "extra": extra, "dilation": dilation, "groups": groups}
    return apply("conv_transpose2d", x, weight, *more, **options)


def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> Tensor:
    """Cross-correlate x (n, c, length) with weight (filters, c / groups, k); bias is (filters,)."""
    x, weight = as_tensor(x), as_tensor(weight)
    if x.ndim != 3 or weight.ndim != 3:
        raise ValueError(f"conv1d takes 3-dimensional input and weight, got {x.shape} and {weight.shape}")
    along = (1, stride), (0, padding), (1, dilation)
    return conv2d(x.unsqueeze(2), weight.unsqueeze(2), bias, *along, groups).squeeze(2)


def conv_transpose1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    groups: int = 1,
    dilation: int = 1,
) -> Tensor:
    """The transpose of conv1d: x (n, c, length) with weight (c, filters / groups, k)."""
    x, weight = as_tensor(x), as_tensor(weight)
    if x.ndim != 3 or weight.ndim != 3:
        raise ValueError(f"conv_transpose1d takes 3-dimensional input and weight, got {x.shape} and {weight.shape}")
    along = (1, stride), (0, padding), (0, output_padding)
    return conv_transpose2d(x.unsqueeze(2), weight.unsqueeze(2), bias, *along, groups, (1, dilation)).squeeze(2)


def max_pool2d(x: Any, kernel: Size, stride: Size | None = None, padding: Size = 0) -> Tensor:
    """The largest element of each window of x (n, c, h, w); the stride is the kernel when not given."""
    return _pool("max_pool2d", x, kernel, stride, padding)


def avg_pool2d(x: Any, kernel: Size, stride: Size | None = None, padding: Size = 0) -> Tensor:
    """The mean of each window of x (n, c, h, w), padding counted as zeros."""
    return _pool("avg_pool2d", x, kernel, stride, padding)


def _pool(op: str, x: Any, kernel: Size, stride: Size | None, padding: Size) -> Tensor:
    x = as_tensor(x)
    size, edge = pair(kernel), pair(padding)
    step = size if stride is None else pair(stride)
    if x.ndim != 4:
        raise ValueError(f"{op} takes a 4-dimensional input, got shape {x.shape}")
    if any(2 * e > s for e, s in zip(edge, size)):
        raise ValueError(f"{op}: padding {edge} is more than half of the window {size}")
    for i in (0, 1):
        output_size(x.shape[2 + i], size[i], step[i], edge[i])
    return apply(op, x, kernel=size, stride=step, padding=edge)
