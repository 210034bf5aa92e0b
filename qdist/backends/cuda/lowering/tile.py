"""The shape of a tile on the GPU: which of its bits are registers and which are threads, and its places in memory.

A tile of 2^T amplitudes belongs to 2^(T-R) threads that hold 2^R amplitudes each. The R *register* bits change from
phase to phase; between phases the tile goes through shared memory, where its places are swizzled so that a warp's
accesses fall into different banks whatever the register bits are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

import numpy as np

from qdist.plan.levels import Level

__all__ = ["ROOM", "Shape", "back_shape_of", "larger_shapes", "rank", "shape_of", "tile_level"]

ROOM = 99 << 10
"""Bytes of shared memory that a block can have on any GPU since compute capability 8.0 (CUDA C++ Programming Guide)."""

FOURS_BYTES = 3584
"""Bytes of 4x4 matrices passed as kernel arguments, of which any GPU takes 4 KiB (CUDA C++ Programming Guide)."""

_BESIDE = 32 << 10
"""Bytes of tables beside the largest tiles of a ket and a bra: with these, what a block can have on an A100."""

# The bank that a bit of a tile's index moves a place by, for places of 8 bytes (16 banks) and 16 (8 banks).
# Whichever register bits are taken out, those that are left still reach every bank: tests/cuda/test_tile.py counts.
_BANKS = {8: (1, 2, 4, 8, 13, 5, 10, 3, 7, 12, 11, 14, 15, 6), 16: (1, 2, 4, 7, 3, 6, 5, 1, 2, 4, 7, 3, 6, 5)}


@dataclass(frozen=True, slots=True)
class Shape:
    """How tiles of amplitudes of ``itemsize`` bytes (in memory they may be shorter) are worked on."""

    itemsize: int
    tile: int
    """Bits of a tile, at most."""
    registers: int
    """Bits that are a thread's own amplitudes."""
    contiguous: int
    """Lowest bits that every tile holds, so that memory is read in whole rows."""
    blocks: int = 1
    """Tiles that a multiprocessor should have room for: what its registers are divided by."""
    wider: int = 0
    """So many more bits may a tile have where a gate needs them."""
    states: int = 1
    """States whose tiles are worked on together: a program's, or the ket and the bra of the adjoint sweep."""
    fewest: int = 0
    """Bits of a tile, at least."""
    coefficient_bytes: int = 16384
    """Shared memory beside the largest tiles, for angles that differ from tile to tile and for the sweep's tables."""

    @property
    def dtype(self) -> np.dtype:
        """Of the arithmetic."""
        return np.dtype(np.complex64 if self.itemsize == 8 else np.complex128)

    @property
    def widest(self) -> int:
        return self.tile + self.wider

    @property
    def narrowest(self) -> int:
        return max(self.registers, self.fewest)

    @property
    def registers_per_thread(self) -> int:
        """32-bit registers that a thread gets, of the 65536 of a multiprocessor."""
        return min(255, 65536 // (self.blocks << self.tile - self.registers) & ~7)

    @property
    def four_phases(self) -> int:
        """Phases whose matrices may be kernel arguments: two 4x4 matrices each."""
        return FOURS_BYTES // (2 * 16 * self.itemsize)

    @property
    def lists_pairs(self) -> bool:
        """Whether the kernel takes pairs and exchanges (backends/pairs.py) from shared memory too: arguments have room
        for fewer matrices in double precision, which are not the limit there."""
        return self.itemsize == 16

    @property
    def pairs_up(self) -> bool:
        """Whether an access to shared memory, of 16 bytes, takes two amplitudes of one state, whose indices differ
        in bit 0. That is then the last of the register bits in every phase."""
        return self.states * self.itemsize == 8 and self.registers > 2

    @property
    def kept(self) -> int:
        """The mask of tile bits that are registers in every phase."""
        return 1 if self.pairs_up else 0

    @property
    def place_bytes(self) -> int:
        """Bytes of a place in shared memory: of two amplitudes or of both states where these fit into one access."""
        together = 16 if self.pairs_up else self.states * self.itemsize
        return together if together <= 16 else self.itemsize

    @property
    def bank_bits(self) -> int:
        """Lowest bits of the lane that share a transaction of shared memory, and so should have no bank conflict."""
        return 4 if self.place_bytes == 8 else 3

    @property
    def tile_bytes(self) -> int:
        """Shared memory of the largest tile of each state."""
        return self.states * self.itemsize << self.widest

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block may have: a tile, and what is read for every tile beside it."""
        return ROOM if self.states == 1 else self.tile_bytes + self.coefficient_bytes

    def swizzled(self, index: int) -> int:
        """The place of an element of a tile in shared memory: linear over XOR, and its own inverse."""
        banks = _BANKS[self.place_bytes]
        for bit in range(self.kept + self.bank_bits, index.bit_length()):
            if index >> bit & 1:
                index ^= banks[bit - self.kept] << self.kept
        return index


def shape_of(dtype: np.dtype) -> Shape:
    """The shape for complex64 or complex128: rows of 128 bytes. Larger tiles (``larger_shapes``) need fewer sweeps but
    leave room for fewer blocks: which is faster depends on the circuit (benchmarks/gpu_notes.md)."""
    if dtype == np.complex64:
        return Shape(8, tile=11, registers=5, contiguous=4, blocks=8, wider=2)
    return Shape(16, tile=11, registers=4, contiguous=3, blocks=4, wider=1)


def larger_shapes(shape: Shape) -> tuple[Shape, ...]:
    """Other shapes that the kernel for this one serves, with larger tiles and as many threads in all: fewer sweeps, and
    barriers that more warps wait at."""
    return tuple(
        replace(shape, tile=shape.tile + more, wider=shape.wider - more, blocks=shape.blocks >> more)
        for more in range(1, shape.wider + 1)
        if shape.blocks % (1 << more) == 0
    )


def back_shape_of(dtype: np.dtype) -> Shape:
    """The shape for the adjoint sweep, whose stages are those of ``shape_of``: the same tiles, two at a time, and a
    whole warp at least, over which sums are taken."""
    if dtype == np.complex64:
        return Shape(
            8, tile=11, registers=4, contiguous=4, blocks=4, wider=2, states=2, fewest=9, coefficient_bytes=_BESIDE
        )
    return Shape(
        16, tile=11, registers=4, contiguous=3, blocks=2, wider=1, states=2, fewest=9, coefficient_bytes=_BESIDE
    )


def tile_level(num_bits: int, shape: Shape) -> Level:
    """The level at which a GPU's stages are planned."""
    return Level("tile", min(num_bits, shape.tile), min(num_bits, shape.contiguous))


def rank(vectors: Iterable[int]) -> int:
    """The rank of bit vectors over GF(2)."""
    basis: list[int] = []
    for vector in vectors:
        for known in basis:
            vector = min(vector, vector ^ known)
        if vector:
            basis.append(vector)
    return len(basis)


def lane_order(shape: Shape, free: Sequence[int], loads: Sequence[int], stores: Sequence[int]) -> list[int]:
    """The tile bits ``free`` in the order of a thread's bits, chosen for the fewest bank conflicts.

    loads, stores: where each of the free bits moves an amplitude in shared memory, when read and when written.
    """
    places = [tuple(place >> shape.kept for place in some) for some in (loads, stores)]
    return [free[j] for j in _order(shape.bank_bits, *places)]


@cache
def _order(bank_bits: int, loads: tuple[int, ...], stores: tuple[int, ...]) -> tuple[int, ...]:
    banks = (1 << bank_bits) - 1
    places = range(len(loads))
    if len(loads) <= bank_bits:
        return tuple(places)
    best = max(
        combinations(places, bank_bits),
        key=lambda chosen: rank(loads[j] & banks for j in chosen) + rank(stores[j] & banks for j in chosen),
    )
    return (*best, *(j for j in places if j not in best))
