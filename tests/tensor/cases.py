"""One or more cases for every operation of the table: inputs, the call, and torch's counterpart.

`make(rng)` gives float64, complex128 or integer arrays; `call` takes Tensors; `torch` takes the module and
torch tensors, None where torch has no counterpart. Integer and bool inputs are not differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qdist import tensor as qt
from qdist.tensor import functional
from qdist.tensor.random import Ticket


@dataclass(frozen=True)
class Case:
    op: str
    label: str
    make: Callable[[np.random.Generator], list[np.ndarray]]
    call: Callable[..., Any]
    torch: Callable[..., Any] | None

    @property
    def id(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op


CASES: list[Case] = []


def case(op, make, call, torch=None, label=""):
    CASES.append(Case(op, label, make, call, torch))


def normal(*shape):
    return lambda rng: rng.standard_normal(shape)


def between(low, high, *shape):
    return lambda rng: rng.uniform(low, high, shape)


def cplx(*shape):
    return lambda rng: rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def ints(high, *shape):
    return lambda rng: rng.integers(0, high, shape)


def bools(*shape):
    return lambda rng: rng.random(shape) < 0.6


def distinct(*shape):
    """Values far enough apart that a finite difference never reorders them."""
    return lambda rng: rng.permutation(np.arange(np.prod(shape)) * 0.37 - 3).reshape(shape)


def args(*makers):
    return lambda rng: [maker(rng) for maker in makers]


def anyhow_in_memory(rng, array):
    """The same array with its axes in a random order of memory, and gaps or a negative stride along some."""
    array = np.asarray(array)
    order = rng.permutation(array.ndim)
    sizes = [array.shape[axis] for axis in order]
    steps = rng.choice([1, 1, 2, -1, -3], len(sizes))
    whole = np.zeros([n * abs(step) for n, step in zip(sizes, steps)], array.dtype)
    laid = whole[(..., *(slice(None, None, step) for step in steps.tolist()))].transpose(np.argsort(order))
    laid[...] = array
    return laid


def ignore(f):
    """torch's counterpart that does not need the module."""
    return lambda torch, *a: f(*a)


for op, f in {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}.items():
    case(op, args(normal(3, 4), between(0.5, 2, 3, 4)), f, ignore(f))
    case(op, args(normal(3, 1), between(0.5, 2, 2, 1, 4)), f, ignore(f), "broadcast")
    case(op, args(cplx(3, 4), cplx(4)), f, ignore(f), "complex")
    case(op, args(normal(3, 4), cplx(4)), f, ignore(f), "real-complex")
    case(op, args(cplx(3, 4)), lambda a, f=f: f(a, 1.5), lambda t, a, f=f: f(a, 1.5), "scalar")
    case(op, args(between(0.5, 2, 3, 4)), lambda a, f=f: f(2.5, a), lambda t, a, f=f: f(2.5, a), "scalar-left")

power = lambda a, b: a**b  # noqa: E731
case("pow", args(between(0.5, 2, 3, 4), normal(4)), power, ignore(power))
case("pow", args(normal(3, 4)), lambda a: a**3, ignore(lambda a: a**3), "scalar")
case("pow", args(normal(3, 4)), lambda a: a**0, ignore(lambda a: a**0), "zero")
case("pow", args(cplx(3, 4)), lambda a: a**3, ignore(lambda a: a**3), "complex")
case("pow", args(normal(4)), lambda b: 2.0**b, ignore(lambda b: 2.0**b), "exponent")
case("maximum", args(distinct(3, 4), normal(4)), qt.maximum, lambda t, a, b: t.maximum(a, b))
case("minimum", args(distinct(3, 4), normal(4)), qt.minimum, lambda t, a, b: t.minimum(a, b))
case("arctan2", args(normal(3, 4), between(0.5, 2, 4)), qt.arctan2, lambda t, a, b: t.atan2(a, b.expand(3, 4)))
case("where", args(bools(3, 4), normal(3, 4), normal(4)), qt.where, lambda t, c, a, b: t.where(c, a, b))
case("complex", args(normal(3, 4), normal(3, 4)), qt.complex, lambda t, a, b: t.complex(a, b))
case("neg", args(normal(3, 4)), lambda a: -a, ignore(lambda a: -a))
case("abs", args(normal(3, 4)), abs, lambda t, a: t.abs(a))
case("abs", args(cplx(3, 4)), abs, lambda t, a: t.abs(a), "complex")
case("abs2", args(cplx(3, 4)), lambda a: a.abs2(), lambda t, a: (a * a.conj()).real)
case("abs2", args(normal(3, 4)), lambda a: a.abs2(), lambda t, a: a * a, "real")
case("square", args(normal(3, 4)), lambda a: a * a, ignore(lambda a: a * a))
case("square", args(cplx(3, 4)), lambda a: a**2, ignore(lambda a: a**2), "complex")

for op in ["exp", "expm1", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh"]:
    maker = between(-1.2, 1.2, 3, 4)
    name = {"arctan": "atan"}.get(op, op)
    case(op, args(maker), lambda a, op=op: getattr(a, op)(), lambda t, a, n=name: getattr(t, n)(a))
for op in ["exp", "sin", "cos", "tanh", "sinh", "cosh"]:
    small = lambda rng: 0.5 * cplx(3, 4)(rng)  # noqa: E731
    case(op, args(small), lambda a, op=op: getattr(a, op)(), lambda t, a, op=op: getattr(t, op)(a), "complex")
for op in ["log", "log1p", "sqrt"]:
    maker = between(0.3, 3, 3, 4)
    case(op, args(maker), lambda a, op=op: getattr(a, op)(), lambda t, a, op=op: getattr(t, op)(a))
for op, name in (("arcsin", "asin"), ("arccos", "acos")):
    maker = between(-0.9, 0.9, 3, 4)
    case(op, args(maker), lambda a, op=op: getattr(a, op)(), lambda t, a, n=name: getattr(t, n)(a))

case("conj", args(cplx(3, 4)), lambda a: a.conj(), lambda t, a: t.conj(a).resolve_conj())
case("real", args(cplx(3, 4)), lambda a: a.real, lambda t, a: a.real)
case("imag", args(cplx(3, 4)), lambda a: a.imag, lambda t, a: a.imag)
case("clip", args(distinct(3, 4)), lambda a: a.clip(-1.05, 0.6), lambda t, a: a.clamp(-1.05, 0.6))
case("clip", args(distinct(3, 4)), lambda a: a.clip(low=0.1), lambda t, a: a.clamp(min=0.1), "one-sided")
case("cast", args(normal(3, 4)), lambda a: a.to(np.complex128), lambda t, a: a.to(t.complex128))
case("move", args(normal(3, 4)), lambda a: qt.apply("move", a, device=a.device), ignore(lambda a: a * 1))

case("relu", args(distinct(3, 4)), functional.relu, lambda t, a: t.relu(a))
case("gelu", args(normal(3, 4)), functional.gelu, lambda t, a: t.nn.functional.gelu(a))
case(
    "gelu_tanh",
    args(normal(3, 4)),
    lambda a: functional.gelu(a, True),
    lambda t, a: t.nn.functional.gelu(a, approximate="tanh"),
)
case("silu", args(normal(3, 4)), functional.silu, lambda t, a: t.nn.functional.silu(a))
case("sigmoid", args(normal(3, 4)), functional.sigmoid, lambda t, a: t.sigmoid(a))
case("softplus", args(normal(3, 4)), functional.softplus, lambda t, a: t.nn.functional.softplus(a))
case("erf", args(normal(3, 4)), functional.erf, lambda t, a: t.erf(a))
case("softmax", args(normal(3, 4, 2)), lambda a: functional.softmax(a, 1), lambda t, a: t.softmax(a, 1))
case("log_softmax", args(normal(3, 4)), functional.log_softmax, lambda t, a: t.log_softmax(a, -1))
case(
    "cross_entropy",
    args(normal(5, 4), ints(4, 5)),
    functional.cross_entropy,
    lambda t, a, y: t.nn.functional.cross_entropy(a, y),
)
case(
    "cross_entropy",
    args(normal(2, 5, 4), ints(4, 2, 5)),
    lambda a, y: functional.cross_entropy(a, y, "none"),
    lambda t, a, y: t.nn.functional.cross_entropy(a.reshape(-1, 4), y.reshape(-1), reduction="none").reshape(2, 5),
    "sequence",
)
case(
    "ratio",
    args(normal(5, 4), ints(4, 5)),
    lambda a, y: functional.cross_entropy(a, y, ignore_index=2, weight=[1.0, 0.5, 2.0, 0.3], label_smoothing=0.2),
    lambda t, a, y: t.nn.functional.cross_entropy(
        a, y, ignore_index=2, weight=t.tensor([1.0, 0.5, 2.0, 0.3], dtype=a.dtype), label_smoothing=0.2
    ),
    "smoothed and weighted",
)
case(
    "ratio",
    args(normal(2, 5, 4), ints(4, 2, 5)),
    lambda a, y: functional.cross_entropy(a, y, ignore_index=1),
    lambda t, a, y: t.nn.functional.cross_entropy(a.reshape(-1, 4), y.reshape(-1), ignore_index=1),
    "masked",
)
case(
    "ratio",
    args(normal(5, 4), ints(4, 5)),
    lambda a, y: functional.nll_loss(a, y, ignore_index=0, weight=[1.0, 0.5, 2.0, 0.3]),
    lambda t, a, y: t.nn.functional.nll_loss(
        a, y, ignore_index=0, weight=t.tensor([1.0, 0.5, 2.0, 0.3], dtype=a.dtype)
    ),
    "of log-probabilities",
)
case(
    "binary_cross_entropy",
    args(between(0.1, 0.9, 5, 4), between(0.1, 0.9, 5, 4)),
    functional.binary_cross_entropy,
    None,
)
case(
    "binary_cross_entropy_logits",
    args(normal(5, 4), between(0.1, 0.9, 5, 4)),
    functional.binary_cross_entropy_with_logits,
    lambda t, a, y: t.nn.functional.binary_cross_entropy_with_logits(a, y),
)
TICKET = Ticket((7, 9), 3)
case("dropout", args(normal(6, 5)), lambda a: qt.apply("dropout", a, p=0.4, ticket=TICKET))

for op in ["sum", "mean", "max", "min", "logsumexp", "prod"]:
    maker = distinct(3, 4, 2) if op in ("max", "min") else normal(3, 4, 2)
    torch_name = {"max": "amax", "min": "amin"}.get(op, op)
    case(op, args(maker), lambda a, op=op: getattr(a, op)(1), lambda t, a, n=torch_name: getattr(t, n)(a, 1))
    case(
        op,
        args(maker),
        lambda a, op=op: getattr(a, op)((0, 2), keepdims=True),
        (lambda t, a, n=torch_name: getattr(t, n)(a, (0, 2), keepdim=True))
        if op != "prod"
        else (lambda t, a: a.prod(2, keepdim=True).prod(0, keepdim=True)),
        "two-axes",
    )
case("sum", args(cplx(3, 4)), lambda a: a.sum(), lambda t, a: a.sum(), "complex")
case("mean", args(normal(3, 4)), lambda a: a.var(0, ddof=1), lambda t, a: a.var(0), "variance")
case("prod", args(lambda rng: np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]])), lambda a: a.prod(1),
     lambda t, a: a.prod(1), "zeros")  # fmt: skip
case("cumsum", args(normal(3, 4)), lambda a: a.cumsum(1), lambda t, a: t.cumsum(a, 1))

product = lambda a, b: a @ b  # noqa: E731
for label, shapes in {
    "": ((3, 4), (4, 2)),
    "batched": ((5, 3, 4), (5, 4, 2)),
    "broadcast": ((2, 1, 3, 4), (5, 4, 2)),
    "batch-matrix": ((5, 3, 4), (4, 2)),
    "matrix-batch": ((3, 4), (5, 4, 2)),
    "vector-vector": ((4,), (4,)),
    "matrix-vector": ((3, 4), (4,)),
    "vector-matrix": ((4,), (4, 2)),
    "batch-vector": ((5, 3, 4), (4,)),
    "vector-batch": ((4,), (5, 4, 2)),
}.items():
    case("matmul", args(*(normal(*s) for s in shapes)), product, ignore(product), label)
case("matmul", args(cplx(3, 4), cplx(4, 2)), product, ignore(product), "complex")
case("matmul", args(cplx(5, 3, 4), cplx(4, 2)), product, ignore(product), "complex-batch")
case(
    "linear",
    args(normal(5, 4), normal(3, 4), normal(3)),
    functional.linear,
    lambda t, *a: t.nn.functional.linear(*a),
)
case(
    "linear",
    args(normal(2, 5, 4), normal(3, 4)),
    functional.linear,
    lambda t, *a: t.nn.functional.linear(*a),
    "no-bias",
)
for i, (subscripts, shapes) in enumerate(
    [
        ("ij,jk->ik", ((3, 4), (4, 2))),
        ("bij,bkj->bik", ((2, 3, 4), (2, 5, 4))),
        ("ij->i", ((3, 4),)),
        ("ij->ji", ((3, 4),)),
        ("ii->i", ((3, 3),)),
        ("ii->", ((3, 3),)),
        ("i,j->ij", ((3,), (4,))),
        ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
        ("...ij,...jk->...ik", ((2, 3, 4), (4, 5))),
        ("ij,jk", ((3, 4), (4, 2))),
    ]
):
    case(
        "einsum",
        args(*((cplx if i == 0 else normal)(*s) for s in shapes)),
        lambda *a, s=subscripts: qt.einsum(s, *a),
        lambda t, *a, s=subscripts: t.einsum(s, *a),
        subscripts,
    )

case("reshape", args(normal(3, 4)), lambda a: a.reshape(2, -1), ignore(lambda a: a.reshape(2, -1)))
case("transpose", args(normal(3, 4, 2)), lambda a: a.transpose(2, 0, 1), ignore(lambda a: a.permute(2, 0, 1)))
case("expand", args(normal(3, 1)), lambda a: a.expand(2, 3, 4), ignore(lambda a: a.expand(2, 3, 4)))
case(
    "concatenate",
    args(normal(3, 4), normal(3, 2)),
    lambda a, b: qt.concatenate([a, b], -1),
    lambda t, a, b: t.cat([a, b], -1),
)
case(
    "stack",
    args(normal(3, 4), normal(3, 4)),
    lambda a, b: qt.stack([a, b], 1),
    lambda t, a, b: t.stack([a, b], 1),
)
case(
    "split",
    args(normal(5, 4)),
    lambda a: a.split([2, 3])[0].sum(0) * a.split([1, 4])[1].mean(0),
    ignore(lambda a: a.split([2, 3])[0].sum(0) * a.split([1, 4])[1].mean(0)),
)
case("pad", args(normal(3, 4)), lambda a: a.pad([(1, 0), (2, 3)], 1.5),
     lambda t, a: t.nn.functional.pad(a, (2, 3, 1, 0), value=1.5))  # fmt: skip
case("flip", args(normal(3, 4)), lambda a: a.flip(1), ignore(lambda a: a.flip(1)))
case("roll", args(normal(3, 4)), lambda a: a.roll(2, 1), ignore(lambda a: a.roll(2, 1)))
case("tril", args(normal(4, 4)), lambda a: a.tril(-1), ignore(lambda a: a.tril(-1)))
case("triu", args(normal(2, 4, 4)), lambda a: a.triu(1), ignore(lambda a: a.triu(1)))
for label, key in {
    "int": 1,
    "slice": (slice(None), slice(3, 0, -1)),
    "step": (slice(0, 3, 2), None, 1),
    "ellipsis": (..., 2),
}.items():
    positive = label != "slice"
    case(
        "index",
        args(normal(3, 4)),
        lambda a, k=key: a[k],
        ignore(lambda a, k=key: a[k]) if positive else None,
        label,
    )
case("index", args(normal(5, 4), ints(5, 7)), lambda a, i: a[i], ignore(lambda a, i: a[i]), "repeated")
case("index", args(cplx(5, 4), ints(5, 7)), lambda a, i: a[i], ignore(lambda a, i: a[i]), "complex")
case(
    "index",
    args(normal(5, 4), ints(5, 7), ints(4, 7)),
    lambda a, i, j: a[i, j],
    ignore(lambda a, i, j: a[i, j]),
    "two",
)
case("index", args(normal(3, 4), bools(3, 4)), lambda a, m: a[m], ignore(lambda a, m: a[m]), "mask")
case(
    "gather",
    args(normal(5, 4), ints(5, 7, 4)),
    lambda a, i: a.gather(i, 0),
    lambda t, a, i: t.gather(a, 0, i),
)
case(
    "scatter_add",
    args(normal(5, 4), ints(4, 5, 6), normal(5, 6)),
    lambda a, i, s: a.scatter_add(i, s, 1),
    lambda t, a, i, s: a.scatter_add(1, i, s),
)
for axis, indices, source in (
    (0, ints(5, 7, 1), (7, 1)),
    (1, ints(4, 1, 1), (1, 1)),
    (1, ints(4, 2, 6), (2, 6)),
    (1, ints(4, 3, 6), (5, 8)),
    (1, ints(4, 3, 6), (1, 8)),
    (1, ints(4, 5, 6), (1, 6)),
):
    case(
        "gather",
        args(normal(5, 4), indices),
        lambda a, i, axis=axis: a.gather(i, axis),
        lambda t, a, i, axis=axis: t.gather(a, axis, i),
        f"smaller-{axis}-{source}",
    )
    case(
        "scatter_add",
        args(normal(5, 4), indices, normal(*source)),
        lambda a, i, s, axis=axis: a.scatter_add(i, s, axis),
        # torch adds the corner of a larger source too, but has no gradient then, and expands none.
        lambda t, a, i, s, axis=axis: a.scatter_add(axis, i, s[: i.shape[0], : i.shape[1]].expand(i.shape)),
        f"smaller-{axis}-{source}",
    )
case(
    "embedding",
    args(normal(6, 3), ints(6, 2, 5)),
    functional.embedding,
    lambda t, w, i: t.nn.functional.embedding(i, w),
)

for label, (x, w, options) in {
    "": ((2, 3, 5, 6), (4, 3, 3, 2), {}),
    "stride-padding": ((2, 3, 5, 6), (4, 3, 3, 3), {"stride": (2, 1), "padding": (1, 2)}),
    "dilation": ((2, 2, 7, 6), (3, 2, 3, 2), {"dilation": 2}),
    "groups": ((2, 4, 5, 5), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": ((2, 3, 4, 4), (3, 1, 2, 2), {"groups": 3, "stride": 2}),
}.items():
    case(
        "conv2d",
        args(normal(*x), normal(*w), normal(w[0])),
        lambda x, w, b, o=options: functional.conv2d(x, w, b, **o),
        lambda t, x, w, b, o=options: t.nn.functional.conv2d(x, w, b, **o),
        label,
    )
for op, maker in (("max_pool2d", distinct), ("avg_pool2d", normal)):
    for label, options in {"": {}, "overlap": {"stride": 1, "padding": 1}, "gap": {"stride": (3, 2)}}.items():
        case(
            op,
            args(maker(2, 3, 5, 6)),
            lambda x, op=op, o=options: getattr(functional, op)(x, 2, **o),
            lambda t, x, op=op, o=options: getattr(t.nn.functional, op)(x, 2, **o),
            label,
        )
case(
    "layer_norm",
    args(normal(2, 3, 4), normal(3, 4), normal(3, 4)),
    lambda x, w, b: functional.layer_norm(x, (3, 4), w, b),
    lambda t, x, w, b: t.nn.functional.layer_norm(x, (3, 4), w, b),
)
case(
    "layer_norm",
    args(normal(5, 4)),
    lambda x: functional.layer_norm(x, (4,)),
    lambda t, x: t.nn.functional.layer_norm(x, (4,)),
    "plain",
)
case(
    "batch_norm",
    args(normal(4, 3, 2, 2), normal(3), normal(3)),
    lambda x, w, b: functional.batch_norm(x, w, b)[0],
    lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, training=True),
)


def _all_of_batch_norm(x, w, b):
    y, mean, variance = functional.batch_norm(x, w, b)
    return y * mean.reshape(1, -1, 1, 1) + variance.reshape(1, -1, 1, 1)


def _all_of_batch_norm_torch(torch, x, w, b):
    y = torch.nn.functional.batch_norm(x, None, None, w, b, training=True)
    mean = x.mean((0, 2, 3), keepdim=True)
    return y * mean + x.var((0, 2, 3), correction=0, keepdim=True)


case(
    "batch_norm",
    args(normal(4, 3, 2, 2), normal(3), normal(3)),
    _all_of_batch_norm,
    _all_of_batch_norm_torch,
    "stats",
)

for label, (makers, options) in {
    "": ((normal(2, 3, 5, 4), normal(2, 3, 6, 4), normal(2, 3, 6, 2)), {}),
    "causal": ((normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 4)), {"causal": True}),
    "scale": ((normal(5, 4), normal(5, 4), normal(5, 4)), {"scale": 0.3}),
    "mask": ((normal(2, 3, 5, 4), normal(2, 3, 5, 4), normal(2, 3, 5, 4), bools(5, 5)), {}),
    "bias": ((normal(2, 3, 5, 4), normal(2, 3, 5, 4), normal(2, 3, 5, 4), normal(3, 5, 5)), {}),
    "five-axes": ((normal(2, 3, 2, 5, 4), normal(2, 3, 2, 6, 4), normal(2, 3, 2, 6, 3)), {}),
    "five-axes-causal": ((normal(2, 3, 2, 5, 4), normal(2, 3, 2, 5, 4), normal(2, 3, 2, 5, 4)), {"causal": True}),
    "mask-of-each": ((normal(2, 3, 5, 4), normal(2, 3, 6, 4), normal(2, 3, 6, 4), bools(2, 3, 5, 6)), {}),
}.items():
    torch_options = {"is_causal" if k == "causal" else k: v for k, v in options.items()}
    case(
        "attention",
        args(*makers),
        lambda *a, o=options: functional.attention(*a, **o),
        lambda t, *a, o=torch_options: t.nn.functional.scaled_dot_product_attention(*a, **o).nan_to_num(),
        label,
    )
case(
    "attention",
    args(normal(2, 5, 4), normal(2, 6, 4), normal(2, 6, 3)),
    lambda q, k, v: qt.apply("attention", q, k, v, scale=0.5, causal=False, p=0.3, ticket=TICKET),
    None,
    "dropout",
)
case(
    "attention",
    args(normal(2, 3, 5, 4), normal(2, 3, 6, 4), normal(2, 3, 6, 3)),
    lambda q, k, v: qt.apply("attention", q, k, v, scale=0.5, causal=True, p=0.3, ticket=TICKET),
    None,
    "dropout-causal",
)

for op, f in {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}.items():
    case(op, args(ints(3, 4, 5), ints(3, 5)), f, ignore(f))
case("and", args(bools(4, 5), bools(5)), lambda a, b: a & b, ignore(lambda a, b: a & b))
case("or", args(bools(4, 5), bools(5)), lambda a, b: a | b, ignore(lambda a, b: a | b))
case("not", args(bools(4, 5)), lambda a: ~a, ignore(lambda a: ~a))
case(
    "isfinite",
    args(lambda rng: np.array([1.0, np.inf, np.nan])),
    lambda a: a.isfinite(),
    lambda t, a: t.isfinite(a),
)
for op in ["sign", "floor", "ceil", "round"]:
    case(op, args(normal(4, 5)), lambda a, op=op: getattr(a, op)(), lambda t, a, op=op: getattr(t, op)(a))
for op in ["argmax", "argmin"]:
    case(op, args(distinct(4, 5)), lambda a, op=op: getattr(a, op)(1), lambda t, a, op=op: getattr(t, op)(a, 1))

case(
    "rms_norm",
    args(normal(3, 2, 4), normal(4)),
    lambda a, w: functional.rms_norm(a, (4,), w, 1e-5),
    lambda t, a, w: t.nn.functional.rms_norm(a, (4,), w, 1e-5),
)
case("rms_norm", args(normal(5, 4)), lambda a: functional.rms_norm(a, (4,)), None, "without weight")
case("rotary", args(normal(2, 3, 5, 4)), lambda a: functional.rotary(a, [0, 3, 1, 7, 2]))
case(
    "conv_transpose2d",
    args(normal(2, 4, 3, 5), normal(4, 3, 3, 2), normal(6)),
    lambda x, w, b: functional.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 2, (1, 2)),
    lambda t, x, w, b: t.nn.functional.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 2, (1, 2)),
)
case(
    "conv_transpose2d",
    args(normal(2, 4, 3, 5), normal(4, 3, 3, 2)),
    lambda x, w: functional.conv_transpose2d(x, w, None, 1, (0, 1), (1, 2), 2, (2, 3)),
    lambda t, x, w: t.nn.functional.conv_transpose2d(x, w, None, 1, (0, 1), (1, 2), 2, (2, 3)),
    "output padding below the dilation alone",
)
