"""A progress line on stderr for work that takes longer than a moment.

One thread draws for the whole process, and only while there is something to draw, so that beginning and ending a
``Progress`` costs about a microsecond. Of several that are nested the outermost is drawn.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Protocol, TypeVar

__all__ = ["Progress", "counted", "is_shown", "showing"]

# Work that ends sooner than this shows nothing.
_PATIENCE = 1.0
_INTERVAL = 0.2
_BAR = 30

T = TypeVar("T")


class _Ranked(Protocol):
    """A communicator."""

    @property
    def rank(self) -> int: ...


class _Thread(threading.local):
    """Of this thread: what its callers asked for, and the outermost progress that is under way."""

    wanted: bool | None = None
    outermost: Progress | None = None


_here = _Thread()
_NOTHING = nullcontext()


def is_shown(comm: _Ranked | None = None, wanted: bool | None = None) -> bool:
    """Whether progress is drawn: as ``wanted``, or as ``showing`` said; else on the first rank, if stderr is a terminal
    or a notebook."""
    chosen = _here.wanted if wanted is None else wanted
    if chosen is not None and not chosen:
        return False
    return (comm is None or comm.rank == 0) and (chosen is not None or _is_watched())


def _is_watched() -> bool:
    stream = sys.stderr
    try:
        return stream.isatty() or type(stream).__module__.startswith("ipykernel")
    except (AttributeError, ValueError):  # None, what only writes in the place of a stream, or a stream that is closed.
        return False


def _write(text: str) -> None:
    """To stderr as it is now. A line that cannot be drawn is left out: the work goes on without it."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass


def showing(wanted: bool | None) -> AbstractContextManager[None]:
    """Inside, this thread's progress is drawn, or not; None leaves that as it was."""
    return _NOTHING if wanted is None else _showing(wanted)


@contextmanager
def _showing(wanted: bool) -> Iterator[None]:
    before, _here.wanted = _here.wanted, wanted
    try:
        yield
    finally:
        _here.wanted = before


def counted(what: str, items: Iterable[T], comm: _Ranked | None = None, total: int | None = None) -> Iterator[T]:
    """The items, one after the other, and a bar of how many are done, where progress is shown.

    what: the items' name. total: how many there are, if they do not say.
    """
    if not is_shown(comm):
        yield from items
        return
    number = len(items) if total is None and isinstance(items, Sized) else total
    with Progress(what, number) as progress:
        for item in items:
            yield item
            progress.advance()


class Progress:
    """A ``with`` block whose progress is drawn: a bar where the total is known, else the seconds so far.

    Args:
        what: what is being done.
        total: how many units of it there are; ``advance`` counts those that are done. None for unknown.
        shown: False draws nothing.
        gathers: whether what is counted inside of it, in blocks of their own, counts for this one.
    """

    def __init__(self, what: str, total: int | None = None, shown: bool = True, gathers: bool = False) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._shown, self._gathers = shown, gathers
        self._outer: Progress | None = None
        self._longest = 0

    def advance(self, units: int = 1) -> None:
        self.done += units
        if self._outer is not None:
            self._outer.advance(units)

    def __enter__(self) -> Progress:
        if self._shown:
            if _here.outermost is None:
                self._started = time.perf_counter()
                _here.outermost = self
                _drawer.add(self)
            else:
                self._shown = False
                if _here.outermost._gathers:
                    self._outer = _here.outermost
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            _here.outermost = None
            _drawer.remove(self)

    def draw(self, now: float) -> None:
        """Draws the line anew, if the work has taken long enough. For the thread that draws."""
        if now - self._started < _PATIENCE:
            return
        line = self._line(now)
        self._longest = max(self._longest, len(line))
        _write(f"\r{line:<{self._longest}}")

    def end(self) -> None:
        """Draws the last state, if any was drawn."""
        if self._longest:
            self.draw(time.perf_counter())
            _write("\n")

    def _line(self, now: float) -> str:
        seconds = now - self._started
        if not self.total:
            return f"{self.what}: {seconds:.1f} s"
        filled = _BAR * min(self.done, self.total) // self.total
        left = seconds * max(0, self.total - self.done) / self.done if self.done else 0.0
        rest = f", about {left:.0f} s left" if self.done else ""
        return f"{self.what} [{'#' * filled}{'.' * (_BAR - filled)}] {self.done}/{self.total}{rest}"


class _Drawer:
    """The thread that draws. It sleeps while nothing is under way."""

    def __init__(self) -> None:
        self.forget_parent()

    def forget_parent(self) -> None:
        """At the beginning, and in a forked child, which has no such thread."""
        self._active: list[Progress] = []
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, progress: Progress) -> None:
        with self._lock:
            self._active.append(progress)
            if self._thread is None:
                self._thread = threading.Thread(target=self._draw, name="qdist progress", daemon=True)
                self._thread.start()
        self._busy.set()

    def remove(self, progress: Progress) -> None:
        with self._lock:
            if progress in self._active:
                self._active.remove(progress)
            progress.end()

    def _draw(self) -> None:
        while True:
            self._busy.wait()
            time.sleep(_INTERVAL)
            with self._lock:
                if not self._active:
                    self._busy.clear()
                for progress in self._active:
                    progress.draw(time.perf_counter())


_drawer = _Drawer()
os.register_at_fork(after_in_child=_drawer.forget_parent)
