"""Metrics that an Engine reports: functions of the whole output and labels that give named numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Accuracy", "add_metrics"]


def add_metrics(result: dict[str, Any], found: Mapping[str, Any]) -> None:
    """Put what a metric gave beside the loss and other metrics. Raises ValueError for a name that is in use."""
    for name, value in found.items():
        if name in result:
            raise ValueError(
                f"a metric gives a number named {name!r}, which is the name of "
                f"{'the loss' if name == 'loss' else 'another'}: give it a name of its own"
            )
        result[name] = value


class Accuracy:
    """The share of rows whose label is among the k largest outputs: "acc_top1", "acc_top5" ...

    Args:
        topk: the values of k.
    """

    def __init__(self, topk: Sequence[int] = (1,)) -> None:
        if not topk or min(topk) < 1:
            raise ValueError(f"Accuracy(topk={topk}): numbers of at least 1")
        self.topk = tuple(topk)

    def __call__(self, output: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        order = np.argsort(-output, axis=-1, kind="stable")
        hits = order == labels.reshape(*output.shape[:-1], 1)
        return {f"acc_top{k}": float(hits[..., :k].any(axis=-1).mean()) for k in self.topk}
