"""`qdist run --restarts`: a job that fails is started again, on the hosts that are left."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from qdist.comm.errors import CommError
from qdist.comm.guard.endings import REQUEUE
from qdist.comm.launch.hosts import Host, reachable

__all__ = ["BACKOFF", "Restarts", "note_reason"]

_log = logging.getLogger("qdist.comm")

BACKOFF = 1.0
"""Seconds before the first restart, where nothing else is said."""
_LONGEST_PAUSE = 300.0
_PROBE = 10.0
"""Seconds within which a host answers by ssh, or is gone."""

_DONE = {0, REQUEUE}
"""Exit codes of jobs that came to their end, or saved their work to go on later."""
_ASKED = {128 + n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)}
"""Exit codes of jobs that a signal to the launcher ended; where one ended a rank, the job has noted a reason."""

_reason = ""


def note_reason(why: str) -> None:
    """Why the job that has just ended did so."""
    global _reason
    _reason = why


class Restarts:
    """How often a job is started again, and with how few ranks.

    Args:
        most: starts after the first.
        min_ranks: with hosts: those that do not answer any more are left out while the others have slots for so many
            ranks. None: all ranks are needed.
        backoff: seconds before the first restart; each pause is twice the one before.

    A job ends for good with exit code 0, when a signal asked for it, and after `most` restarts, with its last code.
    Ranks find in QDIST_RESTART how many restarts there have been, and in QDIST_RESTART_REASON why the last.

    Raises ValueError for numbers that cannot be.
    """

    def __init__(self, most: int, min_ranks: int | None = None, backoff: float = BACKOFF) -> None:
        if most < 0:
            raise ValueError(f"--restarts {most}: at least 0")
        if min_ranks is not None and min_ranks < 1:
            raise ValueError(f"--min-ranks {min_ranks}: at least 1")
        if not 0 <= backoff <= _LONGEST_PAUSE:
            raise ValueError(f"--backoff {backoff:g}: from 0 to {_LONGEST_PAUSE:g} seconds")
        self._most, self._min_ranks, self._backoff = most, min_ranks, backoff

    def run(self, start: Callable[[int | None, Sequence[Host]], int], ranks: int | None, hosts: list[Host]) -> int:
        """Calls start(ranks, hosts) until the job ends for good; returns its exit code."""
        wanted = ranks if ranks is not None else max(1, sum(slots for _, slots in hosts))
        if self._min_ranks is not None and self._min_ranks > wanted:
            raise ValueError(f"--min-ranks {self._min_ranks}: the job has {wanted} ranks")
        number, here = wanted, hosts
        for restart in range(self._most + 1):
            note_reason("")
            try:
                code = start(number, here)
            except CommError as error:
                if restart == self._most:
                    raise
                code, why = 1, str(error)
            else:
                why = _reason or f"exit code {code}"
            if code in _DONE or (code in _ASKED and not _reason):
                return code
            if restart == self._most:
                if self._most:
                    print(f"qdist run: no restart is left after {self._most}: {why}", file=sys.stderr)
                return code
            pause = min(_LONGEST_PAUSE, self._backoff * 2**restart)
            time.sleep(pause)
            here, number = self._left(hosts, wanted)
            if number < (self._min_ranks or wanted):
                gone = ", ".join(name for name, _ in hosts if name not in dict(here))
                print(
                    f"qdist run: no restart: {gone} cannot be reached, and the others have slots for {number} ranks; "
                    f"{self._min_ranks or wanted} are needed (--min-ranks): {why}",
                    file=sys.stderr,
                )
                return code
            where = f" on {', '.join(name for name, _ in here)}" if here else ""
            _log.warning("restart %d of %d with %d ranks%s: %s", restart + 1, self._most, number, where, why)
            print(
                f"qdist run: restart {restart + 1} of {self._most} after {pause:g} s, {number} ranks{where}: {why}",
                file=sys.stderr,
                flush=True,
            )
            os.environ["QDIST_RESTART"], os.environ["QDIST_RESTART_REASON"] = str(restart + 1), why
        raise AssertionError("the last round returns")

    def _left(self, hosts: list[Host], wanted: int) -> tuple[list[Host], int]:
        """The hosts that answer, and how many ranks there are then. All ranks where none is gone: they may be more than
        the slots."""
        answering = reachable(hosts, _PROBE)
        if len(answering) == len(hosts):
            return hosts, wanted
        return answering, min(wanted, sum(slots for _, slots in answering))
