"""Model: a network with its loss and optimiser, trained as the context says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import checkpoint, comm
from ...comm import counting_communicator
from ...nn import Module
from ...optim import Optimizer
from ...parallel.auto import Callback, Engine
from ...tensor import Tensor, functional
from . import context, ir

__all__ = ["LossMonitor", "Model", "ModelCheckpoint"]


class LossMonitor(Callback):
    """Prints the loss of every so many-th step, on every rank, counted from 1.

    Args:
        per_print_times: how many steps lie between two lines.
        write: is called with a line.
    """

    def __init__(self, per_print_times: int = 1, write: Callable[[str], Any] = print) -> None:
        if per_print_times < 1:
            raise ValueError(f"LossMonitor({per_print_times}): at least 1")
        self.per_print_times, self.write = per_print_times, write

    def on_batch_end(self, engine: Any, epoch: int, step: int, result: dict[str, Any]) -> None:
        if (step + 1) % self.per_print_times == 0:
            self.write(f"epoch: {epoch + 1} step: {step + 1}, loss is {result['loss']}")


class ModelCheckpoint(Callback):
    """Saves model and optimiser after every epoch to directory/prefix-<epoch>.ckpt, whole, on every rank: the directory
    is one of each rank's own."""

    def __init__(self, prefix: str = "CKP", directory: str | Path = ".") -> None:
        self.prefix, self.directory = prefix, Path(directory)

    def on_epoch_end(self, engine: Any, epoch: int, result: dict[str, Any]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        # Whole on every rank, so that each can write a file of its own.
        checkpoint.save(self.directory / f"{self.prefix}-{epoch + 1}.ckpt", engine.whole_state())


class _Sunk:
    """A dataset whose passes are read as a whole."""

    def __init__(self, dataset: Iterable[Any]) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        device = context.device()
        return iter([tuple(functional.as_tensor(part).to(device) for part in batch) for batch in self.dataset])


class Model:
    """A network with its loss and optimiser.

    Args:
        network: a Cell.
        loss_fn: loss_fn(outputs, labels).
        optimizer: of the network's parameters.
        metrics: functions (outputs, labels) -> {name: number}.
    """

    def __init__(
        self,
        network: Module,
        loss_fn: Callable[..., Any] | None = None,
        optimizer: Optimizer | None = None,
        metrics: Any = None,
    ) -> None:
        self.network, self.loss_fn, self.optimizer, self.metrics = network, loss_fn, optimizer, metrics
        self._made: Engine | None = None

    @property
    def engine(self) -> Engine:
        """What runs it, made for the context of the first use."""
        if self._made is None:
            alone = context.get_auto_parallel_context("parallel_mode") == context.ParallelMode.STAND_ALONE
            ranks = counting_communicator(1) if alone else comm.init()
            self._made = Engine(
                self.network, self.loss_fn, self.optimizer, self.metrics, context.strategy(), comm=ranks
            )
        return self._made

    def train(
        self,
        epoch: int,
        train_dataset: Any,
        callbacks: Sequence[Callback] | Callback = (),
        dataset_sink_mode: bool = False,
    ) -> list[dict[str, Any]]:
        """Train for some epochs; the means of each.

        dataset_sink_mode: all batches of an epoch are read, and put on the device, before its first step.
        """
        if dataset_sink_mode:
            train_dataset = _Sunk(train_dataset)
        history = self.engine.fit(train_dataset, epoch, callbacks=callbacks)
        folder = context.graph_folder()
        if folder is not None:
            ir.write_graphs(self.engine, folder)
        return history

    def eval(self, valid_dataset: Any) -> dict[str, Any]:
        """The mean of loss and metrics over a dataset."""
        return self.engine.evaluate(valid_dataset)

    def predict(self, *predict_data: Any) -> np.ndarray:
        """The network's output for one batch."""
        return self.engine.run(list(predict_data), "predict")["outputs"]
