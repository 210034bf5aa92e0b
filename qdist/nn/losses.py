"""Losses as modules."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor, functional
from .module import Module


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        functional.check_reduction(reduction)
        self.reduction = reduction

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


class MSELoss(_Loss):
    """|prediction - target|^2."""

    def forward(self, prediction: Any, target: Any) -> Tensor:
        return functional.mse_loss(prediction, target, self.reduction)


class BCELoss(_Loss):
    """Binary cross-entropy of probabilities."""

    def forward(self, probabilities: Any, targets: Any) -> Tensor:
        return functional.binary_cross_entropy(probabilities, targets, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of sigmoid(logits), stable for large logits."""

    def forward(self, logits: Any, targets: Any) -> Tensor:
        return functional.binary_cross_entropy_with_logits(logits, targets, self.reduction)


class CrossEntropyLoss(_Loss):
    """Cross-entropy of softmax(logits) (..., classes) with integer targets (...)."""

    def forward(self, logits: Any, targets: Any) -> Tensor:
        return functional.cross_entropy(logits, targets, self.reduction)


class NLLLoss(_Loss):
    """Negative log-likelihood of log-probabilities (..., classes) with integer targets (...)."""

    def forward(self, logp: Any, targets: Any) -> Tensor:
        return functional.nll_loss(logp, targets, self.reduction)
