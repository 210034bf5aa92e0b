"""The container of everything that is saved: safetensors files, written beside and renamed when complete.

Such a file is 8 bytes of header length, a JSON header with a table of tensors and string metadata, and raw
little-endian data. Any reader of that format can take the tensors out; writing it takes no dependency.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn, Protocol

from .blocks import LARGE, PAGE

__all__ = [
    "BLANK",
    "ITEMSIZES",
    "CheckpointError",
    "Ranks",
    "Replacement",
    "agreeing",
    "are_sizes",
    "header_bytes",
    "naming",
    "open_file",
    "padded",
    "parse_json",
    "read_header",
]

BLANK = "0" * 64
"""Stands for a SHA-256, in hexadecimal, that is not known yet."""

ITEMSIZES = {"BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4}
ITEMSIZES |= {"U64": 8, "I64": 8, "F64": 8}
"""Bytes of one element of each of the format's types."""

_MAX_HEADER = 100_000_000
_MAX_DIMENSIONS = 64


class CheckpointError(ValueError):
    """A checkpoint file is damaged or is not one."""


class Ranks(Protocol):
    """The ranks that write a file together: a Communicator."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def all_gather_object(self, value: Any) -> list[Any]: ...
    def broadcast_object(self, value: Any = None, root: int = 0) -> Any: ...


# The first that fits is raised on the other ranks; the last fits everything.
_ERRORS = (OSError, MemoryError, CheckpointError, TypeError, ValueError, RuntimeError)


@contextmanager
def agreeing(ranks: Ranks) -> Iterator[None]:
    """What fails on one rank is raised on all of them, when all have come to the end of the block.

    Every exception counts, so that none leaves the other ranks waiting. Where the block itself waits for other ranks,
    only what fails after that may fail on one of them alone.
    """
    error: Exception | None = None
    try:
        yield
    except Exception as caught:
        error = caught
    failures = ranks.all_gather_object(None if error is None else _told(error))
    if error is not None:
        raise error
    for rank, failure in enumerate(failures):
        if failure is not None:
            kind, text = failure
            raise _ERRORS[kind](f"rank {rank}: {text}")


def _told(error: Exception) -> tuple[int, str]:
    """An exception as the other ranks hear of it: a number in _ERRORS, and a text."""
    number = next((k for k, kind in enumerate(_ERRORS) if isinstance(error, kind)), len(_ERRORS) - 1)
    plain = type(error) in _ERRORS and str(error)
    return number, str(error) if plain else f"{type(error).__name__}: {error}"


def header_bytes(tensors: dict[str, Any], metadata: dict[str, str]) -> bytes:
    """The beginning of a file, up to the data."""
    text = json.dumps({"__metadata__": metadata, **tensors}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts aligned
    return len(text).to_bytes(8, "little") + text


def padded(header: bytes, nbytes: int) -> bytes:
    """A beginning for so many bytes of data. Many start at a page, so that they can be written directly."""
    if nbytes < LARGE:
        return header
    text = header[8:] + b" " * (-len(header) % PAGE)
    return len(text).to_bytes(8, "little") + text


@contextmanager
def open_file(path: Path) -> Iterator[BufferedReader]:
    """A file to read. Raises OSError where it cannot be opened, CheckpointError where it is a pipe or a device."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # Opening a pipe must not wait for who writes to it.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise CheckpointError(f"{path} is not a checkpoint: it is not a regular file")
        yield file


def parse_json(text: str | bytes) -> Any:
    """JSON from a file, which may be anybody's.

    Raises ValueError for what is no JSON, has a key twice or NaN or an infinity in it, or is nested too deep.
    """
    try:
        return json.loads(text, object_pairs_hook=_table, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key stands twice in one table")
    return table


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def read_header(path: Path, file: BufferedReader) -> tuple[dict[str, Any], dict[str, str]]:
    """The table of tensors and the metadata; the file stands at the data afterwards.

    Every entry of the table has a known type, a shape, and the bytes that both need, and together the entries are
    the rest of the file. Nothing is allocated that the file is not large enough for.

    Raises CheckpointError when they are not there, not readable, or not of this file.
    """
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(size - 8, _MAX_HEADER):
        raise CheckpointError(f"{path} is cut off or not a checkpoint: its header does not fit its {size} bytes")
    try:
        header = parse_json(file.read(length))
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint: its header is not readable") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is damaged or not a checkpoint: its header is not a table")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{path} is damaged or not a checkpoint: its metadata are not strings")
    for name, entry in header.items():
        if not _makes_sense(entry):
            raise CheckpointError(f"{path} is damaged or not a checkpoint: its entry {name[:80]!r} makes no sense")
    end = 0
    for first, last in sorted(entry["data_offsets"] for entry in header.values()):
        if first != end:
            raise CheckpointError(f"{path} is damaged or not a checkpoint: its tensors overlap or leave gaps")
        end = last
    extra = size - 8 - length - end
    if extra:
        what = f"it is {extra} bytes too long" if extra > 0 else f"it is cut off, {-extra} bytes are missing"
        raise CheckpointError(f"{path} is damaged: {what}")
    return header, metadata


def _makes_sense(entry: Any) -> bool:
    """Whether an entry of the table has a type, a shape, and the bytes that they need."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        return False
    dtype, shape, bounds = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or not are_sizes(shape, _MAX_DIMENSIONS) or not are_sizes(bounds, 2):
        return False
    if dtype not in ITEMSIZES or len(bounds) != 2:
        return False
    return bool(math.prod(shape) * ITEMSIZES[dtype] == bounds[1] - bounds[0])


def are_sizes(value: Any, most: int) -> bool:
    """Whether a value from a file is a list of at most so many sizes: ints from 0 on that fit 63 bits."""
    return isinstance(value, list) and len(value) <= most and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system name this file: not the one that is written in its place, which nobody has asked for, and
    not none, as those of a full disk do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


class Replacement:
    """A new file beside ``path``, which takes its place when it is complete: readers see the old file or the new.

    Write to ``temporary`` and sync it; then ``commit()``, or ``discard()`` when something went wrong. What many ranks
    write has ``nbytes`` from the beginning, and gets its header last, by ``commit_with(header)``. Raises OSError, which
    names ``path``.
    """

    def __init__(self, path: Path, nbytes: int = 0) -> None:
        self.path = path
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        self.temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        with naming(path):
            # With the rights of any new file: the kernel applies the process's mask, which tempfile does not heed.
            file = os.open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                os.truncate(file, nbytes)
            except OSError:
                self.discard()
                raise
            finally:
                os.close(file)

    def commit(self) -> None:
        with naming(self.path):
            os.replace(self.temporary, self.path)
            folder = os.open(self.path.parent or ".", os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def commit_with(self, header: bytes) -> None:
        """Writes the beginning of the file, then commits."""
        with naming(self.path), open(self.temporary, "r+b") as file:
            file.write(header)
            file.flush()
            os.fsync(file.fileno())
        self.commit()

    def discard(self) -> None:
        self.temporary.unlink(missing_ok=True)
