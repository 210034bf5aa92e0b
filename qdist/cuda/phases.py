"""A stage's blocks as phases: the scheduler once more, with a thread's registers as the level.

A phase holds the tile in registers and runs blocks that mix register bits. What reaches across threads happens while
the tile is read back from shared memory: changes of index cost nothing there, Pauli rotations and wide matrices read
the elements that they mix. The first phase reads the tile from memory and the last one writes it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from qdist.cuda.linear import IndexMap, index_map
from qdist.cuda.tile import Shape, lane_order
from qdist.native import kernels
from qdist.plan.fuse import Block

__all__ = ["Phase", "TilePhases", "phases"]

_WIDEST = 2
"""Matrices of so many qubits run in registers."""


@dataclass(slots=True)
class Phase:
    """Blocks that run while some of the tile's bits are registers."""

    entry: Block | None
    """The permutation, rotation or wide matrix that reading the tile performs."""
    source: IndexMap | None
    """The change of index that reading the tile performs."""
    blocks: list[Block] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    """Register bits of two-qubit matrices, which sit side by side."""
    registers: list[int] = field(default_factory=list)
    """Tile bits, in the order of a thread's own amplitudes."""
    lanes: list[int] = field(default_factory=list)
    """Tile bits, in the order of the thread's number."""


@dataclass(slots=True)
class TilePhases:
    """The phases of a stage. ``load`` and ``store`` are the changes of index on the way from and to memory."""

    size: int
    """Bits of the tile; those past the shard's are always 0."""
    bit: dict[int, int]
    """The tile bit of each position of the shard's index."""
    load: IndexMap
    phases: list[Phase]
    store: IndexMap


def phases(close: Sequence[int], blocks: Sequence[Block], shape: Shape) -> TilePhases:
    """The phases of a stage whose tile holds the positions ``close``."""
    size = max(len(close), shape.registers)
    bit = {position: k for k, position in enumerate(close)}
    low = min(shape.contiguous, size - shape.registers)
    found = [Phase(None, None)]
    section: list[Block] = []
    for block in blocks:
        if not _crosses_threads(block):
            section.append(block)
            continue
        _run_section(section, found, bit, size, shape)
        section = []
        source = index_map(block.operations, bit, size) if block.kind == "linear" else None
        found.append(Phase(None if source else block, source))
    _run_section(section, found, bit, size, shape)

    identity = IndexMap.identity(size)
    load = store = identity
    if len(found) > 1 and not found[0].blocks and (first := found[1].source) and first.keeps_rows(low):
        load = first
        found[:2] = [Phase(None, None, found[1].blocks, found[1].pairs)]
    if found[-1].source and not found[-1].blocks and len(found) > 1:
        last = found[-1].source.inverse()
        if last.keeps_rows(low):
            store = last
            del found[-1]
    if _mixed(found[0], bit) & (1 << low) - 1:
        found.insert(0, Phase(None, None))
    if _mixed(found[-1], bit) & (1 << low) - 1:
        found.append(Phase(None, None))
    for number, phase in enumerate(found):
        outer = number in (0, len(found) - 1)
        _arrange(phase, bit, size, shape, outer)
    return TilePhases(size, bit, load, found, store)


def _crosses_threads(block: Block) -> bool:
    return block.kind in ("linear", "permute", "rotation") or (
        block.kind == "dense" and block.mixes.bit_count() > _WIDEST
    )


def _mixed(phase: Phase, bit: dict[int, int]) -> int:
    mask = 0
    for block in phase.blocks:
        mask |= _near(block.mixes, bit)
    return mask


def _near(mask: int, bit: dict[int, int]) -> int:
    """A mask of positions as one of tile bits; those outside the tile are left out."""
    return sum(1 << k for position, k in bit.items() if mask >> position & 1)


def _run_section(section: list[Block], found: list[Phase], bit: dict[int, int], size: int, shape: Shape) -> None:
    """Adds blocks that stay within threads: to the last phase first, then to new ones."""
    if not section:
        return
    mixes = [_near(b.mixes, bit) for b in section]
    groups = kernels.schedule(
        np.array(mixes, np.uint64),
        np.array([_near(b.all & ~b.not_x, bit) & m for b, m in zip(section, mixes)], np.uint64),
        np.array([_near(b.all & ~b.not_z, bit) for b in section], np.uint64),
        np.array([float(4 ** m.bit_count()) if m else 0.01 for m in mixes]),
        size,
        shape.registers,
        0,
    )
    for number, (_, chosen) in enumerate(groups):
        if number:
            found.append(Phase(None, None))
        for index in chosen:
            block = section[index]
            if not _takes(found[-1], block, bit, shape):
                found.append(Phase(None, None))
                _takes(found[-1], block, bit, shape)
            found[-1].blocks.append(block)


def _takes(phase: Phase, block: Block, bit: dict[int, int], shape: Shape) -> bool:
    """Whether a block's two register bits can sit side by side in the phase; notes them if so."""
    if block.kind != "dense" or block.mixes.bit_count() < 2:
        return True
    targets = [bit[q] for q in dense_targets(block)]
    pair = (targets[0], targets[1])
    if pair in phase.pairs or pair[::-1] in phase.pairs:
        return True
    if len(phase.pairs) == shape.registers // 2 or any(set(pair) & set(other) for other in phase.pairs):
        return False
    # Single bits that other blocks mix must still find room.
    paired = {b for p in [*phase.pairs, pair] for b in p}
    singles = [k for k in range(_mixed(phase, bit).bit_length()) if _mixed(phase, bit) >> k & 1 and k not in paired]
    if len(paired) + len(singles) > shape.registers:
        return False
    phase.pairs.append(pair)
    return True


def dense_targets(block: Block) -> list[int]:
    """The qubits of a dense block, the matrix's lowest bit first."""
    targets: list[int] = []
    for operation in block.operations:
        targets += [q for q in operation.targets if q not in targets]
    return targets


def _arrange(phase: Phase, bit: dict[int, int], size: int, shape: Shape, outer: bool) -> None:
    """Decides which tile bits are registers, and in which order the others are the thread's bits."""
    mixed = _mixed(phase, bit)
    registers = [b for pair in phase.pairs for b in pair]
    registers += [k for k in range(size) if mixed >> k & 1 and k not in registers]
    registers += [k for k in reversed(range(size)) if k not in registers][: shape.registers - len(registers)]
    lanes = [k for k in range(size) if k not in registers]
    phase.registers = registers
    if outer:
        phase.lanes = lanes  # The lowest bits first: neighbours in memory are neighbours in a warp.
        return
    source = phase.source or IndexMap.identity(size)
    loads = [shape.swizzled(source.columns[k]) for k in lanes]
    phase.lanes = lane_order(shape, lanes, loads, [shape.swizzled(1 << k) for k in lanes])
