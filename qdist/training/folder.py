"""A folder of checkpoints: one file a saved step, of which the newest good one counts."""

from __future__ import annotations

import os
import re
import secrets
import threading
from contextlib import suppress
from pathlib import Path

from qdist import checkpoint
from qdist.training.checks import check_whole
from qdist.training.lock import FolderLock

__all__ = ["Folder"]

_NAME = re.compile(r"step-(\d{8,})\.safetensors")
_UNFINISHED = re.compile(r"\.step-\d{8,}\.safetensors\.[0-9a-f]+\.part")


class Folder:
    """Checkpoints under a folder, by the number of steps that they are after.

    Args:
        path: the folder, which all ranks see.
        keep: how many checkpoints stay, the newest.
    """

    def __init__(self, path: str | Path, keep: int) -> None:
        check_whole("keep", keep, 1)
        self.path, self.keep = Path(path), keep
        self.lock = FolderLock(self.path)
        self._removals: list[threading.Thread] = []

    def file(self, step: int) -> Path:
        return self.path / f"step-{step:08d}.safetensors"

    def make(self) -> None:
        """Makes the folder. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)

    def prepare(self) -> None:
        """Sees that files can be written there, and removes what saves that broke off have left. Raises OSError.

        For who has the lock: another job's save may not have broken off.
        """
        probe = self.path / f".probe.{secrets.token_hex(4)}"
        try:
            with open(probe, "xb") as file:
                file.write(b"\0")
        finally:
            probe.unlink(missing_ok=True)
        for entry in os.listdir(self.path):
            if _UNFINISHED.fullmatch(entry):
                (self.path / entry).unlink(missing_ok=True)

    def saved(self) -> list[Path]:
        """The checkpoints, the newest first."""
        if not self.path.is_dir():
            return []
        found = [(int(match[1]), entry) for entry in os.listdir(self.path) if (match := _NAME.fullmatch(entry))]
        return [self.path / entry for _, entry in sorted(found, reverse=True)]

    def newest(self) -> Path | None:
        """The newest checkpoint that seems to be good: its header is."""
        for path in self.saved():
            try:
                with checkpoint.reading(path):
                    return path
            except (OSError, checkpoint.CheckpointError):
                continue
        return None

    def prune(self) -> None:
        """Removes all checkpoints but the newest, whose space is given back in a thread. Raises OSError.

        File systems may take seconds for a large file; they begin when it has neither a name nor a reader.
        """
        for path in self.saved()[self.keep :]:
            with suppress(FileNotFoundError):
                reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    path.unlink(missing_ok=True)
                finally:
                    removal = threading.Thread(target=os.close, args=(reader,), name="qdist-removal", daemon=True)
                    self._removals.append(removal)
                    removal.start()

    def wait(self) -> None:
        """Until what `prune` has removed takes no space any more."""
        while self._removals:
            self._removals.pop().join()
