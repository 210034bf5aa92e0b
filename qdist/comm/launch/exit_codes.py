"""How processes ended that are not children of this one, and what that makes of a job's exit code.

A launcher's own code does not tell: MPICH's gives the wait status of all ranks ORed together, in which signal 9 looks
like exit(9), and the SIGKILL that it sends to the others mixes with the signal that ended the first.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from collections.abc import Iterable

__all__ = ["KILLED", "exit_code_of", "job_code"]

_INFO = struct.Struct("=QQ11Ii")
"""struct pidfd_info of linux/pidfd.h: a mask of fields, the cgroup, ids, and the wait status."""
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_STATUS = 1 << 3

KILLED = {128 + signal.SIGKILL, 128 + signal.SIGTERM}
"""Exit codes of ranks that the launcher may have ended because another failed."""
_SAYS_KILLED = {*KILLED, signal.SIGKILL, signal.SIGTERM}
"""Codes of launchers of whose ranks one was killed."""


def exit_code_of(descriptor: int) -> int | None:
    """The exit code of the process behind a pidfd, 128 + n where signal n ended it.

    None as long as its parent has not waited for it, and on Linux before 6.15, which keeps no such record.
    """
    try:
        answer = fcntl.ioctl(descriptor, _GET_INFO, _INFO.pack(_STATUS, *[0] * 13))
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(answer)
    if not mask & _STATUS:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def job_code(launcher: int, failed: Iterable[int]) -> int:
    """The exit code of a job that the launcher ended with code ``launcher``.

    failed: exit codes of the rank that failed first, or of several where it cannot be seen which was first. Those that
    the launcher may have ended count only where there is no other, and where its own code tells of such an end: a rank
    that asks it to end all with code 3, as MPI_Abort does, may be killed before it has left by itself.
    """
    codes = [code for code in failed if code != 0]
    own = [code for code in codes if code not in KILLED]
    if own:
        return own[0]
    if not codes or launcher in codes or launcher not in _SAYS_KILLED:
        return launcher
    # MPICH's launcher, whose codes are no such, sends SIGKILL: a rank that SIGTERM ended was the first.
    return max(codes)
