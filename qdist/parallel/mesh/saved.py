"""A pipeline or a ZeRO model as a part of a training that is saved, each rank its part of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qdist.comm import Mesh
from qdist.nn import Module
from qdist.optim import Optimizer
from qdist.parallel.loss_scale import LossScale
from qdist.parallel.mesh import saving
from qdist.parallel.pipeline.pipeline import Pipeline
from qdist.parallel.zero.sharded_model import Zero
from qdist.tensor import Generator
from qdist.tensor.random import default_generator

__all__ = ["Saved"]


class Saved:
    """``training.steps(n, {"model": Saved(pipeline, optimizer)}, folder)``: any other mesh can go on from the files.

    Args:
        trained: a Pipeline, or a Zero.
        optimizer: the pipeline's, on this rank (None where it has none); a Zero has its own.
    """

    def __init__(self, trained: Pipeline | Zero, optimizer: Optimizer | None = None) -> None:
        self.pipeline = trained if isinstance(trained, Pipeline) else None
        self.zero = trained if isinstance(trained, Zero) else None
        if self.zero is not None and optimizer is not None:
            raise ValueError("a Zero has its optimiser already: leave optimizer out")
        self.module: Module = trained.module
        self.optimizer = optimizer if self.zero is None else self.zero.optimizer
        self.loss_scale: LossScale | None = None if self.zero is None else self.zero.loss_scale
        self.mesh = Mesh(trained.comm, dp=trained.comm.size)

    @property
    def generator(self) -> Generator:
        """The random numbers that go into a checkpoint: the pipeline's own, or the default ones."""
        own = None if self.pipeline is None else self.pipeline.generator
        return default_generator() if own is None else own

    def stored_state(self) -> dict[str, Any]:
        """What this rank has, for a checkpoint."""
        return saving.stored(self)

    def restoring(self, state: dict[str, Any]) -> Callable[[], None]:
        """Reads what `stored_state` gave, of these ranks or others; what is returned takes it over. Collective."""
        return saving.restoring(self, state)
