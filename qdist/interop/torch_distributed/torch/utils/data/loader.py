"""torch.utils.data's DataLoader: `qdist.data.DataLoader` with torch's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...... import data

__all__ = ["DataLoader"]


class DataLoader(data.DataLoader):
    """Batches of a dataset.

    Args:
        dataset, batch_size, shuffle, sampler, batch_sampler, collate_fn, drop_last: as there.
        num_workers, prefetch_factor: so many batches each, 2 when not given, are prepared ahead by one thread, not by
            processes: batches are the same, and 0 workers prepare each when it is asked for.
        seed: of the shuffle, in the place of torch's generator. ranks: as of `qdist.data.DataLoader`.

    Raises ValueError, by name, for options of worker processes and of pinned memory, which there is none of here.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        seed: int = 0,
        ranks: Any = None,
    ) -> None:
        if num_workers < 0 or (prefetch_factor is not None and (prefetch_factor < 1 or not num_workers)):
            raise ValueError(
                f"num_workers={num_workers} is not negative, and prefetch_factor={prefetch_factor}, if given, is the "
                "number of batches that each of at least one worker prepares"
            )
        if generator is not None:
            raise ValueError("generator: orders come from a seed here: give seed=")
        threads = "a thread of this process prepares batches, so leave it out"
        for name, value, why in (
            ("pin_memory", pin_memory, "batches are copied to GPUs from ordinary memory here: leave it out"),
            ("timeout", timeout, threads),
            ("worker_init_fn", worker_init_fn, threads),
            ("multiprocessing_context", multiprocessing_context, threads),
            ("persistent_workers", persistent_workers, threads),
        ):
            if value:
                raise ValueError(f"{name}={value!r}: {why}")
        super().__init__(
            dataset,
            batch_size,
            bool(shuffle),
            sampler=sampler,
            drop_last=drop_last,
            prefetch=num_workers * (prefetch_factor or 2),
            seed=seed,
            collate_fn=collate_fn,
            ranks=ranks,
            batch_sampler=batch_sampler,
        )
