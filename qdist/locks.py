"""Locks that stay usable in forked children.

A fork copies a lock as it is. One that another thread held at that moment would stay closed for ever in the child,
which has no such thread.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar
from weakref import WeakSet

__all__ = ["open_in_forks"]

_locks: WeakSet[Any] = WeakSet()

Lock = TypeVar("Lock")


def open_in_forks(lock: Lock) -> Lock:
    """The lock (a Lock or RLock of threading), which forked children of this process find open unless the thread that
    forked holds it. What it guards must be fit for use wherever its holder was."""
    _locks.add(lock)
    return lock


def _open() -> None:
    for lock in _locks:
        if lock.acquire(blocking=False):
            lock.release()
        else:
            lock._at_fork_reinit()  # As the standard library does with its own.


os.register_at_fork(after_in_child=_open)
