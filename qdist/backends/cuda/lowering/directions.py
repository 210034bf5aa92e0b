"""Which amplitudes a thread holds while it runs Pauli rotations: those that differ by a few flips.

A rotation mixes each amplitude with the one that its flips lead to. A phase of rotations has as its register bits not
bits of the tile but independent flips, its *directions*: a thread holds all amplitudes that some of them lead to, and
runs every rotation whose flips are one of them, whatever its signs are. Rotations of Z alone run anywhere. The tile bit
0, where it is a register bit in every phase, is a direction too, and may be flipped beside another.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from qdist.backends.cuda.lowering.tile import Shape

__all__ = ["Directions", "register_flips"]


def register_flips(registers: int, kept: int) -> list[int]:
    """The flips that the kernel has code for, as masks of a thread's register bits, by their number: none, one, and one
    beside the last where that is in every phase."""
    last = 1 << registers - 1
    singles = [1 << b for b in range(registers)]
    return [0, *singles, *(flip | last for flip in singles[:-1] if kept)]


@dataclass(slots=True)
class Directions:
    """Flips of a tile's index, as masks of its bits, that are a thread's register bits."""

    shape: Shape
    flips: list[int] = field(default_factory=list)
    _reduced: list[int] = field(default_factory=list)
    """The same in echelon form: each without the highest bits of those before it."""

    def takes(self, flip: int) -> bool:
        """Whether rotations with this flip can run; notes the direction if it is new."""
        flip &= ~self.shape.kept
        if not flip or flip in self.flips:
            return True
        if len(self.flips) == self.shape.registers - self.shape.kept.bit_count():
            return False
        rest = flip
        for other in self._reduced:
            rest = min(rest, rest ^ other)
        if not rest:
            return False
        self.flips.append(flip)
        self._reduced.append(rest)
        return True

    def complete(self, size: int) -> tuple[list[int], list[int]]:
        """As many directions as there are register bits, bit 0 last where it is one, and a tile bit for each: the
        thread's number has the other bits of the tile."""
        for bit in reversed(range(size)):
            if len(self.flips) + self.shape.kept.bit_count() < self.shape.registers:
                self.takes(1 << bit)
        kept = [self.shape.kept] if self.shape.kept else []
        pivots = [rest.bit_length() - 1 for rest in self._reduced]
        return self.flips + kept, pivots + [0] * len(kept)

    def number(self, flip: int) -> int:
        """Of a flip that is taken: which of ``register_flips`` it is."""
        own = 1 << self.shape.registers - 1 if flip & self.shape.kept else 0
        if rest := flip & ~self.shape.kept:
            own |= 1 << self.flips.index(rest)
        return register_flips(self.shape.registers, self.shape.kept).index(own)
