"""Output that a launcher still has to read: it is lost when the launcher ends the ranks first."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import termios
import time

__all__ = ["unread", "wait_for_readers"]


def wait_for_readers(longest: float = 1.0) -> None:
    """Until somebody has read what was printed: a launcher that ends ranks drops what is still in their pipes."""
    until = time.monotonic() + longest
    while time.monotonic() < until and any(map(unread, (1, 2))):
        time.sleep(0.01)


def unread(stream: int) -> int:
    """Bytes that were written into a pipe and not yet read; 0 if it is none."""
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(stream).st_mode)
        return struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))[0] if is_pipe else 0
    except OSError:
        return 0
