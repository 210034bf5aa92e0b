"""The container of everything that is saved: safetensors files, written beside and renamed when complete.

Such a file is 8 bytes of header length, a JSON header with a table of tensors and string metadata, and raw
little-endian data. Any reader of that format can take the tensors out; writing it takes no dependency.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

__all__ = ["BLANK", "CheckpointError", "Ranks", "Replacement", "agreeing", "header_bytes", "read_header"]

BLANK = "0" * 64
"""Stands for a SHA-256, in hexadecimal, that is not known yet."""

_MAX_HEADER = 100_000_000


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


_ERRORS = {kind.__name__: kind for kind in (OSError, CheckpointError, TypeError, ValueError)}


@contextmanager
def agreeing(ranks: Ranks) -> Iterator[None]:
    """What fails on one rank is raised on all of them, when all have come to the end of the block."""
    error: Exception | None = None
    try:
        yield
    except (OSError, TypeError, ValueError) as caught:
        error = caught
    name = next((name for name, kind in _ERRORS.items() if isinstance(error, kind)), None)
    failures = ranks.all_gather_object(None if name is None else (name, str(error)))
    if error is not None:
        raise error
    for rank, failure in enumerate(failures):
        if failure is not None:
            kind, text = failure
            raise _ERRORS[kind](f"rank {rank}: {text}")


def header_bytes(tensors: dict[str, Any], metadata: dict[str, str]) -> bytes:
    """The beginning of a file, up to the data."""
    text = json.dumps({"__metadata__": metadata, **tensors}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts aligned
    return len(text).to_bytes(8, "little") + text


def read_header(path: Path, file: BinaryIO) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table of tensors and the metadata; the file stands at the data afterwards.

    Raises CheckpointError when they are not there or not readable.
    """
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(size - 8, _MAX_HEADER):
        raise CheckpointError(f"{path} is cut off or not a checkpoint: its header does not fit its {size} bytes")
    try:
        header = json.loads(file.read(length))
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint: its header is not readable") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is damaged or not a checkpoint: its header is not a table")
    metadata = header.pop("__metadata__", {})
    return header, metadata if isinstance(metadata, dict) else {}


class Replacement:
    """A new file beside ``path``, which takes its place when it is complete: readers see the old file or the new.

    Write to ``temporary`` and sync it; then ``commit()``, or ``discard()`` when something went wrong. What many ranks
    write gets its header last, by ``commit_with(header)``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        # With the rights of any new file: the kernel applies the process's mask, which tempfile does not heed.
        os.close(os.open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))

    def commit(self) -> None:
        os.replace(self.temporary, self.path)
        folder = os.open(self.path.parent or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def commit_with(self, header: bytes) -> None:
        """Writes the beginning of the file, then commits."""
        with open(self.temporary, "r+b") as file:
            file.write(header)
            file.flush()
            os.fsync(file.fileno())
        self.commit()

    def discard(self) -> None:
        self.temporary.unlink(missing_ok=True)
