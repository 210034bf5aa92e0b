"""What belongs to this process alone: connections that a forked child must not keep open.

The end of a rank shows as the end of its connections. A child that was forked (a worker that loads data, say) holds
copies of them, and would keep the rank alive in the others' eyes.
"""

from __future__ import annotations

import os
import socket
import weakref

__all__ = ["keep_descriptor_from_forks", "keep_from_forks"]

_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
_descriptors: dict[int, tuple[int, int]] = {}


def keep_from_forks(*sockets: socket.socket) -> None:
    """Forked children close their copies of these sockets."""
    _sockets.update(sockets)


def keep_descriptor_from_forks(descriptor: int) -> None:
    """The same for a bare descriptor, which others may close and whose number they may use again."""
    _descriptors[descriptor] = _identity(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _close_copies() -> None:
    for each in list(_sockets):
        each.close()
    _sockets.clear()
    for descriptor, identity in _descriptors.items():
        try:
            if _identity(descriptor) == identity:
                os.close(descriptor)
        except OSError:
            continue
    _descriptors.clear()


os.register_at_fork(after_in_child=_close_copies)
