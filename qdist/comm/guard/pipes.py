"""The last output of a rank: what it says before it ends the job, and what a launcher still has to read then."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
import termios
import time
from contextlib import suppress

__all__ = ["last_words", "unread", "wait_for_readers"]


def last_words(text: str = "") -> None:
    """Writes what the program has printed, and this text to stderr. Raises nothing: a disk that is full, or a stream
    that is closed, must not keep a rank from ending the job."""
    for stream, words in ((sys.stdout, ""), (sys.stderr, text)):
        with suppress(AttributeError, OSError, ValueError):
            stream.write(words)
            stream.flush()


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
