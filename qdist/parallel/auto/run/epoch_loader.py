"""A loader for a number of passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from qdist.data import DataLoader

__all__ = ["EpochLoader"]


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
