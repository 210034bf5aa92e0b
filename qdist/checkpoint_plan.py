"""What stands where in a checkpoint's file, and which rank writes it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from .statetree import DTYPES, PAIRS, Leaf, Path, Places, decode, encode, merge, name_tensors
from .tensorfile import BLANK, Ranks, agreeing, header_bytes

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


class FilePlan:
    """What stands where in the file, and which of it this rank writes. The same on all ranks but for their share."""

    def __init__(self, ranks: Ranks, state: Any, copies: dict[str, np.ndarray] | None = None) -> None:
        """copies: of what this rank writes, take copies, into these arrays where they fit, which the program's next
        steps do not change."""
        self.ranks = ranks
        self.leaves: dict[Path, Leaf] = {}
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
        self.own = {name: self.leaves[path] for name, path in self.paths.items() if self._writes(name, path)}
        """What this rank writes."""
        if copies is not None:
            self.own = {name: Leaf(_copied(name, leaf.array, copies), leaf.places) for name, leaf in self.own.items()}
        self.leaves.clear()

    def _writes(self, name: str, path: Path) -> bool:
        leaf = self.leaves.get(path)
        return leaf is not None and self.writers[name].get(_part(leaf.places)[0]) == self.ranks.rank

    def header(self) -> bytes:
        """The file up to its data, with a checksum of itself."""
        metadata = {
            "format": FORMAT,
            "tree": json.dumps(self.tree),
            "tensors_sha256": json.dumps(self.digests),
            "sha256": BLANK,
        }
        digest = hashlib.sha256(header_bytes(self.table, metadata)).hexdigest()
        return header_bytes(self.table, {**metadata, "sha256": digest})

    def write_own(self, file: BinaryIO) -> None:
        start = len(self.header())
        for name, leaf in self.own.items():
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

    @property
    def shared(self) -> list[str]:
        """The tensors that several ranks write."""
        return [name for name, writers in self.writers.items() if "whole" not in writers]

    def digest_shared(self, file: BinaryIO) -> None:
        """Checksums of what several ranks wrote, each by one of them."""
        start = len(self.header())
        for name in self.shared[self.ranks.rank :: self.ranks.size]:
            first, last = self.table[name]["data_offsets"]
            file.seek(start + first)
            self.digests[name] = hashlib.sha256(file.read(last - first)).hexdigest()

    def exchange_digests(self) -> None:
        for digests in self.ranks.all_gather_object(self.digests):
            self.digests.update({name: digest for name, digest in digests.items() if digest != BLANK})


def _copied(name: str, array: np.ndarray, copies: dict[str, np.ndarray]) -> np.ndarray:
    copy = copies.get(name)
    if copy is None or (copy.shape, copy.dtype) != (array.shape, array.dtype):
        copy = copies[name] = np.empty_like(array)
    copy[...] = array
    return copy


def _part(places: Places | None) -> tuple[str, int]:
    """A name for the places of a part, equal for equal ones, and how many they are."""
    if places is None:
        return "whole", 0
    # Of runs, of which there are few: ranks wait for this, and the places are twice as many bytes as their elements.
    runs = list(_runs(places))
    return hashlib.sha256(np.array(runs, np.int64).tobytes()).hexdigest(), sum(count for _, _, count in runs)


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


def _bytes(array: np.ndarray) -> memoryview:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data
