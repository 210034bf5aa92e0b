"""What stands where in a checkpoint's file, and which rank writes it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .blocks import Checks, DirectFile, PartialSums, block_size, empty_at, joined
from .statetree import DTYPES, PAIRS, Leaf, Path, Places, decode, encode, merge, name_tensors
from .tensorfile import BLANK, Ranks, agreeing, header_bytes, padded

__all__ = ["FORMAT", "Alone", "FilePlan"]

FORMAT = "qdist"
"""What the metadata of a checkpoint's file say."""


class Alone:
    """The ranks of a process that writes by itself."""

    rank, size = 0, 1

    def all_gather_object(self, value: Any) -> list[Any]:
        return [value]

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        return value


class _Own(NamedTuple):
    """What this rank writes of one tensor."""

    data: NDArray[np.uint8]
    runs: list[tuple[int, int]]
    """(offset in the tensor, how many) bytes, one run after the other, which the data are."""


class FilePlan:
    """What stands where in the file, and which of it this rank writes. The same on all ranks but for their share."""

    def __init__(self, ranks: Ranks, state: Any, copies: dict[str, NDArray[np.uint8]] | None = None) -> None:
        """copies: of what this rank writes, take copies, into this memory where it is large enough, which the program's
        next steps do not change."""
        self.ranks = ranks
        leaves: dict[Path, Leaf] = {}
        with agreeing(ranks):
            own = encode(state, leaves)
        parts = {path: _part(leaf.places) for path, leaf in leaves.items()}
        everyone = ranks.all_gather_object((own, parts))
        self.tree = merge([tree for tree, _ in everyone])
        paths = name_tensors(self.tree)
        self.table: dict[str, Any] = {}
        self.nbytes = 0
        writers: dict[str, dict[str, int]] = {}
        notes: list[dict[str, Any]] = []
        decode(self.tree, notes.append)
        for note in notes:
            name, dtype, shape = note["tensor"], note["dtype"], note["shape"]
            pair = [2] if dtype in PAIRS else []
            end = self.nbytes + math.prod(shape) * np.dtype(dtype).itemsize
            kind = DTYPES[PAIRS.get(dtype, dtype)]
            self.table[name] = {"dtype": kind, "shape": [*shape, *pair], "data_offsets": [self.nbytes, end]}
            self.nbytes = end
            have = [parts.get(paths[name]) for _, parts in everyone]
            writers[name] = _writers(name, math.prod(shape), have)
        self.block = block_size(self.nbytes)
        self.checks = {name: Checks.blank(self.block, self._size(name)) for name in self.table}
        self.start = len(self.header())
        """Where the data begin."""
        self._found: dict[str, dict[int, int]] = {}
        self._own: dict[str, _Own] = {}
        for name, path in paths.items():
            leaf = leaves.get(path)
            if leaf is not None and writers[name].get(_part(leaf.places).name) == ranks.rank:
                self._own[name] = self._to_write(name, leaf, copies)

    def _size(self, name: str) -> int:
        first, last = self.table[name]["data_offsets"]
        return int(last - first)

    def _to_write(self, name: str, leaf: Leaf, copies: dict[str, NDArray[np.uint8]] | None) -> _Own:
        data, width = _bytes(leaf.array), leaf.array.dtype.itemsize
        places = slice(0, leaf.array.size) if leaf.places is None else leaf.places
        runs = [(place * width, count * width) for _, place, count in _runs(places)]
        if copies is not None and runs:
            at = self.start + self.table[name]["data_offsets"][0] + runs[0][0]
            copy, copies[name] = empty_at(data.size, at, copies.get(name))
            copy[:] = data
            data = copy
        return _Own(data, runs)

    def header(self) -> bytes:
        """The file up to its data, with a checksum of itself."""
        metadata = {
            "format": FORMAT,
            "tree": json.dumps(self.tree),
            "block": str(self.block),
            "tensors_crc32": json.dumps({name: checks.text for name, checks in self.checks.items()}),
            "sha256": BLANK,
        }
        digest = hashlib.sha256(header_bytes(self.table, metadata)).hexdigest()
        return padded(header_bytes(self.table, {**metadata, "sha256": digest}), self.nbytes)

    @property
    def writes(self) -> bool:
        """Whether this rank has anything to write."""
        return bool(self._own)

    def write_own(self, file: DirectFile) -> None:
        """Writes this rank's share, and computes checksums of it."""
        for name, own in self._own.items():
            offset, sums = self.start + self.table[name]["data_offsets"][0], PartialSums(self.block, self._size(name))
            done = 0
            for first, count in own.runs:
                run = own.data[done : done + count]
                sums.add(first, run.data)
                file.write(offset + first, run)
                done += count
            sums.close()
            self._found[name] = sums.found

    def exchange_checksums(self) -> None:
        """When all ranks have written: the checksums of the whole tensors. Collective."""
        everyone = self.ranks.all_gather_object(self._found)
        for name in self.table:
            found = [found[name] for found in everyone if name in found]
            self.checks[name] = joined(self.block, self._size(name), found)


class _Places(NamedTuple):
    """What the ranks tell each other of the places of a part."""

    name: str
    """Equal for equal places."""
    elements: int
    ends: int
    """The sum of the marks of where its runs stop, less those of where they start, modulo 2**64: those between parts
    that follow each other cancel."""


def _part(places: Places | None) -> _Places:
    if places is None:
        return _Places("whole", 0, 0)
    # Of runs, of which there are few: ranks wait for this, and the places are twice as many bytes as their elements.
    runs = np.array(list(_runs(places)), np.int64).reshape(-1, 3)
    name = hashlib.sha256(runs.tobytes()).hexdigest()
    return _Places(name, int(runs[:, 2].sum()), _ends(runs[:, 1], runs[:, 1] + runs[:, 2]))


def _ends(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> int:
    """`_Places.ends` of these runs."""
    return (int(_marks(stops).sum()) - int(_marks(starts).sum())) % (1 << 64)


def _marks(places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number for each place that looks like drawn at random (the end of SplitMix64, Steele et al. 2014), so that sums
    are equal where they are of the same places."""
    bits = places.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)


def _writers(name: str, size: int, parts: list[_Places | None]) -> dict[str, int]:
    """{part: the rank that writes it}. Raises ValueError when the parts do not have each element of the tensor once."""
    writers: dict[str, int] = {}
    covered = ends = 0
    for rank, part in enumerate(parts):
        if part is not None and part.name not in writers:
            writers[part.name] = rank
            covered, ends = covered + part.elements, ends + part.ends
    if "whole" in writers:
        return {"whole": writers["whole"]}
    if covered != size:
        raise ValueError(f"checkpoint entry {name!r}: the ranks' parts have {covered} of its {size} elements")
    if ends % (1 << 64) != _ends(np.array([0]), np.array([size])):
        raise ValueError(f"checkpoint entry {name!r}: the ranks' parts overlap, or lie outside of its {size} elements")
    return writers


def _runs(places: Places) -> Iterator[tuple[int, int, int]]:
    """(first element of the part, its place in the whole, how many follow each other)."""
    if isinstance(places, slice):
        if places.stop > places.start:
            yield 0, places.start, places.stop - places.start
        return
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    starts = np.concatenate(([0], cuts)) if places.size else np.zeros(0, np.int64)
    lengths = np.diff(np.concatenate((starts, [places.size])))
    yield from zip(starts.tolist(), places[starts].tolist(), lengths.tolist())


def _bytes(array: np.ndarray) -> NDArray[np.uint8]:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8)
