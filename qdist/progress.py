"""A progress line on stderr for work that takes longer than a moment."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

__all__ = ["Progress"]

# Work that ends sooner than this shows nothing.
_PATIENCE = 1.0
_INTERVAL = 0.2
_BAR = 30


class Progress:
    """A ``with`` block whose progress a thread draws: a bar where the total is known, else the seconds so far.

    Args:
        what: what is being done.
        total: how many units of it there are; ``advance`` counts those that are done. None for unknown.
        shown: False draws nothing.
    """

    def __init__(self, what: str, total: int | None = None, shown: bool = True) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True) if shown else None

    def advance(self, units: int = 1) -> None:
        self.done += units

    def __enter__(self) -> Progress:
        self._started = time.perf_counter()
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _draw(self) -> None:
        if self._ended.wait(_PATIENCE):
            return
        longest = 0
        ended = False
        while not ended:
            line = self._line()
            longest = max(longest, len(line))
            print(f"\r{line:<{longest}}", end="", file=sys.stderr, flush=True)
            ended = self._ended.wait(_INTERVAL)
        print(f"\r{self._line():<{longest}}", file=sys.stderr, flush=True)

    def _line(self) -> str:
        seconds = time.perf_counter() - self._started
        if not self.total:
            return f"{self.what}: {seconds:.1f} s"
        filled = _BAR * self.done // self.total
        rest = f", about {seconds * (self.total - self.done) / self.done:.0f} s left" if self.done else ""
        return f"{self.what} [{'#' * filled}{'.' * (_BAR - filled)}] {self.done}/{self.total}{rest}"
