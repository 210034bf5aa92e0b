"""PipeDream: every micro-batch is a batch of its own, and a stage updates its weights after each backward pass.

Forward passes take the newest weights. A backward pass takes those of its forward pass, which are stashed: an update
writes to a copy, and the arrays from before live as long as a pass that used them waits (Narayanan et al., SOSP 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from qdist.optim import Optimizer
from qdist.tensor.arrays import Array
from qdist.tensor.versions import Version

__all__ = ["NAME", "Stashing", "Weights", "check_stashing"]

NAME = "pipedream"

Weights = list[tuple[Array, Version]]


def check_stashing(replicas: Any, tied: int, max_norm: float | None) -> None:
    """Raise ValueError for what stages that update by themselves cannot do."""
    if replicas is not None:
        raise ValueError(
            "schedule 'pipedream': stages update after every micro-batch, by themselves: drop the axis 'dp'"
        )
    if tied:
        raise ValueError("schedule 'pipedream': stages update by themselves, so that they cannot share weights")
    if max_norm is not None:
        raise ValueError("schedule 'pipedream': no stage knows the norm of all gradients; leave max_norm out")


class Stashing:
    """The weights of a stage that is updated after each backward pass, while earlier ones are still needed.

    Args:
        parameters: of the stage.
        optimizer: of theirs; without one nothing is updated.
    """

    def __init__(self, parameters: Sequence[Any], optimizer: Optimizer | None) -> None:
        self._parameters, self._optimizer = parameters, optimizer

    def weights(self) -> Weights:
        """Those of now."""
        return [(p._data, p._version) for p in self._parameters]

    @contextmanager
    def brought_back(self, weights: Weights) -> Iterator[None]:
        """Inside the block the weights are those of earlier: what is recomputed there takes them as it first did."""
        newest = self.weights()
        self._take(weights)
        try:
            yield
        finally:
            self._take(newest)

    def update(self) -> None:
        """A step of the optimiser, on copies of the weights."""
        if self._optimizer is None:
            return
        # Graphs of passes that wait keep the old array and its version, neither of which changes any more.
        self._take([(p._data.copy(), Version()) for p in self._parameters])
        self._optimizer.step()
        self._optimizer.zero_grad()

    def _take(self, weights: Weights) -> None:
        for p, (data, version) in zip(self._parameters, weights, strict=True):
            p._data, p._version = data, version
