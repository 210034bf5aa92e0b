"""DataLoader: batches of a dataset as Tensors."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..tensor import Tensor
from ..tensor.arrays import is_array
from .dataset import checked_indices, share
from .dataset import ranks as _ranks
from .sampler import DistributedSampler, RandomSampler, SequentialSampler


def collate(items: list[Any]) -> Any:
    """Stack a list of items: numbers and arrays into one array, tuples and dicts entry by entry."""
    first = items[0]
    if isinstance(first, list) and any(is_array(part) or isinstance(part, Tensor) for part in first):
        raise ValueError(
            "an item that is a list of arrays may be meant as one array or as several: give np.stack(...) of them, or "
            "tuples, which are put together entry by entry"
        )
    if isinstance(first, tuple):
        return _as(first, [collate([item[i] for item in items]) for i in range(len(first))])
    if isinstance(first, dict):
        return {key: collate([item[key] for item in items]) for key in first}
    if isinstance(first, Tensor):
        items = [item.numpy() for item in items]
    if not is_array(items[0]):
        try:
            return np.asarray(items)
        except ValueError as error:
            raise ValueError(
                f"items that are a {type(first).__name__} become one array, which these do not fit ({error}): give "
                "tuples, which are put together entry by entry"
            ) from None
    shapes = {item.shape: None for item in items}
    if len(shapes) > 1:
        raise ValueError(
            f"the entries of a batch have shapes {' and '.join(map(str, list(shapes)[:3]))}, which make no array: pad "
            "them in the dataset, or with a collate_fn"
        )
    return np.stack(items)


def _has_parts(batch: Any) -> bool:
    """Whether a list is of arrays, as a collate_fn may give it, and not of numbers."""
    return isinstance(batch, list) and any(isinstance(part, Tensor | tuple | dict) or is_array(part) for part in batch)


def _as(structure: tuple[Any, ...], parts: list[Any]) -> tuple[Any, ...]:
    """The parts as a tuple, with names where the structure has some."""
    return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)


def _tensors(batch: Any) -> Any:
    """Arrays of a batch as Tensors of their dtype."""
    if _has_parts(batch):
        return [_tensors(part) for part in batch]
    if isinstance(batch, tuple):
        return _as(batch, [_tensors(part) for part in batch])
    if isinstance(batch, dict):
        return {key: _tensors(part) for key, part in batch.items()}
    return Tensor(batch)


def _no_rows(batch: Any) -> Any:
    if _has_parts(batch):
        return [_no_rows(part) for part in batch]
    if isinstance(batch, tuple):
        return _as(batch, [_no_rows(part) for part in batch])
    if isinstance(batch, dict):
        return {key: _no_rows(part) for key, part in batch.items()}
    return batch[:0]


class DataLoader:
    """Iterate over a dataset in batches.

    Args:
        dataset: length and items by number; with `fetch` batches are taken in one go.
        batch_size: items a batch.
        shuffle: a new order each pass, reproducible by `seed`.
        sampler: an order of one's own (indices() or iteration), instead of shuffle; a DistributedSampler for
            ranks.
        batch_sampler: lists of indices, a batch each (BatchSampler), instead of batch_size, shuffle, sampler and
            drop_last.
        drop_last: leave out a last batch that is not full.
        prefetch: batches prepared ahead by a background thread; 0 prepares each when it is asked for.
        seed: of the shuffle.
        collate_fn: makes a batch of a list of items; stacks arrays by default.
        ranks: a communicator (or what has .rank and .size) whose ranks share out every batch: `batch_size` counts the
            rows of all, and this one fetches its own. Shares differ by at most one row; a last batch may leave some
            ranks without any. All ranks together have the batches of one process. None: this process has all rows,
            which is what ranks that share a circuit's amplitudes, a pipeline or an Engine need.

    A batch has the structure of an item, with Tensors in the places of its numbers and arrays; arrays keep
    their dtype.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        sampler: Any = None,
        drop_last: bool = False,
        prefetch: int = 0,
        seed: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        ranks: Any = None,
        batch_sampler: Any = None,
    ) -> None:
        if batch_sampler is not None and (batch_size, shuffle, sampler, drop_last) != (1, False, None, False):
            raise ValueError("a batch_sampler makes the batches: leave batch_size, shuffle, sampler and drop_last out")
        self.batch_sampler = batch_sampler
        if not hasattr(dataset, "__len__"):
            raise TypeError(f"a dataset has a length and items by number, which {type(dataset).__name__} has not")
        if (
            isinstance(dataset, tuple)
            and dataset
            and all(is_array(part) or isinstance(part, Tensor) for part in dataset)
        ):
            raise TypeError(
                "a tuple of arrays has an item an array: ArrayDataset(*arrays) has an item a row of them all"
            )
        if not hasattr(batch_size, "__index__") or batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, a whole number, got {batch_size!r}")
        if prefetch < 0:
            raise ValueError(f"prefetch must not be negative, got {prefetch}")
        if sampler is not None and shuffle:
            raise ValueError("a sampler decides the order itself: leave shuffle off")
        if ranks is not None and isinstance(sampler, DistributedSampler):
            raise ValueError("a DistributedSampler gives each rank its items already: leave ranks out")
        self.rank, self.size = (0, 1) if ranks is None else _ranks(ranks)
        if sampler is None:
            sampler = RandomSampler(len(dataset), seed) if shuffle else SequentialSampler(len(dataset))
        self.dataset, self.batch_size, self.sampler = dataset, batch_size, sampler
        self.drop_last, self.prefetch, self.collate_fn = drop_last, prefetch, collate_fn

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        return self.iterate()

    def iterate(self, start: int = 0) -> Iterator[Any]:
        """The batches of one pass from number `start` on; those before are not fetched."""
        # The order is drawn here, in the caller's thread, so that prefetching changes nothing but time.
        if self.batch_sampler is not None:
            whole = [checked_indices(indices) for indices in self.batch_sampler]
        else:
            # Samplers of other libraries have an array of this name, which is not the order of a pass.
            has_order = callable(getattr(self.sampler, "indices", None))
            order = checked_indices(self.sampler.indices() if has_order else list(self.sampler))
            whole = [order[i * self.batch_size : (i + 1) * self.batch_size] for i in range(len(self))]
        batches = [indices[share(len(indices), self.rank, self.size)] for indices in whole[start:]]
        if self.prefetch == 0:
            return (self._fetch(indices) for indices in batches)
        return _ahead(self._fetch, batches, self.prefetch)

    def __call__(self) -> DataLoader:
        """Itself: `for batch in loader():` is written in other libraries."""
        return self

    def _fetch(self, indices: np.ndarray) -> Any:
        if indices.size == 0:
            # Any item tells what no rows look like.
            return _no_rows(self._fetch(np.zeros(1, np.int64)))
        if self.collate_fn is None and hasattr(self.dataset, "fetch"):
            return _tensors(self.dataset.fetch(indices))
        return _tensors((self.collate_fn or collate)([self.dataset[int(i)] for i in indices]))


def _ahead(fetch: Callable[[Any], Any], batches: list[Any], depth: int) -> Iterator[Any]:
    """Yield fetch(b) for each b, up to `depth` of them prepared ahead in a thread.

    An exception in the thread is raised here; leaving the loop early ends the thread. A process that is forked in the
    middle of a pass has no such thread, and prepares each batch when it is asked for.
    """
    process = os.getpid()
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(entry: tuple[Any, BaseException | None]) -> bool:
        while not stop.is_set():
            try:
                ready.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def produce() -> None:
        for indices in batches:
            try:
                entry: tuple[Any, BaseException | None] = (fetch(indices), None)
            except BaseException as error:  # handed to the consumer, whatever it is
                entry = (None, error)
            if not put(entry) or entry[1] is not None:
                return

    thread = threading.Thread(target=produce, name="qdist-prefetch", daemon=True)
    thread.start()
    try:
        for indices in batches:
            if os.getpid() != process:
                yield fetch(indices)
                continue
            batch, error = ready.get()
            if error is not None:
                raise error
            yield batch
    finally:
        stop.set()
        thread.join()
