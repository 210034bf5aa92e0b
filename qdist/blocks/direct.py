"""Files that are written past the page cache.

A checkpoint is written once and seldom read. In the page cache it would cost the kernel a copy and new memory for every
page, and push out what is read often. Direct writes (O_DIRECT) take whole pages from memory that begins at a page; some
file systems refuse them, and are then written to as always.
"""

from __future__ import annotations

import errno
import os
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGE", "PAGE", "DirectFile", "empty_at"]

PAGE = 4096
"""Bytes. What direct writes are multiples of: the largest sector of a disk, and the least page of memory."""

LARGE = 1 << 20
"""Bytes. Fewer are not worth a direct write, which waits for the disk."""

_REFUSED = (errno.EINVAL, errno.EOPNOTSUPP)
_DIRECT: int = getattr(os, "O_DIRECT", 0)


def empty_at(nbytes: int, offset: int, memory: NDArray[np.uint8] | None = None) -> tuple[Any, Any]:
    """Bytes that can be written directly to this offset of a file: their address is the same one within a page.

    memory: of an earlier call, for as many bytes: is used again. Returns them, and the memory that they are in.
    """
    if memory is None or memory.size != nbytes + PAGE:
        memory = np.empty(nbytes + PAGE, np.uint8)
    first = (offset - memory.ctypes.data) % PAGE
    return memory[first : first + nbytes], memory


class DirectFile:
    """A file that is there, to be written in pieces; a ``with`` block. Raises OSError as the system does."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        self._direct: int | None = None
        if _DIRECT:
            try:
                self._direct = os.open(path, os.O_WRONLY | os.O_CLOEXEC | _DIRECT)
            except OSError as error:
                if error.errno not in _REFUSED:
                    os.close(self._file)
                    raise

    def write(self, offset: int, data: NDArray[np.uint8]) -> None:
        """Writes these bytes: whole pages directly where they can be, the rest through the page cache."""
        head, body = 0, 0
        if self._direct is not None and data.size >= LARGE and (data.ctypes.data - offset) % PAGE == 0:
            head = -offset % PAGE
            body = (data.size - head) // PAGE * PAGE
        _write(self._file, data[:head], offset)
        done = head + self._write_directly(data[head : head + body], offset + head)
        _write(self._file, data[done:], offset + done)

    def _write_directly(self, data: NDArray[np.uint8], offset: int) -> int:
        """Returns how many bytes were taken; the others are left to the page cache."""
        done = 0
        while done < data.size and self._direct is not None:
            try:
                done += os.pwrite(self._direct, data[done:].data, offset + done)
            except OSError as error:
                if error.errno not in _REFUSED:
                    raise
                self._close_direct()
            if done % PAGE:
                break
        return done

    def sync(self) -> None:
        """Waits until everything is on the disk."""
        os.fsync(self._file)

    def _close_direct(self) -> None:
        if self._direct is not None:
            os.close(self._direct)
            self._direct = None

    def __enter__(self) -> DirectFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close_direct()
        os.close(self._file)


def _write(file: int, data: NDArray[np.uint8], offset: int) -> None:
    done = 0
    while done < data.size:
        done += os.pwrite(file, data[done:].data, offset + done)
