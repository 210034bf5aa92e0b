"""Datasets, samplers and loaders under Paddle's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import data
from ...comm import world
from ...data import BatchSampler, Dataset, DistributedSampler
from .distributed.fleet.topology import data_place

__all__ = ["BatchSampler", "DataLoader", "Dataset", "DistributedBatchSampler"]


class DistributedBatchSampler(BatchSampler):
    """Batches of each replica's own rows.

    Args:
        num_replicas: how many share the rows. When not given, the data-parallel degree of `fleet.init`, or all ranks
            without it: ranks that share a model (mp, pp) have the same rows.
        rank: which of `num_replicas`; without that, a rank of the job, as get_rank() gives it: this one when not given.
        shuffle, batch_size, drop_last: as of BatchSampler.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            rank, num_replicas = data_place(world().rank if rank is None else rank)
        elif rank is None:
            raise ValueError("DistributedBatchSampler: give rank beside num_replicas")
        sampler = DistributedSampler(dataset, rank, num_replicas, shuffle=shuffle, drop_last=drop_last)
        super().__init__(sampler=sampler, batch_size=batch_size, drop_last=drop_last)


class DataLoader(data.DataLoader):
    """Batches of a dataset as Tensors; calling it gives what can be iterated.

    Args:
        batch_sampler: makes the batches, instead of batch_size, shuffle and drop_last.
        num_workers: 0 prepares each batch when it is asked for; any more have a thread prepare two each ahead.
        collate_fn: makes a batch of a list of items; stacks arrays by default.
    """

    def __init__(
        self,
        dataset: Any,
        batch_sampler: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
    ) -> None:
        if num_workers < 0:
            raise ValueError(f"num_workers={num_workers}: not negative")
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            drop_last=drop_last,
            prefetch=2 * num_workers,
            collate_fn=collate_fn,
            batch_sampler=batch_sampler,
        )
