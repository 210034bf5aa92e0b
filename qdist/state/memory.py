"""Memory for amplitudes: checked before it is taken, aligned, and zero without being touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["aligned_zeros", "check_memory", "free_memory", "shard_bytes"]

_ALIGNMENT = 64
_GIB = 1 << 30


def aligned_zeros(size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A 1-D array of zeros at an address that is a multiple of 64. Pages are taken when they are first written."""
    padding = _ALIGNMENT // dtype.itemsize
    array = np.zeros(size + padding, dtype)
    start = -array.ctypes.data % _ALIGNMENT // dtype.itemsize
    return array[start : start + size]


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
    ways = [f"{enough} ranks would do"]
    if dtype == np.complex128 and needed // 2 <= free:
        ways.append('so would dtype="complex64"')
    what = "" if states == 1 else f" for {states} states"
    raise MemoryError(
        f"{num_qubits} qubits need {_gib(needed)}{what} {where}; {_gib(free)} are free; {', '.join(ways)}"
    )


def free_memory(root: Path = Path("/")) -> int:
    """Bytes that this process can still take: the machine's free memory, or what its cgroups leave of it.

    Args:
        root: where /proc and /sys are found.
    """
    free = _available(root / "proc/meminfo")
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, files = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top, files = (
                root / "sys/fs/cgroup/memory",
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            )
        else:
            continue
        folder = top / path.lstrip("/")
        for group in (folder, *folder.parents):
            free = min(free, _left(group, *files))
            if group == top:
                break
    return free


def _available(meminfo: Path) -> int:
    for line in _lines(meminfo):
        name, value = line.split(":", 1)
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return 1 << 62


def _left(group: Path, limit_file: str, usage_file: str, cache: str) -> int:
    """What a cgroup's limit leaves. Files it has cached give way, so they do not count as used."""
    limit, usage = _number(group / limit_file), _number(group / usage_file)
    if limit is None or usage is None:
        return 1 << 62
    cached = next((int(line.split()[1]) for line in _lines(group / "memory.stat") if line.split()[0] == cache), 0)
    return max(0, limit - max(0, usage - cached))


def _number(path: Path) -> int | None:
    """The number in a file; None where there is no such file or no limit in it."""
    text = " ".join(_lines(path))
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _gib(size: int) -> str:
    """Bytes as text: "16 GiB", "1.5 GiB", "0.25 GiB"."""
    return f"{size / _GIB:.3g} GiB" if size < 1000 * _GIB else f"{size / _GIB:.0f} GiB"
