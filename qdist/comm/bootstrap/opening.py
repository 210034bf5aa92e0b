"""init() between MPI's start and the finished communicator: no rank is left waiting for one that failed there.

A step that may fail runs on every rank, and then the ranks tell each other how it went: all of them raise, or none, and
all can go on to whatever they do about it. An exception that only this rank knows of leaves the others in the middle of
a collective. Nobody can call them off, so the job ends: with this rank's traceback, when the exception is not caught or
the process ends; and the others' own clock runs too.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from qdist.comm.errors import CommError
from qdist.comm.guard.endings import FAILED, note_ending
from qdist.comm.guard.pipes import last_words

__all__ = ["Opening", "end_when_not_caught", "gather_text", "share_text"]

Value = TypeVar("Value")


class Opening:
    """A context within which the ranks of an mpi4py communicator agree on whether init() succeeds.

    comm: the ranks; timeout: seconds for all of it; end_job: ends all of them, given an exit code; has_hook: whether
        somebody (a guard) already sees to exceptions that are not caught.
    """

    def __init__(self, comm: Any, timeout: float, end_job: Callable[[int], None], *, has_hook: bool = False) -> None:
        self._comm, self._timeout = comm, timeout
        self._end_job, self._has_hook = end_job, has_hook
        self.agreed = False
        """Whether init() has failed, and all ranks know."""
        self._clock = threading.Timer(timeout, self._time_out)
        self._clock.daemon = True

    def __enter__(self) -> Opening:
        if self._comm.size > 1:
            self._clock.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._clock.cancel()
        if error is not None and not self.agreed and self._comm.size > 1:
            end_when_not_caught(self._comm.rank, self._comm.size, self._end_job, has_hook=self._has_hook)

    def everywhere(self, step: Callable[[], Value]) -> Value:
        """``step()``, which must not communicate. If it fails on a rank, it raises on all: there its own exception,
        elsewhere CommError with that rank's."""
        failure: Exception | None = None
        text = ""
        try:
            value = step()
        except Exception as error:
            failure, text = error, f"{type(error).__name__}: {error}"
        failed = [(r, t) for r, t in enumerate(gather_text(self._comm, text)) if t]
        if not failed:
            return value
        self.agreed = True
        if failure is not None:
            raise failure
        rank, what = failed[0]
        raise CommError(f"init() failed on rank {rank} of {self._comm.size}: {what}")

    def alike(self, step: Callable[[], None]) -> None:
        """``step()``, a comparison by messages of its own that raises CommError on all ranks or on none."""
        try:
            step()
        except CommError:
            self.agreed = True
            raise

    def _time_out(self) -> None:
        last_words(
            f"qdist: rank {self._comm.rank} of {self._comm.size}: not all ranks came through init() within "
            f"{self._timeout:g} s. A rank that needs longer than this: init(timeout=seconds).\n"
        )
        faulthandler.dump_traceback(2)
        self._end_job(1)


def end_when_not_caught(rank: int, size: int, end_job: Callable[[int], None], *, has_hook: bool = False) -> None:
    """From now on an exception that nobody catches, and the end of this process, end the job."""
    process = os.getpid()

    def end_all(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        note_ending(FAILED, rank)
        text = "".join(traceback.format_exception(kind, error, trace))
        last_words(f"qdist: rank {rank} of {size} failed in init() and ends all ranks:\n{text}\n")
        end()

    def end() -> None:
        if os.getpid() == process:
            last_words()
            end_job(1)

    if not has_hook:
        sys.excepthook = end_all
    atexit.register(end)


def share_text(comm: Any, text: str) -> str:
    """Rank 0's text on every rank, as bytes: nothing is unpickled."""
    payload = np.frombuffer(text.encode(), np.uint8) if comm.rank == 0 else np.empty(0, np.uint8)
    length = np.array([payload.size], np.int64)
    comm.Bcast(length, 0)
    if comm.rank != 0:
        payload = np.empty(int(length[0]), np.uint8)
    comm.Bcast(payload, 0)
    return payload.tobytes().decode()


def gather_text(comm: Any, text: str) -> list[str]:
    """Every rank's text, in order, on every rank, as bytes: nothing is unpickled."""
    payload = np.frombuffer(text.encode(errors="replace"), np.uint8)
    lengths = np.empty(comm.size, np.int64)
    comm.Allgather(np.array([payload.size], np.int64), lengths)
    rows = np.zeros((comm.size, max(1, int(lengths.max()))), np.uint8)
    own = np.zeros(rows.shape[1], np.uint8)
    own[: payload.size] = payload
    comm.Allgather(own, rows)
    return [row[:n].tobytes().decode(errors="replace") for row, n in zip(rows, lengths)]
