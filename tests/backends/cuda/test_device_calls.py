"""How often a value and gradient of one circuit calls the device: a stand-in for CuPy counts copies, launches and what
CuPy itself would compute, for which it would first compile a kernel."""

import sys
from collections import Counter
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest
from pinned import add_pinned, launched

import qdist as qd
from qdist.backends.cuda import compiler, pauli, pauli_tiles
from qdist.backends.cuda.sweep import CudaSweep
from qdist.program import adjoint

CARD = {
    "multiProcessorCount": 132,
    "sharedMemPerMultiprocessor": 228 << 10,
    "reservedSharedMemPerBlock": 1024,
    "sharedMemPerBlockOptin": 227 << 10,
    "l2CacheSize": 50 << 20,
}


class Device:
    id, compute_capability = 0, "90"

    def __init__(self, number: int = 0) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None: ...


calls: Counter[str] = Counter()


class Array(np.ndarray):
    """CuPy's array, as far as it is used; what CuPy would compute is counted as computed."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)

    @property
    def device(self) -> Device:  # type: ignore[override]
        return Device()

    def get(self) -> np.ndarray:
        calls["download"] += 1
        return np.array(self)

    def fill(self, value: Any) -> None:
        launched(lambda: calls.update(["set to zero" if value == 0 else "computed"]))

    def __setitem__(self, key: Any, value: Any) -> None:
        calls["computed"] += 1
        np.ndarray.__setitem__(self, key, value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        calls["computed"] += 1
        return getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **kwargs)


def asarray(array: Any, dtype: Any = None) -> Array:
    calls["upload"] += not isinstance(array, Array)
    return np.array(array, dtype).view(Array)


def zeros(shape: Any, dtype: Any = float) -> Array:
    calls["set to zero"] += 1
    return np.zeros(shape, dtype).view(Array)


class Module:
    def get_function(self, name: str) -> Any:
        class Kernel:
            max_dynamic_shared_size_bytes = 0

            def __call__(self, grid: Any, block: Any, arguments: Any, shared_mem: int = 0) -> None:
                launched(lambda: calls.update([name]))

        return Kernel()


replays: list[int] = []
"""How many launches were in each graph that was launched."""


def replayed(recorded: list[Any]) -> None:
    calls["graph"] += 1
    replays.append(len(recorded))


CACHED = (
    compiler.stage_kernel,
    compiler.sum_kernel,
    compiler._stage_module,
    compiler.kernel,
    compiler._module,
    pauli_tiles._kernel,
)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1, getDeviceProperties=lambda number: CARD, memGetInfo=lambda: (1 << 36, 1 << 37)
    )
    cuda = SimpleNamespace(Device=Device, runtime=runtime)
    cupy = ModuleType("cupy")
    pool = SimpleNamespace(free_bytes=lambda: 0)
    members = {"cuda": cuda, "ndarray": Array, "asarray": asarray, "ascontiguousarray": asarray, "zeros": zeros}
    members |= {"empty": lambda *a: np.empty(*a).view(Array), "get_default_memory_pool": lambda: pool}
    for name, member in members.items():
        setattr(cupy, name, member)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    add_pinned(cuda, monkeypatch, lambda kind: calls.update(["upload" if kind == 1 else "download"]), replayed)
    monkeypatch.setattr(compiler, "_loaded", lambda text, number: Module())
    for cached in CACHED:
        cached.cache_clear()
    yield
    for cached in CACHED:
        cached.cache_clear()


def ising(n: int) -> tuple[qd.Circuit, qd.PauliSum]:
    circuit, t = qd.Circuit(n).h(range(n)), iter(qd.ParameterVector("t", 8))
    for _ in range(4):
        coupling, field = next(t), next(t)
        for q in range(n - 1):
            circuit.rzz(coupling, q, q + 1)
        circuit.rx(field, range(n))
    energy = qd.PauliSum({f"Z{q} Z{q + 1}": 1.0 for q in range(n - 1)} | {f"X{q}": 0.5 for q in range(n)})
    return circuit, energy


def test_a_gradient_is_two_uploads_two_downloads_and_its_launches(device: None) -> None:
    circuit, energy = ising(14)
    program = qd.compile(circuit, device="cuda:0")
    theta = np.random.default_rng(1).normal(size=8)
    calls.clear()
    program.value_and_grad(energy, theta)
    stages = calls["run_stage"] + calls["add_partial"]
    assert stages >= 6
    program.value_and_grad(energy, theta)  # In states that are kept from now on.
    for shift in range(1, 4):
        calls.clear()
        replays.clear()
        program.value_and_grad(energy, theta + shift)
        # Bound values go there twice, forward and back; the value and the sums of all derivatives come back. The
        # launches of either way are one, beside those of the observable, whose value the sweep reads there.
        assert calls == {"upload": 2, "download": 2, "graph": 2, "apply_tiles": calls["apply_tiles"], "add_up": 1}
        # With one that sets the sums to zero and one that sets the first amplitude: the stages write all others.
        assert sum(replays) == stages + 2


def test_a_queued_gradient_downloads_nothing(device: None) -> None:
    """The value and the derivatives by parameters stay on the device, which nobody waits for."""
    circuit, energy = ising(14)
    program = qd.compile(circuit, device="cuda:0")
    theta, output = np.random.default_rng(1).normal(size=8), qd.Expectation(energy)
    for _ in range(2):
        adjoint.queued_gradient(program, output, theta, np.dtype(np.float32))
    for shift in range(1, 4):
        calls.clear()
        found = adjoint.queued_gradient(program, output, theta + shift, np.dtype(np.float32))
        assert [(part.shape, part.dtype) for part in found] == [((), np.float32), ((8,), np.float32)]
        assert calls == {"upload": 2, "graph": 2, "add_up": 1, "combine": 1, "apply_tiles": calls["apply_tiles"]}


def test_the_first_launch_of_the_sweep_reads_the_value_on_the_device(
    device: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few stages there are, in both ways to a gradient; the launches after it have nothing to subtract."""
    circuit, energy = ising(14)
    program = qd.compile(circuit, device="cuda:0")
    products, shifts = [], []

    def add_up(shard: Any, numbers: Any, out: Any, *value: Any) -> None:
        products.append(out.data.ptr)

    def undo(self: CudaSweep, number: int, *arguments: Any) -> None:
        shifts.append(arguments[-1])

    monkeypatch.setattr(pauli, "add_up", add_up)
    monkeypatch.setattr(CudaSweep, "_undo", undo)
    program.value_and_grad(energy, np.ones(8))
    assert len(shifts) > 1
    assert shifts == [*products, *[0] * (len(shifts) - 1)]
    shifts.clear()
    products.clear()
    assert adjoint.queued_gradient(program, qd.Expectation(energy), np.ones(8), np.dtype(np.float32)) is not None
    assert shifts == [*products, *[0] * (len(shifts) - 1)]


def test_shifts_of_several_observables_and_of_rows_go_there_before_the_sweep(
    device: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host has their sum, a number a row."""
    circuit, energy = ising(14)
    program = qd.compile(circuit, device="cuda:0")
    found = []

    def run(self: CudaSweep, *arguments: Any) -> None:
        found.append(arguments[-1].view(np.float64).tolist())

    def values(self: pauli.PauliPlan, shard: Any, first: int, out: np.ndarray) -> None:
        out += 0.5 + np.arange(len(out))

    def rows(self: pauli.PauliPlan, kets: Any, out: np.ndarray) -> None:
        out += 0.5 + np.arange(out.size).reshape(out.shape)

    monkeypatch.setattr(CudaSweep, "run", run)
    monkeypatch.setattr(pauli.PauliPlan, "add_expectations", values)
    monkeypatch.setattr(pauli.PauliPlan, "add_values", rows)
    program.vjp([energy, "Z3"], np.ones(8), [2.0, 3.0])
    assert found == [[2.0 * 0.5 + 3.0 * 1.5]]
    found.clear()
    monkeypatch.setattr(program, "row_programs", SimpleNamespace(takes=lambda outputs: False))
    program.vjp([energy], np.ones((3, 8)), [np.array([1.0, 2.0, 4.0])])
    assert found == [[0.5, 3.0, 10.0]]


def test_what_the_host_has_a_part_in_is_not_queued(device: None) -> None:
    t, single = qd.ParameterVector("t", 2), np.dtype(np.float32)
    # Derivatives of a matrix of two factors on the same qubit follow from its entries and the angles.
    circuit = qd.Circuit(14).h(range(14)).u(t[0], t[1], 0.3, 2)
    program = qd.compile(circuit, device="cuda:0")
    calls.clear()
    assert adjoint.queued_gradient(program, qd.Expectation("Z2"), np.zeros(2), single) is None
    # A string that flips more qubits than a tile holds is gathered from memory.
    rotated = qd.Circuit(14).rx(t[0], range(14)).rz(t[1], 3)
    program = qd.compile(rotated, device="cuda:0")
    everywhere = {" ".join(f"X{q}" for q in range(14)): 1.0}
    assert adjoint.queued_gradient(program, qd.Expectation(qd.PauliSum(everywhere)), np.zeros(2), single) is None
    assert not calls["run_stage"] + calls["graph"]


def test_a_gradient_of_few_qubits_is_a_graph(device: None) -> None:
    circuit, energy = ising(4)
    program = qd.compile(circuit, device="cuda:0")
    theta = np.random.default_rng(1).normal(size=8)
    program.value_and_grad(energy, theta)
    for shift in range(1, 4):
        calls.clear()
        replays.clear()
        program.value_and_grad(energy, theta + shift)
        # Of a copy there, and of three kernels, which write to the host's memory.
        assert calls == {"graph": 1}
        assert replays == [4]


def test_a_first_gradient_computes_nothing_with_kernels_of_cupy(device: None) -> None:
    """Each of them would be compiled first, which takes longer than all else."""
    circuit, t = qd.Circuit(13).h(range(13)), qd.Parameter("t")
    circuit.rx(t, range(13)).rzz(t, 0, 12)
    calls.clear()
    qd.compile(circuit, device="cuda:0").value_and_grad("Z0 Z12", np.array([0.3]))
    assert calls["run_stage"] > 0
    assert calls["computed"] == 0
