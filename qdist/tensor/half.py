"""Half precision: float16 and bfloat16 are what is stored, float32 is what is computed in.

Every operation on half-precision tensors widens its inputs, runs in float32, and rounds its result: products are summed
in float32, norms and softmaxes computed in it. What its derivative needs is kept in half precision, unless it is much
smaller than the inputs. So there is one rule a function for all precisions, on NumPy and CuPy.

Inside `computing_in(dtype)` float32 inputs are rounded first, as if they were stored in `dtype`: the model computes in
half precision, while its parameters, and the gradients that are added up in them, stay float32. These are the master
weights of mixed precision; no second copy of them is kept.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import cache
from typing import Any, Self

import numpy as np

from .arrays import FLOAT32, Array, as_dtype, is_array, is_half
from .autograd import mode
from .rules import Rule

__all__ = ["computing_in", "in_half", "wide_array", "widened"]

_MOVES = {
    *("reshape", "transpose", "concatenate", "stack", "split", "pad", "flip", "roll", "tril", "triu", "move", "cast"),
}
"""What only moves values runs on them as they are."""

_PICKS = {"index", "gather", "embedding", "expand"}
"""The same, but where a value is picked several times its derivative is a sum."""

_SUMS = {
    *("sum", "mean", "ratio", "logsumexp"),
    *("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_logits"),
}
"""Reductions whose results stay float32 inside computing_in(): losses."""

_PRODUCTS = {"matmul", "linear"}
"""What a GPU computes on float16 itself, summing in float32."""


class computing_in(ContextDecorator):  # noqa: N801
    """Inside the block, operations of this thread round their float32 inputs to a half precision, "bfloat16" or
    "float16", and give results in it; sums and losses stay float32. None ends that for a part that needs float32.

    Raises ValueError for another dtype, ImportError for bfloat16 without the package ml_dtypes.

    >>> with computing_in("bfloat16"):
    ...     y = model(x)
    """

    # A layer of float32 enters one in every call: a class costs a third of what a generator does.
    def __init__(self, dtype: Any) -> None:
        self._half = None if dtype is None else as_dtype(dtype)
        if self._half is not None and not is_half(self._half):
            raise ValueError(f'computing_in({dtype!r}): use "bfloat16", "float16", or None for float32')
        self._before: list[np.dtype | None] = []

    def _recreate_cm(self) -> Self:
        """For each call of a function that it decorates."""
        return self.__class__(self._half)

    def __enter__(self) -> None:
        self._before.append(mode.precision)
        mode.precision = self._half

    def __exit__(self, *error: object) -> None:
        mode.precision = self._before.pop()


def widened(value: Any) -> Any:
    """Half-precision Tensors, also in tuples, as float32; anything else as it is. Gradients flow back."""
    if isinstance(value, tuple):
        return tuple(widened(part) for part in value)
    dtype = getattr(value, "dtype", None)
    return value.to(FLOAT32) if isinstance(dtype, np.dtype) and is_half(dtype) else value


def wide_array(array: Array) -> Array:
    """An array of half precision as float32, so that it can be summed; another as it is."""
    return array.astype(FLOAT32) if is_half(array.dtype) else array


def in_half(rule: Rule, values: list, precision: np.dtype | None) -> Rule:
    """The rule that runs on these inputs: itself where none is in half precision, nor to be rounded to it."""
    if rule.moves or rule.name in _MOVES:
        return rule
    half = None
    for i, a in enumerate(values):
        if is_array(a):
            if is_half(a.dtype):
                half = a.dtype if half is None else half
            elif precision is not None and a.dtype == FLOAT32 and not rule.keeps_dtype(i):
                half = precision
    if half is None:
        return rule
    if rule.name in _PICKS:
        return _picking(rule) if any(is_array(a) and is_half(a.dtype) for a in values) else rule
    half = half if precision is None else precision
    native = rule.name in _PRODUCTS and half.kind == "f" and not any(isinstance(a, np.ndarray) for a in values)
    return _half_form(rule, half, precision is not None, half if native else FLOAT32)


@cache
def _picking(rule: Rule) -> Rule:
    """Forward on values as they are; sums of the derivative in float32."""

    def vjp(xp: Any, g: Any, saved: Any, needs: Any, **attributes: Any) -> Any:
        assert rule.vjp is not None
        return rule.vjp(xp, _wide(g, FLOAT32), saved, needs, **attributes)

    return _with(rule, rule.forward, vjp)


@cache
def _half_form(rule: Rule, half: np.dtype, mixed: bool, work: np.dtype) -> Rule:
    """The rule with inputs widened and results rounded.

    mixed: float32 inputs are rounded first. work: the dtype that is computed in.
    """
    keeps_sums = mixed and rule.name in _SUMS

    def is_master(i: int, a: Any) -> bool:
        return mixed and is_array(a) and a.dtype == FLOAT32 and not rule.keeps_dtype(i)

    def read(i: int, a: Any) -> Any:
        return a.astype(half).astype(work, copy=False) if is_master(i, a) else _wide(a, work)

    def forward(xp: Any, *inputs: Any, **attributes: Any) -> Any:
        wide = [read(i, a) for i, a in enumerate(inputs)]
        output, saved = rule.forward(xp, *wide, **attributes)
        several = output.__class__ is list
        made = output if several else [output]
        given = made if keeps_sums else [_narrow(xp, o, half) for o in made]
        largest = max(a.size for a in inputs if is_array(a))
        kept: list[Any] = []
        rounded: list[int] = []  # Places of float32 inputs: they are kept as they are and rounded once more.
        for s in saved:
            own = next((i for i, a in enumerate(wide) if a is s), None)
            result = next((i for i, o in enumerate(made) if o is s), None)
            if not is_array(s):
                kept.append(s)
            elif own is not None:
                if is_master(own, inputs[own]):
                    rounded.append(len(kept))
                kept.append(inputs[own])
            elif result is not None:
                kept.append(given[result])
            else:
                # A part of an input is rounded already.
                exact = any(s.base is a for a in wide if is_array(a))
                kept.append(_narrow(xp, s, half) if exact or 4 * s.size >= largest else s)
        return (given if several else given[0]), (*kept, tuple(rounded))

    def restored(saved: Any) -> tuple:
        *kept, rounded = saved
        return tuple(
            s.astype(half).astype(work, copy=False) if i in rounded else _wide(s, work) for i, s in enumerate(kept)
        )

    def vjp(xp: Any, g: Any, saved: Any, needs: Any, **attributes: Any) -> Any:
        assert rule.vjp is not None
        wide = _wide(g, work)
        cotangents = rule.vjp(xp, wide, restored(saved), needs, **attributes)
        # A view, so that nobody takes for its own what several inputs get.
        return tuple(c[...] if c is wide and is_array(c) else c for c in cotangents)

    count = None if rule.count is None else lambda saved: rule.count(restored(saved))  # type: ignore[misc]
    return _with(rule, forward, None if rule.vjp is None else vjp, count)


def _with(rule: Rule, forward: Any, vjp: Any, count: Any = None) -> Rule:
    return Rule(
        rule.name,
        forward,
        vjp,
        floating=rule.floating,
        apart=rule.apart,
        all_apart_from=rule.all_apart_from,
        view=rule.view,
        mixes=rule.mixes,
        count=count or rule.count,
    )


def _wide(a: Any, work: np.dtype) -> Any:
    if isinstance(a, list):
        return [_wide(part, work) for part in a]
    return a.astype(work, copy=False) if is_array(a) and is_half(a.dtype) else a


def _narrow(xp: Any, a: Any, half: np.dtype) -> Array:
    array = xp.asarray(a)
    return array.astype(half) if array.dtype == FLOAT32 else array
