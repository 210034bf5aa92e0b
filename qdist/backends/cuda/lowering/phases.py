"""A stage's blocks as phases: lazy reordering once more, with a thread's registers as what is close.

A phase holds the tile in registers and runs blocks that mix register bits, or Pauli rotations whose flips are register
bits (directions.py). What reaches across threads happens while the tile is read back from shared memory: changes of
index cost nothing there, controlled Pauli rotations and wide matrices read the elements that they mix. Of a wide matrix
whose bits are registers (``is_held``) these are a thread's own, each of which is read once. The first phase reads the
tile from memory and the last one writes it there.

Each phase takes what comes first; where looking ahead (packing.py) finds fewer phases, these are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qdist.backends.cuda.lowering.directions import Directions
from qdist.backends.cuda.lowering.packing import MOST, Piece, Step, pack
from qdist.backends.cuda.lowering.tile import Shape, lane_order
from qdist.backends.in_tile import dense_targets
from qdist.backends.index_map import IndexMap, index_map
from qdist.plan.commute import Stops, commute
from qdist.plan.fuse import Block

__all__ = ["WIDEST", "Phase", "TilePhases", "is_held", "num_phases", "phases"]

WIDEST = 2
"""Matrices of so many qubits run in registers."""

_WIDEST_HELD = 4
"""Matrices of so many qubits are applied to a thread's own elements while they are read."""


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
    directions: Directions | None = None
    """Of a phase of Pauli rotations."""
    mixed: int = 0
    """Mask of the tile bits that are held, or that a block mixes which runs in registers."""
    held: list[int] = field(default_factory=list)
    """Tile bits of a wide matrix that are the first registers, in this order; one that always is the last stays so."""
    registers: list[int] = field(default_factory=list)
    """Tile bits, in the order of a thread's own amplitudes."""
    columns: list[int] = field(default_factory=list)
    """What each register bit flips of the tile's index: its own bit, or a direction."""
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
    found = _found(close, blocks, shape)
    for number, phase in enumerate(found.phases):
        outer = number in (0, len(found.phases) - 1)
        _arrange(phase, found.bit, found.size, shape, outer)
    return found


def num_phases(close: Sequence[int], blocks: Sequence[Block], shape: Shape) -> int:
    """How many these are."""
    return len(_found(close, blocks, shape).phases)


def _found(close: Sequence[int], blocks: Sequence[Block], shape: Shape) -> TilePhases:
    """The same with their blocks, but with bits in no order yet."""
    size = max(len(close), shape.narrowest)
    bit = {position: k for k, position in enumerate(close)}
    low = min(shape.contiguous, size - shape.registers)
    found = _folded(_first_come(blocks, bit, size, shape), bit, size, low, shape)
    if len(blocks) <= MOST and all(_is_packed(block, bit, shape) for block in blocks):
        closed = (1 << low) - 1 & ~shape.kept
        packed = pack(_pieces(blocks, bit), shape.registers, closed, below=len(found.phases), kept=shape.kept)
        if packed is not None:
            found = _folded(_filled(packed, blocks, bit, size, shape), bit, size, low, shape)
    return found


def _first_come(blocks: Sequence[Block], bit: dict[int, int], size: int, shape: Shape) -> list[Phase]:
    """Phases that are filled in the order of the blocks."""
    found = [Phase(None, None)]
    section: list[Block] = []
    rotations: list[Block] = []
    for block in blocks:
        if is_turned(block):
            _run_section(section, found, bit, shape)
            section = []
            rotations.append(block)
            continue
        _run_rotations(rotations, found, bit, shape)
        rotations = []
        if not _crosses_threads(block):
            section.append(block)
            continue
        _run_section(section, found, bit, shape)
        section = []
        found.append(_begun(block, bit, size, shape))
    _run_section(section, found, bit, shape)
    _run_rotations(rotations, found, bit, shape)
    return found


def _begun(block: Block, bit: dict[int, int], size: int, shape: Shape) -> Phase:
    """The phase whose reading of the tile performs a block."""
    source = index_map(block.operations, bit, size) if block.kind == "linear" else None
    held = [bit[q] for q in dense_targets(block)] if is_held(block, bit, shape) else []
    held.sort(key=lambda k: (shape.kept >> k & 1, k))
    return Phase(None if source else block, source, mixed=sum(1 << k for k in held), held=held)


def _pieces(blocks: Sequence[Block], bit: dict[int, int]) -> list[Piece]:
    pieces = []
    for number, block in enumerate(blocks):
        after = sum(1 << k for k in range(number) if not commute(blocks[k], block))
        begins = _crosses_threads(block)
        bits = 0 if begins else _near(block.mixes, bit)
        pieces.append(Piece(after, bits, begins, bits.bit_count() == 2 and not block.keeps_parity))
    return pieces


def _filled(packed: list[Step], blocks: Sequence[Block], bit: dict[int, int], size: int, shape: Shape) -> list[Phase]:
    """Phases with the blocks that packing found for each."""
    found = []
    for first, members in packed:
        phase = Phase(None, None) if first is None else _begun(blocks[first], bit, size, shape)
        for block in (blocks[k] for k in members):
            if not _taken(phase, block, bit, shape):
                raise AssertionError("packing has filled a phase with more than its registers hold")
        found.append(phase)
    return found


def _folded(found: list[Phase], bit: dict[int, int], size: int, low: int, shape: Shape) -> TilePhases:
    """The phases with changes of index at their ends left to loading and storing, and with phases that load and store
    whole rows where the first or the last one mixes the ``low`` lowest bits that are not always registers."""
    load = store = IndexMap.identity(size)
    if len(found) > 1 and not found[0].blocks and (first := found[1].source) and first.keeps_rows(low):
        load = first
        found[:2] = [Phase(None, None, found[1].blocks, found[1].pairs, mixed=found[1].mixed)]
    if found[-1].source and not found[-1].blocks and len(found) > 1:
        last = found[-1].source.inverse()
        if last.keeps_rows(low):
            store = last
            del found[-1]
    closed = (1 << low) - 1 & ~shape.kept
    if found[0].directions or found[0].mixed & closed:
        found.insert(0, Phase(None, None))
    if found[-1].directions or found[-1].mixed & closed:
        found.append(Phase(None, None))
    return TilePhases(size, bit, load, found, store)


def is_turned(block: Block) -> bool:
    """Whether it is a Pauli rotation that runs in registers."""
    return block.kind == "rotation" and not block.operations[0].controls


def is_held(block: Block, bit: dict[int, int], shape: Shape) -> bool:
    """Whether it is a wide matrix whose bits find room among the registers."""
    if block.kind != "dense" or not WIDEST < (count := block.mixes.bit_count()) <= _WIDEST_HELD:
        return False
    others = (shape.kept & ~_near(block.mixes, bit)).bit_count()
    return not block.operations[0].controls and count + others <= shape.registers


def _is_packed(block: Block, bit: dict[int, int], shape: Shape) -> bool:
    """Whether packing knows how it runs: of Pauli rotations it has each read the tile, which several cannot, and what
    reading performs it has take no registers."""
    if is_held(block, bit, shape):
        return False
    return block.kind != "rotation" or len(block.operations) == 1


def _crosses_threads(block: Block) -> bool:
    return block.kind in ("linear", "permute", "rotation") or (
        block.kind == "dense" and block.mixes.bit_count() > WIDEST
    )


def _near(mask: int, bit: dict[int, int]) -> int:
    """A mask of positions as one of tile bits; those outside the tile are left out."""
    return sum(1 << k for position, k in bit.items() if mask >> position & 1)


def _run_section(section: list[Block], found: list[Phase], bit: dict[int, int], shape: Shape) -> None:
    """Adds blocks that stay within threads: to the last phase first, then to new ones.

    A phase takes, in order, every block that finds room and does not have to wait for one that found none.
    """
    waiting = section
    if waiting and found[-1].directions:
        found.append(Phase(None, None))
    while waiting:
        later: list[Block] = []
        stops = Stops()
        for block in waiting:
            if stops.stop(block) or not _taken(found[-1], block, bit, shape):
                later.append(block)
                stops.add(block)
        waiting = later
        if waiting:
            found.append(Phase(None, None))


def _run_rotations(rotations: list[Block], found: list[Phase], bit: dict[int, int], shape: Shape) -> None:
    """The same for Pauli rotations, in phases of their own."""
    waiting = rotations
    while waiting:
        directions = Directions(shape)
        phase, later = Phase(None, None, directions=directions), list[Block]()
        stops = Stops()
        for block in waiting:
            if not stops.stop(block) and directions.takes(_near(block.mixes, bit)):
                phase.blocks.append(block)
            else:
                later.append(block)
                stops.add(block)
        found.append(phase)
        waiting = later


def _taken(phase: Phase, block: Block, bit: dict[int, int], shape: Shape) -> bool:
    """Adds a block to a phase, if the bits that it mixes find room among the phase's registers, pairs side by side.
    Matrices that keep parities run on any two."""
    targets = [bit[q] for q in dense_targets(block)] if block.mixes else []
    pairs = phase.pairs
    if len(targets) == 2 and not block.keeps_parity:
        first, second = targets
        if phase.held:
            return False
        if (first, second) not in pairs and (second, first) not in pairs:
            pairs = [*pairs, (first, second)]
    mixed = phase.mixed | sum(1 << b for b in targets)
    paired = [b for pair in pairs for b in pair]
    of_pairs = sum(1 << b for b in set(paired))
    singles = (mixed | shape.kept) & ~of_pairs
    if of_pairs.bit_count() < len(paired) or len(paired) + singles.bit_count() > shape.registers:
        return False
    phase.pairs, phase.mixed = pairs, mixed
    phase.blocks.append(block)
    return True


def _arrange(phase: Phase, bit: dict[int, int], size: int, shape: Shape, outer: bool) -> None:
    """Decides which tile bits are registers, and in which order the others are the thread's bits."""
    if phase.directions:
        phase.columns, phase.registers = phase.directions.complete(size)
        lanes = [k for k in range(size) if k not in phase.registers]
        places = [shape.swizzled(1 << k) for k in lanes]
        phase.lanes = lane_order(shape, lanes, places, places)
        return
    mixed = phase.mixed
    # Those that are registers in every phase come last, after what they are paired with.
    last = [b for pair in phase.pairs for b in sorted(pair, reverse=True) if any(shape.kept >> k & 1 for k in pair)]
    last = last or [k for k in range(size) if shape.kept >> k & 1]
    registers = [b for pair in [phase.held, *phase.pairs] for b in pair if b not in last]
    registers += [k for k in range(size) if mixed >> k & 1 and k not in registers + last]
    free = [k for k in reversed(range(size)) if k not in registers + last]
    registers += free[: shape.registers - len(registers) - len(last)] + last
    lanes = [k for k in range(size) if k not in registers]
    phase.registers = registers
    phase.columns = [1 << k for k in registers]
    if outer:
        phase.lanes = lanes  # The lowest bits first: coalesced accesses to memory.
        return
    source = phase.source or IndexMap.identity(size)
    loads = [shape.swizzled(source.columns[k]) for k in lanes]
    phase.lanes = lane_order(shape, lanes, loads, [shape.swizzled(1 << k) for k in lanes])
