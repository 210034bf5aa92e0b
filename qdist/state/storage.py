"""States on disk: one safetensors file, written and read by all ranks at once, for any number of ranks.

Amplitudes are stored in physical order together with the layout, so that no rank exchanges anything. Every block of
them has a SHA-256 in the header, so that a rank verifies what it reads without reading the rest.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path

import numpy as np

from qdist.backends import on_host
from qdist.comm import Communicator
from qdist.plan.layout import Layout
from qdist.plan.planner import MAX_QUBITS
from qdist.progress import counted
from qdist.state.shards import Shards
from qdist.tensorfile import (
    BLANK,
    CheckpointError,
    Replacement,
    agreeing,
    header_bytes,
    open_file,
    parse_json,
    read_header,
)

__all__ = ["read_amplitudes", "read_description", "save"]

_log = logging.getLogger("qdist.state")

_FORMAT = "qdist-state"
_SMALLEST_BLOCK = 1 << 22  # bytes
_MOST_BLOCKS = 1 << 16
_PARTS = {"complex64": "F32", "complex128": "F64"}


class Description:
    """What a file says about the state in it."""

    def __init__(self, dtype: str, layout: Layout, block: int, digests: str, note: str = "") -> None:
        self.dtype = dtype
        self.layout = layout
        self.block = block
        """Amplitudes under one checksum."""
        self.digests = digests
        """The checksums, 64 hexadecimal digits each, concatenated."""
        self.note = note
        """What the writer wants to know again; empty for none."""

    @property
    def size(self) -> int:
        return 1 << self.layout.num_qubits

    @property
    def header(self) -> bytes:
        """The file up to its data, with a checksum of itself."""
        nbytes = self.size * np.dtype(self.dtype).itemsize
        tensors = {
            "amplitudes": {"dtype": _PARTS[self.dtype], "shape": [self.size, 2], "data_offsets": [0, nbytes]},
        }
        metadata = {
            "format": _FORMAT,
            "dtype": self.dtype,
            "positions": json.dumps(self.layout.positions),
            "block": str(self.block),
            "blocks_sha256": self.digests,
            **({"note": self.note} if self.note else {}),
            "sha256": BLANK,
        }
        digest = hashlib.sha256(header_bytes(tensors, metadata)).hexdigest()
        return header_bytes(tensors, {**metadata, "sha256": digest})


def save(sv: Shards, path: Path, note: str = "") -> None:
    """Writes the state, all ranks together; an existing file is replaced only when the new one is complete.

    note: a text that `read_description` gives back.
    """
    comm, itemsize = sv.comm, sv.dtype.itemsize
    # A block is never shared by two ranks.
    block = max(_SMALLEST_BLOCK // itemsize, (1 << sv.num_qubits) // _MOST_BLOCKS)
    block = min(block, 1 << sv.shard_bits)
    blank = BLANK * ((1 << sv.num_qubits) // block)
    description = Description(sv.dtype.name, sv.layout, block, blank, note)
    data_start = len(description.header)
    replacement: Replacement | None = None
    try:
        with agreeing(comm):
            if comm.rank == 0:
                replacement = Replacement(path)
                os.truncate(replacement.temporary, data_start + description.size * itemsize)
        temporary = comm.broadcast_object(None if replacement is None else str(replacement.temporary))
        digests = ""
        with agreeing(comm), open(temporary, "r+b") as file:
            start, _ = sv.bounds(comm.rank)
            file.seek(data_start + start * itemsize)
            for first in counted(f"saving {path.name}", range(0, len(sv.local), block), comm):
                part = on_host(sv.local[first : first + block])
                part = part.astype(sv.dtype.newbyteorder("<"), copy=False).view(np.uint8)
                digests += hashlib.sha256(part.data).hexdigest()
                file.write(part.data)
            file.flush()
            os.fsync(file.fileno())
        description.digests = "".join(comm.all_gather_object(digests))
        with agreeing(comm):
            if replacement is not None:
                replacement.commit_with(description.header)
                _log.info("saved %s: %d qubits, %s", path, sv.num_qubits, sv.dtype)
    except BaseException:
        if replacement is not None:
            replacement.discard()
        raise


def read_description(path: Path, comm: Communicator) -> Description:
    """The description in a file.

    Raises CheckpointError, on all ranks, when it is cut off, changed, or no state's.
    """
    with agreeing(comm), open_file(path) as file:
        _, metadata = read_header(path, file)
        if metadata.get("format") != _FORMAT:
            raise CheckpointError(f"{path} is a safetensors file but holds no state of this library")
        try:
            description = _described(metadata)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: its header makes no sense ({error})") from error
        file.seek(0)
        if file.read(len(description.header)) != description.header:
            raise CheckpointError(f"{path} is damaged: its header does not match its checksum")
    return description


def _described(metadata: dict[str, str]) -> Description:
    """What the metadata of a file say. Raises KeyError, TypeError or ValueError where they cannot be a state's."""
    positions = parse_json(metadata["positions"])
    if not isinstance(positions, list) or not 1 <= len(positions) <= MAX_QUBITS:
        raise ValueError(f"a state has 1 to {MAX_QUBITS} qubits")
    if metadata["dtype"] not in _PARTS:
        raise ValueError(f"amplitudes are {' or '.join(_PARTS)}")
    block, digests = int(metadata["block"]), metadata["blocks_sha256"]
    description = Description(metadata["dtype"], Layout(positions), block, digests, metadata.get("note", ""))
    if block < 1 or block & (block - 1) or block > description.size:
        raise ValueError("a block has a power of two of the amplitudes")
    if len(digests) != len(BLANK) * (description.size // block):
        raise ValueError("there is not one checksum for each block")
    return description


def read_amplitudes(sv: Shards, path: Path, description: Description) -> None:
    """Fills a state that has the file's size, dtype and layout. Takes memory for one block."""
    block, kind = description.block, np.dtype(description.dtype).newbyteorder("<")
    start, end = sv.bounds(sv.comm.rank)
    with agreeing(sv.comm), open_file(path) as file:
        buffer = np.empty(block, kind)
        first_block = start // block
        file.seek(len(description.header) + first_block * block * kind.itemsize)
        for number in counted(f"reading {path.name}", range(first_block, -(-end // block)), sv.comm):
            file.readinto(buffer.view(np.uint8).data)
            digest = hashlib.sha256(buffer.view(np.uint8).data).hexdigest()
            if digest != description.digests[64 * number : 64 * (number + 1)]:
                raise CheckpointError(f"{path} is damaged: block {number} does not match its checksum")
            # More ranks than when it was saved may each need a part of a block.
            low, high = max(start, number * block), min(end, (number + 1) * block)
            own = buffer[low - number * block : high - number * block].astype(sv.dtype, copy=False)
            sv.local[low - start : high - start] = sv.backend.moved(own)
    _log.info("read %s: %d qubits, %s", path, sv.num_qubits, sv.dtype)
