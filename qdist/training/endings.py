"""How a training leaves before its end: exceptions with exit codes that schedulers and `qdist run` understand."""

from __future__ import annotations

from qdist.comm.guard.endings import REQUEUE

__all__ = ["EXIT_REQUEUE", "EXIT_SAVE_FAILED", "Preempted", "SaveFailed"]

EXIT_REQUEUE = REQUEUE
"""The exit code after SIGTERM or SIGUSR1, when all is saved: start the same command again to go on (EX_TEMPFAIL)."""

EXIT_SAVE_FAILED = 74
"""The exit code when a checkpoint cannot be written: make room, then start the same command again (EX_IOERR)."""


class Preempted(SystemExit):
    """A signal asked the training to end. The step was finished and saved; all ranks raise it."""

    def __init__(self, text: str) -> None:
        super().__init__(EXIT_REQUEUE)
        self.text = text

    def __str__(self) -> str:
        return self.text


class SaveFailed(SystemExit):
    """A checkpoint cannot be written. The last good one is intact; all ranks raise it, and rank 0 has printed why."""

    def __init__(self, text: str) -> None:
        super().__init__(EXIT_SAVE_FAILED)
        self.text = text

    def __str__(self) -> str:
        return self.text
