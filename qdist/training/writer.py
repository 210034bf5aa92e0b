"""Writes checkpoints: at once, or in a thread behind the next steps."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.checkpoint import Saving
from qdist.tensorfile import Ranks, agreeing

__all__ = ["Writer"]


class Writer:
    """One checkpoint at a time. Every rank has one; `start` and `finish` are collective, and raise OSError
    on all ranks when one cannot write.

    behind: whether a thread writes a copy; otherwise `start` returns when the file is complete.
    """

    def __init__(self, ranks: Ranks, behind: bool) -> None:
        self._ranks, self._behind = ranks, behind
        self._saving: Saving | None = None
        # Kept from one checkpoint to the next: the kernel takes longer to give new memory than a copy takes.
        self._copies: dict[str, NDArray[np.uint8]] | None = {} if behind else None
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    @property
    def path(self) -> Path | None:
        """The file that is being written; None if there is none."""
        return None if self._saving is None else self._saving.path

    @property
    def is_busy(self) -> bool:
        """Whether this rank's thread still writes."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, path: Path, state: Any) -> None:
        """Begins a checkpoint; one that is being written is completed first."""
        self.finish()
        saving = self._saving = Saving(path, state, self._ranks, copies=self._copies)
        if self._behind:
            self._thread = threading.Thread(target=self._write, args=(saving,), name="qdist-checkpoint", daemon=True)
            self._thread.start()
        else:
            self._write(saving)
            self.finish()

    def finish(self) -> Path | None:
        """Waits until the checkpoint that is being written, if any, is complete; returns its file.

        Called when no rank's thread is busy it does not wait.
        """
        if self._saving is None:
            return None
        try:
            self._settle()
            self._saving.commit()
        except BaseException:
            self.discard()
            raise
        path, self._saving = self._saving.path, None
        return path

    def discard(self) -> None:
        """Gives up what is being written, on this rank; not collective."""
        if self._thread is not None:
            self._thread.join()
        self._thread = self._error = None
        if self._saving is not None:
            self._saving.discard()
            self._saving = None

    def _write(self, saving: Saving) -> None:
        try:
            saving.write()
        except Exception as error:  # told to all ranks by _settle
            self._error = error

    def _settle(self) -> None:
        """Waits for this rank's thread; what failed on one rank is raised on all."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        with agreeing(self._ranks):
            if error is not None:
                raise error
