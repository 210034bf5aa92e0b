"""Changes of index as linear maps over GF(2): what X, CX and SWAP gates do to the places of a tile.

The result's element i comes from element source(i) = constant ^ XOR of columns[k] over the bits k of i, and of the
flips whose conditions hold outside the tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qdist.plan.operations import Operation

__all__ = ["IndexMap", "index_map"]


@dataclass(frozen=True, slots=True)
class IndexMap:
    """source(i) = constant ^ columns of the bits of i ^ flips that hold."""

    columns: tuple[int, ...]
    constant: int
    flips: tuple[tuple[int, int, int], ...]
    """(mask, value) of positions outside the tile, and the bits that flip where they have this value."""

    @classmethod
    def identity(cls, size: int) -> IndexMap:
        return cls(tuple(1 << k for k in range(size)), 0, ())

    def linear(self, index: int) -> int:
        """The linear part alone."""
        result = 0
        for k, column in enumerate(self.columns):
            if index >> k & 1:
                result ^= column
        return result

    def inverse(self) -> IndexMap:
        """The map that leads back: where an element goes, as this one tells where it comes from."""
        rows = [(column, 1 << k) for k, column in enumerate(self.columns)]
        # Gauss-Jordan on pairs (image, what it is the image of).
        for bit in range(len(rows)):
            pivot = next(r for r in range(bit, len(rows)) if rows[r][0] >> bit & 1)
            rows[bit], rows[pivot] = rows[pivot], rows[bit]
            image, origin = rows[bit]
            rows = [(a ^ image, b ^ origin) if r != bit and a >> bit & 1 else (a, b) for r, (a, b) in enumerate(rows)]
        back = IndexMap(tuple(origin for _, origin in rows), 0, ())
        flips = tuple((mask, value, back.linear(bits)) for mask, value, bits in self.flips)
        return IndexMap(back.columns, back.linear(self.constant), flips)

    def keeps_neighbours(self) -> bool:
        """Whether elements that differ in bit 0 alone come from such, in the same order."""
        others = (*self.columns[1:], self.constant, *(bits for _, _, bits in self.flips))
        return self.columns[0] == 1 and not any(x & 1 for x in others)

    def moves(self) -> list[int] | None:
        """The bit that each one comes from, where bits change places and nothing else happens; else None."""
        if self.constant or self.flips or any(column.bit_count() != 1 for column in self.columns):
            return None
        return [column.bit_length() - 1 for column in self.columns]

    def keeps_rows(self, low: int) -> bool:
        """Whether elements that differ in the lowest ``low`` bits alone still do after the change."""
        return all(not column >> low for column in self.columns[:low])


def index_map(operations: Sequence[Operation], bit: Mapping[int, int], size: int) -> IndexMap:
    """The map of flips and swaps in order. bit: the tile bit of each position inside the tile of ``size`` bits."""
    columns = [1 << k for k in range(size)]
    constant = 0
    flips = []
    # Going through the gates in order composes their inverses.
    for operation in operations:
        if operation.kind == "swap":
            a, b = (bit[q] for q in operation.targets)
            columns[a], columns[b] = columns[b], columns[a]
            continue
        target = columns[bit[operation.targets[0]]]
        if not operation.controls:
            constant ^= target
            continue
        ((control, value),) = operation.controls
        if control not in bit:
            flips.append((1 << control, value << control, target))
            continue
        # source'(i) = source(i with target ^= control): the control's column gains the target's.
        columns[bit[control]] ^= target
        if not value:
            constant ^= target
    return IndexMap(tuple(columns), constant, tuple(flips))
