"""Pauli rotations that flip the same bits as one rotation of each pair of amplitudes: its angle follows from parities.

Strings with the same flips and the same parity of Ys rotate each pair of amplitudes by angles that add up with signs.
The signs are parities of the index, which depend on the *pattern* of a few of them alone: those of a basis. A table has
cosine, sine and, for the adjoint sweep, what a parameter changes of the angle, for each pattern
(native/src/tile/rotations.hpp is the same for a CPU).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qdist.backends.cuda.lowering.records.tiles import COLUMN_BITS
from qdist.backends.in_tile import pauli_masks
from qdist.circuit import AffineMap
from qdist.plan.operations import Affine, Operation

__all__ = ["PARITIES", "Multiples", "Patterns", "multiples"]

PARITIES = COLUMN_BITS
"""By so many parities the rotations of a block are told apart: tables of up to 32 entries."""
Multiples = Mapping[int, tuple[int, float]]
"""For angles that are always a multiple of an earlier one: (the earlier one, the factor); for others (itself, 1)."""


def multiples(affine: AffineMap) -> Multiples:
    """For each angle that depends on parameters, the first one that is in a fixed ratio to it but for constants. What
    is summed for both together has the same meaning for the parameters."""
    rows: dict[int, list[tuple[int, float]]] = {}
    for slot, parameter, coefficient in zip(*(a.tolist() for a in affine[:3])):
        rows.setdefault(slot, []).append((parameter, coefficient))
    first: dict[tuple[tuple[int, float], ...], tuple[int, float]] = {}
    found: dict[int, tuple[int, float]] = {}
    for slot, row in sorted(rows.items()):
        scale = next((c for _, c in sorted(row) if c != 0), 1.0)
        form = tuple((parameter, c / scale) for parameter, c in sorted(row))
        earlier, other = first.setdefault(form, (slot, scale))
        found[slot] = earlier, scale / other
    return found


@dataclass(frozen=True, slots=True)
class Patterns:
    """The rotations of a block, in a tile. bit: the tile's bit of each qubit inside.

    An amplitude's pattern is that of the amplitude it is mixed with.
    """

    x: int
    """Flips, as a mask of the tile's bits."""
    odd: bool
    """Whether the number of Ys is."""
    basis: tuple[tuple[int, int], ...]
    """Parities: masks of the tile's bits, and of bits outside of it."""
    strings: tuple[tuple[Operation, int, int], ...]
    """Rotations, the parities of the basis that their sign is the product of, and i^(1 + Ys) times it: 1 or -1."""

    @classmethod
    def of(cls, operations: Sequence[Operation], bit: Mapping[int, int]) -> Patterns:
        flips, basis, reduced, strings, ys = 0, list[tuple[int, int]](), list[tuple[int, int]](), [], 0
        for operation in operations:
            flips, z, far_z, ys = pauli_masks(operation, bit)
            key = z << 64 | far_z
            rest, coordinates = key, 0
            for known, combination in reduced:
                if rest ^ known < rest:
                    rest, coordinates = rest ^ known, coordinates ^ combination
            if rest:
                coordinates ^= 1 << len(basis)
                reduced.append((rest, coordinates))
                reduced.sort(reverse=True)
                basis.append((z, far_z))
                coordinates = 1 << len(basis) - 1
            strings.append((operation, coordinates, -1 if ys & 2 else 1))
        return cls(flips, bool(ys & 1), tuple(basis), tuple(strings))

    @property
    def count(self) -> int:
        return 1 << len(self.basis)

    @property
    def num_y(self) -> int:
        """Of Ys that all strings may be taken to have, their signs apart."""
        return int(self.odd)

    def inside(self, index: int) -> int:
        """The pattern of an index of the tile."""
        return sum(((index & z).bit_count() & 1) << j for j, (z, _) in enumerate(self.basis))

    def angles(self) -> list[Affine]:
        """The angle of each pattern."""
        return [
            (0.0, tuple((o.slots[0], sign * o.sign * _sign(own & p)) for o, own, sign in self.strings))
            for p in range(self.count)
        ]

    def slopes(self, trained: Multiples) -> dict[int, list[float]]:
        """By each angle that stands for others: what it changes of each pattern's angle, where that is not 0."""
        found: dict[int, np.ndarray] = {}
        for operation, own, sign in self.strings:
            (slot,) = operation.slots
            if slot in trained:
                first, ratio = trained[slot]
                signs = np.array([_sign(own & p) for p in range(self.count)], np.float64)
                found[first] = found.get(first, 0) + ratio * sign * operation.sign * signs
        return {slot: slopes.tolist() for slot, slopes in found.items() if slopes.any()}


def _sign(mask: int) -> int:
    return -1 if mask.bit_count() & 1 else 1
