"""PipeDream: every micro-batch is a batch of its own, and a stage updates its weights after each backward pass.

Forward passes take the newest weights. A backward pass takes those of its forward pass, which are stashed: an update
writes to a copy, and the arrays from before live as long as a pass that used them waits (Narayanan et al., SOSP 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qdist.optim import Optimizer
from qdist.tensor.versions import Version

__all__ = ["NAME", "check_stashing", "updating"]

NAME = "pipedream"


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


def updating(parameters: Sequence[Any], optimizer: Optimizer | None) -> Callable[[], None]:
    """What a stage does after each backward pass: a step of its optimiser, on copies of the weights."""

    def update() -> None:
        if optimizer is None:
            return
        for parameter in parameters:
            # Graphs of passes that wait keep the old array and its version, neither of which changes any more.
            parameter._data, parameter._version = parameter._data.copy(), Version()
        optimizer.step()
        optimizer.zero_grad()

    return update
