"""Losses in two parts: a numerator and a denominator, whose sums over parts of a batch make the mean over all of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from qdist.comm import Communicator
from qdist.tensor import Rule, Tensor, apply, no_grad
from qdist.tensor.arrays import is_inexact, module_of
from qdist.tensor.functional import as_tensor
from qdist.tensor.half import widened
from qdist.tensor.losses import Terms

__all__ = ["WHOLE", "Loss", "LossTerms", "check_mean_over", "global_mean", "likely_denominator", "loss_terms"]

Loss = Callable[[Any, Any], Any]
"""loss(output, targets): one number, or a pair (numerator, denominator)."""

WHOLE = math.inf
"""What a backward pass counts that comes through global_mean(), whose gradients need no weight any more."""


class LossTerms(NamedTuple):
    """The loss of some rows."""

    value: Tensor
    """What backward() starts from, one number."""
    factor: float
    """The numerator is this times the value."""
    denominator: float
    """What the numerator is divided by; 0 for a loss that is a sum."""

    @property
    def numerator(self) -> float:
        """The numerator. A mean over nothing is not a number and counts nothing."""
        return float(self.value) * self.factor if self.factor else 0.0

    def alone(self, reduction: str) -> float:
        """What times the value is the loss of these rows. A mean over nothing is not a number, as in one process."""
        if reduction == "sum":
            return self.factor
        return self.factor / self.denominator if self.denominator else math.nan


def loss_terms(loss: Loss, output: Any, targets: Any, rows: int, reduction: str) -> LossTerms:
    """The terms of a loss: its own, if it has some; a plain mean counts rows. Half-precision outputs are widened.

    Raises ValueError for what is not one number, or a pair of them.
    """
    output = widened(output)
    if reduction == "mean" and hasattr(loss, "terms") and getattr(loss, "reduction", "mean") == "mean":
        value: Any = loss.terms(output, targets)
    else:
        value = loss(output, targets)
    if isinstance(value, (tuple, list)) and len(value) == 2:
        if reduction == "sum":
            raise ValueError("the loss gives a numerator and a denominator, a mean, and its reduction is a 'sum'")
        terms = Terms(as_tensor(value[0]), value[1])
        return LossTerms(_number(terms.numerator), 1.0, float(terms.denominator))
    value = _number(value)
    return LossTerms(value, 1.0, 0.0) if reduction == "sum" else LossTerms(value, float(rows), float(rows))


def likely_denominator(loss: Loss, targets: Any, rows: int) -> float:
    """The denominator that loss_terms() of a mean is going to give, where targets tell; else the number of rows."""
    known = getattr(loss, "denominator", None) if hasattr(loss, "terms") else None
    return float(rows) if known is None else known(targets)


def _number(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.size != 1:
        given = f"shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(
            f"a loss gives one number, or a pair (numerator, denominator) of numbers, not {given}: reduce it to a mean "
            "or a sum over what it is given"
        )
    return value.reshape(()) if value.ndim else value


def global_mean(terms: LossTerms, comm: Communicator) -> Tensor:
    """The loss of all ranks, with the gradients that make a plain mean over ranks the whole batch's."""
    if comm.size == 1:
        scale = terms.factor / terms.denominator if terms.denominator else 1.0
        return terms.value if scale == 1.0 else terms.value * scale
    total, count = comm.all_reduce(np.array([terms.numerator, terms.denominator]))
    is_sum = terms.denominator == 0.0 and count == 0.0
    scale = terms.factor * comm.size / (1.0 if is_sum else count)
    return apply(_GLOBAL, terms.value, value=total if is_sum else total / count, scale=scale)


_GLOBAL = Rule(
    "global_mean",
    lambda xp, x, *, value, scale: (xp.full(x.shape, value, x.dtype), ()),
    lambda xp, g, saved, needs, *, value, scale: (g * scale,),
    count=lambda saved: WHOLE,
)


def check_mean_over(loss: Loss, output: Any, targets: Any, axes: tuple[int, ...]) -> None:
    """Raises ValueError for a plain mean whose parts do not count as many as they have rows, or positions.

    Such a loss masks some of its targets, and ranks or micro-batches would get a share that they should not have. The
    loss of the whole is held against the mean of those of two halves along each of the axes.

    axes: 0 for rows, 1 for positions.
    """
    if hasattr(loss, "terms") or getattr(loss, "reduction", "mean") != "mean":
        return
    with no_grad():
        plain = _detached(output)
        for axis in axes:
            # Of a model that knows nothing yet, the losses of halves hardly differ; of the other outputs they do.
            for given in (plain, _contrasted(plain, axis)):
                _check_halves(loss, given, targets, axis)


def _check_halves(loss: Loss, output: Any, targets: Any, axis: int) -> None:
    halves = _halves((output, targets), axis)
    if halves is None:
        return
    (first, one), (second, two) = halves
    try:
        value = loss(output, targets)
        parts = [loss(*first), loss(*second)]
    except Exception:
        return  # It takes no such outputs.
    if not isinstance(value, Tensor) or value.size != 1:
        return  # A pair, or what is no loss at all.
    low, high = (float(part) for part in parts)
    mean = (one * low + two * high) / (one + two)
    rounding = 1e-6 + 1e-3 * abs(mean) + 1e-4 * max(abs(low), abs(high))
    # One that overflowed tells nothing; a loss scale leaves such a step out. A half that is all masked has none.
    if np.isfinite(float(value)) and not abs(float(value) - mean) <= rounding:
        what = ("rows", "positions")[axis]
        raise ValueError(
            f"the loss of a batch is {float(value):.6g}, and the mean of the losses of its halves, of {one} "
            f"and {two} {what}, is {mean:.6g}: so it is no mean over {what}, all of which count the same "
            "(does it mask some?), and ranks and micro-batches cannot be joined. Have it return a pair "
            "(numerator, denominator), such as ((values * mask).sum(), mask.sum()), or use "
            "nn.CrossEntropyLoss(ignore_index=...)"
        )


def _contrasted(output: Any, axis: int) -> Any:
    """Outputs whose first half along an axis is eight times as large."""
    if isinstance(output, tuple):
        return tuple(_contrasted(part, axis) for part in output)
    if not isinstance(output, Tensor) or output.ndim <= axis or not is_inexact(output.dtype):
        return output
    xp = module_of(output.data)
    values = xp.array(output.data)
    values[(slice(None),) * axis + (slice(0, output.shape[axis] // 2),)] *= 8
    return Tensor(values)


def _detached(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_detached(part) for part in value)
    return widened(value.detach()) if isinstance(value, Tensor) else value


def _halves(value: Any, axis: int) -> Any:
    """((first half, its length), (second half, its length)) of nested tuples; None if they are not all alike there."""
    lengths = {tensor.shape[axis] if tensor.ndim > axis else 0 for tensor in _tensors(value)}
    if len(lengths) != 1 or min(lengths) < 2:
        return None
    (length,) = lengths
    middle = length // 2

    def cut(part: Any, piece: slice) -> Any:
        if isinstance(part, tuple):
            return tuple(cut(each, piece) for each in part)
        return part[(slice(None),) * axis + (piece,)]

    first, second = slice(0, middle), slice(middle, length)
    return (cut(value, first), middle), (cut(value, second), length - middle)


def _tensors(value: Any) -> list[Any]:
    return [tensor for part in value for tensor in _tensors(part)] if isinstance(value, tuple) else [value]
