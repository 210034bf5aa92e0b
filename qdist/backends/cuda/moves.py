"""Parts of a shard on a GPU taken out and put back; the siblings of ``pack``, ``unpack`` and ``swap_parts`` on the CPU.

A part is the amplitudes whose index has given bits (``base``) outside of a mask, in the order of those inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from qdist.backends.cuda.compiler import kernel

__all__ = ["bits_of", "pack", "put_part", "runs_of", "swap_parts", "take_part", "unpack"]

_THREADS = 256
_BLOCKS = 4096


def pack(shard: Any, base: int, within: int, out: Any) -> None:
    """Copies the part to ``out``."""
    take_part(shard, base, bits_of(within), out)


def unpack(part: Any, shard: Any, base: int, within: int) -> None:
    """Copies a part back to where ``pack`` found it."""
    put_part(part, shard, base, bits_of(within))


def swap_parts(first: Any, base: int, second: Any, there: int, within: int) -> None:
    """Exchanges a part of one shard with one of another shard of its size."""
    positions = bits_of(within)
    _check(first, base, positions)
    _check(second, there, positions)
    runs, count = _runs(positions, first.device.id)
    size = np.uint64(1 << len(positions))
    _launch("swap_parts", first, int(size), first, np.uint64(base), second, np.uint64(there), runs, count, size)


def take_part(shard: Any, base: int, positions: Sequence[int], out: Any) -> None:
    """out[i] = shard[base | bits of i], bit k of i at positions[k]. Raises ValueError for what is not in the shard."""
    _check(shard, base, positions, out)
    runs, count = _runs(tuple(positions), shard.device.id)
    _launch("take_part", shard, out.size, shard, np.uint64(base), runs, count, np.uint64(out.size), out)


def put_part(part: Any, shard: Any, base: int, positions: Sequence[int]) -> None:
    """shard[base | bits of i] = part[i], bit k of i at positions[k]. Raises ValueError for what is not in the shard."""
    _check(shard, base, positions, part)
    runs, count = _runs(tuple(positions), shard.device.id)
    _launch("put_part", shard, part.size, part, shard, np.uint64(base), runs, count, np.uint64(part.size))


def bits_of(mask: int) -> tuple[int, ...]:
    """The positions of a mask's bits, the lowest first."""
    return tuple(p for p in range(mask.bit_length()) if mask >> p & 1)


def runs_of(positions: Sequence[int]) -> list[tuple[int, int, int]]:
    """Positions as runs of neighbours: (number of the first, how many, its position)."""
    runs: list[tuple[int, int, int]] = []
    for k, position in enumerate(positions):
        if runs and runs[-1][2] + runs[-1][1] == position:
            start, width, first = runs[-1]
            runs[-1] = (start, width + 1, first)
        else:
            runs.append((k, 1, position))
    return runs


def _check(shard: Any, base: int, positions: Sequence[int], part: Any = None) -> None:
    mask = sum(1 << p for p in positions)
    if base & mask or (base | mask) >= shard.size or len(set(positions)) < len(positions):
        raise ValueError(
            f"base {base:#b} and positions {list(positions)} must be bits of the shard's indices, each once"
        )
    if part is not None and part.size != 1 << len(positions):
        raise ValueError(f"a part of {len(positions)} positions must hold {1 << len(positions)} amplitudes")


@lru_cache(maxsize=256)
def _runs(positions: tuple[int, ...], device: int) -> tuple[Any, np.int32]:
    """The runs where a kernel of the device can read them, and how many they are."""
    import cupy

    runs = runs_of(positions)
    with cupy.cuda.Device(device):
        return cupy.asarray(np.array(runs or [(0, 0, 0)], np.int32).ravel()), np.int32(len(runs))


def _launch(name: str, shard: Any, count: int, *arguments: Any) -> None:
    blocks = max(1, min(_BLOCKS, -(-count // _THREADS)))
    with shard.device:
        kernel("moves", name, shard.dtype, shard.device.id)((blocks,), (_THREADS,), arguments)
