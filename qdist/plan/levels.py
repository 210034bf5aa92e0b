"""Level: how many bits are close at one level of the memory, and what a reorder costs there."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Level", "cache_level"]


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
