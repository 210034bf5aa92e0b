"""States on disk: one safetensors file, written and read by all ranks at once, for any number of ranks.

Amplitudes are stored in physical order together with the layout, so that no rank exchanges anything. Every block of
them has a checksum in the header, so that a rank verifies what it reads without reading the rest; older files have
SHA-256s, and are read too.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

import numpy as np

from qdist.backends import on_host
from qdist.blocks import Checks, DirectFile, PartialSums, joined
from qdist.comm import Communicator
from qdist.plan.layout import Layout
from qdist.plan.planner import MAX_QUBITS
from qdist.progress import counted
from qdist.state.measuring.readout import Readout
from qdist.state.shards import Shards
from qdist.tensorfile import (
    BLANK,
    CheckpointError,
    Replacement,
    agreeing,
    header_bytes,
    naming,
    open_file,
    padded,
    parse_json,
    read_header,
)

__all__ = ["read_amplitudes", "read_description", "readout_of", "save"]

_log = logging.getLogger("qdist.state")

_FORMAT = "qdist-state"
_SMALLEST_BLOCK = 1 << 22  # bytes
_MOST_BLOCKS = 1 << 16
_PARTS = {"complex64": "F32", "complex128": "F64"}


class Description:
    """What a file says about the state in it."""

    def __init__(self, dtype: str, layout: Layout, checks: Checks, note: str = "") -> None:
        self.dtype = dtype
        self.layout = layout
        self.checks = checks
        """Of blocks, each of a power of two of amplitudes."""
        self.note = note
        """What the writer wants to know again; empty for none."""
        self.start = 0
        """Where in its file the amplitudes begin, when it was read from one."""

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
            "block": str(self.checks.block // np.dtype(self.dtype).itemsize),
            f"blocks_{self.checks.method}": self.checks.text,
            **({"note": self.note} if self.note else {}),
            "sha256": BLANK,
        }
        digest = hashlib.sha256(header_bytes(tensors, metadata)).hexdigest()
        return padded(header_bytes(tensors, {**metadata, "sha256": digest}), nbytes)


def save(sv: Shards, path: Path, note: str = "") -> None:
    """Writes the state, all ranks together; an existing file is replaced only when the new one is complete.

    note: a text that `read_description` gives back.
    """
    comm, itemsize = sv.comm, sv.dtype.itemsize
    nbytes = itemsize << sv.num_qubits
    # A block is never shared by two ranks.
    block = min(max(_SMALLEST_BLOCK, nbytes // _MOST_BLOCKS), itemsize << sv.shard_bits)
    description = Description(sv.dtype.name, sv.layout, Checks.blank(block, nbytes), note)
    data_start = len(description.header)
    replacement: Replacement | None = None
    try:
        with agreeing(comm):
            if comm.rank == 0:
                replacement = Replacement(path, data_start + nbytes)
        temporary = comm.broadcast_object(None if replacement is None else str(replacement.temporary))
        start, _ = sv.bounds(comm.rank)
        sums = PartialSums(block, nbytes)
        with agreeing(comm), naming(path), DirectFile(temporary) as file:
            for first in counted(f"saving {path.name}", range(0, len(sv.local), block // itemsize), comm):
                part = on_host(sv.local[first : first + block // itemsize])
                part = part.astype(sv.dtype.newbyteorder("<"), copy=False).view(np.uint8)
                at = (start + first) * itemsize
                sums.add(at, part.data)
                file.write(data_start + at, part)
            sums.close()
            file.sync()
        description.checks = joined(block, nbytes, comm.all_gather_object(sums.found))
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
        start = file.tell()
        if metadata.get("format") != _FORMAT:
            raise CheckpointError(f"{path} is a safetensors file but holds no state of this library")
        try:
            description = _described(metadata)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: its header makes no sense ({error})") from error
        description.start = start
        file.seek(8)
        # Where the amplitudes begin depends on what can be written directly; older files leave no room.
        if file.read(start - 8).rstrip(b" ") != description.header[8:].rstrip(b" "):
            raise CheckpointError(f"{path} is damaged: its header does not match its checksum")
    return description


def readout_of(path: Path, description: Description) -> Readout | None:
    """How the classical bits follow, of a state that has some. Raises CheckpointError for what cannot be."""
    try:
        return Readout.of_text(description.note, description.layout.num_qubits)
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: what it says of classical bits makes no sense ({error})") from error


def _described(metadata: dict[str, str]) -> Description:
    """What the metadata of a file say. Raises KeyError, TypeError or ValueError where they cannot be a state's."""
    positions = parse_json(metadata["positions"])
    if not isinstance(positions, list) or not 1 <= len(positions) <= MAX_QUBITS:
        raise ValueError(f"a state has 1 to {MAX_QUBITS} qubits")
    if metadata["dtype"] not in _PARTS:
        raise ValueError(f"amplitudes are {' or '.join(_PARTS)}")
    method = "sha256" if "blocks_sha256" in metadata else "crc32"
    layout, itemsize, block = Layout(positions), np.dtype(metadata["dtype"]).itemsize, int(metadata["block"])
    if block < 1 or block & (block - 1) or block > 1 << layout.num_qubits:
        raise ValueError("a block has a power of two of the amplitudes")
    checks = Checks(method, block * itemsize, itemsize << layout.num_qubits, metadata[f"blocks_{method}"])
    return Description(metadata["dtype"], layout, checks, metadata.get("note", ""))


def read_amplitudes(sv: Shards, path: Path, description: Description) -> None:
    """Fills a state that has the file's size, dtype and layout. Takes memory for one block."""
    checks, kind = description.checks, np.dtype(description.dtype).newbyteorder("<")
    block = checks.block // kind.itemsize
    start, end = sv.bounds(sv.comm.rank)
    with agreeing(sv.comm), open_file(path) as file:
        buffer = np.empty(block, kind)
        first_block = start // block
        file.seek(description.start + first_block * checks.block)
        for number in counted(f"reading {path.name}", range(first_block, -(-end // block)), sv.comm):
            # More ranks than when it was saved may each need a part of a block.
            low, high = max(start, number * block), min(end, (number + 1) * block)
            own = sv.local[low - start : high - start]
            in_place = sv.backend.is_host and high - low == block and sv.dtype == kind
            raw = (own if in_place else buffer).view(np.uint8).data
            if file.readinto(raw) != len(raw) or not checks.matches(number, raw):
                raise CheckpointError(f"{path} is damaged: block {number} does not match its checksum")
            if not in_place:
                part = buffer[low - number * block : high - number * block].astype(sv.dtype, copy=False)
                own[:] = sv.backend.moved(part)
    _log.info("read %s: %d qubits, %s", path, sv.num_qubits, sv.dtype)
