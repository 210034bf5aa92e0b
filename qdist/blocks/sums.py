"""Checksums of the blocks of a file, one for each, so that a reader verifies what it reads and nothing else.

They are CRC-32s, which ranks can compute together of a block that each has a part of, without reading what the others
wrote: over the numbers modulo 2 a CRC is linear up to a constant. With zeros in the place of what a rank does not have,
crc(a + b) = crc(a) ^ crc(b) ^ crc(0).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from qdist.native import kernels

__all__ = ["Checks", "PartialSums", "block_size", "blocks_of", "joined"]

_SMALLEST, _MOST = 1 << 20, 1 << 16
_WIDTHS = {"crc32": 8, "sha256": 64}
"""Hexadecimal digits of a checksum. Older files have SHA-256s, which take several times as long."""

_ZEROS = bytes(1 << 16)


def block_size(nbytes: int) -> int:
    """Bytes of a block of a file of so many: a power of two, so that there are not too many blocks."""
    return max(_SMALLEST, 1 << max(0, -(-nbytes // _MOST) - 1).bit_length())


def blocks_of(nbytes: int, block: int) -> int:
    """How many blocks so many bytes have; the last may be shorter."""
    return -(-nbytes // block)


class Checks:
    """The checksums of consecutive blocks: hexadecimal digits, as many for each, in one string.

    Raises ValueError when they are not those of so many bytes.
    """

    def __init__(self, method: str, block: int, nbytes: int, text: Any) -> None:
        if type(block) is not int or block < 1:
            raise ValueError(f"a block of {block} bytes")
        self._width = _WIDTHS[method]
        if not isinstance(text, str) or len(text) != self._width * blocks_of(nbytes, block):
            raise ValueError("there is not one checksum for each block")
        self.method, self.block, self.text = method, block, text

    @classmethod
    def blank(cls, block: int, nbytes: int) -> Checks:
        """In the place of checksums that are not known yet."""
        return cls("crc32", block, nbytes, "0" * _WIDTHS["crc32"] * blocks_of(nbytes, block))

    def matches(self, number: int, data: Any) -> bool:
        """Whether these bytes are those of a block."""
        found = f"{_crc32(data):08x}" if self.method == "crc32" else hashlib.sha256(data).hexdigest()
        return found == self.text[self._width * number : self._width * (number + 1)]


class PartialSums:
    """Checksums of the blocks of so many bytes, of which this rank has some; `joined` with the other ranks' complete.

    `add` what this rank has, which is fastest in ascending order, then `close`.
    """

    def __init__(self, block: int, nbytes: int) -> None:
        self._block, self._nbytes = block, nbytes
        self.found: dict[int, int] = {}
        """Of every block that this rank has bytes of: its CRC with zeros for the others, less that of zeros alone."""
        self._number, self._crc, self._at = -1, 0, 0

    def add(self, start: int, data: memoryview) -> None:
        """These bytes stand from `start` on."""
        done = 0
        while done < len(data):
            number, first = divmod(start + done, self._block)
            if number != self._number or first < self._at:
                self.close()
                self._number = number
            count = min(len(data) - done, self._block - first)
            self._crc = _crc32(data[done : done + count], _after_zeros(self._crc, first - self._at))
            self._at = first + count
            done += count

    def close(self) -> None:
        """All has been added."""
        if self._number >= 0:
            size = _length(self._number, self._block, self._nbytes)
            own = _after_zeros(self._crc, size - self._at) ^ _zeros(size)
            self.found[self._number] = self.found.get(self._number, 0) ^ own
        self._number, self._crc, self._at = -1, 0, 0


def joined(block: int, nbytes: int, parts: Iterable[dict[int, int]]) -> Checks:
    """The checksums of all blocks, from what the ranks have `found`."""
    numbers = blocks_of(nbytes, block)
    found = [_zeros(_length(number, block, nbytes)) for number in range(numbers)]
    for part in parts:
        for number, crc in part.items():
            found[number] ^= crc
    return Checks("crc32", block, nbytes, "".join(f"{crc:08x}" for crc in found))


def _length(number: int, block: int, nbytes: int) -> int:
    return min(block, nbytes - number * block)


@lru_cache(256)
def _zeros(count: int) -> int:
    """The CRC of so many zeros."""
    return _after_zeros(0, count)


def _after_zeros(crc: int, count: int) -> int:
    """The CRC of what has this one, followed by so many zeros."""
    while count > 0:
        step = min(count, len(_ZEROS))
        crc, count = _crc32(_ZEROS if step == len(_ZEROS) else _ZEROS[:step], crc), count - step
    return crc


def _crc32(data: Any, before: int = 0) -> int:
    """The CRC of what has `before`, followed by these bytes."""
    return kernels.crc32(np.frombuffer(data, np.uint8), before)
