"""What an Engine calls while it trains: a line about the loss now and then, a file every epoch, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Callback", "LossMonitor", "ModelCheckpoint"]


class Callback:
    """The base: every method does nothing. `engine` is the Engine that trains; all ranks call alike."""

    def on_train_begin(self, engine: Any) -> None:
        """Before the first epoch."""

    def on_epoch_begin(self, engine: Any, epoch: int) -> None:
        """Before an epoch, counted from 0."""

    def on_batch_end(self, engine: Any, epoch: int, step: int, result: dict[str, Any]) -> None:
        """After a step, counted from 0 in its epoch; result: what Engine.run gave."""

    def on_epoch_end(self, engine: Any, epoch: int, result: dict[str, Any]) -> None:
        """After an epoch; result: means over it, those of validation under names that begin with "val_"."""

    def on_train_end(self, engine: Any) -> None:
        """After the last epoch."""


class LossMonitor(Callback):
    """Prints the loss and the metrics of every so many-th step, on the first rank.

    Args:
        every: how many steps lie between two lines.
        write: is called with a line.
    """

    def __init__(self, every: int = 1, write: Callable[[str], Any] = print) -> None:
        if every < 1:
            raise ValueError(f"LossMonitor(every={every}): at least 1")
        self.every, self.write = every, write

    def on_batch_end(self, engine: Any, epoch: int, step: int, result: dict[str, Any]) -> None:
        if step % self.every == 0 and engine.rank == 0:
            numbers = ", ".join(f"{name}: {value:.5f}" for name, value in result.items())
            self.write(f"epoch {epoch}, step {step}: {numbers}")


class ModelCheckpoint(Callback):
    """Saves model and optimiser after every so many-th epoch, as Engine.save does, to folder/epoch-<number>.qdist.

    Args:
        folder: where; made if it is not there.
        every: how many epochs lie between two files.
    """

    def __init__(self, folder: str | Path, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"ModelCheckpoint(every={every}): at least 1")
        self.folder, self.every = Path(folder), every

    def on_epoch_end(self, engine: Any, epoch: int, result: dict[str, Any]) -> None:
        if (epoch + 1) % self.every == 0:
            if engine.rank == 0:
                self.folder.mkdir(parents=True, exist_ok=True)
            engine.save(self.folder / f"epoch-{epoch}.qdist")
