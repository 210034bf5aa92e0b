"""Datasets made of generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["GeneratorDataset"]


class GeneratorDataset:
    """Batches that a generator gives, one pass a call.

    Args:
        source: called without arguments at the start of every pass; gives what can be iterated.
        column_names: one for each part of a batch.
    """

    def __init__(self, source: Callable[[], Any], column_names: Sequence[str]) -> None:
        self.source, self.column_names = source, tuple(column_names)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.source():
            if len(batch) != len(self.column_names):
                raise ValueError(f"a batch has {len(batch)} parts, the columns are {', '.join(self.column_names)}")
            yield tuple(batch)
