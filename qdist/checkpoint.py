"""Checkpoints: nested state dicts in one safetensors file, written atomically and verified when read.

One process writes it alone, or many write it together, each what it holds of every tensor. The file has the whole
tensors either way, so any number of processes can read it, and each only what it needs.

The header's metadata also holds the nesting with all numbers and strings, checksums of all blocks of every tensor, and
a SHA-256 of the header. Nothing is ever unpickled. Older files have a SHA-256 of every tensor, and are read too.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import Checks, DirectFile
from .checkpoint_plan import FORMAT, Alone, FilePlan
from .progress import Progress, is_shown
from .statetree import DTYPES, PAIRS, Part, Places, decode
from .tensor import Tensor
from .tensorfile import (
    BLANK,
    CheckpointError,
    Ranks,
    Replacement,
    agreeing,
    are_sizes,
    header_bytes,
    naming,
    open_file,
    parse_json,
    read_header,
)

__all__ = ["CheckpointError", "Part", "Saving", "Stored", "load", "read_all", "reading", "save"]


_log = logging.getLogger("qdist.checkpoint")


def save(path: str | Path, state: Any, comm: Ranks | None = None, *, progress: bool | None = None) -> None:
    """Write a state to a file.

    Args:
        path: the file; an existing one is replaced only when the new one is complete and on disk.
        state: nested dicts (with string keys), lists and tuples of Tensors, arrays, numbers, strings, bools
            and None.
        comm: the ranks that write together; None for this process alone. Dicts may have different keys on
            different ranks; what several ranks have must be equal, and is written once. Of a tensor that no rank
            has whole each gives a `Part`; together they must be all of it.
        progress: whether the time is shown on stderr if it takes longer than a second; by default in terminals and
            notebooks.

    Raises:
        TypeError: naming the entry that cannot be stored.
        ValueError: naming the entry that differs between ranks, or that their parts leave incomplete.
        All ranks raise when one does.
    """
    path, shown = _path(path), is_shown(comm, progress)
    with Progress(f"saving {path.name}", shown=shown), Saving(path, state, comm) as saving:
        with agreeing(saving.ranks):
            saving.write()
        saving.commit()


def _path(given: str | Path) -> Path:
    try:
        return Path(given)
    except TypeError:
        raise TypeError(
            f"the path of a checkpoint is a string or a Path, not {type(given).__name__}: save(path, state), load(path)"
        ) from None


class Saving:
    """A file that is being written by several ranks, so that a thread of each can write behind other work.

    Making one and `commit` are collective. Between them every rank calls `write`, which communicates nothing. Until
    `commit` the file has another name, and a block left before is as if nothing had been written. The arguments are
    those of `save`; copies: take a copy of what this rank writes, which may then change, into the memory in this dict,
    which grows; for the next save of as much it costs no new memory.
    """

    def __init__(
        self,
        path: str | Path,
        state: Any,
        comm: Ranks | None = None,
        *,
        copies: dict[str, NDArray[np.uint8]] | None = None,
    ) -> None:
        self.ranks: Ranks = Alone() if comm is None else comm
        self.path = _path(path)
        self._plan = FilePlan(self.ranks, state, copies)
        self._replacement: Replacement | None = None
        try:
            with agreeing(self.ranks):
                if self.ranks.rank == 0:
                    self._replacement = Replacement(self.path, self._plan.start + self._plan.nbytes)
            made = self._replacement
            self._temporary = self.ranks.broadcast_object(None if made is None else str(made.temporary))
        except BaseException:
            self.discard()
            raise

    def write(self) -> None:
        """Writes this rank's share, until it is on the disk. Raises OSError."""
        if self._plan.writes:
            with naming(self.path), DirectFile(self._temporary) as file:
                self._plan.write_own(file)
                file.sync()

    def commit(self) -> None:
        """When all ranks have written: gives the file its header and its name."""
        self._plan.exchange_checksums()
        with agreeing(self.ranks):
            if self._replacement is not None:
                self._replacement.commit_with(self._plan.header())
                _log.info("saved checkpoint %s: %d bytes by %d ranks", self.path, self._plan.nbytes, self.ranks.size)
                self._replacement = None

    def discard(self) -> None:
        """Removes what has been written, unless it is committed."""
        if self._replacement is not None:
            self._replacement.discard()
            self._replacement = None

    def __enter__(self) -> Saving:
        return self

    def __exit__(self, *error: object) -> None:
        self.discard()


def load(path: str | Path, *, progress: bool | None = None) -> Any:
    """Read a state back: the nesting that was saved, with Tensors on the CPU for tensors and arrays.

    progress: as for `save`.

    Raises:
        CheckpointError: when the file is cut off, changed, or not a checkpoint.
    """
    path = _path(path)
    with Progress(f"reading {path.name}", shown=is_shown(wanted=progress)), reading(path) as state:
        return read_all(state)


@contextmanager
def reading(path: str | Path) -> Iterator[Any]:
    """The state in a file with a `Stored` in the place of every tensor: inside the block each can be read.

    Raises CheckpointError as `load` does.
    """
    path = _path(path)
    with open_file(path) as file:
        header, metadata = read_header(path, file)
        if metadata.get("format") != FORMAT:
            raise CheckpointError(f"{path} is a safetensors file but not a checkpoint of this library")
        found = hashlib.sha256(header_bytes(header, {**metadata, "sha256": BLANK})).hexdigest()
        if found != metadata.get("sha256"):
            raise CheckpointError(f"{path} is damaged: its header does not match its checksum")
        try:
            state = _Contents(path, file, header, metadata).state(metadata["tree"])
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: its header makes no sense ({error})") from error
        yield state
    _log.info("read checkpoint %s", path)


class _Contents:
    """The tensors of a file, each of which its tree names once."""

    def __init__(self, path: Path, file: BufferedReader, header: dict[str, Any], metadata: dict[str, str]) -> None:
        self._path, self._file, self._start = path, file, file.tell()
        self._header = dict(header)
        self._method = "sha256" if "tensors_sha256" in metadata else "crc32"
        self._block = None if self._method == "sha256" else _power_of_two(int(metadata["block"]))
        self._texts = parse_json(metadata[f"tensors_{self._method}"])

    def state(self, tree: str) -> Any:
        """The state that a tree describes. Raises KeyError, TypeError or ValueError for a tree of another file."""
        state = decode(parse_json(tree), self._stored)
        if self._header:
            raise ValueError(f"the state has no place for {next(iter(self._header))[:80]!r}")
        return state

    def _stored(self, note: dict[str, Any]) -> Stored:
        # A tensor that the tree named many times would take many times the memory of the file.
        entry, text = self._header.pop(note["tensor"]), self._texts[note["tensor"]]
        dtype, shape = note["dtype"], note["shape"]
        whole, kind = [*shape, 2] if dtype in PAIRS else shape, DTYPES[PAIRS.get(dtype, dtype)]
        # [1], [1.0] and [true] are equal in Python, and only the first is a shape.
        if not are_sizes(whole, len(whole)) or (entry["shape"], entry["dtype"]) != (whole, kind):
            raise ValueError(f"the tree and the table differ about {note['tensor'][:80]!r}")
        first, last = entry["data_offsets"]
        # Older files have one checksum of a whole tensor, also where it has no elements.
        size = last - first if self._block is not None else max(1, last - first)
        checks = Checks(self._method, self._block or size, size, text)
        return Stored(self._path, self._file, note, (self._start + first, self._start + last), checks)


def _power_of_two(block: int) -> int:
    """Elements of all types fill a block."""
    if block < 16 or block & (block - 1):
        raise ValueError(f"a block of {block} bytes")
    return block


class Stored:
    """A tensor in a file that is being read."""

    def __init__(
        self, path: Path, file: BufferedReader, note: dict[str, Any], bounds: tuple[int, int], checks: Checks
    ) -> None:
        self.name, self.shape, self.dtype = note["tensor"], tuple(note["shape"]), np.dtype(note["dtype"])
        self._path, self._file, self._bounds, self._checks = path, file, bounds, checks

    def read(self) -> Tensor:
        """The tensor, on the CPU. Raises CheckpointError when it does not match its checksums."""
        first, last = self._bounds
        array, _ = self._read(0, last - first)
        try:
            # Of its own memory and writable, so that loaded tensors can be updated in place.
            return Tensor(array.reshape(self.shape))
        except ValueError as error:  # more dimensions than an array has, or (0, 2**62)
            raise CheckpointError(f"{self._path} is damaged: {self.name} has no shape of an array") from error

    def read_part(self, places: Places) -> NDArray[Any]:
        """These elements of the flattened tensor, in memory of their own. Reads the blocks between the first and the
        last of them; raises CheckpointError as `read` does."""
        if isinstance(places, slice):
            low, high = places.start, places.stop
        else:
            low, high = (int(places.min()), int(places.max()) + 1) if places.size else (0, 0)
        if low >= high:
            return np.empty(0, self.dtype)
        width = self.dtype.itemsize
        array, before = self._read(low * width, high * width)
        if isinstance(places, slice):
            part = array[low - before : high - before]
            return part if part.size == array.size else part.copy()
        return array[places - before]

    def _read(self, first: int, last: int) -> tuple[NDArray[Any], int]:
        """The elements of all blocks that have one of these bytes, and how many elements come before them."""
        start, stop = self._bounds
        block = self._checks.block
        low, high = first // block * block, min(-(-last // block) * block, stop - start)
        raw = np.empty(high - low, np.uint8)
        self._file.seek(start + low)
        for at in range(low, high, block):
            piece = raw[at - low : at - low + block].data
            if self._file.readinto(piece) != len(piece) or not self._checks.matches(at // block, piece):
                raise CheckpointError(f"{self._path} is damaged: {self.name} does not match its checksum")
        little = raw.view(self.dtype.newbyteorder("<"))
        return little.astype(self.dtype, copy=False), low // self.dtype.itemsize


def read_all(state: Any) -> Any:
    """A state, or a part of one, that `reading` gave, with all its tensors read."""
    if isinstance(state, dict):
        return {key: read_all(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(read_all(value) for value in state)
    return state.read() if isinstance(state, Stored) else state
