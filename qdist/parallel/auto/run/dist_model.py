"""DistModel: a model that was written step by step, called as before and run as a captured graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qdist.nn.module import Module
from qdist.optim import Optimizer
from qdist.parallel.auto.run.engine import Engine
from qdist.parallel.auto.run.strategy import Strategy

__all__ = ["DistModel", "to_static"]


class DistModel:
    """What to_static gives: called with (inputs, labels) it runs a step and gives the loss.

    Without labels, after predict(), it gives the outputs.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._mode = "train"

    def train(self) -> DistModel:
        """Calls train from now on; returns itself."""
        self._mode = "train"
        return self

    def eval(self) -> DistModel:
        """Calls only compute the loss from now on; returns itself."""
        self._mode = "eval"
        return self

    def predict(self) -> DistModel:
        """Calls take inputs alone from now on, and give the model's outputs; returns itself."""
        self._mode = "predict"
        return self

    def __call__(self, *data: Any) -> Any:
        if self._mode == "predict":
            return self.engine.run(list(data), "predict")["outputs"]
        if len(data) != 2:
            raise TypeError(f"call it with (inputs, labels), {len(data)} argument(s) given; predict() for inputs alone")
        return self.engine.run(data, self._mode)["loss"]


def to_static(
    model: Module, loss: Callable[..., Any], optimizer: Optimizer, strategy: Strategy | None = None, **options: Any
) -> DistModel:
    """A model that was written step by step, run as a captured graph; `options` are those of Engine."""
    return DistModel(Engine(model, loss, optimizer, strategy=strategy, **options))
