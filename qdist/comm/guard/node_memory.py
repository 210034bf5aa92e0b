"""Memory that the ranks of a group share within each node. It has no name, so nothing of it outlives the processes."""

from __future__ import annotations

import mmap
import os
import secrets

import numpy as np
from numpy.typing import NDArray

from qdist.comm.transports.transport import Transport

__all__ = ["shared_memory"]

_MARK_BYTES = 8
"""Bytes at the beginning that hold a random number: whoever opened this memory can tell that it is the right one."""


def shared_memory(transport: Transport, node: int, nbytes: int) -> tuple[NDArray[np.uint8], list[int], bool, int]:
    """Memory of zeros (but for the first 8 bytes) that ranks of one node see; collective over the group.

    Ranks that cannot open each other's memory (in containers of their own, say) each get memory for themselves.

    Returns (memory, the group's ranks that share it, whether these are not all of the group, a random number that all
    ranks of the group know it by). The third is the same on all ranks.
    """
    own, descriptor = _make(nbytes)
    mark = secrets.randbits(63)
    own[:_MARK_BYTES].view(np.int64)[0] = mark
    offers = np.empty((transport.size, 4), np.int64)
    transport.all_gather(np.array([node, os.getpid(), descriptor, mark]), offers, True)
    here = [rank for rank in range(transport.size) if offers[rank, 0] == node]
    memory: NDArray[np.uint8] | None = own
    if here[0] != transport.rank:
        _, pid, number, expected = offers[here[0]].tolist()
        memory = _open(f"/proc/{pid}/fd/{number}", nbytes, expected)
    joined = np.empty(transport.size, np.int64)
    transport.all_gather(np.array(memory is not None, np.int64), joined, True)
    if descriptor >= 0:
        os.close(descriptor)  # All who could have opened it.
    not_all = len(here) < transport.size or not joined.all()
    if memory is None:
        return own, [transport.rank], not_all, int(offers[0, 3])
    return memory, [rank for rank in here if joined[rank]], not_all, int(offers[0, 3])


def _make(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Memory of zeros, and the descriptor under which other processes can open it; -1 where the system has none."""
    try:
        descriptor = os.memfd_create("qdist")
        os.ftruncate(descriptor, nbytes)
    except (AttributeError, OSError):
        return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8), -1
    return np.frombuffer(mmap.mmap(descriptor, nbytes), np.uint8), descriptor


def _open(path: str, nbytes: int, mark: int) -> NDArray[np.uint8] | None:
    """Another process's memory, if it can be opened and begins with this number."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        memory = np.frombuffer(mmap.mmap(descriptor, nbytes), np.uint8)
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)
    return memory if memory[:_MARK_BYTES].view(np.int64)[0] == mark else None
