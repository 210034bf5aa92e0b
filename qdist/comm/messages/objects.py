"""Small Python values between ranks: pickled, sent as bytes.

Unpickling runs whatever the sender wants, so what counts is who sends. A rank is a process that an MPI launcher
started, or one that has proven to rank 0's store that it knows the job's secret (handshake.py): only those are handed a
connection to the process manager, without which nobody takes part in MPI. Before that, in init(), only text and numbers
are exchanged. What this does not keep out is somebody who can alter MPI's own traffic, which MPI neither signs nor
encrypts: see the README on several machines.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from qdist.comm.messages.group import Collectives

__all__ = ["all_gather", "broadcast"]


def broadcast(comm: Collectives, value: Any, root: int) -> Any:
    """``root``'s value on every rank."""
    if comm.backend == "counting":
        return value
    payload = _pickled(value) if comm.rank == root else np.empty(0, np.uint8)
    length = int(comm.broadcast(np.array(payload.size), root))
    if comm.rank != root:
        payload = np.empty(length, np.uint8)
    return pickle.loads(comm.broadcast(payload, root).tobytes())


def all_gather(comm: Collectives, value: Any) -> list[Any]:
    """Every rank's value, on every rank."""
    if comm.backend == "counting":
        return [value] * comm.size
    payload = _pickled(value)
    lengths = comm.all_gather(np.array(payload.size))
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: payload.size] = payload
    return [pickle.loads(row[:n].tobytes()) for row, n in zip(comm.all_gather(padded), lengths)]


def _pickled(value: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL), np.uint8)
