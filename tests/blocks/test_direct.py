"""Direct writes: the bytes of ordinary ones, and ordinary ones where the file system has no others."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from qdist.blocks import LARGE, PAGE, DirectFile, empty_at

RNG = np.random.default_rng(0)


def bytes_at(offset: int, nbytes: int) -> np.ndarray:
    data, _ = empty_at(nbytes, offset)
    data[:] = RNG.integers(0, 256, nbytes, np.uint8)
    return data


def written(path: Path, pieces: list[tuple[int, np.ndarray]]) -> None:
    """Writes pieces, and compares the file with what they are."""
    size = max(offset + data.size for offset, data in pieces)
    want = np.zeros(size, np.uint8)
    path.touch()
    os.truncate(path, size)
    with DirectFile(path) as file:
        for offset, data in pieces:
            want[offset : offset + data.size] = data
            file.write(offset, data)
        file.sync()
    assert path.read_bytes() == want.tobytes()


PIECES = [
    (0, LARGE),
    (LARGE, 3 * PAGE),
    (LARGE + 3 * PAGE, LARGE + 17),
    (2 * LARGE + 3 * PAGE + 17, LARGE + 5000),
    (4 * LARGE + 1, 10),
    (4 * LARGE + 11, 0),
]


def test_pieces_of_any_size_at_any_place(tmp_path: Path) -> None:
    written(tmp_path / "f", [(offset, bytes_at(offset, size)) for offset, size in PIECES])
    # Memory at other addresses.
    written(tmp_path / "g", [(offset, bytes_at(offset + 1, size)) for offset, size in PIECES])
    with DirectFile(tmp_path / "f") as file, pytest.raises(OSError, match="Invalid argument"):
        file.write(-1, bytes_at(0, 5))


def test_whole_pages_are_written_directly(tmp_path: Path, monkeypatch) -> None:
    """One direct write for the pages of a piece, and an ordinary one for what is before and behind them."""
    calls, real = [], os.pwrite

    def pwrite(file: int, data, offset: int) -> int:
        calls.append((file in direct, offset, len(data)))
        return real(file, data, offset)

    (tmp_path / "f").write_bytes(bytes(4 * LARGE))
    with DirectFile(tmp_path / "f") as file:
        if file._direct is None:
            pytest.skip("this file system has no direct writes")
        direct = {file._direct}
        monkeypatch.setattr(os, "pwrite", pwrite)
        file.write(100, bytes_at(100, 2 * LARGE))
        file.write(8, bytes_at(8, LARGE - 1))
    assert calls == [
        (False, 100, PAGE - 100),
        (True, PAGE, 2 * LARGE - PAGE),
        (False, 2 * LARGE, 100),
        (False, 8, LARGE - 1),
    ]


@pytest.mark.parametrize("where", ["open", "write"])
def test_a_file_system_without_direct_writes_is_written_to_as_always(tmp_path: Path, monkeypatch, where: str) -> None:
    opened, real_open, real_write = set(), os.open, os.pwrite

    def refuse() -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def open_file(path, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            if where == "open":
                refuse()
            opened.add(file := real_open(path, flags & ~os.O_DIRECT, *rest))
            return file
        return real_open(path, flags, *rest)

    def write(file: int, data, offset: int) -> int:
        if file in opened:
            refuse()
        return real_write(file, data, offset)

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(os, "pwrite", write)
    written(tmp_path / "f", [(offset, bytes_at(offset, size)) for offset, size in PIECES])
    assert bool(opened) == (where == "write")


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "f").touch()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"), DirectFile(tmp_path / "f") as file:
        file.write(0, bytes_at(0, LARGE))
    assert len(os.listdir("/proc/self/fd")) == before


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: real(file, data[: 5 * PAGE], offset))
    written(tmp_path / "f", [(3, bytes_at(3, LARGE + 999))])


def test_memory_is_used_again() -> None:
    first, memory = empty_at(5000, 7)
    again, same = empty_at(5000, 4000, memory)
    assert same is memory
    assert (first.ctypes.data % PAGE, again.ctypes.data % PAGE) == (7, 4000)
    assert first.size == again.size == 5000
    assert empty_at(5001, 7, memory)[1] is not memory
