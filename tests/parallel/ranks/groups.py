"""Groups of ranks of one size each, every one on a job of a fitting size."""

from __future__ import annotations

import pytest

from qdist.comm import Communicator


class Groups(dict[int, Communicator]):
    """This rank's group of so many ranks, by that number.

    Eight ranks are one group. Groups of 2, 3 and 4 are made on a job of 4, one of each, since two or more would do the
    same side by side: that of 2 has the last ranks, whose numbers in it are not those in the job. A test that asks for
    a group of another job, or that has no place for this rank, is skipped.
    """

    def __init__(self, world: Communicator) -> None:
        super().__init__()
        for size in (8,) if world.size == 8 else (2, 3, 4):
            first = world.size - size if size == 2 else 0
            found = world.split([list(range(first, first + size))]) if size <= world.size else None
            if found is not None:
                self[size] = found

    def __missing__(self, size: int) -> Communicator:
        pytest.skip(f"a group of {size} is made on another number of ranks, or has no place for this one")
