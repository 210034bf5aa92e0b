"""Memory that a step of training frees is kept for the next step.

A step allocates what the one before has freed, some hundred arrays. glibc gives freed memory back to the system as soon
as enough of it lies at the end of the heap, so that every step would have it mapped and zeroed anew, page by page: a
tenth of the time of a small transformer's step.
"""

from __future__ import annotations

import os
import sys

__all__ = ["keep_freed_memory"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of mallopt(3)."""
_KEPT = 256 << 20
"""Bytes at the end of the heap that are not given back."""
_MAPPED = 32 << 20
"""Arrays from this size on, glibc's largest, are mapped by themselves and given back at once."""
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")

_done = False


def keep_freed_memory() -> None:
    """Have this process keep up to 256 MiB of freed memory, where it has glibc and no setting says otherwise.

    Called by the first backward pass.
    """
    global _done
    if _done:
        return
    _done = True
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _SETTINGS):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        # Each alone would keep the other from growing with the arrays that are freed.
        mallopt(_M_MMAP_THRESHOLD, _MAPPED)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
