"""Level: how many bits are close at one level of the memory, and what a reorder costs there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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


def inside_bits(nodes: Sequence[Hashable]) -> int:
    """How many of the far positions, from the lowest, tell shards of one node apart. nodes: the node of each rank.

    >>> inside_bits(["a", "a", "a", "a", "b", "b", "b", "b"])
    2
    """
    far = (len(nodes) - 1).bit_length()
    # Rank r holds the shards from r * 2**far // ranks on.
    owners = [nodes[((shard + 1) * len(nodes) - 1) >> far] for shard in range(1 << far)]
    for bits in range(far, 0, -1):
        if all(owners[s] == owners[s >> bits << bits] for s in range(1 << far)):
            return bits
    return 0
