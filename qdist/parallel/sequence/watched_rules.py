"""What each operation does to the axis of a sequence that ranks divide: keeps it, moves it, or mixes its positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from qdist.tensor.kernels.shaping import PLACE

__all__ = ["FOLLOW", "SAME", "Axis", "Outcome", "Seen"]

SAME = -1
"""The same axis, counted from the last one."""


class Axis(NamedTuple):
    """The axis of an input that holds the positions."""

    number: int
    length: int
    """How many positions; the axis is longer where rows and positions are flattened together."""
    inner: int
    """How many elements of the flattened array there are from one position to the next."""


class Seen(NamedTuple):
    """The inputs of an operation."""

    shapes: list[tuple[int, ...]]
    """() for numbers."""
    axes: list[Axis | None]
    """None for inputs without positions."""
    attributes: dict[str, Any]
    asked: bool
    """The model has asked which positions this rank has, so what is as long as they are may be made of them."""

    @property
    def first(self) -> Axis:
        return next(axis for axis in self.axes if axis is not None)


class Outcome(NamedTuple):
    axis: int | None = None
    """Of the outputs that holds the positions; None for outputs without."""
    problem: str | None = None
    """Why the result would be wrong."""


Follow = Callable[[Seen], Outcome]
_SUMS = "adds up or compares positions, of which others are on other ranks"
_BY_HAND = "pairs positions with positions, as attention does, of which it sees this rank's alone"
_TABLE = "joins a tensor of shape {} to this rank's positions, row by row, as if they were the first ones"


def _wrong(problem: str) -> Outcome:
    return Outcome(problem=problem)


def _elementwise(seen: Seen) -> Outcome:
    """Axes are counted from the last one. What has no positions must be the same for all of them."""
    at = {axis.number - len(shape) for shape, axis in zip(seen.shapes, seen.axes) if axis is not None}
    if len(at) > 1:
        return _wrong(_BY_HAND)
    (place,) = at
    for shape, axis in zip(seen.shapes, seen.axes):
        if axis is None and len(shape) >= -place and shape[place] > 1 and not seen.asked:
            return _wrong(_TABLE.format(shape))
    return Outcome(SAME)


def _dropout(seen: Seen) -> Outcome:
    spans = getattr(seen.attributes["ticket"], "spans", ())
    if not any(span.axis == seen.first.number for span in spans):
        return _wrong("draws a mask for this rank's positions alone: take nn.Dropout")
    return Outcome(SAME)


def _linear(seen: Seen) -> Outcome:
    if seen.axes[0] is None or any(axis is not None for axis in seen.axes[1:]):
        return _wrong(_SUMS)
    return _wrong(_SUMS) if seen.axes[0].number == len(seen.shapes[0]) - 1 else Outcome(SAME)


def _matmul(seen: Seen) -> Outcome:
    (left, right), (a, b) = seen.shapes, seen.axes
    at = [None if axis is None else axis.number - len(shape) for shape, axis in zip((left, right), (a, b))]
    if at[0] is not None and at[1] is not None:
        return Outcome(SAME) if at[0] == at[1] < -2 else _wrong(_BY_HAND)
    if at[0] == -1 or at[1] == -2 or (at[1] == -1 and len(right) == 1):
        return _wrong(_SUMS)
    other = right if at[1] is None else left
    place = at[0] if at[1] is None else at[1]
    assert place is not None
    if place < -2 and len(other) >= -place and other[place] > 1 and not seen.asked:
        return _wrong(_TABLE.format(other))
    return Outcome(SAME)


def _einsum(seen: Seen) -> Outcome:
    left, output = seen.attributes["subscripts"].split("->")
    terms = left.split(",")
    letters = {term[axis.number] for term, axis in zip(terms, seen.axes) if axis is not None}
    if len(letters) > 1:
        return _wrong(_BY_HAND)
    (letter,) = letters
    if letter not in output:
        return _wrong(_SUMS)
    for term, shape, axis in zip(terms, seen.shapes, seen.axes):
        if axis is None and letter in term and not seen.asked:
            return _wrong(_TABLE.format(shape))
    return Outcome(output.index(letter))


def _attention(seen: Seen) -> Outcome:
    shape, axis = seen.shapes[0], seen.axes[0]
    return Outcome(SAME) if axis is not None and axis.number < len(shape) - 2 else _wrong(_BY_HAND)


def _ring(seen: Seen) -> Outcome:
    return Outcome(SAME)


def _embedding(seen: Seen) -> Outcome:
    table, numbers = seen.axes
    if table is None:
        assert numbers is not None
        return Outcome(numbers.number)
    # This rank's rows of a table of positions, looked up by their places in it.
    shape = seen.shapes[1]
    fits = numbers is None and table.number == 0 and shape and shape[-1] == table.length
    return Outcome(len(shape) - 1) if fits else _wrong(_SUMS)


def _transpose(seen: Seen) -> Outcome:
    return Outcome(seen.attributes["axes"].index(seen.first.number))


def _over(*names: str) -> Follow:
    """An operation along the axis that one of its attributes names, which is there afterwards too."""

    def follow(seen: Seen) -> Outcome:
        given = next(seen.attributes[name] for name in names if name in seen.attributes)
        axes = given if isinstance(given, tuple) else (given,)
        return _wrong(_SUMS) if seen.first.number in axes else Outcome(SAME)

    return follow


def _reduction(seen: Seen) -> Outcome:
    given, number = seen.attributes["axis"], seen.first.number
    axes = given if isinstance(given, tuple) else tuple(range(len(seen.shapes[0]))) if given is None else (given,)
    if number in axes:
        return _wrong(_SUMS)
    gone = 0 if seen.attributes.get("keepdims", False) else sum(axis < number for axis in axes)
    return Outcome(number - gone)


def _joining(seen: Seen) -> Outcome:
    if seen.attributes["axis"] == seen.first.number:
        return _wrong("puts others before or behind this rank's positions")
    return _elementwise(seen)


def _stack(seen: Seen) -> Outcome:
    outcome = _elementwise(seen)
    number = seen.first.number
    return outcome if outcome.problem else Outcome(number + (seen.attributes["axis"] <= number))


def _pad(seen: Seen) -> Outcome:
    return _wrong(_SUMS) if seen.attributes["widths"][seen.first.number] != (0, 0) else Outcome(SAME)


def _triangle(seen: Seen) -> Outcome:
    return _wrong(_BY_HAND) if seen.first.number >= len(seen.shapes[0]) - 2 else Outcome(SAME)


def _norm(seen: Seen) -> Outcome:
    inside = seen.first.number >= len(seen.shapes[0]) - seen.attributes["dims"]
    return _wrong(_SUMS) if inside else Outcome(SAME)


def _rows_only(seen: Seen) -> Outcome:
    return Outcome(0) if seen.first.number == 0 else _wrong(_SUMS)


def _index(seen: Seen) -> Outcome:
    """a[key]: the positions of `a` are all taken, or `a` is a table that is looked up by them."""
    key, places = seen.attributes["key"], seen.axes[1:]
    if seen.axes[0] is None:
        axis = next(axis for axis in places if axis is not None)
        return Outcome(axis.number) if key[0] is PLACE and len(places) == 1 else _wrong(_SUMS)
    named = sum(part is not None and part is not Ellipsis for part in key)
    whole = [slice(None)] * (len(seen.shapes[0]) - named)
    full: list[Any] = []
    for part in key if Ellipsis in [part for part in key if part is not PLACE] else (*key, Ellipsis):
        full += whole if part is Ellipsis else [part]
    source = target = 0
    arrays = iter(seen.shapes[1:])
    for part in full:
        if part is None:
            target += 1
            continue
        if source == seen.first.number:
            taken = isinstance(part, slice) and part.indices(seen.shapes[0][source]) == (0, seen.shapes[0][source], 1)
            return Outcome(target) if taken else _wrong("takes some of this rank's positions for some of all")
        source += 1
        target += 1 if isinstance(part, slice) else len(next(arrays)) if part is PLACE else 0
    return _wrong(_SUMS)


_ALONE = """
    add sub mul div ratio pow maximum minimum arctan2 where complex neg abs abs2 square exp expm1 log log1p sqrt sin cos
    tan arcsin arccos arctan sinh cosh tanh conj real imag clip cast move equal not_equal less less_equal greater
    greater_equal and or not isfinite sign floor ceil round relu gelu gelu_tanh silu sigmoid softplus erf
    binary_cross_entropy binary_cross_entropy_logits expand rotary glu copy_to_group reduce_from_group
"""
"""Operations on each element."""

FOLLOW: dict[str, Follow] = {
    **dict.fromkeys(_ALONE.split(), _elementwise),
    **dict.fromkeys(("sum", "mean", "prod", "max", "min", "logsumexp", "argmax", "argmin"), _reduction),
    **dict.fromkeys(("softmax", "log_softmax", "cumsum", "roll", "flip", "split", "gather"), _over("axis", "axes")),
    **dict.fromkeys(("scatter_to_group", "gather_from_group", "all_gather", "reduce_scatter"), _ring),
    **dict.fromkeys(("conv2d", "max_pool2d", "avg_pool2d", "batch_norm"), _rows_only),
    **dict.fromkeys(("cross_entropy", "vocab_parallel_cross_entropy"), _rows_only),
    **dict.fromkeys(("tril", "triu"), _triangle),
    **dict.fromkeys(("layer_norm", "rms_norm"), _norm),
    "dropout": _dropout,
    **dict.fromkeys(("linear", "column_parallel_linear"), _linear),
    "matmul": _matmul,
    "einsum": _einsum,
    "attention": _attention,
    "ring_attention": _ring,
    "embedding": _embedding,
    "transpose": _transpose,
    "concatenate": _joining,
    "stack": _stack,
    "pad": _pad,
    "index": _index,
}
