"""How often the right class is among the likeliest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...parallel.auto import Accuracy
from ...tensor import Rule, Tensor, apply, functional
from .static import named

__all__ = ["Accuracy", "accuracy"]


def accuracy(input: Any, label: Any, k: int = 1) -> Tensor:
    """The share of rows whose label, (n,) or (n, 1), is among the k largest of `input`: one number."""
    if k < 1:
        raise ValueError(f"accuracy(k={k}): at least 1")
    scores, label = functional.as_tensor(input), functional.as_tensor(label)
    if scores.dispatch is not None:
        scores = Tensor(scores.numpy())
    return named(apply(_ACCURACY, scores, label, k=k), f"acc_top{k}")


def _forward(xp: Any, scores: Any, label: Any, k: int) -> Any:
    order = xp.argsort(-scores, axis=-1, kind="stable")[..., :k]
    hits = (order == label.reshape(*scores.shape[:-1], 1)).any(axis=-1)
    return xp.asarray(hits.mean(dtype=np.float64).astype(scores.dtype)), ()


_ACCURACY = Rule("accuracy", _forward, None, apart=(1,))
