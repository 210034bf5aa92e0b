"""Recent: a thread-safe LRU cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

from qdist.locks import open_in_forks

__all__ = ["Recent"]

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Keeps the ``most`` values that were used last."""

    def __init__(self, most: int) -> None:
        self._most, self._values, self._lock = most, OrderedDict[Hashable, Value](), open_in_forks(Lock())

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._most:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Forgets all of them."""
        with self._lock:
            self._values.clear()
