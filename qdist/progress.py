"""A progress bar on stderr."""

from __future__ import annotations

import sys
import time

__all__ = ["Bar"]

_WIDTH = 40


class Bar:
    """Shows how many of ``total`` steps are done, and how long the rest may take."""

    def __init__(self, total: int, unit: str) -> None:
        self._total, self._unit, self._done = total, unit, 0
        self._start = time.monotonic()
        self._show()

    def advance(self) -> None:
        """One step is done."""
        self._done += 1
        self._show()

    def close(self) -> None:
        """No more steps come, whether all were taken or not."""
        print(file=sys.stderr, flush=True)

    def _show(self) -> None:
        filled = _WIDTH * self._done // max(1, self._total)
        elapsed = time.monotonic() - self._start
        left = f", {elapsed / self._done * (self._total - self._done):.0f} s left" if self._done else ""
        bar = "#" * filled + "." * (_WIDTH - filled)
        print(f"\r[{bar}] {self._done}/{self._total} {self._unit}{left}  ", end="", file=sys.stderr, flush=True)
