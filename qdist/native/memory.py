"""Memory that this process can still take, asked before it is taken."""

from __future__ import annotations

from pathlib import Path

__all__ = ["SMALL", "check_array", "free_memory", "gib"]

SMALL = 1 << 26
"""Bytes. Smaller arrays are not worth asking the system how much memory is left."""

_GIB = 1 << 30


def check_array(nbytes: int, what: str, way_out: str) -> None:
    """Refuse what would not fit into memory.

    Args:
        nbytes: what is about to be taken, all arrays of that moment together.
        what: whose memory it is, as the subject of "need".
        way_out: what to do instead.

    Raises:
        MemoryError: saying what is needed, what is there, and the way out.
    """
    if nbytes <= SMALL:
        return
    free = free_memory()
    if nbytes > free:
        raise MemoryError(f"{what} need {gib(nbytes)}; {gib(free)} are free; {way_out}")


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


def gib(size: int) -> str:
    """Bytes as text: "16 GiB", "1.5 GiB", "0.25 GiB"."""
    return f"{size / _GIB:.3g} GiB" if size < 1000 * _GIB else f"{size / _GIB:.0f} GiB"
