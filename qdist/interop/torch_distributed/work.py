"""Work: the handle of an asynchronous call, and the future of its result."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from ... import comm as qc
from ...comm import CommError
from .store import seconds

__all__ = ["Future", "Work"]


class Work:
    """A call that was made with async_op=True, or by isend or irecv. Do not touch its tensors before wait() returns."""

    def __init__(
        self, work: qc.Work, tensors: list[Any], source: int = -1, finish: Callable[[Any], Any] | None = None
    ) -> None:
        self._work, self._tensors, self._source = work, tensors, source
        self._failure: ValueError | None = None
        if finish is not None:
            work.then(partial(self._write, finish))

    def _write(self, finish: Callable[[Any], Any], found: Any) -> None:
        # The communication is done whether or not its result fits: whoever asks for that is told, every time.
        try:
            finish(found)
        except ValueError as error:
            self._failure = error

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks until it is done; True. Raises CommError where that takes longer than ``timeout``, and ValueError
        where the result does not fit the tensors."""
        if timeout is not None:
            limit = seconds(timeout)
            end, pause = time.monotonic() + limit, 1e-5
            while not self._work.is_completed():
                if time.monotonic() > end:
                    raise CommError(f"not done within {limit:g} s; it goes on, and may be waited for again")
                time.sleep(pause)
                pause = min(0.01, 1.5 * pause)
        self._work.wait()
        self._check()
        return True

    def is_completed(self) -> bool:
        """Whether it is done; never blocks."""
        return self._work.is_completed()

    def is_success(self) -> bool:
        """Whether it is done, and wait() raises nothing."""
        return self.is_completed() and self._failure is None

    def source_rank(self) -> int:
        """Of irecv: the rank that sends. Raises RuntimeError for other calls."""
        if self._source < 0:
            raise RuntimeError("source_rank() is for irecv")
        return self._source

    def result(self) -> list[Any]:
        """The tensors that were written. Raises RuntimeError while it is under way."""
        self._work.result()
        self._check()
        return self._tensors

    def get_future(self) -> Future:
        """The future whose value is the list of tensors that are written."""
        return Future(self._finished, self.is_completed)

    def _finished(self) -> list[Any]:
        self.wait()
        return self._tensors


class Future:
    """A value that comes later.

    Nothing runs in the background: what was hung on by then() and add_done_callback() runs once, when somebody asks
    (wait, value, done) and the value is there.
    """

    def __init__(self, wait: Callable[[], Any], is_there: Callable[[], bool]) -> None:
        self._wait, self._is_there = wait, is_there
        self._callbacks: list[Callable[[Future], Any]] = []
        self._value: Any = None
        self._done = False

    def wait(self) -> Any:
        """Blocks until the value is there, and gives it."""
        if not self._done:
            self._value, self._done = self._wait(), True
            for callback in self._callbacks:
                callback(self)
        return self._value

    def done(self) -> bool:
        """Whether the value is there; never blocks."""
        if not self._done and self._is_there():
            self.wait()
        return self._done

    def value(self) -> Any:
        """The value. Raises RuntimeError while it is not there."""
        if not self.done():
            raise RuntimeError("the value is not there yet: call wait()")
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of callback(this one), which is called once this one's value is there."""

        def wait() -> Any:
            self.wait()
            return callback(self)

        return Future(wait, self.done)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Has callback(this one) called once the value is there; at once if it is."""
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)
