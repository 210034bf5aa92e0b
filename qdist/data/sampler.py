"""Samplers: in which order, and on which rank, items are visited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..tensor import Generator
from .dataset import length_of, ranks


class SequentialSampler:
    """0, 1, 2 ..."""

    def __init__(self, length: int) -> None:
        self.length = length

    def indices(self) -> np.ndarray:
        """All indices of one pass, int64."""
        return np.arange(self.length)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices().tolist())

    def __len__(self) -> int:
        return self.length


class RandomSampler(SequentialSampler):
    """A new random order each pass, reproducible by seed and epoch.

    The epoch counts passes by itself; set_epoch resumes at a given one.
    """

    def __init__(self, length: int, seed: int = 0) -> None:
        super().__init__(length)
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The next pass is the one of this epoch."""
        self.epoch = epoch

    def indices(self) -> np.ndarray:
        order = Generator(self.seed, self.epoch).permutation(self.length)
        self.epoch += 1
        return order


class BatchSampler:
    """The indices of one batch after the other.

    Args:
        dataset: anything with a length (or the length); not beside a sampler.
        sampler: an order of one's own, indices one by one.
        shuffle: a new order each pass, reproducible by `seed`.
        batch_size: items a batch.
        drop_last: leave out a last batch that is not full.
    """

    def __init__(
        self,
        dataset: Any = None,
        sampler: Any = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
        *,
        seed: int = 0,
    ) -> None:
        if (dataset is None) == (sampler is None):
            raise ValueError("BatchSampler takes a dataset or a sampler, one of the two")
        if sampler is not None and shuffle:
            raise ValueError("a sampler decides the order itself: leave shuffle off")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if sampler is None:
            length = length_of(dataset)
            sampler = RandomSampler(length, seed) if shuffle else SequentialSampler(length)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    @property
    def epoch(self) -> int | None:
        """The epoch whose order the next pass takes; None where the sampler counts none."""
        return getattr(self.sampler, "epoch", None)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order the next pass takes."""
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        order = list(self.sampler)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield order[start : start + self.batch_size]

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class DistributedSampler:
    """Each rank's share of a dataset, of equal length on every rank.

    Args:
        dataset: anything with a length (or the length).
        rank: this rank, or a communicator with .rank and .size (``mesh["dp"]``); without it, this rank of all.
        size: number of ranks, beside a number as rank.
        shuffle: a new order each pass, equal on all ranks; the epoch counts passes by itself, and set_epoch resumes at
            a given one.
        seed: of the shuffle, equal on all ranks.
        drop_last: leave out the tail that does not fill all ranks, instead of repeating the first items.
    """

    def __init__(
        self,
        dataset: Any,
        rank: Any = None,
        size: int | None = None,
        *,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.rank, self.size = ranks(rank, size)
        self.length = length_of(dataset)
        if self.length == 0:
            raise ValueError("an empty dataset cannot be shared out")
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order the next pass takes."""
        self.epoch = epoch

    def indices(self) -> np.ndarray:
        """This rank's indices of one pass, int64: every size-th of the common order."""
        order = Generator(self.seed, self.epoch).permutation(self.length) if self.shuffle else np.arange(self.length)
        self.epoch += 1
        return np.resize(order, len(self) * self.size)[self.rank :: self.size]

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices().tolist())

    def __len__(self) -> int:
        return self.length // self.size if self.drop_last else -(-self.length // self.size)
