"""Memory for amplitudes: checked before it is allocated, aligned, and zero-filled lazily by the operating system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.comm import Communicator
from qdist.native.memory import SMALL, check_array, free_memory, gib

__all__ = ["ALIGNMENT", "aligned_empty", "aligned_zeros", "check_copies", "check_memory", "free_memory", "shard_bytes"]

ALIGNMENT = 64
"""Bytes of which the addresses of amplitudes are multiples."""


def aligned_zeros(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A 1-D array of zeros at an address that is a multiple of 64. Pages are allocated at the first write."""
    return _aligned(np.zeros(size + ALIGNMENT // dtype.itemsize, dtype), size)


def aligned_empty(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The same of any content."""
    return _aligned(np.empty(size + ALIGNMENT // dtype.itemsize, dtype), size)


def _aligned(room: NDArray[Any], size: int) -> NDArray[Any]:
    start = -room.ctypes.data % ALIGNMENT // room.itemsize
    return room[start : start + size]


def shard_bytes(num_qubits: int, dtype: np.dtype[Any], ranks: int) -> int:
    """Bytes of the amplitudes that a rank holds at most: one shard, or two where their number is no power of two."""
    shards = 1 << (ranks - 1).bit_length()
    return (dtype.itemsize << num_qubits - (shards.bit_length() - 1)) * -(-shards // ranks)


def check_memory(num_qubits: int, dtype: np.dtype[Any], ranks: int, free: int, states: int = 1) -> None:
    """Refuse a state, or several of its size, that do not fit.

    Args:
        num_qubits: of the whole state.
        dtype: complex64 or complex128.
        ranks: processes that share it.
        free: bytes that each of them may take.
        states: how many there are.

    Raises:
        MemoryError: saying what is needed, what is there, and how many ranks would do.
    """
    needed = states * shard_bytes(num_qubits, dtype, ranks)
    if needed <= free:
        return
    enough = 1 << (ranks - 1).bit_length()
    while states * dtype.itemsize << num_qubits > free * enough and enough < 1 << num_qubits:
        enough *= 2
    where = f"on each of {ranks} ranks" if ranks > 1 else "on 1 rank"
    more = -(-enough // ranks)
    ways = [f"{enough} ranks would do, on {more} times as many machines or GPUs (ranks of one share its memory)"]
    if dtype == np.complex128 and needed // 2 <= free:
        ways.append('so would dtype="complex64"')
    what = "" if states == 1 else f" for {states} states"
    raise MemoryError(f"{num_qubits} qubits need {gib(needed)}{what} {where}; {gib(free)} are free; {', '.join(ways)}")


def check_copies(
    comm: Communicator | None, nbytes: int, what: str, way_out: str, roots: Sequence[int] | None = None
) -> None:
    """Refuse what every rank of a communicator, or the ranks ``roots`` alone, would take on the host at once.

    The ranks of a node share its memory, so they are counted together. All ranks call, and all raise if one has to,
    so that none waits for it.

    Args:
        comm: whose ranks call; None for this process alone.
        nbytes: what each of them is about to take.
        what: whose memory it is, as the subject of "need".
        way_out: what to do instead.
        roots: the ranks that take it; all of them by default.

    Raises:
        MemoryError: saying what is needed, what is there, and the way out.
    """
    if comm is None or comm.size == 1:
        check_array(nbytes, what, way_out)
        return
    if nbytes <= SMALL:
        return
    takes = roots is None or comm.rank in roots
    share = free_memory() // (comm.local_size if roots is None else 1)
    free = int(comm.all_reduce(np.array(share if takes else 1 << 62), "min"))
    if nbytes > free:
        where = "on each rank" if roots is None else f"on rank {', '.join(map(str, roots))}"
        raise MemoryError(f"{what} need {gib(nbytes)} {where}; {gib(free)} are free; {way_out}")
