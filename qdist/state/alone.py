"""The communicator of one process, for states that are given none."""

from __future__ import annotations

import sys
from threading import Lock

from qdist.comm import Communicator
from qdist.comm.bootstrap.initialize import DEFAULT_TIMEOUT
from qdist.comm.guard.watch import Guard
from qdist.comm.place import Place
from qdist.comm.transports.solo import SoloTransport
from qdist.locks import open_in_forks

__all__ = ["alone"]

_comm: Communicator | None = None
_lock = open_in_forks(Lock())


def alone() -> Communicator:
    """The one-process communicator, made once for all threads."""
    global _comm
    if _comm is None:
        with _lock:
            if _comm is None:
                transport = SoloTransport()
                guard = Guard(0, 1, DEFAULT_TIMEOUT, None, sys.exit)
                place = Place.alone()
                _comm = Communicator(transport, transport, guard=guard, place=place, group=(0,), name="alone")
    return _comm
