"""Memory of arrays that are gone serves the next ones, and never two at a time."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from qdist.backends import reuse

COUNT = reuse.SMALLEST // 8
KIND = np.dtype(np.complex64)


@pytest.fixture(autouse=True)
def nothing_free() -> None:
    reuse._free.clear()


def test_an_array_takes_the_memory_of_one_of_its_size_that_is_gone() -> None:
    first = reuse.empty(COUNT, KIND)
    at, view = first.ctypes.data, first[5:]
    other = reuse.empty((2, COUNT), KIND)
    assert other.shape == (2, COUNT)
    assert other.dtype == KIND
    view[:] = 3
    del first  # Its view is left.
    second = reuse.empty(COUNT, KIND)
    assert second.ctypes.data != at
    second[:] = 4
    assert np.all(view == 3)
    del view, other
    assert reuse.empty(2 * COUNT, np.dtype(np.float32)).ctypes.data == at


def test_larger_ones_than_worth_it_go_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse._Owner.__del__, "__defaults__", (*reuse._Owner.__del__.__defaults__[:2], 1 << 20))
    reuse.empty(COUNT, KIND)
    assert not reuse._free


@pytest.mark.parametrize("count", [1, 100, 1001, COUNT, COUNT + 1])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_every_array_is_aligned(count: int, dtype: type) -> None:
    for shape in (count, (count,), (count, 1)):
        array = reuse.empty(shape, np.dtype(dtype))
        assert array.ctypes.data % 64 == 0
        assert array.size == count
        array[...] = 1


def test_threads_never_share_memory() -> None:
    def use(k: int) -> bool:
        for _ in range(30):
            array = reuse.empty(COUNT + (k & 1), KIND)
            array[:: 1 << 9] = k
            if not np.all(array[:: 1 << 9] == k):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(8)))
