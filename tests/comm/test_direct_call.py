"""The quick way of a collective takes plain arrays alone, notes what it does, and leaves the rest alone."""

import mmap
from typing import Any

import numpy as np
import pytest

from qdist.native import kernels

ROWS = 4


class Owner:
    """Stands for the communicator."""


class Direct:
    """A direct call of 4 rows whose primitive copies, and all that it touches."""

    def __init__(self, fails: bool = False) -> None:
        self.owner = Owner()
        self.active: list[Any] = []
        self.count = [6]
        self.seen: list[list[Any]] = []
        self.fails = fails
        self.table: Any = None
        self.settled = 0

    def call(self, x: Any, out: Any) -> Any:
        context = ("all_to_all", self.owner, self.copy, self.active, self.count, np.ndarray, ROWS, False)
        return kernels.direct_call((*context, self.table, 8, 0, self.settle))(x, out)

    def settle(self) -> None:
        self.settled += 1
        if self.fails:
            raise RuntimeError("the ranks do not call the same")

    def copy(self, x: np.ndarray, out: np.ndarray) -> None:
        self.seen.append(list(self.active))
        if self.fails:
            raise RuntimeError("the network is down")
        out[...] = x


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int8", "int32", "int64", "uint16"])
def test_plain_arrays_go_through_and_are_on_the_list_meanwhile(dtype: str) -> None:
    direct = Direct()
    x = np.arange(ROWS * 6).reshape(ROWS, 2, 3).astype(dtype)
    out = np.zeros_like(x)
    assert direct.call(x, out) is out
    np.testing.assert_array_equal(out, x)
    ((entry,),) = direct.seen
    op, comm, array, number, _ = entry
    assert (op, number) == ("all_to_all", 7)
    assert comm is direct.owner
    assert array is x
    assert (direct.active, direct.count) == ([], [7])


def test_views_that_lie_apart_in_one_memory_go_through() -> None:
    memory = np.arange(2.0 * ROWS)
    assert Direct().call(memory[:ROWS], memory[ROWS:]) is not None


def frozen(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


class Special(np.ndarray):
    pass


MEMORY = np.zeros(3 * ROWS)
NOT_PLAIN = {
    "no out": (np.zeros(ROWS), None),
    "a list": ([0.0] * ROWS, np.zeros(ROWS)),
    "a subclass": (np.zeros(ROWS).view(Special), np.zeros(ROWS)),
    "other rows": (np.zeros(ROWS + 1), np.zeros(ROWS + 1)),
    "no dimensions": (np.zeros(()), np.zeros(())),
    "other shape": (np.zeros((ROWS, 2)), np.zeros((ROWS, 1, 2))),
    "other dtype": (np.zeros(ROWS, np.int64), np.zeros(ROWS)),
    "strided input": (np.zeros(2 * ROWS)[::2], np.zeros(ROWS)),
    "strided out": (np.zeros(ROWS), np.zeros(2 * ROWS)[::2]),
    "read-only out": (np.zeros(ROWS), frozen(np.zeros(ROWS))),
    "bools": (np.zeros(ROWS, bool), np.zeros(ROWS, bool)),
    "other byte order": (np.zeros(ROWS, ">f8"), np.zeros(ROWS, ">f8")),
    "records": (np.zeros(ROWS, "f8,f8"), np.zeros(ROWS, "f8,f8")),
    "half precision": (np.zeros(ROWS, np.float16), np.zeros(ROWS, np.float16)),
    "the same array": (MEMORY[:ROWS], MEMORY[:ROWS]),
    "overlap": (MEMORY[:ROWS], MEMORY[1 : ROWS + 1]),
    "empty": (np.zeros((ROWS, 0)), np.zeros((ROWS, 0))),
}


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_everything_else_is_left_alone(case: str) -> None:
    direct = Direct()
    assert direct.call(*NOT_PLAIN[case]) is None
    assert (direct.seen, direct.active, direct.count) == ([], [], [6])


def test_failures_come_out_and_leave_nothing_on_the_list() -> None:
    direct = Direct(fails=True)
    other = object()
    direct.active.append(other)
    with pytest.raises(RuntimeError, match="the network is down"):
        direct.call(np.zeros(ROWS), np.zeros(ROWS))
    assert direct.active == [other]


def test_calls_are_noted_for_the_other_ranks_and_differences_settled_before_anything_is_sent() -> None:
    memory = np.frombuffer(mmap.mmap(-1, kernels.CallTable.bytes(2)), np.uint8)
    mine, theirs = Direct(), Direct()
    mine.table, theirs.table = (kernels.CallTable(memory, 2, rank, [0, 1], False) for rank in range(2))
    x = np.zeros((ROWS, 2))
    mine.call(x, np.empty_like(x))
    theirs.call(x, np.empty_like(x))
    assert (mine.settled, theirs.settled) == (0, 0)
    assert mine.table.calls(0) == mine.table.calls(1)
    mine.call(x, np.empty_like(x))
    theirs.fails = True
    with pytest.raises(RuntimeError, match="do not call the same"):
        theirs.call(x.astype(np.float32), np.empty_like(x, np.float32))
    assert (len(theirs.seen), theirs.active) == (1, [])
    with pytest.raises(TypeError, match="a CallTable or None"):
        kernels.direct_call(("all_reduce", None, print, [], [0], np.ndarray, 0, False, 3, 1, 1, None))


def test_a_context_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="direct_call takes"):
        kernels.direct_call(("all_reduce",))
    with pytest.raises(TypeError, match="two arrays"):
        kernels.direct_call(("all_reduce", None, print, [], [0], np.ndarray, 0, False, None, 1, 1, None))(np.zeros(2))
