"""Few phases for the blocks of a stage, found by looking ahead.

Filling each phase with what comes first may leave blocks behind that then need phases of their own. Here several ways
to fill each phase are followed side by side; those that leave the least, long chains above all, are followed further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MOST", "Piece", "Step", "pack"]

MOST = 20
"""So many pieces at most are worth looking through: stages of the ansatz, which have more, gained next to nothing."""
_WAYS = 8
"""So many ways are followed; with 32 the phases of quantum volume, QFT and ansatz at 26 to 30 qubits were no fewer."""
_FILLINGS = 16
"""So many fillings of a phase are tried for each of them."""

Step = tuple[int | None, list[int]]
"""A phase: the number of the piece that reading the tile performs, if any, and of those that run in registers."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What packing needs to know of a block. Sets of blocks and of bits are masks."""

    after: int
    """Blocks that have to run before."""
    bits: int
    """Tile bits that must be registers."""
    begins: bool
    """Whether reading the tile performs it, so that it begins a phase."""
    together: bool = False
    """Whether its bits are two that must be side by side."""


@dataclass(frozen=True, slots=True)
class _Way:
    """The first phases: (what begins each, what has run after it), and the register bits that the last one needs."""

    steps: tuple[tuple[int | None, int], ...]
    used: int


def pack(pieces: Sequence[Piece], registers: int, low: int, below: int, kept: int = 0) -> list[Step] | None:
    """Fewer than ``below`` phases that run all pieces, or None if none were found.

    low: the tile bits that cannot be registers in the first and the last phase; kept: those that always are. Pieces
    keep the order that they have to; within a phase they stand in the order given.
    """
    everything = (1 << len(pieces)) - 1
    chains = _chains(pieces)
    ways = {done: _Way(((None, done),), used) for done, used in _fillings(pieces, 0, registers, low, kept).items()}
    for _ in range(1, below):
        if everything in ways and not ways[everything].used & low:
            return _steps(ways[everything])
        longer: dict[int, _Way] = {}
        for done in sorted(ways, key=lambda done: _left(done, chains))[:_WAYS]:
            for first in (None, *_ready(pieces, done)):
                begun = done if first is None else done | 1 << first
                for filled, used in _fillings(pieces, begun, registers, 0, kept).items():
                    if filled not in longer or longer[filled].used & low:
                        longer[filled] = _Way((*ways[done].steps, (first, filled)), used)
        ways = longer
    return None


def _chains(pieces: Sequence[Piece]) -> list[int]:
    """For each piece the length of the longest chain of pieces that begins with it and have to follow each other."""
    chains = [1] * len(pieces)
    for later in reversed(range(len(pieces))):
        for number in _members(pieces[later].after):
            chains[number] = max(chains[number], chains[later] + 1)
    return chains


def _left(done: int, chains: list[int]) -> int:
    return sum(length**2 for number, length in enumerate(chains) if not done >> number & 1)


def _ready(pieces: Sequence[Piece], done: int) -> list[int]:
    """Pieces that can begin the next phase."""
    return [k for k, piece in enumerate(pieces) if piece.begins and not done >> k & 1 and not piece.after & ~done]


def _fillings(pieces: Sequence[Piece], done: int, registers: int, closed: int, kept: int) -> dict[int, int]:
    """Ways to fill a phase until nothing more finds room, the one that takes what comes first as the first of them.

    done: what has run when the phase begins. closed: tile bits that cannot be registers, kept: those that are. Returns
    the register bits that each way needs, by what has run when the phase ends.
    """
    found: dict[int, int] = {}
    seen = {done}
    begun = [(done, kept, frozenset[int]())]
    while begun and len(found) < _FILLINGS:
        done, used, pairs = begun.pop()
        choices: list[tuple[int, int, frozenset[int]]] = []
        for number, piece in enumerate(pieces):
            if done >> number & 1 or piece.begins or piece.after & ~done or piece.bits & closed:
                continue
            wanted, together = used | piece.bits, pairs
            if piece.together and piece.bits not in pairs:
                if any(piece.bits & pair for pair in pairs):
                    continue
                together = pairs | {piece.bits}
            if wanted == used and together == pairs:
                done |= 1 << number
            elif wanted.bit_count() <= registers:
                choices.append((1 << number, wanted, together))
        if not choices:
            found[done] = used
        for own, wanted, together in reversed(choices):
            if done | own not in seen:
                seen.add(done | own)
                begun.append((done | own, wanted, together))
    return found


def _steps(way: _Way) -> list[Step]:
    steps, before = [], 0
    for first, done in way.steps:
        own = done & ~before if first is None else done & ~before & ~(1 << first)
        steps.append((first, _members(own)))
        before = done
    return steps


def _members(mask: int) -> list[int]:
    return [k for k in range(mask.bit_length()) if mask >> k & 1]
