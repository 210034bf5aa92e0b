"""Where a training with Engine.fit is: the epoch, the batch, and the sums of what has been recorded in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from qdist.data import DataLoader

__all__ = ["Place"]


class Place:
    """Goes through data epoch by epoch, and goes on in the midst of one where a checkpoint says so.

    data, batch_size, steps: as Engine.fit's.
    """

    def __init__(self, data: Any, batch_size: int | None, steps: int | None) -> None:
        self._data, self._batch_size, self._steps = data, batch_size, steps
        self.epoch = self.step = self._rows = 0
        self._sums: dict[str, float] = {}
        self.history: list[dict[str, Any]] = []
        # The pass that the sampler was at when this epoch began, where it counts passes.
        self._pass: int | None = None
        self._resumed = False

    def batches(self) -> Iterator[Any]:
        """What is left of this epoch."""
        loader = self._data if self._batch_size is None else DataLoader(self._data, self._batch_size)
        sampler: Any = getattr(loader, "batch_sampler", None) or getattr(loader, "sampler", None)
        if self._resumed and self._pass is not None and hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self._pass)
        self._pass = getattr(sampler, "epoch", None)
        if hasattr(loader, "passes") and self._resumed:
            loader.passes = self.epoch
        self._resumed = False
        if self.step and hasattr(loader, "iterate"):
            if hasattr(loader, "passes"):
                loader.passes += 1
            return islice(loader.iterate(self.step), None if self._steps is None else self._steps - self.step)
        return islice(iter(loader), self.step, self._steps)

    def add(self, result: dict[str, Any], rows: int) -> None:
        """What a step gave for so many rows."""
        self.step += 1
        self._rows += rows
        for name, value in result.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * rows

    def means(self) -> dict[str, Any]:
        """Over all rows of the epoch. Raises ValueError where there is no batch."""
        if self._rows == 0:
            raise ValueError("train: there is not one batch in the data")
        return {name: value / self._rows for name, value in self._sums.items()}

    def next_epoch(self, result: dict[str, Any]) -> None:
        self.history.append(result)
        self.epoch, self.step, self._rows, self._sums, self._pass = self.epoch + 1, 0, 0, {}, None

    def state_dict(self) -> dict[str, Any]:
        history = [{name: float(value) for name, value in result.items()} for result in self.history]
        sums = {name: float(value) for name, value in self._sums.items()}
        found = {"epoch": self.epoch, "step": self.step, "rows": self._rows, "sums": sums}
        return {**found, "history": history, "pass": self._pass}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.step, self._rows = state["epoch"], state["step"], state["rows"]
        self._sums, self.history, self._pass = state["sums"], state["history"], state["pass"]
        self._resumed = True
