"""Numbers that a kernel writes to the host: who gets them from there, and who has them copied. With a stand-in for
CuPy, and on a GPU."""

import ctypes
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qdist.comm import cuda_devices
from qdist.native import kernels
from qdist.tensor import Tensor, no_grad
from qdist.tensor.kernels import landing


class There:
    """An array on a GPU, as far as it is asked."""

    def __init__(self, number: float, dtype: str = "float32") -> None:
        self._memory = np.array(number, dtype)
        self.dtype, self.data = self._memory.dtype, SimpleNamespace(ptr=self._memory.ctypes.data)


class Gpu:
    """A stand-in for CuPy that counts copies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.copies = 0
        self.stream = SimpleNamespace(ptr=0, is_capturing=lambda: False, synchronize=lambda: None)
        runtime = SimpleNamespace(memcpyAsync=self._copy, memcpyDeviceToHost=2, getDeviceCount=lambda: 1)
        cuda = SimpleNamespace(runtime=runtime, get_current_stream=lambda: self.stream)
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
        monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(empty_pinned=np.empty))
        monkeypatch.setattr(landing, "several_gpus", lambda: False)
        monkeypatch.setattr(landing, "_PATIENCE", 0.01)
        monkeypatch.setattr(landing, "_of_thread", landing._OfThread())
        landing._words.cache_clear()

    def _copy(self, to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        self.copies += 1
        ctypes.memmove(to, source, nbytes)

    def announced(self, number: float) -> tuple[There, int, int]:
        array = There(number)
        return array, *landing.announce(array, self.stream)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    yield Gpu(monkeypatch)
    landing._words.cache_clear()


def write(at: int, ticket: int, number: float) -> None:
    """What the kernel does."""
    word = ctypes.c_uint64.from_address(at)
    word.value = ticket << 32 | int(np.float32(number).view(np.uint32))


def test_a_word_with_another_ticket_is_not_the_number() -> None:
    memory = np.zeros(1, np.uint64)
    write(memory.ctypes.data, 7, -1.25)
    assert kernels.landed(memory.ctypes.data, 7, 1.0) == -1.25
    assert kernels.landed(memory.ctypes.data, 8, 0.001) is None
    write(memory.ctypes.data, 0xFFFFFFFF, float("nan"))
    assert np.isnan(kernels.landed(memory.ctypes.data, 0xFFFFFFFF, 1.0))
    for nowhere in (0, memory.ctypes.data + 4):
        with pytest.raises(ValueError, match="multiple of 8"):
            kernels.landed(nowhere, 7, 1.0)


def test_the_last_sum_is_read_where_its_kernel_has_written_it(gpu: Gpu) -> None:
    array, at, ticket = gpu.announced(-1.0)
    write(at, ticket, 2.5)
    assert landing.only_number(array, unchanged=True) == 2.5
    assert gpu.copies == 0


def test_what_may_have_changed_and_what_does_not_come_is_copied(gpu: Gpu) -> None:
    array, at, ticket = gpu.announced(3.0)
    assert landing.only_number(array, unchanged=True) == 3.0
    write(at, ticket, 2.5)
    assert landing.only_number(array, unchanged=False) == 3.0
    assert landing.only_number(There(4.0, "float64"), unchanged=True) == 4.0
    assert landing.only_number(There(5j, "complex128"), unchanged=True) == 5j
    assert gpu.copies == 4


def test_of_earlier_sums_and_of_another_threads_the_number_is_copied(gpu: Gpu) -> None:
    first, at, ticket = gpu.announced(1.0)
    write(at, ticket, -1.0)
    second, at, ticket = gpu.announced(2.0)
    write(at, ticket, -2.0)
    assert landing.only_number(first, unchanged=True) == 1.0
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(landing.only_number, second, True).result() == 2.0
        # One of that thread's does not keep this thread from its own.
        pool.submit(gpu.announced, 3.0).result()
    assert landing.only_number(second, unchanged=True) == -2.0
    assert gpu.copies == 2


def test_many_sums_on_their_way_do_not_meet(gpu: Gpu) -> None:
    places = [gpu.announced(0.0)[1:] for _ in range(landing._WORDS)]
    assert len({at for at, _ in places}) == len({ticket for _, ticket in places}) == landing._WORDS
    assert all(ticket for _, ticket in places)


def test_what_a_graph_records_stays_on_the_gpu(gpu: Gpu) -> None:
    gpu.stream = SimpleNamespace(ptr=16, is_capturing=lambda: True, synchronize=lambda: None)
    array, *where = gpu.announced(6.0)
    assert tuple(where) == landing.NOWHERE
    assert landing.only_number(array, unchanged=True) == 6.0


@pytest.mark.gpu
@pytest.mark.skipif(cuda_devices() == 0, reason="no CUDA device")
def test_sums_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    found: list[Any] = []
    landed = kernels.landed
    monkeypatch.setattr(kernels, "landed", lambda *given: found.append(landed(*given)) or found[-1])
    values = np.random.default_rng(3).normal(size=(32, 4)).astype(np.float32)
    x = Tensor(values, device="cuda")
    for k in range(2000):
        total = (x * float(k)).sum()
        assert total.item() == pytest.approx(k * values.sum(dtype=float), rel=1e-5, abs=1e-4)
    assert len(found) == 2000
    assert None not in found
    first, second = (x * x).sum(), x.mean()
    assert first.item() == pytest.approx((values * values).sum(), rel=1e-5)
    assert second.item() == pytest.approx(values.mean(), rel=1e-4)
    with no_grad():
        second += 1.0
    assert second.item() == pytest.approx(values.mean() + 1, rel=1e-5)
    third = x.sum()
    third.data[...] = 7
    assert third.item() == 7
    assert len(found) == 2001
    assert Tensor(values.astype(float), device="cuda").sum().item() == pytest.approx(values.sum(dtype=float))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x.sum()
        stream.begin_capture()
        recorded = (x * x).sum()
        graph = stream.end_capture()
        graph.launch()
        assert recorded.item() == pytest.approx((values * values).sum(), rel=1e-5)
    assert len(found) == 2001
