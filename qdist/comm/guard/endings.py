"""How the ranks of one machine end: notes in a folder of the launcher's, which else sees only that processes are gone.

Of a job that breaks off, processes do not end in the order of cause and effect: the rank that fails asks the launcher
to end all, and the others may be gone before itself. So it leaves a note first; a rank that ends well leaves another.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["FAILED", "FOLDER", "JOINED", "LEFT", "REQUEUE", "SAVES", "ended_before", "note_ending", "read_endings"]

FOLDER = "QDIST_ENDINGS"
"""The variable with the folder's name; ranks on other machines find no such folder, and leave no note."""
FAILED, LEFT = "failed", "left"
JOINED = "joined"
"""Left by a rank that has come through init() with others, who count on it from then on."""
REQUEUE = 75
"""The exit code of ranks that have saved their work because a signal asked for it: start the job again to go on."""
SAVES = "saves"
"""Left by a rank that saves its work and leaves when SIGTERM or SIGUSR1 comes, instead of dying at once."""


def note_ending(how: str, rank: int) -> None:
    """Leaves a note, if a launcher wants one; the first of each kind counts."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    try:
        with open(Path(folder) / f"{how}-{rank}", "x") as file:
            file.write(str(time.monotonic_ns()))
    except OSError:
        return


def read_endings(folder: Path, how: str) -> list[int]:
    """The ranks that left such a note, the first first."""
    times = _times(folder, how)
    return sorted(times, key=lambda rank: (times[rank], rank))


def ended_before(folder: Path, rank: int) -> list[int]:
    """The ranks that had come to their end when this one failed, the first first."""
    failed = _times(folder, FAILED).get(rank)
    times = _times(folder, LEFT)
    return [other for other in read_endings(folder, LEFT) if failed is not None and times[other] < failed]


def _times(folder: Path, how: str) -> dict[int, int]:
    """When the ranks left such a note."""
    found = {}
    for path in folder.glob(f"{how}-*"):
        text = path.read_text()
        # A note that was being written when its process was killed is the last.
        found[int(path.name.rpartition("-")[2])] = int(text) if text.isdigit() else 1 << 62
    return found
