"""What a tile has no room for, in NumPy: wide gates by themselves, stages of many phases in parts."""

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from interpreter import Interpreter, span

import qdist as qd
from qdist.backends.cuda import custatevec, wide
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import Shape, tile_level
from qdist.backends.cuda.target import target_of
from qdist.backends.cuda.wide import WideGate
from qdist.circuit import diagonal_gate, permutation_gate, unitary_gate
from qdist.plan.levels import Level
from qdist.plan.planner import make_plan
from qdist.plan.stages.division import divided
from qdist.state import reference

N = 8
SMALL = Shape(16, tile=4, registers=2, contiguous=1)
"""Tiles of 4 qubits, one of them the lowest: gates of 4 others find no room."""
su = qd.library.random_circuits.random_su


@pytest.fixture
def numpy_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of NumPy arrays, taken and put by fancy indices; small ones, so that there are several."""

    def take_part(shard: np.ndarray, base: int, positions: Sequence[int], out: np.ndarray) -> None:
        out[:] = shard[base | span([1 << p for p in positions])]

    def put_part(part: np.ndarray, shard: np.ndarray, base: int, positions: Sequence[int]) -> None:
        shard[base | span([1 << p for p in positions])] = part

    monkeypatch.setattr(wide, "take_part", take_part)
    monkeypatch.setattr(wide, "put_part", put_part)
    monkeypatch.setattr(wide, "_PART_BITS", 6)


def run(circuit: qd.Circuit, shape: Shape, state: np.ndarray, shards: int = 1) -> list[str]:
    """Runs on the state, in shards; returns what the steps were."""
    dtype, bits = np.dtype("complex128"), circuit.num_qubits - (shards - 1).bit_length()
    plan = make_plan(circuit, dtype, [tile_level(bits, shape)], far=circuit.num_qubits - bits, schedule="in-order")
    angles = circuit.affine()(np.zeros(0))
    (segment,) = plan.segments
    assert segment.layout.is_identity
    kinds = []
    for step in divided(segment.stages, bits, target_of(dtype, shape)):
        (stage, _) = step
        gate = WideGate(stage.operations[0], bits, dtype, np) if stage.is_wide else None
        kinds.append("tiles" if gate is None else stage.operations[0].kind)
        for offset in range(0, len(state), 1 << bits):
            shard = state[offset : offset + (1 << bits)]
            if gate is not None:
                gate.run(shard, offset)
            else:
                Interpreter(Tables(bits, dtype, [step], shape), angles).run(shard, offset=offset)
    return kinds


def check(circuit: qd.Circuit, shape: Shape = SMALL, shards: int = 1) -> list[str]:
    rng = np.random.default_rng(1)
    start = rng.normal(size=1 << circuit.num_qubits) + 1j * rng.normal(size=1 << circuit.num_qubits)
    state = start.copy()
    kinds = run(circuit, shape, state, shards)
    np.testing.assert_allclose(state, reference.state(circuit, initial=start), atol=1e-12)
    return kinds


def test_wide_gates_between_narrow_ones(numpy_moves: None) -> None:
    rng = np.random.default_rng(0)
    for seed in range(4):
        circuit = qd.Circuit(N)
        for gate in (
            unitary_gate(su(32, seed=seed)),
            permutation_gate(rng.permutation(32)),
            unitary_gate(su(16, seed=seed)).controlled(2, seed),
        ):
            circuit.compose(qd.library.random_circuit(N, 1, seed=seed))
            circuit.append(gate, rng.permutation(N)[: gate.num_qubits].tolist())
        kinds = check(circuit.h(range(N)))
        assert {"dense", "permute", "tiles"} == set(kinds)


def test_controls_of_a_wide_gate_may_be_on_other_ranks(numpy_moves: None) -> None:
    gate = unitary_gate(su(16, seed=5)).controlled(3, 5)
    assert check(qd.Circuit(N).append(gate, [7, 6, 0, 2, 5, 1, 4]), shards=4) == ["dense"]


def test_gates_that_fit_are_left_to_tiles() -> None:
    assert set(check(qd.library.random_circuit(N, 4, seed=3))) == {"tiles"}


def test_tiles_smaller_than_a_thread_are_refused() -> None:
    circuit, dtype = qd.Circuit(N).h(range(N)), np.dtype("complex128")
    (segment,) = make_plan(circuit, dtype, [Level("tile", 3, 1)]).segments
    with pytest.raises(ValueError, match="planned for tiles of 3 bits, and a thread of the kernel holds 4"):
        list(divided(segment.stages, N, target_of(dtype, Shape(16, tile=5, registers=4, contiguous=1))))


def test_stages_of_many_phases_are_divided(numpy_moves: None) -> None:
    circuit = qd.Circuit(N)
    for a in range(N):
        for b in range(a):
            circuit.rzz(0.1 + a * b, a, b)
    circuit.append(diagonal_gate(np.exp(1j * np.arange(16))), [0, 7, 3, 5])
    roomy, tight = (Shape(16, 4, 2, 1, coefficient_bytes=size) for size in (16384, 64))
    assert check(circuit, roomy) == ["tiles"]
    assert len(check(circuit, tight)) > 1
    dtype = np.dtype("complex128")
    (segment,) = make_plan(circuit, dtype, [tile_level(N, tight)]).segments
    for step in divided(segment.stages, N, target_of(dtype, tight)):
        assert not step[0].is_wide
        (lowered,) = Tables(N, dtype, [step], tight).stages
        assert lowered.num_coefficients * 8 <= 64


class Recorder:
    """Stands in for cuquantum's bindings and notes what they are called with."""

    MatrixLayout = SimpleNamespace(ROW="row")

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def create(self) -> int:
        return 77

    def set_stream(self, *arguments: Any) -> None:
        self.calls.append(("set_stream", *arguments))

    def apply_matrix_get_workspace_size(self, *arguments: Any) -> int:
        self.calls.append(("size", *arguments))
        return 4096

    def apply_matrix(self, *arguments: Any) -> None:
        self.calls.append(("apply", *arguments))


def test_custatevec_is_told_the_gate_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the arguments: their order is that of cuquantum.bindings.custatevec.apply_matrix's documentation."""
    bindings = Recorder()
    types = SimpleNamespace(CUDA_C_32F="c32", CUDA_C_64F="c64"), SimpleNamespace(COMPUTE_32F="f32", COMPUTE_64F="f64")
    parts = SimpleNamespace(custatevec=bindings)
    monkeypatch.setitem(sys.modules, "cuquantum", SimpleNamespace(cudaDataType=types[0], ComputeType=types[1]))
    monkeypatch.setitem(sys.modules, "cuquantum.bindings", parts)
    stream = SimpleNamespace(ptr=5)
    cuda = SimpleNamespace(get_current_stream=lambda: stream, alloc=lambda size: SimpleNamespace(ptr=1000 + size))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(custatevec, "is_installed", lambda: True)
    custatevec._handle.cache_clear()

    class OnDevice(np.ndarray):
        """A NumPy array that answers like CuPy's."""

        class device:  # noqa: N801
            id = 0

            def __enter__(self) -> None: ...
            def __exit__(self, *_: object) -> None: ...

        device = device()
        data = SimpleNamespace(ptr=42)

    gate = unitary_gate(su(32, seed=1)).controlled(2, 1)
    for dtype, kind, computed in (("complex64", "c32", "f32"), ("complex128", "c64", "f64")):
        plan = make_plan(qd.Circuit(N).append(gate, [0, 7, 5, 1, 2, 3, 4]), np.dtype(dtype))
        ((stage, _),) = plan.segments[0].stages
        bindings.calls.clear()
        wide_gate = WideGate(stage.operations[0], N, np.dtype(dtype), np)
        wide_gate._matrix = wide_gate._matrix.view(OnDevice)
        wide_gate.run(np.zeros(1 << N, dtype).view(OnDevice), 0)
        about = 42, kind, "row", 0
        assert bindings.calls == [
            ("set_stream", 77, 5),
            ("size", 77, kind, N, *about, 5, 2, computed),
            ("apply", 77, 42, kind, N, *about, [5, 1, 2, 3, 4], 5, [0, 7], [1, 0], 2, computed, 5096, 4096),
        ]
