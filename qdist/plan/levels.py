"""Level: how many qubits can be mixed at once at one level of the memory hierarchy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Level", "inside_bits"]


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the memory hierarchy (network, cache, ...): a stage there mixes at most ``close`` qubits.

    The lowest ``contiguous`` bit positions are close in every stage, because memory is read in contiguous runs of them.
    """

    name: str
    close: int
    contiguous: int = 0


def inside_bits(ranks: int, first_ranks: Iterable[int]) -> int:
    """How many of the far positions, from the lowest, number the shards of one node.

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
