"""Files that MPICH leaves behind when a job breaks off: taken away as soon as every rank of the node has read them.

MPICH names shared memory in /dev/shm and removes the name when MPI is finalised. Mapped memory needs no name: without
one, the kernel frees it with the last process, however that ends. (Later segments, those of windows, lose their names
as MPICH makes them.) Its launcher, a process of which is the parent of a node's ranks, writes the node's topology to
a temporary file for them to read in MPI_Init, keeps that file open, and removes it when all ranks have ended well.

Uses the standard library alone: keeper.py imports it by path.
"""

from __future__ import annotations

import contextlib
import os
import re

__all__ = ["Segment", "segments", "topologies", "unlink"]

Segment = tuple[str, int]
"""A file's path and inode."""

# A line of /proc/PID/maps: addresses, rights, offset, device, inode, path. MPICH hashes the job's name into the path
# and adds the node; a second file (vci) holds the queues of further threads.
_MAPPED = re.compile(r"\S+ \S+ \S+ \S+ ([0-9]+)\s+(/dev/shm/mpich_(?:shm|vci)_[0-9a-f]+_[0-9]+)$")
_TOPOLOGY = re.compile(r"hydra_hwloc_xmlfile_\w{6}$")


def segments(pid: int | str = "self") -> set[Segment]:
    """MPICH's segments that a process has mapped and that still have a name; none where that cannot be read."""
    try:
        with open(f"/proc/{pid}/maps") as f:
            found = (_MAPPED.match(line.rstrip("\n")) for line in f)
            return {(match[2], int(match[1])) for match in found if match}
    except OSError:
        return set()


def topologies(pid: int) -> set[Segment]:
    """The files with the node's topology that a process of the launcher has open; none where that cannot be read."""
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if _TOPOLOGY.match(os.path.basename(path := os.readlink(descriptor.path))):
                    found.add((path, os.stat(descriptor.path).st_ino))
    return found


def unlink(files: set[Segment]) -> None:
    """Removes the names, if they are still those of the same files: nobody else's under the same name."""
    for path, inode in files:
        with contextlib.suppress(OSError):
            if os.stat(path, follow_symlinks=False).st_ino == inode:
                os.unlink(path)
