"""Level: how many bits are close at one level of the memory, and what a reorder costs there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Level", "cache_level", "inside_bits"]


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the memory hierarchy, seen from above: a stage there mixes ``close`` qubits.

    The lowest ``contiguous`` bit positions are close in every stage, because memory is read in runs of them.
    """

    name: str
    close: int
    contiguous: int = 0


def cache_level(num_bits: int, itemsize: int) -> Level:
    """Tiles that fit a core's first-level cache beside the copy that permutations need: 32 KiB of amplitudes.

    itemsize: bytes of an amplitude. Rows of at least 128 bytes, so that every cache line read is used.
    """
    tile = (32 * 1024 // itemsize).bit_length() - 1
    row = (128 // itemsize).bit_length() - 1
    return Level("cache", min(num_bits, tile), min(num_bits, row))


def inside_bits(ranks: int, first_ranks: Iterable[int]) -> int:
    """How many of the far positions, from the lowest, tell shards of one node apart.

    first_ranks: the ranks, other than 0, with which another node begins.

    >>> inside_bits(8, [4])
    2
    """
    far = (ranks - 1).bit_length()
    bits = far
    for rank in first_ranks:
        # The first shard of that rank; groups of 2**bits shards must not reach across it.
        shard = (rank << far) // ranks
        bits = min(bits, (shard & -shard).bit_length() - 1)
        if bits == 0:
            break
    return bits
