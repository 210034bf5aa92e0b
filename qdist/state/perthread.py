"""A value that each thread has for itself."""

from __future__ import annotations

from threading import local
from typing import Generic, TypeVar

__all__ = ["PerThread"]

T = TypeVar("T")


class PerThread(Generic[T]):
    """What this thread has set last; in a thread that has set nothing, what any thread has set last."""

    __slots__ = ("_last", "_own")

    def __init__(self, value: T) -> None:
        self._own = local()
        self._last = value

    def get(self) -> T:
        return getattr(self._own, "value", self._last)

    def set(self, value: T) -> None:
        self._own.value = self._last = value
