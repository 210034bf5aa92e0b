"""Checks of what kernels on a GPU rely on, before a launch: the siblings of native/src/checks.hpp.

Each raises ValueError. They look at sizes and positions alone, so they cost nothing beside a launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["check_first", "check_mask", "check_permutation", "check_positions", "check_size", "checked_bits"]

MAX_INDEX_BITS = 62


def checked_bits(shard: Any, what: str = "a shard") -> int:
    """The index bits of an array of 2**k amplitudes."""
    if shard.size < 1 or shard.size & shard.size - 1:
        raise ValueError(f"{what} must hold 2**k amplitudes; got {shard.size}")
    return int(shard.size).bit_length() - 1


def check_size(size: int, wanted: int, what: str) -> None:
    if size != wanted:
        raise ValueError(f"{what} must have {wanted} numbers; got {size}")


def check_first(first: int, size: int) -> None:
    """The place, in the whole state, of a shard's first amplitude."""
    check_mask(first, MAX_INDEX_BITS, "the place of a shard's first amplitude")
    if first & size - 1:
        raise ValueError(f"a shard must begin at a multiple of its size; got {first}")


def check_mask(mask: int, bits: int, what: str) -> None:
    if mask < 0 or mask >> bits:
        raise ValueError(f"{what} must have bits below {bits} alone; got {mask}")


def check_positions(positions: Sequence[int], count: int) -> None:
    """Different positions below ``count``."""
    for position in positions:
        if not 0 <= position < count:
            raise ValueError(f"positions must be from 0 to {count - 1}; got {position}")
    if len(set(positions)) < len(positions):
        raise ValueError(f"positions must be different; got {list(positions)}")


def check_permutation(positions: Sequence[int], shard: Any) -> None:
    """All positions of a shard's index, each once."""
    bits = checked_bits(shard)
    check_size(len(positions), bits, "positions")
    check_positions(positions, bits)
