"""A lock on a folder of checkpoints: two jobs that write to one folder would take each other's files for their own."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from qdist.tensorfile import Ranks, agreeing

__all__ = ["FolderLock"]

NAME = ".lock"
PATIENCE = 20.0
"""Seconds for ranks of a job whose launcher was killed to end: the same job may have been started again at once."""

# File systems without locks say so by one of these.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class FolderLock:
    """Held from `take` to `release` by the first of a job's ranks; the kernel gives it back when that process dies.

    The file says who has it. Over NFS it holds between hosts where the server has locks; a file system without locks
    lets everybody pass.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._file: int | None = None

    def take(self, ranks: Ranks) -> None:
        """Waits a while for another job to release it. Collective; raises OSError, naming that job, if it does not."""
        end = time.monotonic() + PATIENCE
        held = False
        while not held:
            with agreeing(ranks):
                if ranks.rank == 0:
                    held = self._try()
                    if not held and time.monotonic() > end:
                        raise OSError(f"another job writes there, {self._holder()}: end it, or take another folder")
            # Together: ranks that waited for the first alone would miss it after their time-out.
            held = ranks.broadcast_object(held)
            if not held:
                time.sleep(0.1)

    def release(self) -> None:
        """On the rank that has it; nothing on others."""
        if self._file is None:
            return
        # Removed while it is still held: who has opened it meanwhile sees that it is not the folder's file any more.
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        # A process that was forked meanwhile shares the lock, so closing alone would leave it locked.
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)
        self._file = None

    def _try(self) -> bool:
        """Whether this process has the lock now."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if not self._locked(file):
                return False
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            told = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "since": now})
            os.ftruncate(file, 0)
            os.pwrite(file, told.encode(), 0)
            self._file, file = file, -1
            return True
        finally:
            if file >= 0:
                os.close(file)

    def _locked(self, file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file))
        except FileNotFoundError:
            return False

    def _holder(self) -> str:
        try:
            told = json.loads(self._path.read_text())
            return f"process {told['pid']} on {told['host']} since {told['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            return f"which has locked {self._path}"
