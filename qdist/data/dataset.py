"""Datasets: anything with a length and items by number."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..comm.bootstrap.initialize import world
from ..tensor import Generator, Tensor


class Dataset:
    """The base of datasets: implement __len__ and __getitem__(i).

    A dataset that can fetch many items faster than one by one also implements fetch(indices), which gives the
    collated batch for an int64 array of indices.
    """

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError


class ArrayDataset(Dataset):
    """Arrays of equal length side by side; item i is the tuple of their i-th entries.

    Raises:
        ValueError: when the lengths differ.
    """

    def __init__(self, *arrays: Any) -> None:
        if not arrays:
            raise ValueError("ArrayDataset needs at least one array")
        self.arrays = tuple(np.asarray(a) for a in arrays)
        for array, given in zip(self.arrays, arrays):
            if array.ndim == 0:
                raise TypeError(f"ArrayDataset takes arrays with an entry an item, not {given!r}")
        lengths = {len(a) for a in self.arrays}
        if len(lengths) > 1:
            raise ValueError(f"the arrays have different lengths: {[len(a) for a in self.arrays]}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(a[index] for a in self.arrays)

    def fetch(self, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """All chosen entries, one indexing operation an array."""
        return tuple(a[indices] for a in self.arrays)


class TensorDataset(ArrayDataset):
    """ArrayDataset under the name that PyTorch has for it; the arrays may be Tensors, whose gradients are not followed.

    Raises:
        ValueError: when the lengths differ.
    """

    def __init__(self, *tensors: Any) -> None:
        super().__init__(*(tensor.numpy() if isinstance(tensor, Tensor) else tensor for tensor in tensors))


class Subset(Dataset):
    """The items of a dataset at the given indices, whole numbers.

    Raises:
        TypeError: for other ones, such as a mask.
    """

    def __init__(self, data: Any, indices: Any) -> None:
        self.data = data
        self.indices = checked_indices(indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.data[int(self.indices[index])]


def length_of(data: Any) -> int:
    """The length of a dataset, or the one that was given in its place."""
    return int(data) if isinstance(data, int | np.integer) else len(data)


def checked_indices(chosen: Any) -> np.ndarray:
    """Indices of items as int64. Raises TypeError for what are no whole numbers."""
    indices = np.asarray(chosen)
    if indices.size and indices.dtype.kind not in "iu":
        raise TypeError(f"indices of items are whole numbers, not {indices.dtype}; of a mask take np.flatnonzero(mask)")
    return indices.astype(np.int64, copy=False)


class DataPartitioner:
    """Cut a dataset at random into parts, the same on every rank for the same seed.

    Args:
        data: anything with a length and items.
        sizes: fractions, one a part, adding up to at most 1. Part i holds the items between the rounded sums
            before and after it, so fractions that add up to 1 leave no item out.
        seed: of the shuffle.

    Example:
        mine = DataPartitioner(dataset, [1 / comm.size] * comm.size).use(comm.rank)
    """

    def __init__(self, data: Any, sizes: Sequence[float] = (0.7, 0.2, 0.1), seed: int = 1234) -> None:
        sizes = list(sizes)
        if not sizes or min(sizes) < 0 or sum(sizes) > 1 + 1e-9:
            raise ValueError(f"sizes must be fractions that add up to at most 1, got {sizes}")
        self.data = data
        order = Generator(seed).permutation(len(data))
        bounds = [round(len(data) * float(s)) for s in np.concatenate(([0.0], np.cumsum(sizes)))]
        self.partitions = [order[a:b] for a, b in pairwise(bounds)]

    def use(self, partition: int) -> Subset:
        """The part with this number."""
        if not 0 <= partition < len(self.partitions):
            raise IndexError(f"partition {partition} does not exist; there are {len(self.partitions)}")
        return Subset(self.data, self.partitions[partition])


def random_split(dataset: Any, lengths: Sequence[float], seed: int = 0) -> list[Subset]:
    """Cut a dataset at random into parts, the same on every rank for the same seed.

    Args:
        dataset: anything with a length and items.
        lengths: how many items each part has, adding up to all; or fractions that add up to 1, of which each part gets
            the whole number below, and the first parts one of the items that are left.
        seed: of the shuffle.
    """
    total = len(dataset)
    counts = list(lengths)
    if counts and all(0 <= n <= 1 for n in counts) and abs(sum(counts) - 1) < 1e-9:
        counts = [int(total * n) for n in counts]
        left = total - sum(counts)
        counts = [n + (i < left) for i, n in enumerate(counts)]
    if any(n != int(n) or n < 0 for n in counts) or sum(counts) != total:
        raise ValueError(
            f"lengths {list(lengths)}: numbers of items that add up to {total}, or fractions that add to 1"
        )
    order = Generator(seed).permutation(total)
    ends = np.cumsum([0, *counts]).astype(int)
    return [Subset(dataset, order[a:b]) for a, b in pairwise(ends)]


def split_data(
    x_train: Any,
    y_train: Any,
    shuffle: bool = False,
    *,
    rank: Any = None,
    size: int | None = None,
    seed: int = 0,
) -> tuple[Any, Any]:
    """This rank's contiguous share of samples and labels.

    Args:
        x_train, y_train: arrays of equal length.
        shuffle: shuffle (equally on all ranks, by `seed`) before cutting.
        rank: this rank, or a communicator with .rank and .size; without it, this rank of all.
        size: number of ranks, beside a number as rank.

    Returns:
        x and y of this rank. Shares differ by at most one sample and together hold each sample once.
    """
    rank, size = ranks(rank, size)
    x, y = np.asarray(x_train), np.asarray(y_train)
    if len(x) != len(y):
        raise ValueError(f"{len(x)} samples but {len(y)} labels")
    order = Generator(seed).permutation(len(x)) if shuffle else np.arange(len(x))
    mine = order[share(len(x), rank, size)]
    return x[mine], y[mine]


def share(length: int, rank: int, size: int) -> slice:
    """One rank's contiguous part of so many rows. Parts differ by at most one row and together hold each once."""
    return slice(length * rank // size, length * (rank + 1) // size)


def ranks(rank: Any, size: Any = None) -> tuple[int, int]:
    """(rank, size): two ints, or those of an object with .rank and .size, or this rank of the world without both.

    Raises TypeError for anything else and ValueError for a rank that is not below its size.
    """
    if rank is None and size is None:
        rank = world()
    if hasattr(rank, "rank") and hasattr(rank, "size"):
        if size not in (None, rank.size):
            raise ValueError(f"size={size}: the communicator has {rank.size} rank(s); give it alone")
        rank, size = rank.rank, rank.size
    if rank is None or size is None:
        raise ValueError(f"rank={rank} and size={size} go together; leave both out for this rank of all")
    try:
        rank, size = operator.index(rank), operator.index(size)
    except TypeError:
        raise TypeError(f"rank and size are whole numbers, or one communicator; got {rank!r} and {size!r}") from None
    if not 0 <= rank < size:
        raise ValueError(f"rank {rank} is not among {size} rank(s)")
    return rank, size
