"""Checkpoints: nested state dicts in one safetensors file, written atomically and verified when read.

One process writes it alone, or many write it together, each what it holds of every tensor. The file has the whole
tensors either way, so any number of processes can read it, and each only what it needs.

The header's metadata also holds the nesting with all numbers and strings, a SHA-256 of every tensor, and one of the
header. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .statetree import DTYPES, PAIRS, Leaf, Part, decode, encode, merge, name_tensors
from .tensor import Tensor
from .tensorfile import (
    BLANK,
    CheckpointError,
    Ranks,
    Replacement,
    agreeing,
    are_sizes,
    header_bytes,
    open_file,
    parse_json,
    read_header,
)

__all__ = ["CheckpointError", "Part", "Stored", "load", "read_all", "reading", "save"]

_FORMAT = "qdist"


def save(path: str | Path, state: Any, comm: Ranks | None = None) -> None:
    """Write a state to a file.

    Args:
        path: the file; an existing one is replaced only when the new one is complete and on disk.
        state: nested dicts (with string keys), lists and tuples of Tensors, arrays, numbers, strings, bools
            and None.
        comm: the ranks that write together; None for this process alone. Dicts may have different keys on
            different ranks; what several ranks have must be equal, and is written once. Of a tensor that no rank
            has whole each gives a `Part`; together they must be all of it.

    Raises:
        TypeError: naming the entry that cannot be stored.
        ValueError: naming the entry that differs between ranks, or that their parts leave incomplete.
        All ranks raise when one does.
    """
    ranks: Ranks = _Alone() if comm is None else comm
    plan = _Plan(ranks, state)
    replacement: Replacement | None = None
    try:
        with agreeing(ranks):
            if ranks.rank == 0:
                replacement = Replacement(Path(path))
                os.truncate(replacement.temporary, len(plan.header()) + plan.nbytes)
        temporary = ranks.broadcast_object(None if replacement is None else str(replacement.temporary))
        with agreeing(ranks), open(temporary, "r+b") as file:
            plan.write_own(file)
            file.flush()
            os.fsync(file.fileno())
        with agreeing(ranks), open(temporary, "rb") as file:
            plan.digest_shared(file)
        plan.exchange_digests()
        with agreeing(ranks):
            if replacement is not None:
                replacement.commit_with(plan.header())
    except BaseException:
        if replacement is not None:
            replacement.discard()
        raise


def load(path: str | Path) -> Any:
    """Read a state back: the nesting that was saved, with Tensors on the CPU for tensors and arrays.

    Raises:
        CheckpointError: when the file is cut off, changed, or not a checkpoint.
    """
    with reading(path) as state:
        return read_all(state)


@contextmanager
def reading(path: str | Path) -> Iterator[Any]:
    """The state in a file with a `Stored` in the place of every tensor: inside the block each can be read.

    Raises CheckpointError as `load` does.
    """
    path = Path(path)
    with open_file(path) as file:
        header, metadata = read_header(path, file)
        if metadata.get("format") != _FORMAT:
            raise CheckpointError(f"{path} is a safetensors file but not a checkpoint of this library")
        found = hashlib.sha256(header_bytes(header, {**metadata, "sha256": BLANK})).hexdigest()
        if found != metadata.get("sha256"):
            raise CheckpointError(f"{path} is damaged: its header does not match its checksum")
        try:
            state = _Contents(path, file, header, parse_json(metadata["tensors_sha256"])).state(metadata["tree"])
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: its header makes no sense ({error})") from error
        yield state


class _Contents:
    """The tensors of a file, each of which its tree names once."""

    def __init__(self, path: Path, file: BufferedReader, header: dict[str, Any], digests: dict[str, str]) -> None:
        self._path, self._file, self._start = path, file, file.tell()
        self._header, self._digests = dict(header), digests

    def state(self, tree: str) -> Any:
        """The state that a tree describes. Raises KeyError, TypeError or ValueError for a tree of another file."""
        state = decode(parse_json(tree), self._stored)
        if self._header:
            raise ValueError(f"the state has no place for {next(iter(self._header))[:80]!r}")
        return state

    def _stored(self, note: dict[str, Any]) -> Stored:
        # A tensor that the tree named many times would take many times the memory of the file.
        entry, digest = self._header.pop(note["tensor"]), self._digests[note["tensor"]]
        dtype, shape = note["dtype"], note["shape"]
        whole, kind = [*shape, 2] if dtype in PAIRS else shape, DTYPES[PAIRS.get(dtype, dtype)]
        # [1], [1.0] and [true] are equal in Python, and only the first is a shape.
        if not are_sizes(whole, len(whole)) or (entry["shape"], entry["dtype"]) != (whole, kind):
            raise ValueError(f"the tree and the table differ about {note['tensor'][:80]!r}")
        first, last = entry["data_offsets"]
        return Stored(self._path, self._file, note, (self._start + first, self._start + last), digest)


class Stored:
    """A tensor in a file that is being read."""

    def __init__(
        self, path: Path, file: BufferedReader, note: dict[str, Any], bounds: tuple[int, int], digest: str
    ) -> None:
        self.name, self.shape, self.dtype = note["tensor"], tuple(note["shape"]), np.dtype(note["dtype"])
        self._path, self._file, self._bounds, self._digest = path, file, bounds, digest

    def read(self) -> Tensor:
        """The tensor, on the CPU. Raises CheckpointError when it does not match its checksum."""
        start, stop = self._bounds
        self._file.seek(start)
        # Writable, so that loaded tensors can be updated in place.
        raw = bytearray(stop - start)
        little = self.dtype.newbyteorder("<")
        if self._file.readinto(raw) != len(raw) or hashlib.sha256(raw).hexdigest() != self._digest:
            raise CheckpointError(f"{self._path} is damaged: {self.name} does not match its checksum")
        try:
            array = np.frombuffer(raw, little).reshape(self.shape)
        except ValueError as error:  # more dimensions than an array has, or (0, 2**62)
            raise CheckpointError(f"{self._path} is damaged: {self.name} has no shape of an array") from error
        return Tensor(array.astype(self.dtype, copy=False))


def read_all(state: Any) -> Any:
    """A state, or a part of one, that `reading` gave, with all its tensors read."""
    if isinstance(state, dict):
        return {key: read_all(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(read_all(value) for value in state)
    return state.read() if isinstance(state, Stored) else state


class _Alone:
    """The ranks of a process that writes by itself."""

    rank, size = 0, 1

    def all_gather_object(self, value: Any) -> list[Any]:
        return [value]

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        return value


class _Plan:
    """What stands where in the file, and which of it this rank writes. The same on all ranks but for their share."""

    def __init__(self, ranks: Ranks, state: Any) -> None:
        self.ranks = ranks
        self.leaves: dict[tuple[str, ...], Leaf] = {}
        with agreeing(ranks):
            own = encode(state, self.leaves)
        parts = {path: _part(leaf.places) for path, leaf in self.leaves.items()}
        everyone = ranks.all_gather_object((own, parts))
        self.tree = merge([tree for tree, _ in everyone])
        self.paths = name_tensors(self.tree)
        self.table: dict[str, Any] = {}
        self.writers: dict[str, dict[str, int]] = {}
        """Of each tensor: {part: the first rank that has it, which writes it}."""
        self.nbytes = 0
        notes: list[dict[str, Any]] = []
        decode(self.tree, notes.append)
        for note in notes:
            name, dtype, shape = note["tensor"], note["dtype"], note["shape"]
            pair = [2] if dtype in PAIRS else []
            end = self.nbytes + math.prod(shape) * np.dtype(dtype).itemsize
            kind = DTYPES[PAIRS.get(dtype, dtype)]
            self.table[name] = {"dtype": kind, "shape": [*shape, *pair], "data_offsets": [self.nbytes, end]}
            self.nbytes = end
            have = [parts.get(self.paths[name]) for _, parts in everyone]
            self.writers[name] = _writers(name, math.prod(shape), have)
        self.digests = dict.fromkeys(self.table, BLANK)

    def header(self) -> bytes:
        """The file up to its data, with a checksum of itself."""
        metadata = {
            "format": _FORMAT,
            "tree": json.dumps(self.tree),
            "tensors_sha256": json.dumps(self.digests),
            "sha256": BLANK,
        }
        digest = hashlib.sha256(header_bytes(self.table, metadata)).hexdigest()
        return header_bytes(self.table, {**metadata, "sha256": digest})

    def write_own(self, file: BinaryIO) -> None:
        start = len(self.header())
        for name, path in self.paths.items():
            leaf = self.leaves.get(path)
            if leaf is None or self.writers[name].get(_part(leaf.places)[0]) != self.ranks.rank:
                continue
            raw = _bytes(leaf.array)
            offset = start + self.table[name]["data_offsets"][0]
            if leaf.places is None:
                self.digests[name] = hashlib.sha256(raw).hexdigest()
                file.seek(offset)
                file.write(raw)
                continue
            width = leaf.array.dtype.itemsize
            for first, place, count in _runs(leaf.places):
                file.seek(offset + place * width)
                file.write(raw[first * width : (first + count) * width])

    def digest_shared(self, file: BinaryIO) -> None:
        """Checksums of what several ranks wrote, each by one of them."""
        start = len(self.header())
        shared = [name for name, writers in self.writers.items() if "whole" not in writers]
        for name in shared[self.ranks.rank :: self.ranks.size]:
            first, last = self.table[name]["data_offsets"]
            file.seek(start + first)
            self.digests[name] = hashlib.sha256(file.read(last - first)).hexdigest()

    def exchange_digests(self) -> None:
        for digests in self.ranks.all_gather_object(self.digests):
            self.digests.update({name: digest for name, digest in digests.items() if digest != BLANK})


def _part(places: NDArray[np.int64] | None) -> tuple[str, int]:
    """A name for the places of a part, equal for equal ones, and how many they are."""
    if places is None:
        return "whole", 0
    return hashlib.sha256(np.ascontiguousarray(places, np.int64).data).hexdigest(), places.size


def _writers(name: str, size: int, parts: list[tuple[str, int] | None]) -> dict[str, int]:
    """{part: the rank that writes it}. Raises ValueError when the parts are not all of the tensor."""
    writers: dict[str, int] = {}
    covered = 0
    for rank, part in enumerate(parts):
        if part is not None and part[0] not in writers:
            writers[part[0]] = rank
            covered += part[1]
    if "whole" in writers:
        return {"whole": writers["whole"]}
    if covered != size:
        raise ValueError(f"checkpoint entry {name!r}: the ranks' parts have {covered} of its {size} elements")
    return writers


def _runs(places: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """(first element of the part, its place in the whole, how many follow each other)."""
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    starts = np.concatenate(([0], cuts)) if places.size else np.zeros(0, np.int64)
    lengths = np.diff(np.concatenate((starts, [places.size])))
    yield from zip(starts.tolist(), places[starts].tolist(), lengths.tolist())


def _bytes(array: np.ndarray) -> memoryview:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data
