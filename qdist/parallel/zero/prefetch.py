"""Prefetching for ZeRO stage 3: while one unit computes, the parameters of the next are on their way.

The next unit is the one that came after these two the last time: forward and backward passes go through a model in
opposite orders, so the unit before tells which way it goes. All ranks see the same units in the same order, so that
all ask for the same ones.
"""

from __future__ import annotations

from typing import Any

from qdist.tensor.autograd import mode

__all__ = ["Prefetch"]

_Key = tuple[bool, bool, Any, Any]


class Prefetch:
    """Of the units of one model. At most one that nobody uses yet is on its way, or here, at a time."""

    def __init__(self) -> None:
        self._after: dict[_Key, Any] = {}
        self._key: _Key | None = None
        self._before: Any = None
        self._coming: Any = None

    def gathered(self, unit: Any) -> None:
        """A unit was needed that was not here: have the one that is likely the next come."""
        if self._key is not None:
            self._after[self._key] = unit
        if self._coming is not unit and self._coming is not None:
            self._coming.turn_away()  # Another way through the model than last time.
        self._key, self._before = (mode.walks > 0, mode.grad, self._before, unit), unit
        self._coming = self._after.get(self._key)
        if self._coming is not None and not self._coming.start_gathering():
            self._coming = None

    def restart(self) -> None:
        """Parameters are about to change: whatever comes before is not what comes next."""
        if self._coming is not None:
            self._coming.turn_away()
        self._key = self._before = self._coming = None
