"""THE table of operator rules: how every operation of `tensor.rules` may be spread over a mesh axis.

An entry gives the operator's form (see `forms`) from the shapes of its inputs and its attributes. Output placements,
communication forward and backward, and the search space of the automatic mode all follow from the form. Operations
without an entry run on whole tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from qdist.parallel.auto.placement.placements import Partial, Replicate, Shard
from qdist.parallel.auto.rules.forms import Extra, Form, Label, Split
from qdist.tensor.kernels.shaping import Place

__all__ = ["FORMS", "form_of", "register_form"]

Shapes = Sequence[tuple[int, ...] | None]  # None for a Python number
MakeForm = Callable[..., Form]


def form_of(name: str, shapes: Shapes, attributes: dict[str, Any]) -> Form | None:
    """The form of one application; None for an operation that the table does not know."""
    make = FORMS.get(name)
    return None if make is None else make(shapes, **attributes)


def register_form(name: str, make: MakeForm) -> None:
    """Add the form of an operation of one's own: make(shapes, **attributes) -> Form. ValueError when it has one."""
    if name in FORMS:
        raise ValueError(f"the operation {name!r} has a form already")
    FORMS[name] = make


def _names(ndim: int, prefix: str = "d") -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(ndim))


def _sizes(*pairs: tuple[Sequence[Label], Sequence[int]]) -> dict[str, int]:
    """Lengths of all labels; where a dimension of 1 is broadcast, that of the longer one."""
    sizes: dict[str, int] = {}
    for labels, shape in pairs:
        for label, n in zip(labels, shape):
            if label is not None:
                sizes[label] = max(n, sizes.get(label, 1))
    return sizes


def _without(labels: Sequence[Label], dims: Sequence[int]) -> tuple[Label, ...]:
    return tuple(None if i in dims else label for i, label in enumerate(labels))


def _broadcast(shape: tuple[int, ...] | None, target: Sequence[int], labels: Sequence[str]) -> tuple[Label, ...]:
    """The labels of an input that broadcasts to `target`; None where it is stretched."""
    if shape is None:
        return ()
    skip = len(target) - len(shape)
    return tuple(labels[skip + i] if n == target[skip + i] else None for i, n in enumerate(shape))


def _joint_shape(shapes: Shapes) -> tuple[int, ...]:
    """The shape that all broadcast to; ones where they do not, which the operation itself refuses."""
    known = [s for s in shapes if s is not None]
    ndim = max(map(len, known), default=0)
    padded = [(1,) * (ndim - len(s)) + tuple(s) for s in known]
    return tuple(max(column) for column in zip(*padded))


def _elementwise(linear: str = "") -> MakeForm:
    """linear: "all" inputs jointly, "each" alone, the "first" one, or none."""

    def make(shapes: Shapes, **attributes: Any) -> Form:
        target = _joint_shape(shapes)
        labels = _names(len(target))
        inputs = tuple(_broadcast(s, target, labels) for s in shapes)
        tensors = tuple(i for i, s in enumerate(shapes) if s is not None)
        groups: tuple[tuple[int, ...], ...] = ()
        if linear == "all" and len(tensors) == len(shapes):
            groups = (tensors,)
        elif linear == "each":
            groups = tuple((i,) for i in tensors)
        elif linear == "first" and 0 in tensors:
            groups = ((0,),)
        return Form(inputs, (labels,), _sizes((labels, target)), linear=groups)

    return make


def _where(shapes: Shapes) -> Form:
    form = _elementwise()(shapes)
    return Form(form.inputs, form.outputs, form.sizes, linear=((1, 2),) if None not in shapes else ())


def _cast(shapes: Shapes, dtype: Any) -> Form:
    return _elementwise("all" if dtype.kind in "fc" else "")(shapes)


def _matmul(shapes: Shapes) -> Form:
    a, b = (shape or () for shape in shapes)
    lead = _joint_shape([a[:-2], b[:-2]])
    names = _names(len(lead), "b")
    left = (*_broadcast(a[:-2], lead, names), *(("m",) if len(a) > 1 else ()), "k")
    right = (*_broadcast(b[:-2], lead, names), "k", *(("n",) if len(b) > 1 else ()))
    out = (*names, *(("m",) if len(a) > 1 else ()), *(("n",) if len(b) > 1 else ()))
    sizes = _sizes((names, lead), (left, a), (right, b))
    return Form((left, right), (out,), sizes, linear=((0,), (1,)), product=True)


def _linear(shapes: Shapes) -> Form:
    x, weight, *bias = (shape or () for shape in shapes)
    lead = _names(len(x) - 1, "b")
    inputs: tuple[tuple[Label, ...], ...] = ((*lead, "k"), ("n", "k"), *((("n",),) if bias else ()))
    added = (2,) if bias else ()
    linear = tuple((i, *added) for i in (0, 1))
    return Form(
        inputs, ((*lead, "n"),), _sizes((inputs[0], x), (inputs[1], weight)), added=added, linear=linear, product=True
    )


def _einsum(shapes: Shapes, subscripts: str) -> Form:
    left, output = subscripts.split("->")
    terms = left.split(",")
    twice = {c for term in terms for c in term if term.count(c) > 1}
    inputs = tuple(tuple(None if c in twice else c for c in term) for term in terms)
    outputs = (tuple(None if c in twice else c for c in output),)
    sizes = _sizes(*((labels, shape or ()) for labels, shape in zip(inputs, shapes)))
    every = _sizes(*((tuple(term), shape or ()) for term, shape in zip(terms, shapes)))
    elements = math.prod(every[c] for c in output)
    linear = tuple((i,) for i in range(len(terms)))
    return Form(inputs, outputs, sizes, linear=linear, product=True, elements=elements)


def _reduction(sums: bool) -> MakeForm:
    """sums: partial results of the ranks add up to the result."""

    def make(shapes: Shapes, axis: tuple[int, ...], keepdims: bool) -> Form:
        shape = shapes[0] or ()
        labels: Sequence[Label] = _names(len(shape))
        kept: tuple[Label, ...] = _without(labels, axis)
        if not keepdims:
            kept = tuple(label for i, label in enumerate(labels) if i not in axis)
        inputs = tuple(labels) if sums else _without(labels, axis)
        return Form((inputs,), (kept,), _sizes((inputs, shape)), linear=((0,),) if sums else ())

    return make


def _along(linear: bool = False) -> MakeForm:
    """One dimension has to be whole: softmax, cumsum, roll."""

    def make(shapes: Shapes, axis: int, **attributes: Any) -> Form:
        shape = shapes[0] or ()
        labels = _without(_names(len(shape)), (axis,))
        elements = math.prod(shape)
        return Form((labels,), (labels,), _sizes((labels, shape)), linear=((0,),) if linear else (), elements=elements)

    return make


def _position(shapes: Shapes, axis: int | None) -> Form:
    shape = shapes[0] or ()
    labels = _without(_names(len(shape)), range(len(shape)) if axis is None else (axis % len(shape),))
    kept = () if axis is None else tuple(label for i, label in enumerate(labels) if i != axis % len(shape))
    return Form((labels,), (kept,), _sizes((labels, shape)))


def _reshape(shapes: Shapes, shape: tuple[int, ...]) -> Form:
    source = shapes[0] or ()
    total = math.prod(source)
    target = [total // max(-math.prod(shape), 1) if n == -1 else n for n in shape]
    if math.prod(target) != total:
        return Form(((None,) * len(source),), ((None,) * len(target),), {})  # which reshape itself refuses
    ins: list[Label] = [None] * len(source)
    outs: list[Label] = [None] * len(target)
    sizes: dict[str, int] = {}
    exact = set()
    extra: list[Extra] = []
    i = j = 0
    while i < len(source) and j < len(target) and total:
        # A group of dimensions on each side with the same number of elements; its first dimension runs slowest, so
        # equal parts of it are the same elements on both sides.
        first, second, p, q = i, j, source[i], target[j]
        while p != q:
            if p < q:
                i += 1
                p *= source[i]
            else:
                j += 1
                q *= target[j]
        i, j = i + 1, j + 1
        extra += _blocks(first, i, source, second, j, target)
        while first < i - 1 and source[first] == 1:
            first += 1
        while second < j - 1 and target[second] == 1:
            second += 1
        ins[first] = outs[second] = label = f"d{first}"
        sizes[label] = math.gcd(source[first], target[second])
        if source[first] != target[second]:
            exact.add(label)
    return Form(
        (tuple(ins),), (tuple(outs),), sizes, frozenset(exact), linear=((0,),), elements=total, extra=tuple(extra)
    )


def _blocks(first: int, i: int, source: Sequence[int], second: int, j: int, target: Sequence[int]) -> list[Extra]:
    """Dimensions first..i become second..j. Where one becomes several or several one, the second of the several may be
    cut: that cuts the one in blocks, as many as the first of the several is long."""
    label = f"d{first}"
    if i - first == 1 and j - second > 1:
        split = Split(label, (Shard(first, target[second]),), (Shard(second + 1),))
        return [Extra(split, target[second + 1], exact=True)]
    if j - second == 1 and i - first > 1:
        split = Split(label, (Shard(first + 1),), (Shard(second, source[first]),))
        return [Extra(split, source[first + 1], exact=True)]
    return []


def _transpose(shapes: Shapes, axes: tuple[int, ...]) -> Form:
    labels = _names(len(axes))
    sizes = _sizes((labels, shapes[0] or ()))
    return Form((labels,), (tuple(labels[a] for a in axes),), sizes, linear=((0,),))


def _expand(shapes: Shapes, shape: tuple[int, ...]) -> Form:
    source = shapes[0] or ()
    names = _names(len(shape))
    inputs = _broadcast(source, shape, names)
    outputs = tuple(label if label in inputs else None for label in names)
    return Form((inputs,), (outputs,), _sizes((inputs, source)), linear=((0,),), elements=math.prod(shape))


def _join(new: bool) -> MakeForm:
    def make(shapes: Shapes, axis: int) -> Form:
        shape = shapes[0] or ()
        labels: tuple[Label, ...] = _names(len(shape))
        outputs: tuple[Label, ...] = (*labels[:axis], None, *labels[axis:]) if new else _without(labels, (axis,))
        inputs = labels if new else outputs
        elements = sum(math.prod(s or ()) for s in shapes)
        everything = (tuple(range(len(shapes))),)
        sizes = _sizes((inputs, shape))
        return Form((inputs,) * len(shapes), (outputs,), sizes, linear=everything, elements=elements)

    return make


def _split(shapes: Shapes, sizes: tuple[int, ...], axis: int) -> Form:
    shape = shapes[0] or ()
    labels = _without(_names(len(shape)), (axis,))
    elements = math.prod(shape) // max(len(sizes), 1)
    return Form((labels,), (labels,) * len(sizes), _sizes((labels, shape)), linear=((0,),), elements=elements)


def _pad(shapes: Shapes, widths: tuple[tuple[int, int], ...], value: float) -> Form:
    shape = shapes[0] or ()
    labels = _without(_names(len(shape)), [i for i, width in enumerate(widths) if width != (0, 0)])
    elements = math.prod(n + before + after for n, (before, after) in zip(shape, widths))
    return Form((labels,), (labels,), _sizes((labels, shape)), linear=((0,),) if value == 0 else (), elements=elements)


def _flip(shapes: Shapes, axes: tuple[int, ...]) -> Form:
    shape = shapes[0] or ()
    labels = _without(_names(len(shape)), axes)
    return Form((labels,), (labels,), _sizes((labels, shape)), linear=((0,),), elements=math.prod(shape))


def _triangle(shapes: Shapes, k: int) -> Form:
    shape = shapes[0] or ()
    labels = _without(_names(len(shape)), (len(shape) - 2, len(shape) - 1))
    return Form((labels,), (labels,), _sizes((labels, shape)), linear=((0,),), elements=math.prod(shape))


def _index(shapes: Shapes, key: tuple[Any, ...]) -> Form:
    """Dimensions taken whole keep their label; an index array anywhere wants everything whole."""
    shape = shapes[0] or ()
    labels = _names(len(shape))
    if any(isinstance(part, (Place, bool)) for part in key):
        blank = tuple((None,) * len(s or ()) for s in shapes)
        return Form(blank, ((),), {}, linear=((0,),))
    used = sum(part is not None and part is not Ellipsis for part in key)
    fill = (slice(None),) * (len(shape) - used)
    where = next((i for i, part in enumerate(key) if part is Ellipsis), len(key))
    full = (*key[:where], *fill, *key[where + 1 :])
    ins: list[Label] = []
    outs: list[Label] = []
    for part in full:
        if part is None:
            outs.append(None)
            continue
        label = labels[len(ins)] if isinstance(part, slice) and part == slice(None) else None
        ins.append(label)
        if isinstance(part, slice):
            outs.append(label)
    return Form((tuple(ins),), (tuple(outs),), _sizes((ins, shape)), linear=((0,),))


def _gather(shapes: Shapes, axis: int, loss: str = "") -> Form:
    """Also scatter_add, whose third input lies as the indices do, or has one number for all of them along an axis."""
    x, indices = shapes[0] or (), shapes[1] or ()
    source = shapes[2] or () if len(shapes) > 2 else indices
    wide = (1,) * (len(x) - len(source)) + source
    apart = [i for i, sizes in enumerate(zip(x, indices, wide)) if len(set(sizes)) > 1 or i == axis]
    labels = _without(_names(len(x)), apart)
    linear = ((0,),) if len(shapes) == 2 else ((0, 2),)
    ins = (labels, labels, labels[len(x) - len(source) :])[: len(shapes)]
    return Form(ins, (labels,), _sizes((labels, x)), linear=linear, elements=math.prod(indices))


def _embedding(shapes: Shapes) -> Form:
    table, indices = shapes[0] or (), shapes[1] or ()
    columns, places = _names(len(table) - 1, "e"), _names(len(indices), "i")
    # Ranks that hold a slice of the rows look up what they have and give zeros for the rest.
    rows = Split("v", (Shard(0), Replicate()), (Partial(),))
    sizes = _sizes((columns, table[1:]), (places, indices))
    return Form(
        ((None, *columns), places),
        ((*places, *columns),),
        sizes,
        linear=((0,),),
        extra=(Extra(rows, table[0], exact=False),),
    )


def _cross_entropy(shapes: Shapes) -> Form:
    """Rows are cut freely. Where the classes are cut, every row's maximum, sum and target travel: three numbers."""
    rows, classes = shapes[0] or (1, 1)
    cut = Split("c", (Shard(1), Replicate()), (Replicate(),), inside=3 * rows)
    return Form((("r", None), ("r",)), (("r",),), {"r": rows}, extra=(Extra(cut, classes, exact=True),))


def _layer_norm(shapes: Shapes, dims: int, eps: float) -> Form:
    shape = shapes[0] or ()
    labels: tuple[Label, ...] = (*_names(len(shape) - dims), *(None,) * dims)
    affine = tuple((None,) * len(s or ()) for s in shapes[1:])
    return Form((labels, *affine), (labels,), _sizes((labels, shape)), elements=math.prod(shape))


def _conv2d(shapes: Shapes, stride: Any, padding: Any, dilation: Any, groups: int) -> Form:
    x, weight, *bias = (shape or () for shape in shapes)
    channels, filters = (None, None) if groups > 1 else ("c", "f")
    inputs: tuple[tuple[Label, ...], ...] = (("n", channels, None, None), (filters, channels, None, None))
    sizes = _sizes((inputs[0], x), (inputs[1], weight))
    added = (2,) if bias else ()
    inputs += ((filters,),) if bias else ()
    elements = math.prod(x) // x[1] * weight[0] // (stride[0] * stride[1])
    linear = tuple((i, *added) for i in (0, 1))
    return Form(
        inputs, (("n", filters, None, None),), sizes, added=added, linear=linear, product=True, elements=elements
    )


def _conv_transpose2d(shapes: Shapes, stride: Any, padding: Any, extra: Any, dilation: Any, groups: int) -> Form:
    x, weight, *bias = (shape or () for shape in shapes)
    channels, filters = (None, None) if groups > 1 else ("c", "f")
    inputs: tuple[tuple[Label, ...], ...] = (("n", channels, None, None), (channels, filters, None, None))
    sizes = _sizes((inputs[0], x), (inputs[1], weight))
    added = (2,) if bias else ()
    inputs += ((filters,),) if bias else ()
    elements = math.prod(x) // x[1] * weight[1] * groups * stride[0] * stride[1]
    linear = tuple((i, *added) for i in (0, 1))
    return Form(
        inputs, (("n", filters, None, None),), sizes, added=added, linear=linear, product=True, elements=elements
    )


def _rotary(shapes: Shapes) -> Form:
    shape = shapes[0] or ()
    labels: tuple[Label, ...] = (*_names(len(shape) - 1), None)
    turns = labels[-2:]
    return Form((labels, turns, turns), (labels,), _sizes((labels, shape)), linear=((0,),), elements=math.prod(shape))


def _pool(linear: bool) -> MakeForm:
    def make(shapes: Shapes, stride: Any, **attributes: Any) -> Form:
        labels = ("n", "c", None, None)
        shape = shapes[0] or ()
        elements = math.prod(shape) // (stride[0] * stride[1])
        sums = ((0,),) if linear else ()
        return Form((labels,), (labels,), _sizes((labels, shape)), linear=sums, elements=elements)

    return make


def _attention(shapes: Shapes, scale: float, causal: bool, p: float, ticket: Any) -> Form:
    """Batch and heads are cut freely; queries too where no position counts. Dropped weights need the whole."""
    q, k, v, *mask = (s or () for s in shapes)
    lead = () if p > 0 else _names(len(q) - 2, "b")
    blank: tuple[Label, ...] = (None,) * (len(q) - 2 - len(lead))
    rows: Label = None if causal or p > 0 else "m"
    columns: Label = None if p > 0 else "e"
    inputs: tuple[tuple[Label, ...], ...] = (
        (*lead, *blank, rows, None),
        (*lead, *blank, None, None),
        (*lead, *blank, None, columns),
    )
    out = (*lead, *blank, rows, columns)
    if mask:
        scores = (*q[:-1], k[-2])
        names = [label or "" for label in (*lead, *blank, rows, None)]
        inputs += (tuple(label or None for label in _broadcast(mask[0], scores, names)),)
    sizes = _sizes((inputs[0], q), (inputs[2], v))
    return Form(inputs, (out,), sizes, linear=((2,),), product=True, elements=math.prod((*q[:-1], v[-1])))


def _quantum_layer(shapes: Shapes, layer: Any) -> Form:
    """Rows of the batch are cut, unless the amplitudes of each row are spread over ranks already."""
    comm = layer.program.comm
    rows: Label = "n" if comm is None or comm.size == 1 else None
    inputs = ((rows, None), *((None,) for _ in shapes[1:]))
    return Form(inputs, ((rows,),), _sizes((inputs[0], shapes[0] or ())))


# fmt: off
_POINTWISE = (
    "pow", "maximum", "minimum", "arctan2", "abs", "abs2", "square", "exp", "expm1", "log", "log1p", "sqrt", "sin",
    "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "clip", "equal", "not_equal", "less",
    "less_equal", "greater", "greater_equal", "and", "or", "not", "isfinite", "sign", "floor", "ceil", "round",
    "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "softplus", "erf", "binary_cross_entropy",
    "binary_cross_entropy_logits",
)
# fmt: on

FORMS: dict[str, MakeForm] = {
    **dict.fromkeys(("add", "sub", "complex"), _elementwise("all")),
    "mul": _elementwise("each"),
    "div": _elementwise("first"),
    "ratio": _elementwise("first"),
    **dict.fromkeys(("neg", "conj", "real", "imag", "move", "dropout"), _elementwise("all")),
    **dict.fromkeys(_POINTWISE, _elementwise()),
    "where": _where,
    "cast": _cast,
    **dict.fromkeys(("sum", "mean"), _reduction(True)),
    **dict.fromkeys(("prod", "max", "min", "logsumexp"), _reduction(False)),
    **dict.fromkeys(("argmax", "argmin"), _position),
    **dict.fromkeys(("softmax", "log_softmax"), _along()),
    **dict.fromkeys(("cumsum", "roll"), _along(linear=True)),
    "matmul": _matmul,
    "linear": _linear,
    "einsum": _einsum,
    "reshape": _reshape,
    "transpose": _transpose,
    "expand": _expand,
    "concatenate": _join(new=False),
    "stack": _join(new=True),
    "split": _split,
    "pad": _pad,
    "flip": _flip,
    **dict.fromkeys(("tril", "triu"), _triangle),
    "index": _index,
    **dict.fromkeys(("gather", "scatter_add"), _gather),
    "embedding": _embedding,
    "cross_entropy": _cross_entropy,
    "layer_norm": _layer_norm,
    "rms_norm": _layer_norm,
    "rotary": _rotary,
    "conv_transpose2d": _conv_transpose2d,
    "conv2d": _conv2d,
    "max_pool2d": _pool(linear=False),
    "avg_pool2d": _pool(linear=True),
    "attention": _attention,
    "quantum_layer": _quantum_layer,
}
