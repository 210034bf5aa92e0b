"""Guard: a thread that watches this rank's calls, names who is missing when one takes too long, and ends the job.

A blocking MPI call cannot be interrupted, so a thread watches instead. It sleeps while calls are quick. When one takes
long it notes on a board (a store that rank 0 serves) where this rank is waiting; when the time is up, it reads there
who else is, so it knows who is not.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from qdist.comm.errors import CommError
from qdist.comm.guard.endings import FAILED, JOINED, LEFT, note_ending
from qdist.comm.guard.naming import ranks_text
from qdist.comm.guard.pipes import last_words, wait_for_readers
from qdist.comm.messages.call import Call, DirectEntry, forget
from qdist.comm.store.client import StoreClient, StoreGone, StoreRefused

__all__ = ["Guard"]

_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_PACKAGE = str(Path(os.path.abspath(__file__)).parents[2]) + os.sep
"""Where qdist's own files are: a call is reported at the first line outside of them."""


class Guard:
    """Watches this process's communications and ends the job when one cannot come to an end."""

    def __init__(
        self,
        rank: int,
        size: int,
        timeout: float,
        board: StoreClient | None,
        abort: Callable[[int], None],
        *,
        unattended: bool = False,
        round: int = 0,
    ) -> None:
        """``unattended``: no launcher ends the other ranks when one dies, so the board is asked about that too.

        ``round``: which of the guards this is that use the same board one after the other.
        """
        self.rank, self.size, self.timeout = rank, size, timeout
        self.active: list[Call | DirectEntry] = []
        self._board = board
        self._abort = abort
        self._unattended = unattended
        self._left, self._seen, self._at = f"left{round}/", f"seen{round}/", f"at{round}/"
        self._tick = min(1.0, max(0.05, timeout / 8))
        self._noted: dict[str, Call] = {}
        self._suspected: Call | None = None  # It waits for a rank that has left; see _look_for_the_dead.
        self._stop = threading.Event()
        self._previous_hook: Any = None
        if size > 1 and board is not None:
            note_ending(JOINED, rank)
            self._previous_hook = sys.excepthook
            sys.excepthook = self._end_all
            self._thread = threading.Thread(target=self._watch, name="qdist-guard", daemon=True)
            self._thread.start()

    @contextmanager
    def watching(self, call: Call) -> Iterator[None]:
        """Within it, ``call`` is what this thread waits for."""
        self.active.append(call)
        try:
            yield
        finally:
            forget(self.active, call)

    def leave(self) -> None:
        """This rank communicates no more: whoever still waits for it learns that.

        Rank 0, which serves the board, stays until all have left. So does everyone where no launcher would end a rank
        that MPI_Finalize keeps waiting for a dead one.
        """
        if self._stop.is_set():
            return
        self._stop.set()
        note_ending(LEFT, self.rank)
        if self._previous_hook is not None:
            sys.excepthook = self._previous_hook
        if self._board is None:
            return
        self._thread.join(timeout=2)  # No thread should be about when the interpreter ends.
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            try:
                if self._have_all_left(self._board):
                    return
            except (StoreGone, StoreRefused):
                # Where everyone stays until all have left, rank 0 was to be the last.
                if self._unattended:
                    self._fail(self._rank_0_is_gone())
                return
            except CommError:
                pass  # Rank 0 is slow: ask again.
            time.sleep(0.02)

    def _have_all_left(self, board: StoreClient) -> bool:
        """Says that this rank has left, and whether nobody is left for whom it must stay."""
        board.set(f"{self._left}{self.rank}", "yes")
        if self.rank != 0 and not self._unattended:
            return True
        if len(board.list(self._left)) < self.size:
            self._look_for_the_dead(None)
            return False
        if not self._unattended:
            return True
        # The board goes with rank 0, so rank 0 waits until everyone has read there that all have left.
        board.set(f"{self._seen}{self.rank}", "yes")
        if self.rank != 0 or len(board.list(self._seen)) == self.size:
            return True
        self._look_for_the_dead(None)
        return False

    def report_death(self, rank: int) -> None:
        """Puts on the board that a process manager saw this rank's process break off, unless it told more itself."""
        if self._board is None:
            return
        try:
            if f"died/{rank}" not in self._board.list("died/"):
                self._board.set(f"died/{rank}", "died: it was killed or crashed")
        except CommError:
            return

    def forget_parent(self) -> None:
        """In a forked child, which is no rank: nobody watches here, and its end is its own."""
        # A lock that another thread held when the process forked is never released: hence a new one.
        self._stop = threading.Event()
        self._stop.set()
        self._board = None
        self.active.clear()
        if sys.excepthook == self._end_all:
            sys.excepthook = self._previous_hook

    def tell_mismatch(self, group: int, why: str) -> None:
        """Puts on the board that a group (by the number that its ranks share) is broken: ranks that wait in a call on
        it for one that raised, and whose exception was caught, would wait in vain."""
        if self._board is not None:
            with suppress(CommError):
                self._board.set(f"mismatch/{group:x}", f"rank {self.rank} raised CollectiveMismatch: {why}")

    # The watching thread ---------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        waiting: dict[int, tuple[Call | DirectEntry, Call, float]] = {}
        next_look = self._tick
        while not self._stop.wait(self._tick):
            now = time.monotonic()
            # Keeping the entry keeps its id from being used again.
            waiting = {id(e): waiting.get(id(e)) or (e, Call.of(e), now) for e in list(self.active)}
            slow = [(c, now - since) for _, c, since in waiting.values() if now - since >= 2 * self._tick]
            call, waited = max(slow, key=lambda item: item[1], default=(None, 0.0))
            try:
                self._wipe([c for _, c, _ in waiting.values()])
                if call is None:
                    next_look = 2 * self._tick
                    if self._unattended:
                        self._look_for_the_dead(None)
                    continue
                self._note(call)
                if waited >= self.timeout:
                    self._time_out(call, waited)
                elif waited >= next_look:
                    suspected = self._look_for_the_dead(call)
                    next_look = waited + 2 * self._tick if suspected else waited * 1.5
            except (StoreGone, StoreRefused):
                if self._unattended and not self._stop.is_set():
                    self._fail(self._rank_0_is_gone())
            except CommError as error:
                if call is not None and waited >= self.timeout:
                    self._fail(f"{self._headline(call, waited)} Who is missing is not known: {error}")

    def _note(self, call: Call) -> None:
        """On the board, once a call: here I wait."""
        assert self._board is not None
        key = f"{self._board_key(call)}{call.comm.rank}"
        if self._noted.get(key) is not call:
            self._board.set(key, json.dumps({"sequence": call.sequence, "call": call.describe()}))
            self._noted[key] = call

    def _board_key(self, call: Call) -> str:
        """What the board files this call's group under: names may be used twice, sets of ranks with a name are not."""
        return f"{self._at}{call.comm.name}/{zlib.crc32(repr(call.comm.group).encode()):08x}/"

    def _wipe(self, under_way: list[Call]) -> None:
        """Off the board with what has come to its end."""
        for key, call in list(self._noted.items()):
            if not any(call is c for c in under_way) and self._board is not None:
                self._board.set(key, "")
                del self._noted[key]

    def _look_for_the_dead(self, call: Call | None) -> bool:
        """Ends this rank where another has died, or where one that the call waits for has ended its program. That one
        may have ended after this very call, so it counts when the call waits on: True says to look again soon."""
        if self._board is None:
            return False
        if call is not None and call.comm.agreement_number is not None:
            told = self._board.get(f"mismatch/{call.comm.agreement_number:x}")
            if told is not None:
                self._fail(
                    f"qdist: rank {self.rank} of {self.size} waits in {call.describe()} on group {call.comm.name!r} in "
                    f"vain: {told}. {_where(call)}"
                )
        gone = self._board.list("died/") | self._board.list(self._left)
        for key, how in gone.items():
            kind, _, rank = key.partition("/")
            if kind == "died" and int(rank) != self.rank:
                self._fail(f"qdist: rank {self.rank} of {self.size} ends because rank {rank} {how}")
            if call is not None and kind != "died" and int(rank) in self._awaited(call):
                if self._suspected is not call:
                    self._suspected = call
                    return True
                self._fail(
                    f"qdist: rank {self.rank} of {self.size} waits in {call.describe()} on group {call.comm.name!r}, "
                    f"but rank {rank} has already ended its program. {_where(call)}"
                )
        return False

    def _awaited(self, call: Call) -> list[int]:
        """World ranks that must come before this call can end."""
        group = call.comm.group
        others = group if call.peer is None else (group[call.peer],)
        return [r for r in others if r != self.rank]

    def _time_out(self, call: Call, waited: float) -> None:
        assert self._board is not None
        comm = call.comm
        posts = {
            int(key.rpartition("/")[2]): json.loads(value)
            for key, value in self._board.list(self._board_key(call)).items()
            if value
        }
        here, elsewhere, missing = [], [], []
        for rank in range(comm.size) if call.peer is None else [call.peer]:
            post = posts.get(rank)
            if rank == comm.rank:
                here.append(rank)
            elif post is None:
                missing.append(rank)
            elif call.peer is None and post["sequence"] == call.sequence:
                here.append(rank)
            else:
                elsewhere.append(f"rank {rank} waits in {post['call']}")
        if call.peer is None and here and min(here) != comm.rank:
            # One report is enough; this one comes only if the first rank there does not end the job.
            time.sleep(2.0)
        lines = [self._headline(call, waited)]
        if missing:
            lines.append(f"Not there: {ranks_text(missing)}.")
        if elsewhere:
            lines.append(f"Elsewhere: {'; '.join(elsewhere)}.")
        if call.peer is None:
            lines.append(f"There: {ranks_text(here)}.")
        lines.append(_where(call))
        lines.append("A rank that needs longer than this: init(timeout=seconds).")
        self._fail("\n  ".join(lines))

    def _rank_0_is_gone(self) -> str:
        return f"qdist: rank {self.rank} of {self.size}: rank 0 is gone"

    def _headline(self, call: Call, waited: float) -> str:
        comm = call.comm
        return (
            f"qdist: rank {comm.rank} of {comm.size}: {call.describe()}, call {call.sequence} on group {comm.name!r} "
            f"(world {ranks_text(comm.group)}), waited {waited:.1f} s (the time-out is {self.timeout:g} s)."
        )

    def _fail(self, message: str) -> None:
        note_ending(FAILED, self.rank)
        last_words(f"{message}\n")
        self._tell_unattended("ended with: " + message.replace("\n", " "))
        self.end_job()

    # An exception that nobody caught ---------------------------------------------------------------------------------

    def _end_all(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        note_ending(FAILED, self.rank)
        text = "".join(traceback.format_exception(kind, error, trace))
        last_words(f"qdist: rank {self.rank} of {self.size} failed and ends all ranks:\n{text}\n")
        self._tell_unattended(f"failed: {kind.__name__}: {error}")
        self.end_job()

    def end_job(self, code: int = 1) -> None:
        """Ends all ranks: by the launcher, or because the board tells them."""
        if not self._unattended:
            wait_for_readers()
            self._abort(code)
        os._exit(code)

    def _tell_unattended(self, how: str) -> None:
        if not self._unattended or self._board is None:
            return
        try:
            self._board.set(f"died/{self.rank}", how)
            if self.rank == 0:
                time.sleep(3 * self._tick)  # The board dies with rank 0: let the others read it.
        except CommError:
            pass


def _between(path: str) -> bool:
    """Whether a file is of this package, or of Python's own library (functools, contextlib), by which it calls."""
    return path.startswith(_PACKAGE) or (path.startswith(_LIBRARY) and "-packages" + os.sep not in path)


def _where(call: Call) -> str:
    """Where in the user's program the call was made."""
    frame = sys._current_frames().get(call.thread)
    while frame is not None and _between(os.path.abspath(frame.f_code.co_filename)):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"Called at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}."
