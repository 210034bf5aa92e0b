"""Functions of networks under Paddle's argument names."""

from __future__ import annotations

from typing import Any

from ....tensor import Tensor, functional
from ..static import named

__all__ = ["cross_entropy", "relu", "softmax"]


def cross_entropy(input: Any, label: Any, reduction: str = "mean") -> Tensor:
    """Cross-entropy of softmax(input) with classes of shape (n,) or (n, 1)."""
    scores, label = functional.as_tensor(input), functional.as_tensor(label)
    if label.ndim == scores.ndim and label.shape[-1] == 1:
        label = label.squeeze(-1)
    return named(functional.cross_entropy(scores, label, reduction), "cross_entropy")


def relu(x: Any) -> Tensor:
    """max(x, 0)."""
    return named(functional.relu(x), "relu")


def softmax(x: Any, axis: int = -1) -> Tensor:
    """softmax along an axis."""
    return named(functional.softmax(x, axis), "softmax")
