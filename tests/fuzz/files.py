"""What the targets that read files share: the bytes of a file, changed in its header, its data or anywhere.

Where the header is changed its checksum is made right again, or nothing behind it would ever be reached.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any

from harness import Target
from mutations import mutated_bytes, mutated_json

from qdist.tensorfile import BLANK, CheckpointError, header_bytes

# Headers that no mutation of a right one comes to.
_HEADERS = (
    b"[" * 5000,
    b'{"a":' * 3000,
    b"{" + b'"a":{},' * 100 + b'"b":{}}',
    b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    b'{"__metadata__":{"format":"qdist"},"w":{"dtype":"F32","shape":[NaN],"data_offsets":[0,Infinity]}}',
    b'{"__metadata__":[]}',
    b'{"__metadata__":{"format":"qdist-state"}}',
    b'{"w":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,4]}}',
    b'{"w":1e999}',
    b'"\\ud800"',
    b"\xff\xfe\x00",
)


_TEXTS = (None, 1, [], "", "[]", "{}", "null", "-1", "0", "[" * 3000, '{"dict":' * 400 + "1" + "}" * 400)


class Files(Target):
    """Reads files at one path. Subclasses say which files are right, and how one is read."""

    documented = (CheckpointError,)

    def __init__(self) -> None:
        # In memory where there is such a place: a million files are written.
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="qdist_fuzz_", dir=place)
        self.path = Path(self._folder.name) / "file"
        self._files = [_parts(self._right(number)) for number in range(self.count)]

    count: int
    """How many right files there are."""

    def save(self, number: int) -> None:
        """Write one of the right files to `self.path`."""
        raise NotImplementedError

    def _right(self, number: int) -> bytes:
        self.save(number)
        return self.path.read_bytes()

    def close(self) -> None:
        self._folder.cleanup()

    def make(self, rng: random.Random) -> bytes:
        table, metadata, data, whole = rng.choice(self._files)
        kind = rng.random()
        if kind < 0.15:
            return mutated_bytes(whole, rng)
        if kind < 0.2:
            header = rng.choice(_HEADERS)
            return len(header).to_bytes(8, "little") + header + bytes(int(rng.random() * 9))
        chance = rng.choice((0.01, 0.03, 0.1))
        if rng.random() < 0.5:
            table = mutated_json(table, rng, chance)
        metadata = {key: _mutated_text(text, rng, chance) for key, text in metadata.items()}
        if rng.random() < 0.1:
            data = mutated_bytes(data, rng)
        if isinstance(table, dict) and rng.random() < 0.9:
            metadata["sha256"] = hashlib.sha256(header_bytes(table, {**metadata, "sha256": BLANK})).hexdigest()
        if not isinstance(table, dict):
            return mutated_bytes(whole, rng)
        return header_bytes(table, metadata) + data

    def read(self, given: bytes) -> None:
        self.path.write_bytes(given)
        self.load()

    def load(self) -> Any:
        raise NotImplementedError


def _mutated_text(text: str, rng: random.Random, chance: float) -> Any:
    """A value of the metadata, which is a string that often holds JSON."""
    if rng.random() < chance:
        return rng.choice(_TEXTS)
    if rng.random() < 0.5 and text[:1] in "[{":
        return json.dumps(mutated_json(json.loads(text), rng, chance))
    if rng.random() < chance:
        return mutated_bytes(text.encode(), rng).decode(errors="replace")
    return text


def _parts(whole: bytes) -> tuple[dict[str, Any], dict[str, str], bytes, bytes]:
    """The table, the metadata, the data, and all of a file."""
    start = 8 + int.from_bytes(whole[:8], "little")
    table = json.loads(whole[8:start])
    return table, table.pop("__metadata__"), whole[start:], whole
