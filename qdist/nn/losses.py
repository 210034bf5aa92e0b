"""Losses as modules."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor, functional
from ..tensor.losses import Terms, check_reduction
from .module import Module


def _values(targets: Any) -> np.ndarray:
    return targets.numpy() if isinstance(targets, Tensor) else np.asarray(targets)


class _Loss(Module):
    """A value for every target, reduced to their "mean" or "sum", or as they are with "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        check_reduction(reduction)
        self.reduction = reduction

    def forward(self, output: Any, targets: Any) -> Tensor:
        return self._reduced(output, targets, self.reduction)

    def terms(self, output: Any, targets: Any) -> Terms:
        """The mean's numerator and denominator: sums over parts of a batch give the mean over all of it."""
        return self._reduced(output, targets, "terms")

    def denominator(self, targets: Any) -> float:
        """What a mean over these targets, an array or Tensor, is divided by: the denominator of `terms`."""
        return float(np.size(_values(targets)))

    def _reduced(self, output: Any, targets: Any, reduction: str) -> Any:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


class MSELoss(_Loss):
    """|prediction - target|^2."""

    def _reduced(self, output: Any, targets: Any, reduction: str) -> Any:
        return functional.mse_loss(output, targets, reduction)


class BCELoss(_Loss):
    """Binary cross-entropy of probabilities."""

    def _reduced(self, output: Any, targets: Any, reduction: str) -> Any:
        return functional.binary_cross_entropy(output, targets, reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of sigmoid(logits), stable for large logits."""

    def _reduced(self, output: Any, targets: Any, reduction: str) -> Any:
        return functional.binary_cross_entropy_with_logits(output, targets, reduction)


class _ClassLoss(_Loss):
    def __init__(self, reduction: str = "mean", *, weight: Any = None, ignore_index: int | None = None) -> None:
        super().__init__(reduction)
        self.ignore_index = ignore_index
        self.weight = None if weight is None else np.asarray(weight)

    def denominator(self, targets: Any) -> float:
        numbers = _values(targets)
        seen = numbers if self.ignore_index is None else numbers[numbers != self.ignore_index]
        return float(seen.size if self.weight is None else self.weight[seen].sum())

    def extra_repr(self) -> str:
        ignored = "" if self.ignore_index is None else f", ignore_index={self.ignore_index}"
        return super().extra_repr() + ignored + ("" if self.weight is None else ", weight=...")


class CrossEntropyLoss(_ClassLoss):
    """Cross-entropy of softmax(logits) (..., classes) with integer targets (...).

    Args:
        reduction: "mean", "sum" or "none".
        weight: of each class; a mean divides by the sum of the targets' weights.
        ignore_index: a target that counts nothing, such as padding.
        label_smoothing: so much of a target is spread over all classes.
    """

    def __init__(
        self,
        reduction: str = "mean",
        *,
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction, weight=weight, ignore_index=ignore_index)
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing={label_smoothing}: at least 0 and below 1")
        self.label_smoothing = label_smoothing

    def _reduced(self, output: Any, targets: Any, reduction: str) -> Any:
        return functional.cross_entropy(
            output,
            targets,
            reduction,
            weight=self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_ClassLoss):
    """Negative log-likelihood of log-probabilities (..., classes) with integer targets (...).

    Args: reduction, weight and ignore_index as of CrossEntropyLoss.
    """

    def _reduced(self, output: Any, targets: Any, reduction: str) -> Any:
        return functional.nll_loss(output, targets, reduction, weight=self.weight, ignore_index=self.ignore_index)
