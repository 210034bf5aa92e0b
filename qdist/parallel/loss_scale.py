"""Loss scaling: half-precision gradients that would vanish are made larger, and smaller again before the update."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["LossScale"]


class LossScale:
    """The factor of the loss (Micikevicius et al., "Mixed precision training", arXiv 1710.03740).

    Args:
        value: to start with.
        dynamic: halve it when a gradient was not finite, double it after `interval` steps in which all were.
        interval: steps.
    """

    def __init__(self, value: float = 2.0**16, dynamic: bool = True, interval: int = 2000) -> None:
        if not 0 < value < math.inf or interval < 1:
            raise ValueError(f"a loss scale is positive and its interval at least 1, got {value} and {interval}")
        self.value, self.dynamic, self.interval = float(value), dynamic, interval
        self._good = 0

    def update(self, finite: bool) -> None:
        """Take notice of a step, whose gradients were all finite or not."""
        self._good = self._good + 1 if finite else 0
        if not self.dynamic:
            return
        if not finite:
            self.value = max(1.0, self.value / 2)
        elif self._good >= self.interval:
            self.value, self._good = self.value * 2, 0

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"value": self.value, "good": self._good}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.value, self._good = float(state["value"]), int(state["good"])
