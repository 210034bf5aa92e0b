"""Checksums of blocks: those of zlib, of what ranks have together, and no damage passes."""

import hashlib
import zlib

import numpy as np
import pytest

from qdist.blocks import Checks, PartialSums, block_size, joined

RNG = np.random.default_rng(0)
BLOCK, SIZE = 256, 1000
DATA = RNG.integers(0, 256, SIZE, np.uint8)


def sums(pieces: list[tuple[int, int]]) -> dict[int, int]:
    """What a rank finds that has these bytes."""
    made = PartialSums(BLOCK, SIZE)
    for first, last in pieces:
        made.add(first, DATA[first:last].data)
    made.close()
    return made.found


def text(data: np.ndarray = DATA) -> str:
    return "".join(f"{zlib.crc32(data[at : at + BLOCK]):08x}" for at in range(0, SIZE, BLOCK))


@pytest.mark.parametrize(
    "ranks",
    [
        [[(0, SIZE)]],
        [[(0, 1)], [(1, SIZE)]],
        [[(0, 300), (700, 701)], [(300, 700)], [(701, SIZE)], []],
        [[(512, 768)], [(0, 512), (768, SIZE)]],
        # A part need not be in order: every third byte, the last first.
        [[(at, at + 1) for at in reversed(range(first, SIZE, 3))] for first in range(3)],
    ],
)
def test_ranks_find_together_what_zlib_finds_alone(ranks: list[list[tuple[int, int]]]) -> None:
    assert joined(BLOCK, SIZE, map(sums, ranks)).text == text()


def test_a_block_is_recognised_and_nothing_else() -> None:
    for checks in (
        joined(BLOCK, SIZE, [sums([(0, SIZE)])]),
        Checks(
            "sha256",
            BLOCK,
            SIZE,
            "".join(hashlib.sha256(DATA[at : at + BLOCK]).hexdigest() for at in (0, 256, 512, 768)),
        ),
    ):
        for number in range(4):
            block = DATA[number * BLOCK : (number + 1) * BLOCK]
            assert checks.matches(number, block)
            assert not checks.matches((number + 1) % 4, block)
            assert not checks.matches(number, block[:-1])
            for bit in range(8 * len(block)):
                changed = block.copy()
                changed[bit // 8] ^= 1 << bit % 8
                assert not checks.matches(number, changed)


def test_pages_that_are_lost_or_exchanged_are_noticed() -> None:
    # Of an identity matrix: all its rows have the same numbers in them.
    matrix = np.eye(64).view(np.uint8).reshape(-1)
    made = PartialSums(matrix.size, matrix.size)
    made.add(0, matrix.data)
    made.close()
    checks = joined(matrix.size, matrix.size, [made.found])
    assert checks.matches(0, matrix)
    pages = matrix.reshape(-1, 4096)
    for first, second in ((0, 1), (3, 7)):
        changed = pages.copy()
        changed[[first, second]] = changed[[second, first]]
        assert not checks.matches(0, changed.reshape(-1))
        changed = pages.copy()
        changed[first] = 0
        assert not checks.matches(0, changed.reshape(-1))
    # Signs of two numbers: the topmost bits of words.
    changed = matrix.copy()
    changed[[7, 4096 + 15]] ^= 0x80
    assert not checks.matches(0, changed)


def test_nothing_has_no_blocks() -> None:
    assert joined(BLOCK, 0, [{}]).text == ""


def test_blocks_are_few() -> None:
    assert block_size(0) == block_size(1 << 36) == 1 << 20
    assert block_size((1 << 36) + 1) == 1 << 21
    for nbytes in (1 << 40, (1 << 40) + 1, 10**14):
        assert nbytes <= block_size(nbytes) << 16 < 2 * nbytes + (1 << 17)


@pytest.mark.parametrize(
    ("block", "digits"), [(BLOCK, text()[:-8]), (BLOCK, text() + "0"), (BLOCK, 7), (0, ""), (-1, ""), (2.0, "")]
)
def test_checksums_of_other_bytes_are_refused(block, digits) -> None:
    with pytest.raises(ValueError, match=r"checksum|block of"):
        Checks("crc32", block, SIZE, digits)
