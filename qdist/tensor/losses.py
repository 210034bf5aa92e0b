"""Losses: a value for every target, and what it counts for in their mean.

A mean over what is not masked is a sum over a count. Ranks, micro-batches and parts of a sequence have different
counts, so whoever joins them needs both: every loss has its terms, (sum, count).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .arrays import Array
from .tensor import Tensor, apply

__all__ = [
    "Terms",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "check_classes",
    "check_reduction",
    "check_targets",
    "counted",
    "cross_entropy",
    "mse_loss",
    "nll_loss",
    "reduce_loss",
]


class Terms(NamedTuple):
    """A mean in two parts."""

    numerator: Tensor
    """The sum, one number."""
    denominator: Tensor | float
    """What it is divided by: how many values there are, or the sum of their weights."""


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


def check_reduction(reduction: str) -> None:
    """Raises ValueError unless a loss can be reduced so."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'unknown reduction {reduction!r}: use "mean", "sum" or "none"')


def reduce_loss(values: Tensor, reduction: str, each: Tensor | None = None) -> Any:
    """mean, sum, or none of it; "terms" gives Terms. each: what the values count for in the mean; one if not given."""
    if reduction == "terms":
        return Terms(values.sum(), values.size if each is None else each.sum())
    check_reduction(reduction)
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    return values.mean() if each is None else apply("ratio", values.sum(), each.sum())


def mse_loss(prediction: Any, target: Any, reduction: str = "mean") -> Any:
    """|prediction - target|^2, elementwise; the shapes must be equal."""
    prediction, target = _tensor(prediction), _tensor(target)
    if prediction.shape != target.shape:
        raise ValueError(f"mse_loss: prediction {prediction.shape} and target {target.shape} differ in shape")
    return reduce_loss((prediction - target).abs2(), reduction)


def cross_entropy(
    logits: Any,
    targets: Any,
    reduction: str = "mean",
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Any:
    """-log softmax(logits)[target] for logits (..., classes) and integer targets (...).

    Args:
        weight: of each class, (classes,): values are multiplied by their target's, and a mean divides by the sum.
        ignore_index: this target counts nothing and has no gradient.
        label_smoothing: so much of a target is spread over all classes.

    Raises:
        IndexError: for another target outside 0 ... classes - 1.
    """
    logits, targets = _tensor(logits), _tensor(targets)
    classes = logits.shape[-1]
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing={label_smoothing}: at least 0 and below 1")
    check_targets("cross_entropy", logits, targets, classes, ignore_index)
    each, places = counted("cross_entropy", targets, classes, weight, ignore_index, logits)
    flat = logits.reshape(-1, classes)
    if label_smoothing == 0.0:
        values = apply("cross_entropy", flat, places)
        values = values if each is None else values * each
    else:
        logp = apply("log_softmax", flat, axis=1)
        own = -_of_targets("cross_entropy", logp, places)
        kept = _class_weights("cross_entropy", weight, classes, logits)
        spread = -(logp if kept is None else logp * kept).sum(-1) / classes
        if ignore_index is not None:
            spread = spread * (targets.reshape(-1) != ignore_index).to(logits.dtype)
        values = (1 - label_smoothing) * (own if each is None else own * each) + label_smoothing * spread
    return reduce_loss(values if logits.ndim == 2 else values.reshape(targets.shape), reduction, each)


def nll_loss(
    logp: Any, targets: Any, reduction: str = "mean", *, weight: Any = None, ignore_index: int | None = None
) -> Any:
    """-logp[target] for log-probabilities (..., classes) and integer targets (...); options as of cross_entropy."""
    logp, targets = _tensor(logp), _tensor(targets)
    classes = logp.shape[-1]
    check_targets("nll_loss", logp, targets, classes, ignore_index)
    each, places = counted("nll_loss", targets, classes, weight, ignore_index, logp)
    values = -_of_targets("nll_loss", logp.reshape(-1, classes), places)
    return reduce_loss((values if each is None else values * each).reshape(targets.shape), reduction, each)


def _of_targets(name: str, scores: Tensor, places: Tensor) -> Tensor:
    """The score (n,) of each row's target, for scores (n, classes)."""
    return apply("gather", scores, places.unsqueeze(-1), axis=1, loss=name).squeeze(-1)


def counted(
    name: str, targets: Tensor, classes: int, weight: Any, ignore_index: int | None, like: Tensor
) -> tuple[Tensor | None, Tensor]:
    """What each of the flattened targets counts, None where all count one, and the targets with a class in the place
    of the ignored. Made of operations that a captured graph has too."""
    numbers = targets.reshape(-1)
    kept = _class_weights(name, weight, classes, like)
    each = None
    if ignore_index is not None:
        seen = numbers != ignore_index
        numbers, each = apply("where", seen, numbers, 0), seen.to(like.dtype)
    if kept is not None:
        each = kept[numbers] if each is None else kept[numbers] * each
    return each, numbers


def _class_weights(name: str, weight: Any, classes: int, like: Tensor) -> Tensor | None:
    if weight is None:
        return None
    # Numbers are taken in the precision of the scores.
    kept = weight.detach() if isinstance(weight, Tensor) else Tensor(np.asarray(weight, like.dtype))
    if kept.shape != (classes,):
        raise ValueError(f"{name}: weight has shape {kept.shape}, and there are {classes} classes")
    return kept.to(like.dtype).to(like.device)


def check_targets(
    name: str, scores: Tensor, targets: Tensor, classes: int, ignore_index: int | None = None, parts: int = 1
) -> None:
    """Raises ValueError or IndexError unless targets are integers (...) below `classes` for scores (..., any).

    parts: how many ranks share the classes.
    """
    if targets.dtype.kind not in "iu" or targets.shape != scores.shape[:-1]:
        raise ValueError(
            f"{name} takes integer targets of shape {scores.shape[:-1]}, got {targets.dtype} of shape {targets.shape}"
        )
    numbers: Array = targets._data
    if ignore_index is not None and numbers.size:
        numbers = numbers[numbers != ignore_index]
    check_classes(name, numbers, classes, ignore_index, parts)


def check_classes(name: str, numbers: Array, classes: int, ignore_index: int | None = None, parts: int = 1) -> None:
    """Raises IndexError unless the integers, of which none is ignored, are below `classes`; as check_targets."""
    # A tensor that is divided among ranks can be empty here.
    if numbers.size:
        low, high = int(numbers.min()), int(numbers.max())
        if low < 0 or high >= classes:
            if low < 0:
                way_out = (
                    f"; targets that count nothing are named by ignore_index={low}" if ignore_index is None else ""
                )
            else:
                way_out = (
                    "; where ranks share the classes (a plan's last layer is a 'column'), make it a 'column-gather', "
                    "or take vocab_parallel_cross_entropy for the loss"
                    if parts == 1
                    else ""
                )
            raise IndexError(f"{name}: targets go from {low} to {high}, but there are {classes} classes{way_out}")


def binary_cross_entropy_with_logits(logits: Any, targets: Any, reduction: str = "mean") -> Any:
    """-(t log s + (1 - t) log(1 - s)), s = sigmoid(logits), stable for large logits."""
    logits, targets = _tensor(logits), _tensor(targets)
    if logits.shape != targets.shape:
        raise ValueError(f"binary cross-entropy: logits {logits.shape} and targets {targets.shape} differ in shape")
    return reduce_loss(apply("binary_cross_entropy_logits", logits, targets), reduction)


def binary_cross_entropy(probabilities: Any, targets: Any, reduction: str = "mean") -> Any:
    """-(t log p + (1 - t) log(1 - p)); logarithms are held above -100, so p = 0 and 1 stay finite."""
    p, t = _tensor(probabilities), _tensor(targets)
    if p.shape != t.shape:
        raise ValueError(f"binary cross-entropy: probabilities {p.shape} and targets {t.shape} differ in shape")
    values: Array = p._data
    # On a GPU the look would wait for all that was started there.
    if isinstance(values, np.ndarray) and values.size and (values.min() < 0 or values.max() > 1):
        raise ValueError(
            f"binary cross-entropy takes probabilities from 0 to 1, got {values.min()} to {values.max()}: put a "
            "Sigmoid before it, or take BCEWithLogitsLoss"
        )
    return reduce_loss(apply("binary_cross_entropy", p, t), reduction)
