"""VQNet's engine of ZeRO, which is qdist.parallel.Zero made from a dictionary."""

from __future__ import annotations

from typing import Any

from ....nn import Module
from ....optim import Optimizer
from ....parallel import Zero
from ..optim import plain_options

__all__ = ["ZeroModelInitial"]


def ZeroModelInitial(args: dict[str, Any], model: Module, optimizer: Optimizer | None = None) -> Zero:
    """A model and its optimiser, divided over all ranks of the job.

    Args:
        args: "zero_optimization": {"stage": 1}, and what else `Zero.from_config` reads. The optimiser's params may have
            VQNet's names (beta1, beta2, epsilon) or this library's.
        model: the same on every rank, on the device where it is to be trained: `model.to(DEV_GPU_0 + k)` comes first.
        optimizer: of the model's parameters; without it the one that args["optimizer"] describes.

    Returns the engine: engine(x), engine.backward(loss), engine.step(), engine.train().
    """
    return Zero.from_config(plain_options(args), model, optimizer)
