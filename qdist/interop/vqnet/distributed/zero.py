"""VQNet's engine of ZeRO, which is qdist.parallel.Zero made from a dictionary."""

from __future__ import annotations

from typing import Any

from ....nn import Module
from ....optim import Optimizer
from ....parallel import Zero

__all__ = ["ZeroModelInitial"]


def ZeroModelInitial(args: dict[str, Any], model: Module, optimizer: Optimizer | None = None) -> Zero:
    """A model and its optimiser, divided over all ranks of the job.

    Args:
        args: "zero_optimization": {"stage": 1}, and what else `Zero.from_config` reads.
        model: the same on every rank.
        optimizer: of the model's parameters; without it the one that args["optimizer"] describes.

    Returns the engine: engine(x), engine.backward(loss), engine.step(), engine.train().
    """
    return Zero.from_config(args, model, optimizer)
