"""Engine, Strategy and to_static under Paddle's names and call forms."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ....nn import Module
from ....optim import Optimizer
from ....parallel import auto
from ....parallel.auto import InputSpec, Strategy, reshard, shard_op, shard_tensor
from ....parallel.auto.run.engine import DifferentRows
from ....parallel.auto.run.program_text import ProgramText
from ....tensor import Tensor

__all__ = [
    "DistModel",
    "Engine",
    "ProcessMesh",
    "Program",
    "Strategy",
    "reshard",
    "shard_op",
    "shard_tensor",
    "to_static",
]


class ProcessMesh(auto.ProcessMesh):
    """Ranks on a grid. Where they have different values of one plain tensor, as from a dataset that draws its items,
    those of the mesh's first rank are everybody's, and a warning says so."""

    takes_first = True


class Program(ProgramText):
    """A program as text, with `desc`, which paddle.base.core.Graph takes."""

    @classmethod
    def of_text(cls, text: ProgramText) -> Program:
        """The same program."""
        made = cls(text)
        made.boxes = text.boxes
        return made

    @property
    def desc(self) -> Program:
        """Itself."""
        return self


class Engine(auto.Engine):
    """An Engine as Paddle makes and asks it.

    Args:
        model, loss, optimizer, metrics, strategy: as of qdist.parallel.auto.Engine.
        mesh: of the annotations, or all ranks, when not given.

    `run` gives, for a pipeline, the loss of every micro-batch, on all ranks. Where ranks read different rows for one
    batch, as from a dataset that draws its items, the mesh's first rank's are everybody's, and a warning says so.
    """

    _takes_first = False
    """Whether ranks were found to read different rows."""

    def __init__(
        self,
        model: Module,
        loss: Callable[..., Any] | None = None,
        optimizer: Optimizer | None = None,
        metrics: Any = None,
        strategy: Strategy | None = None,
        mesh: ProcessMesh | None = None,
    ) -> None:
        super().__init__(model, loss, optimizer, metrics, strategy, mesh)

    def run(self, data: Any, mode: str = "train") -> dict[str, Any]:
        """One step on a batch: {"loss", metrics by name}; as of qdist.parallel.auto.Engine."""
        outs = super().run(data, mode)
        if "loss" in outs and self.pipeline is not None and self.strategy.pipeline.enable:
            outs["loss"] = np.array(self.pipeline.losses())
        return outs

    def _same_rows(self, inputs: list[Tensor], labels: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        if not self._takes_first:
            try:
                return super()._same_rows(inputs, labels)
            except DifferentRows:
                # On every rank.
                self._takes_first = True
                warnings.warn(
                    "ranks read different rows for one batch (does the dataset draw its items without a seed?): from "
                    "now on those of the first rank are used",
                    stacklevel=2,
                )
        assert self.mesh is not None
        for axis in reversed(range(len(self.mesh.shape))):
            group = self.mesh.group(axis)
            inputs, labels = ([Tensor(group.broadcast(x.data)) for x in part] for part in (inputs, labels))
        return inputs, labels

    @property
    def main_program(self) -> Program:
        """What this rank runs."""
        return Program.of_text(super().main_program)

    @property
    def startup_program(self) -> Program:
        """What this rank keeps before the first step."""
        return Program.of_text(super().startup_program)

    @property
    def serial_main_program(self) -> Program:
        """The same step on one rank."""
        return Program.of_text(super().serial_main_program)

    @property
    def serial_startup_program(self) -> Program:
        """What one rank would keep."""
        return Program.of_text(super().serial_startup_program)


class DistModel(auto.DistModel):
    """What to_static gives: dist_model(img, label) runs a step and gives the loss, on every rank."""

    @property
    def _engine(self) -> Engine:
        assert isinstance(self.engine, Engine)
        return self.engine

    def dist_main_program(self) -> Program:
        """What this rank runs."""
        return self._engine.main_program

    def __call__(self, *data: Any) -> Any:
        made = super().__call__(*data)
        return float(np.mean(made)) if self._mode != "predict" else made


def to_static(
    layer: Module,
    loader: Any = None,
    loss: Callable[..., Any] | None = None,
    optimizer: Optimizer | None = None,
    strategy: Strategy | None = None,
) -> DistModel:
    """A model that was written step by step, run as a captured graph.

    Args:
        layer: the model, with its annotations.
        loader: batches (inputs, labels). The graph is captured for those of its shape, so that programs can be printed
            before the first step; without it the first step captures.
        loss, optimizer, strategy: as of Engine.
    """
    engine = Engine(layer, loss, optimizer, strategy=strategy)
    if loader is not None and optimizer is not None:
        inputs, labels = _specs(loader)
        engine.prepare(inputs, labels)
    return DistModel(engine)


def _specs(loader: Any) -> list[InputSpec]:
    """Inputs and labels of a whole batch, by the first item: going through the loader would use up its order."""
    sampler = getattr(loader, "batch_sampler", None)
    rows = loader.batch_size if sampler is None else sampler.batch_size
    item = [np.asarray(part) for part in loader.dataset[0]]
    return [InputSpec((rows, *part.shape), part.dtype) for part in item]
