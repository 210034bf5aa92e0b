"""Whole passes over data with an Engine's steps: training with callbacks, means of evaluation, all predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from qdist.data import DataLoader
from qdist.parallel.auto.run.callbacks import Callback
from qdist.parallel.auto.run.input_spec import split_batch
from qdist.training import steps
from qdist.training.place import Place

_SAVING = ("every", "seconds", "keep", "behind", "resume", "log", "progress")
"""The options of `training.steps` that fit has too."""

__all__ = ["EpochLoader", "fit", "means", "predictions"]


class EpochLoader(DataLoader):
    """A DataLoader that is gone through at most `epochs` times; any number of times when not given.

    The other arguments are those of DataLoader.
    """

    def __init__(
        self, dataset: Any, batch_size: int, shuffle: bool = False, *, epochs: int | None = None, **options: Any
    ) -> None:
        super().__init__(dataset, batch_size, shuffle, **options)
        if epochs is not None and epochs < 1:
            raise ValueError(f"epochs={epochs}: at least 1")
        self.epochs, self.passes = epochs, 0

    def __iter__(self) -> Iterator[Any]:
        if self.passes == self.epochs:
            raise RuntimeError(f"this loader was made for {self.epochs} epoch(s), and all of them are over")
        self.passes += 1
        return super().__iter__()


def fit(
    engine: Any,
    data: Any,
    epochs: int,
    batch_size: int | None,
    steps_per_epoch: int | None,
    valid_data: Any,
    callbacks: Sequence[Callback],
    folder: Any = None,
    saving: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """As Engine.fit."""
    unknown = ", ".join(name for name in saving or {} if name not in _SAVING)
    if unknown:
        raise TypeError(
            f"Engine.fit has no option {unknown}; beside its own it takes {', '.join(_SAVING)}: for others go through "
            "training.steps(...) and call Engine.run"
        )
    if epochs < 0:
        raise ValueError(f"epochs={epochs}: at least 0")
    if steps_per_epoch is not None and steps_per_epoch < 1:
        raise ValueError(f"steps_per_epoch={steps_per_epoch}: at least 1")
    for callback in callbacks:
        callback.on_train_begin(engine)
    place = Place(data, batch_size, steps_per_epoch)
    comm = engine.mesh.comm if engine.mesh is not None else engine.comm
    loop = iter(steps(None, {"engine": engine, "place": place}, folder, name="fit", comm=comm, **(saving or {})))
    step = next(loop, None)  # A training that was at its end has none.
    while step is not None and place.epoch < epochs:
        if place.step == 0:
            for callback in callbacks:
                callback.on_epoch_begin(engine, place.epoch)
        for batch in place.batches():
            result = engine.run(batch)
            step.record(**result)
            place.add(result, len(split_batch(batch, "train")[0][0]))
            for callback in callbacks:
                callback.on_batch_end(engine, place.epoch, place.step - 1, result)
            step = next(loop)
        result = place.means()
        if valid_data is not None:
            checked = means(engine, valid_data, batch_size, "eval")
            result |= {f"val_{name}": value for name, value in checked.items()}
        for callback in callbacks:
            callback.on_epoch_end(engine, place.epoch, result)
        place.next_epoch(result)
    if step is not None:
        step.stop(taken=False)
        next(loop, None)
    for callback in callbacks:
        callback.on_train_end(engine)
    return place.history


def means(
    engine: Any,
    data: Any,
    batch_size: int | None,
    mode: str,
) -> dict[str, Any]:
    """The mean over all rows of what Engine.run gives.

    Raises ValueError where there is no batch.
    """
    sums: dict[str, float] = {}
    rows = 0
    for batch in _batches(data, batch_size):
        count = len(split_batch(batch, mode)[0][0])
        rows += count
        result = engine.run(batch, mode)
        for name, value in result.items():
            sums[name] = sums.get(name, 0.0) + value * count
    if rows == 0:
        raise ValueError(f"{mode}: there is not one batch in the data")
    return {name: value / rows for name, value in sums.items()}


def predictions(engine: Any, data: Any, batch_size: int | None) -> np.ndarray:
    """The outputs for all batches, one behind the other. Raises ValueError where there is no batch."""
    parts = [engine.run(batch, "predict")["outputs"] for batch in _batches(data, batch_size)]
    if not parts:
        raise ValueError("predict: there is not one batch in the data")
    return np.concatenate(parts)


def _batches(data: Any, batch_size: int | None) -> Iterator[Any]:
    return iter(data if batch_size is None else DataLoader(data, batch_size))
