"""Files of shared memory that MPICH names in /dev/shm: taken away as soon as every rank of the node has them mapped.

MPICH removes the name when MPI is finalised, and so leaves it behind whenever a job ends in another way. Mapped memory
needs no name: without one, the kernel frees it with the last process, however that ends. (Later segments, those of
windows, lose their names as MPICH makes them.)

Uses the standard library alone: keeper.py imports it by path.
"""

from __future__ import annotations

import contextlib
import os
import re

__all__ = ["Segment", "segments", "unlink"]

Segment = tuple[str, int]
"""A file's path and inode."""

# A line of /proc/PID/maps: addresses, rights, offset, device, inode, path. MPICH hashes the job's name into the path
# and adds the node; a second file (vci) holds the queues of further threads.
_MAPPED = re.compile(r"\S+ \S+ \S+ \S+ ([0-9]+)\s+(/dev/shm/mpich_(?:shm|vci)_[0-9a-f]+_[0-9]+)$")


def segments(pid: int | str = "self") -> set[Segment]:
    """MPICH's segments that a process has mapped and that still have a name; none where that cannot be read."""
    try:
        with open(f"/proc/{pid}/maps") as f:
            found = (_MAPPED.match(line.rstrip("\n")) for line in f)
            return {(match[2], int(match[1])) for match in found if match}
    except OSError:
        return set()


def unlink(files: set[Segment]) -> None:
    """Removes the names, if they are still those of the same files: nobody else's under the same name."""
    for path, inode in files:
        with contextlib.suppress(OSError):
            if os.stat(path, follow_symlinks=False).st_ino == inode:
                os.unlink(path)
