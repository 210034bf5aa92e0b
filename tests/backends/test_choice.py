"""Names of devices, which is chosen, and how much fits there: with and without a GPU."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import qdist as qd
from qdist.backends import StateError, backend_on, choice
from qdist.comm import cuda_devices
from qdist.native import kernels
from qdist.state import StateVector


@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_the_cpu(name: str) -> None:
    program = qd.compile(qd.Circuit(2).h(0), device=name)
    assert program.device == program.run().device == "cpu"
    assert isinstance(program.run().local, np.ndarray)
    assert program.run().backend.kernels is kernels


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:-1", 0, None])
def test_names_that_are_none(name: object) -> None:
    with pytest.raises(StateError, match="use 'cpu', 'cuda'"):
        qd.compile(qd.Circuit(2).h(0), device=name)  # type: ignore[arg-type]


@pytest.mark.skipif(cuda_devices() > 0, reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    for make in (lambda: qd.StateVector(3, device="cuda"), lambda: qd.compile(qd.Circuit(2).h(0), device="cuda:0")):
        with pytest.raises(StateError, match="needs CuPy and a CUDA driver"):
            make()


GIB = 1 << 30
C64 = np.dtype(np.complex64)


class FakeRanks:
    """What is asked of a communicator; ``others`` is what the other ranks say."""

    def __init__(self, size: int, local_rank: int = 0, others: Any = (), backend: str = "mpi") -> None:
        self.size, self.local_rank, self.node, self.backend, self.others = size, local_rank, 0, backend, others

    def all_reduce(self, x: np.ndarray, op: str) -> np.ndarray:
        assert op == "min"
        return min(x, *self.others)

    def all_gather_object(self, own: Any) -> list[Any]:
        return [own, *self.others]


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine with three GPUs of which CuPy tells what a test says."""

    class Device:
        used: int | None = None

        def __init__(self, number: int) -> None:
            self.number = number

        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...
        def use(self) -> None:
            state.used = self.number

    runtime = SimpleNamespace(
        getDeviceCount=lambda: 3,
        getDevice=lambda: 2,
        memGetInfo=lambda: (state.free, 141 * GIB),
        deviceGetPCIBusId=lambda number: f"0000:{number}",
    )
    state = SimpleNamespace(used=None, free=100 * GIB, pooled=10 * GIB)
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(runtime=runtime, Device=Device),
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: state.pooled),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(choice, "cuda_devices", lambda: 3)
    return state


def test_each_rank_takes_the_gpu_of_its_number_on_the_node(card: SimpleNamespace) -> None:
    assert choice.checked_device("cuda") == "cuda:2"
    assert card.used is None
    for local_rank, number in ((0, 0), (2, 2), (4, 1)):
        assert choice.checked_device("cuda", FakeRanks(8, local_rank)) == f"cuda:{number}"
        assert card.used == number
    assert choice.checked_device("cuda:1", FakeRanks(8, 3)) == "cuda:1"
    with pytest.raises(StateError, match="there are 3 GPUs, from number 0 on"):
        choice.checked_device("cuda:3")


def test_auto_is_the_gpu_where_it_gains_and_the_state_fits(card: SimpleNamespace) -> None:
    def auto(num_qubits: int, comm: Any = None) -> str:
        return choice.chosen_device("auto", num_qubits, C64, comm)

    assert [auto(n) for n in (1, 19, 20, 33, 34)] == ["cpu", "cpu", "cuda:2", "cuda:2", "cpu"]
    card.free = 118 * GIB
    assert auto(34) == "cuda:2"
    # On 4 ranks a shard has 2 bits less; all must have a GPU.
    yes, no = np.array(1), np.array(0)
    assert auto(21, FakeRanks(4, 1, [yes] * 3)) == "cpu"
    assert auto(22, FakeRanks(4, 1, [yes, no, yes])) == "cpu"


def test_auto_without_a_gpu_or_without_cupy_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    for count in (0, 1):
        monkeypatch.setattr(choice, "cuda_devices", lambda count=count: count)
        assert choice.chosen_device("auto", 30, C64, None) == "cpu"


@pytest.mark.parametrize(("backend", "buffers"), [("mpi", GIB // 4), ("nccl", GIB + GIB // 4)])
def test_free_memory_counts_the_pool_the_buffers_and_who_shares_the_gpu(
    card: SimpleNamespace, backend: str, buffers: int
) -> None:
    assert backend_on("cuda:1").free_memory() == 110 * GIB
    shared, alone = ((0, "0000:1"), (60 * GIB, 0)), ((1, "0000:1"), (45 * GIB, 0))
    # Two on this GPU: the other rank has no pool to draw on and looked later.
    assert backend_on("cuda:1").free_memory(FakeRanks(2, others=[shared], backend=backend)) == 30 * GIB - buffers
    # The same number on another node is another GPU.
    assert backend_on("cuda:1").free_memory(FakeRanks(2, others=[alone], backend=backend)) == 45 * GIB - buffers


def test_a_state_too_large_for_the_gpus_says_how_many_ranks_would_do(
    card: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MemoryError, match="34 qubits need 128 GiB on 1 rank; 110 GiB are free; 2 ranks would do"):
        StateVector(34, device="cuda")
