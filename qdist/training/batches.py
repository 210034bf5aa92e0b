"""An endless stream of batches whose place is saved with a training."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

__all__ = ["Batches"]


class Batches:
    """``next(batches)`` gives a loader's batches, pass after pass; as a part of `steps` it goes on where it was.

    loader: a DataLoader, or anything that can be gone through again and again. The place is a pass and a number of
    batches in it, so it means the same rows on any number of ranks where each batch is shared out
    (``DataLoader(ranks=...)``). Raises ValueError for a loader without a batch.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self.epoch, self.place = 0, 0
        self._sampler: Any = getattr(loader, "batch_sampler", None) or getattr(loader, "sampler", None)
        self._first = getattr(self._sampler, "epoch", None) or 0
        self._current: Iterator[Any] | None = None

    @property
    def _batch_size(self) -> int:
        """Of the loader; 0 where it does not tell."""
        own = getattr(self._loader, "batch_sampler", None) or self._loader
        size = getattr(own, "batch_size", None)
        return size if isinstance(size, int) else 0

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        for _ in range(2):
            if self._current is None:
                self._current = self._begin()
            try:
                batch = next(self._current)
            except StopIteration:
                self.epoch, self.place, self._current = self.epoch + 1, 0, None
                continue
            self.place += 1
            return batch
        raise ValueError("there is not one batch in the loader")

    def _begin(self) -> Iterator[Any]:
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(self._first + self.epoch)
        if hasattr(self._loader, "iterate"):
            return self._loader.iterate(self.place)
        return islice(iter(self._loader), self.place, None)

    def state_dict(self) -> dict[str, int]:
        """Where it is, for a checkpoint."""
        return {"epoch": self.epoch, "place": self.place, "first": self._first, "batch_size": self._batch_size}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state_dict` was taken, with the next row also where batches have another size now.

        Raises ValueError where that row is inside of a batch.
        """
        place, before, now = int(state["place"]), int(state.get("batch_size", 0)), self._batch_size
        if before != now and before and now:
            place, inside = divmod(place * before, now)
            if inside:
                raise ValueError(
                    f"the checkpoint is {state['place']} batches of {before} rows into a pass, and batches have {now} "
                    f"rows now, of which these fill no whole number: go on with {before}, or change it between passes"
                )
        self.epoch, self.place, self._first = int(state["epoch"]), place, int(state["first"])
        self._current = None
