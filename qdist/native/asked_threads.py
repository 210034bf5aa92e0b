"""How many threads the user asks for by OMP_NUM_THREADS, in Python as in the kernels (base/pool.cpp)."""

from __future__ import annotations

import os
import re

__all__ = ["asked_threads"]


def asked_threads() -> int:
    """The number that OMP_NUM_THREADS begins with, that of the outermost level where it is a list; 0 where it asks for
    none."""
    found = re.match(r"\s*\+?([0-9]+)", os.environ.get("OMP_NUM_THREADS", ""))
    return int(found[1]) if found else 0
