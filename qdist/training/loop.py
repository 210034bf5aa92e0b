"""The loop of a training: counts steps, saves them, hears signals, writes the log, and goes on after a restart."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from qdist import checkpoint
from qdist.comm import Communicator, world
from qdist.comm.guard.endings import SAVES, note_ending
from qdist.progress import Progress, is_shown
from qdist.tensorfile import CheckpointError, agreeing
from qdist.training import state
from qdist.training.checks import check_whole
from qdist.training.endings import EXIT_REQUEUE, Preempted, SaveFailed
from qdist.training.folder import Folder
from qdist.training.records import OWN_NAMES, History, Log, Patience
from qdist.training.signals import Signals
from qdist.training.writer import Writer

__all__ = ["Loop", "Step", "steps"]

_log = logging.getLogger("qdist.training")

RESTART, REASON = "QDIST_RESTART", "QDIST_RESTART_REASON"
"""Set by `qdist run --restarts`: how many restarts there have been, and why the last."""


LOSS = "loss"
"""The metric that is watched where none is named."""

KEEP = 3
"""How many checkpoints stay where nothing else is said."""


class Step(int):
    """The number of a step, from 0 on."""

    _loop: Loop

    def record(self, **metrics: Any) -> None:
        """Metrics of this step, numbers, for the history, the log and early stopping; the same on every rank. Raises
        ValueError for the names that lines of the log have themselves: step, event and time."""
        for name in metrics.keys() & OWN_NAMES:
            raise ValueError(f"record({name}=...): lines of the log have step, event and time themselves; rename it")
        self._loop._recorded.update({name: float(value) for name, value in metrics.items()})

    def stop(self, taken: bool = True) -> None:
        """This is the last step; one rank that says so is enough. taken=False, on all ranks: the one before was."""
        self._loop._stopping = True
        self._loop._taken = taken


def steps(
    total: int | None,
    parts: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    *,
    every: int | None = None,
    seconds: float | None = None,
    keep: int = KEEP,
    behind: bool = False,
    resume: bool | str | Path = True,
    log: str | Path | bool = True,
    patience: int | None = None,
    watch: str = LOSS,
    least: float = 0.0,
    progress: bool | None = None,
    name: str = "training",
    comm: Communicator | None = None,
) -> Loop:
    """The steps of a training that survives: ``for step in steps(1000, {"model": model, "optimizer": adam}, "run1")``.

    Args:
        total: how many steps, those of earlier runs included; None: until `Step.stop`.
        parts: what is saved, by name: anything with state_dict and load_state_dict (models, optimisers, schedules,
            `Batches`, generators), ParallelModels, Engines, `parallel.Saved`. What dropout and shots draw next is saved
            too. What is divided over ranks by itself, as a Zero or its optimiser, is refused with what to give instead.
        folder: where checkpoints are, which all ranks see; None: nothing is saved.
        every, seconds: a checkpoint after so many steps, or so much time, or both; after the last step in any case.
        keep: how many checkpoints stay.
        behind: write a copy in a thread while the next steps run.
        resume: go on from the newest good checkpoint in the folder; or a checkpoint, or a folder of them, of another
            run to start from where the folder has none. False: begin anew.
        log: the JSONL file of metrics and events that rank 0 writes; True: ``log.jsonl`` in the folder; False: none.
        patience, watch, least: end when this metric has not got smaller, by more than `least`, for `patience` steps.
        progress: whether rank 0 draws a bar; by default in terminals and notebooks.
        name: beside the bar, and in messages.
        comm: the ranks that train, all of which take all steps; the world when not given.

    On SIGTERM and SIGUSR1 the step is finished and saved, and all ranks leave by `Preempted`, with exit code 75.
    A checkpoint that cannot be written ends all ranks by `SaveFailed`, with exit code 74 and one message that names the
    last good one; so does a folder that another job writes to, and one that is read-only.

    On the same ranks a resumed training computes the same bits; on others the same up to rounding, except for shots.
    """
    if parts is not None and not isinstance(parts, Mapping):
        raise TypeError(f"parts is a dict, {{'model': model}}, of what is saved; got {type(parts).__name__}")
    for key, part in (parts or {}).items():
        if not (hasattr(part, "stored_state") or hasattr(part, "state_dict")):
            raise TypeError(f"part {key!r} has no state_dict() to save: it is {type(part).__name__}")
        if (whole := state.whole_in(part)) is not None:
            raise ValueError(
                f"part {key!r} ({type(part).__name__}) is divided over ranks, and its state_dict() is not all of it: "
                f"give {whole}, whose checkpoints fit any ranks"
            )
    if folder is None and keep != KEEP:
        raise ValueError(f"keep={keep!r} says how many checkpoints stay, and there is no folder= to save to")
    return Loop(
        total,
        dict(parts or {}),
        None if folder is None else Folder(folder, keep),
        world() if comm is None else comm,
        every=every,
        seconds=seconds,
        behind=behind,
        resume=resume,
        log=log,
        patience=None if patience is None else Patience(patience, least),
        watch=watch,
        least=least,
        progress=progress,
        name=name,
    )


class Loop:
    """What `steps` gives: iterate over it once. `history` has the metrics of all steps, `done` is their number."""

    def __init__(
        self,
        total: int | None,
        parts: dict[str, Any],
        folder: Folder | None,
        comm: Communicator,
        *,
        every: int | None,
        seconds: float | None,
        behind: bool,
        resume: bool | str | Path,
        log: str | Path | bool,
        patience: Patience | None,
        watch: str,
        least: float,
        progress: bool | None,
        name: str,
    ) -> None:
        if total is not None:
            check_whole("total", total, 0)
        if every is not None:
            check_whole("every", every, 1)
        if seconds is not None and not seconds > 0:
            raise ValueError(f"seconds={seconds}: must be positive")
        if folder is None and (every is not None or seconds is not None or behind):
            raise ValueError("every=, seconds= and behind= say when to save, and there is no folder= to save to")
        if patience is None and (watch, least) != (LOSS, 0.0):
            raise ValueError("watch= and least= say when patience is at its end, and there is no patience=")
        self.total, self.parts, self.comm = total, parts, comm
        self.done = 0
        self.history = History()
        self._folder, self._every, self._seconds = folder, every, seconds
        self._resume, self._log_at, self._patience, self._watch = resume, log, patience, watch
        self._progress, self._name = progress, name
        self._writer = Writer(comm, behind)
        self._recorded: dict[str, float] = {}
        self._stopping = self._ended = False
        self._taken = True
        self._log: Log | None = None
        self._problem: OSError | None = None
        self._good: Path | None = None

    def __iter__(self) -> Iterator[Step]:
        with ExitStack() as stack:
            # Before the first collective: a signal from here on is not lost.
            self._signals = stack.enter_context(Signals()) if self._folder is not None else Signals()
            if self._folder is not None:
                note_ending(SAVES, self.comm.rank)
                stack.callback(self._folder.lock.release)
            self._begin()
            if self._log is not None:
                stack.callback(self._log.close)
            stack.callback(self._writer.discard)
            bar = stack.enter_context(Progress(self._name, self.total, shown=is_shown(self.comm, self._progress)))
            bar.advance(self.done)
            self._saved_at = time.monotonic()
            while not self._ended and (self.total is None or self.done < self.total):
                step = Step(self.done)
                step._loop = self
                yield step
                if not self._taken:
                    self._end()
                    break
                bar.advance()
                self._after(step)
            with self._saving():
                self._completed(self._writer.finish())

    # Before the first step -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Goes on from a checkpoint if there is one, and opens the log."""
        if self._folder is not None:
            self._take_folder(self._folder)
        candidates: list[Path] = []
        with agreeing(self.comm):
            if self.comm.rank == 0:
                candidates = self._candidates()
        candidates = self.comm.broadcast_object(candidates)
        for path in candidates:
            try:
                restore = self._read(path)
            except CheckpointError as error:
                if self.comm.rank == 0:
                    print(f"qdist: {path} is left out: {error}", file=sys.stderr)
                continue
            restore()
            self._good = path
            _log.info("%s goes on from %s, after step %d", self._name, path, self.done)
            break
        else:
            if candidates:
                self._fail(f"not one checkpoint of {candidates[0].parent} is good")
        try:
            with agreeing(self.comm):
                self._open_log()
        except OSError as error:
            self._fail(f"the log cannot be written: {error}")

    def _take_folder(self, folder: Folder) -> None:
        leads = self.comm.rank == 0
        try:
            with agreeing(self.comm):
                if leads:
                    folder.make()
            folder.lock.take(self.comm)
            with agreeing(self.comm):
                if leads:
                    folder.prepare()
        except OSError as error:
            self._good = self.comm.broadcast_object(folder.newest() if leads else None)
            self._fail(f"no checkpoint can be written to {folder.path}: {error}")

    def _candidates(self) -> list[Path]:
        """The checkpoints to try, the best first."""
        if self._resume is False:
            return []
        found = [] if self._folder is None else self._folder.saved()
        if found or self._resume is True:
            return found
        given = Path(self._resume)
        if given.is_dir():
            found = Folder(given, 1).saved()
        elif given.exists():
            found = [given]
        if not found:
            raise ValueError(f"resume={str(given)!r}: there is no checkpoint")
        return found

    def _read(self, path: Path) -> Callable[[], None]:
        """Reads a checkpoint; what is returned takes it over. Raises on all ranks when one cannot read it."""
        rank = self.comm.rank
        with agreeing(self.comm), checkpoint.reading(path) as found:
            if not isinstance(found, dict) or "loop" not in found:
                raise CheckpointError(f"{path} was not written by a training loop")
            restore = state.restoring(self.parts, found, rank)
            loop = checkpoint.read_all(found["loop"])

        def take_over() -> None:
            restore()
            self.done, self._ended = loop["done"], loop["ended"]
            self.history.load_state_dict(loop["history"], self.done)
            if self._patience is not None and loop["patience"] is not None:
                self._patience.best, self._patience.since = loop["patience"]

        return take_over

    def _open_log(self) -> None:
        at = self._log_at
        if self.comm.rank != 0 or at is False or (at is True and self._folder is None):
            return
        path = self._folder.path / "log.jsonl" if at is True and self._folder is not None else Path(str(at))
        self._log = Log(path, self.done)
        if self._good is not None:
            restart = {"restart": int(os.environ[RESTART])} if os.environ.get(RESTART, "").isdigit() else {}
            why = {"reason": os.environ[REASON]} if os.environ.get(REASON) else {}
            told = {"at": self.done, "checkpoint": str(self._good), "ranks": self.comm.size, **restart, **why}
            self._log.write(event="resumed", **told)

    # After each step -------------------------------------------------------------------------------------------------

    def _after(self, step: Step) -> None:
        recorded, self._recorded = self._recorded, {}
        self.history.add(recorded)
        self.done += 1
        if self._patience is not None and self._watch in recorded:
            self._stopping |= self._patience.over(recorded[self._watch])
        self._write(step=int(step), **recorded)
        asked, stop, due, failed, busy = self._agree()
        last = bool(stop) or self.done == self.total
        self._ended = bool(stop)
        with self._saving():
            if failed:
                raise self._problem or OSError("rank 0 cannot write the log")
            if not busy:
                self._completed(self._writer.finish())
            if self._folder is not None and (due or last or asked):
                self._save(last or bool(asked))
        if asked:
            self._leave(signal.Signals(asked).name)

    def _end(self) -> None:
        """The training is over, and the step that was begun is none."""
        self._ended = True
        if self._folder is not None:
            with self._saving():
                self._save(wait=True)

    def _agree(self) -> list[int]:
        """(signal, whether to stop, whether a checkpoint is due, whether the log failed, whether a thread writes), of
        all ranks together."""
        due = self._every is not None and self.done % self._every == 0
        if self._seconds is not None and self.comm.rank == 0:
            due = due or time.monotonic() - self._saved_at >= self._seconds
        mine = [self._signals.asked, self._stopping, due, self._problem is not None, self._writer.is_busy]
        if self.comm.size == 1:
            return [int(value) for value in mine]
        return self.comm.all_reduce(np.array(mine, np.int64), "max").tolist()

    def _save(self, wait: bool) -> None:
        assert self._folder is not None
        whole = state.stored(self.parts, self.comm.rank)
        patience = None if self._patience is None else [self._patience.best, self._patience.since]
        history = self.history.state_dict() if self.comm.rank == 0 else {}
        whole["loop"] = {"done": self.done, "ended": self._ended, "history": history, "patience": patience}
        self._completed(self._writer.finish())
        path = self._folder.file(self.done)
        self._folder.wait()
        self._writer.start(path, whole)
        self._saved_at = time.monotonic()
        if wait:
            self._writer.finish()
        if self._writer.path is None:
            self._completed(path)

    def _completed(self, path: Path | None) -> None:
        """A checkpoint is on disk."""
        if path is None:
            return
        self._good = path
        if self.comm.rank == 0 and self._folder is not None:
            with suppress(OSError):  # Old files that stay are no reason to end a training.
                self._folder.prune()
            self._write(event="saved", checkpoint=str(path))

    def _write(self, **entry: Any) -> None:
        """To the log; what fails here is raised, on all ranks, after the next step's agreement."""
        if self._log is None:
            return
        try:
            self._log.write(**entry)
        except OSError as error:
            self._problem = error

    # Leaving ---------------------------------------------------------------------------------------------------------

    def _saving(self) -> _Failing:
        return _Failing(self)

    def _leave(self, name: str) -> None:
        text = f"{self._name}: {name} after step {self.done}; all is saved in {self._good}, exit code {EXIT_REQUEUE}"
        self._write(event="left", signal=name, checkpoint=str(self._good))
        if self.comm.rank == 0:
            print(f"qdist: {text}", file=sys.stderr, flush=True)
        raise Preempted(text)

    def _fail(self, why: str) -> None:
        good = "there is no good checkpoint yet" if self._good is None else f"the last good checkpoint is {self._good}"
        text = f"{self._name}: {why}; {good}"
        if self.comm.rank == 0:
            print(f"qdist: {text}", file=sys.stderr, flush=True)
        raise SaveFailed(text)


class _Failing:
    """A ``with`` block in which an OSError, which all ranks have, ends the training with a message."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, OSError):
            self._loop._fail(f"the checkpoint of step {self._loop.done} cannot be written: {error}")
