"""Programs and states on a GPU against the reference and against the same on the CPU."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from test_tables import exchanging, odd_gates, wide_matrices

import qdist as qd
from qdist.backends.cuda import kernels as cuda_kernels
from qdist.backends.cuda.compiler import kernel
from qdist.backends.cuda.executor import CudaExecutor
from qdist.backends.cuda.lowering.tile import shape_of, tile_level
from qdist.backends.cuda.target import cuda_target
from qdist.backends.errors import StateError
from qdist.circuit import GATES, permutation_gate, unitary_gate
from qdist.comm import cuda_devices
from qdist.native import kernels as cpu_kernels
from qdist.plan import Layout
from qdist.plan.planner import make_plan
from qdist.state import reference

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(cuda_devices() == 0, reason="no CUDA device")]
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
TOLERANCE = {"complex64": 3e-6, "complex128": 1e-13}


def random_ket(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ket = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    return ket / np.linalg.norm(ket)


def both_states(n: int, dtype: str, seed: int = 0, layout: Layout | None = None) -> list[qd.StateVector]:
    """The same random state on the CPU and on the GPU."""
    ket = random_ket(n, seed)
    return [qd.StateVector.from_amplitudes(ket, dtype, layout=layout, device=device) for device in ("cpu", "cuda")]


def check(circuit: qd.Circuit, dtype: str, params: object = None) -> None:
    n = circuit.num_qubits
    ket = random_ket(n)
    program = qd.Program(circuit, dtype=dtype, device="cuda")
    state = program.run(params, initial=qd.StateVector.from_amplitudes(ket, dtype, device="cuda"))
    assert (state.dtype, state.device) == (dtype, "cuda:0")
    exact = qd.Program(circuit, dtype="complex128", device="cpu") if n > 8 else None
    for got, start in ((state, ket), (program.run(params), None)):
        if exact is None:
            want = reference.state(circuit, params, initial=start)
        else:
            initial = None if start is None else qd.StateVector.from_amplitudes(start, device="cpu")
            want = exact.run(params, initial=initial).amplitudes()
        np.testing.assert_allclose(got.amplitudes(), want, atol=TOLERANCE[dtype])


@both
def test_every_gate(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for gate in GATES.values():
        for n in (7, 15):
            qubits = rng.permutation(n)[: gate.num_qubits].tolist()
            angles = [0.3 + 0.5 * k for k in range(gate.num_params)]
            check(qd.Circuit(n).h(range(n)).append(gate, qubits, angles).cx(0, n - 1), dtype)


@both
@pytest.mark.parametrize("name", odd_gates())
def test_gates_with_data_controls_and_strings(name: str, dtype: str) -> None:
    gate = odd_gates()[name]
    rng = np.random.default_rng(6)
    for n in (7, 15):
        qubits = rng.permutation(n)[: gate.num_qubits].tolist()
        circuit = qd.Circuit(n).h(range(n)).append(gate, qubits, [0.7] * gate.num_params).rx(0.4, 0)
        check(circuit, dtype)


@both
def test_blocks_that_go_through_many_tiles(dtype: str) -> None:
    n = 21
    for circuit in (qd.library.hardware_efficient(n, 2), qd.library.quantum_volume(n, 4, seed=1), qd.library.qft(n)):
        check(circuit, dtype, np.linspace(-2, 2, circuit.num_parameters))


@both
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 9, 12, 14, 16])
def test_random_circuits(n: int, dtype: str) -> None:
    for depth in (3, 12):
        circuit = qd.library.random_circuit(n, depth, seed=n)
        check(circuit, dtype, np.linspace(-2, 2, circuit.num_parameters))


@both
def test_circuits_of_the_benchmarks(dtype: str) -> None:
    n = 18
    for circuit in (
        qd.library.hardware_efficient(n, 4),
        qd.library.qft(n),
        qd.library.quantum_volume(n, 5, seed=1),
    ):
        check(circuit, dtype, np.linspace(-2, 2, circuit.num_parameters))


def test_a_shard_that_does_not_begin_at_16_bytes() -> None:
    import cupy

    n, dtype = 13, np.dtype("complex64")
    shape = shape_of(dtype)
    for circuit in (qd.library.quantum_volume(n, 4, seed=1), qd.library.hardware_efficient(n, 2)):
        params = np.linspace(-2, 2, circuit.num_parameters)
        (segment,) = make_plan(circuit, dtype, [tile_level(n, shape)]).segments
        program = CudaExecutor(n, cuda_target(dtype), segment.stages, circuit.affine())
        assert program.bind(params)
        buffer = cupy.full((1 << n) + 2, np.nan, dtype)
        shard = buffer[1:-1]
        assert shard.data.ptr % 16 == 8
        program.run_from_zero(shard)
        np.testing.assert_allclose(shard.get(), reference.state(circuit, params), atol=TOLERANCE["complex64"])
        # Nothing was written beside it.
        assert np.isnan(buffer[[0, -1]].get()).all()


@both
def test_a_gate_wider_than_a_tile_makes_its_own_room(dtype: str) -> None:
    gate = permutation_gate(np.random.default_rng(1).permutation(1 << 9))
    check(qd.Circuit(15).h(range(15)).append(gate, range(6, 15)).ry(0.4, 7), dtype)


@both
def test_gates_wider_than_any_tile(dtype: str) -> None:
    rng = np.random.default_rng(2)
    unitary = unitary_gate(qd.library.random_circuits.random_su(1 << 10, seed=1))
    circuit = qd.library.random_circuit(16, 2, seed=1)
    circuit.append(permutation_gate(rng.permutation(1 << 11)), rng.permutation(16)[:11].tolist())
    circuit.h(range(16)).append(unitary.controlled(2, 1), rng.permutation(16)[:12].tolist()).ry(0.4, 7)
    check(circuit, dtype)
    program = qd.compile(circuit, dtype=dtype, device="cuda")
    rows = program.run_batch(np.zeros((2, 0)))
    np.testing.assert_allclose(rows, [program.run().amplitudes()] * 2, atol=TOLERANCE[dtype])


def test_more_phases_than_shared_memory_has_room_for() -> None:
    circuit = qd.Circuit(14).h(range(14))
    for size in (4, 5, 6):
        for number, qubits in enumerate(combinations(range(14), size)):
            # Controls by 0 and by 1, so that few conditions are the same.
            circuit.append(GATES["p"].controlled(size - 1, number % 8), qubits, [0.1 * number])
    program = qd.compile(circuit, device="cuda", dtype="complex128")
    assert program.plan.sweeps > make_plan(circuit, np.dtype("complex128")).sweeps
    want = qd.simulate(circuit, device="cpu", dtype="complex128").amplitudes()
    np.testing.assert_allclose(program.run().amplitudes(), want, atol=1e-12)


@both
def test_parts_are_taken_and_put_as_on_the_cpu(dtype: str) -> None:
    import cupy

    rng = np.random.default_rng(3)
    for bits in (1, 5, 15):
        for _ in range(8):
            within = int(rng.integers(1 << bits))
            base, there = (int(rng.integers(1 << bits)) & ~within for _ in range(2))
            shards = [rng.normal(size=1 << bits).astype(dtype) for _ in range(2)]
            copies = [cupy.asarray(shard) for shard in shards]
            outs = [np.empty(1 << within.bit_count(), dtype)]
            outs.append(cupy.empty_like(outs[0]))
            for kernels, (a, b), out in ((cpu_kernels, shards, outs[0]), (cuda_kernels, copies, outs[1])):
                kernels.pack(a, base, within, out)
                kernels.unpack(out, b, there, within)
                kernels.swap_parts(a, base, b, there, within)
            np.testing.assert_array_equal(outs[1].get(), outs[0])
            for shard, copy in zip(shards, copies):
                np.testing.assert_array_equal(copy.get(), shard)
    with pytest.raises(ValueError, match="each once"):
        cuda_kernels.pack(copies[0], 1, 3, outs[1])
    with pytest.raises(ValueError, match="must hold 4 amplitudes"):
        cuda_kernels.unpack(cupy.zeros(2, dtype), copies[0], 0, 3)


@both
def test_a_batch_is_its_rows(dtype: str) -> None:
    for n in (3, 14):
        circuit = qd.library.hardware_efficient(n, 2)
        params = np.random.default_rng(n).normal(size=(5, circuit.num_parameters))
        program = qd.compile(circuit, dtype=dtype, device="cuda")
        rows = program.run_batch(params)
        for row, values in zip(rows, params):
            np.testing.assert_allclose(row, program.run(values).amplitudes(), atol=1e-7)
        values = program.expectation("Z0 X1", params)
        want = qd.compile(circuit, dtype=dtype).expectation("Z0 X1", params)
        np.testing.assert_allclose(values, want, atol=TOLERANCE[dtype])


def test_running_again_allocates_nothing_and_compiles_nothing() -> None:
    circuit = qd.library.hardware_efficient(14, 2)
    program = qd.compile(circuit, device="cuda")
    out = program.run(np.zeros(circuit.num_parameters))
    for seed in range(2):
        params = np.random.default_rng(seed).normal(size=circuit.num_parameters)
        assert program.run(params, out=out) is out
        want = qd.simulate(circuit, params, device="cpu").amplitudes()
        np.testing.assert_allclose(out.amplitudes(), want, atol=1e-6)


LAYOUTS = [None, Layout([(5 * q + 3) % 13 for q in range(13)])]


@both
@pytest.mark.parametrize("layout", LAYOUTS, ids=["as numbered", "shuffled"])
def test_numbers_of_a_state(layout: Layout | None, dtype: str) -> None:
    n, atol = 13, TOLERANCE[dtype]
    cpu, gpu = both_states(n, dtype, 1, layout)
    assert gpu.norm() == pytest.approx(cpu.norm(), abs=1e-12)
    np.testing.assert_array_equal(gpu.amplitudes(), cpu.amplitudes())
    np.testing.assert_array_equal(gpu.amplitudes([[5, 77], [8191, 0]]), cpu.amplitudes([[5, 77], [8191, 0]]))
    for qubits in (None, [0], [12, 3], [11, 12], list(range(1, 13))):
        np.testing.assert_allclose(gpu.probabilities(qubits), cpu.probabilities(qubits), atol=1e-14)
    np.testing.assert_array_equal(gpu.sample(4000, seed=3), cpu.sample(4000, seed=3))
    for other_layout in LAYOUTS:
        others = both_states(n, dtype, 2, other_layout)
        assert gpu.inner(others[1]) == pytest.approx(cpu.inner(others[0]), abs=1e-12)
    rng = np.random.default_rng(4)
    masks = rng.integers(0, 1 << n, 6, dtype=np.uint64)
    # More strings of one flip than share a pass, and strings that flip nothing.
    observable = qd.PauliSum.from_masks(
        np.append(rng.choice(masks, 60), np.zeros(20, np.uint64)),
        rng.integers(0, 1 << n, 80, dtype=np.uint64),
        rng.normal(size=80),
    )
    assert gpu.expectation(observable) == pytest.approx(cpu.expectation(observable), abs=atol)
    np.testing.assert_allclose(gpu.expectations(["X0", observable]), cpu.expectations(["X0", observable]), atol=atol)
    assert gpu.variance(observable) == pytest.approx(cpu.variance(observable), rel=1e-4)
    applied = [state.apply_pauli_sum(observable * 1j).amplitudes() for state in (cpu, gpu)]
    np.testing.assert_allclose(applied[1], applied[0], atol=10 * atol)
    moved = gpu.copy().relayout(Layout.identity(n))
    np.testing.assert_array_equal(moved.amplitudes(), cpu.amplitudes())


@both
def test_collapse_measure_and_reset(dtype: str) -> None:
    for n in (3, 14):
        cpu, gpu = both_states(n, dtype, 5)
        assert gpu.collapse([0, n - 1], 2) == pytest.approx(cpu.collapse([0, n - 1], 2), abs=1e-7)
        assert gpu.measure([1], seed=8) == cpu.measure([1], seed=8)
        cpu.reset_qubit(n - 1, seed=2)
        gpu.reset_qubit(n - 1, seed=2)
        np.testing.assert_allclose(gpu.amplitudes(), cpu.amplitudes(), atol=TOLERANCE[dtype])
        gpu.normalize()
        assert gpu.norm() == pytest.approx(1, abs=1e-6)


def test_circuits_that_measure_branch_and_initialise() -> None:
    circuit = qd.Circuit(4, 2).h(0).cx(0, 1).measure(0, 0)
    circuit.reset(1).initialize([0.6, 0.8j], [2]).ry(0.3, 3).measure(3, 1)
    program = [qd.compile(circuit, device=device, dtype="complex128") for device in ("cpu", "cuda")]
    for seed in range(6):
        want, got = (p.run(seed=seed) for p in program)
        assert program[0].bits == program[1].bits
        np.testing.assert_allclose(got.amplitudes(), want.amplitudes(), atol=1e-13)
    assert program[0].counts(200, seed=1) == program[1].counts(200, seed=1)


def test_basis_and_product_states_and_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(6, 2)) + 1j * rng.normal(size=(6, 2))
    makers = [
        lambda device: qd.StateVector(6, device=device),
        lambda device: qd.StateVector.basis(6, "010110", device=device),
        lambda device: qd.StateVector.product(factors, device=device),
    ]
    for make in makers:
        np.testing.assert_allclose(make("cuda").amplitudes(), make("cpu").amplitudes(), atol=1e-5)
    state = makers[2]("cuda")
    state.save(tmp_path / "state")
    for device in ("cpu", "cuda:0"):
        back = qd.StateVector.load(tmp_path / "state", device=device)
        assert back.device == device
        np.testing.assert_array_equal(back.amplitudes(), state.amplitudes())


def test_sums_are_the_same_from_run_to_run() -> None:
    _, state = both_states(20, "complex64")
    assert len({state.norm() for _ in range(3)}) == 1
    assert len({state.expectation("X3 Z7") for _ in range(3)}) == 1
    assert len({state.probabilities([2, 19]).tobytes() for _ in range(3)}) == 1


def test_what_cannot_be_is_said() -> None:
    circuit = qd.library.hardware_efficient(3, 1)
    program = qd.compile(circuit, device="cuda")
    params = np.zeros(circuit.num_parameters)
    with pytest.raises(StateError, match="initial is on cpu"):
        program.run(params, initial=qd.StateVector(3))
    with pytest.raises(StateError, match="two states of one size and dtype, on one device"):
        program.run(params).inner(qd.StateVector(3))
    with pytest.raises(StateError, match="from number 0 on"):
        qd.compile(circuit, device="cuda:99")
    with pytest.raises(MemoryError, match="40 qubits need"):
        qd.StateVector(40, device="cuda")


def test_kernels_are_compiled_once() -> None:
    wanted = "measure", "inner", np.dtype("complex64"), 0
    assert kernel(*wanted) is kernel(*wanted)


@both
def test_qubits_that_change_places_between_stages(dtype: str) -> None:
    """From |0...0>, where nothing moves before the first gate, and from a state where all of it does."""
    circuit = exchanging(23, 0)
    program = qd.Program(circuit, dtype=dtype, device="cuda")
    assert any(segment.still for segment in program.plan.segments)
    check(circuit, dtype)


@pytest.mark.large
@pytest.mark.parametrize("n", [20, 30, 34])
def test_a_state_that_fills_the_card(n: int) -> None:
    """34 qubits are 128 GiB: run, measured and collapsed without a second array of that order."""
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    free = cupy.cuda.runtime.memGetInfo()[0]
    if free < (8 << n) + (1 << 29):
        pytest.skip(f"{free >> 30} GiB of the GPU are free")
    j = (1 << n) // 3
    circuit = qd.Circuit(n).x([q for q in range(n) if j >> q & 1]).compose(qd.library.qft(n))
    state = qd.simulate(circuit, device="cuda")
    assert state.norm() == pytest.approx(1, abs=1e-5)
    k = np.random.default_rng(0).integers(0, 1 << n, 50)
    # |j> becomes exp(2 pi i j k / 2^n) / sqrt(2^n); the product is taken modulo 2^n in integers.
    turns = np.array([j * int(x) % (1 << n) for x in k]) / (1 << n)
    want = np.exp(2j * np.pi * turns) / np.sqrt(1 << n)
    np.testing.assert_allclose(state.amplitudes(k) / want, 1, atol=1e-4)
    assert state.expectation(f"Z{n - 1}") == pytest.approx(0, abs=1e-5)
    # <X> of the highest qubit: amplitudes 2^(n-1) apart differ by exp(i pi j).
    assert state.expectation(f"X{n - 1}") == pytest.approx((-1) ** j, abs=1e-4)
    np.testing.assert_allclose(state.probabilities([0, n - 1]), 0.25, atol=1e-5)
    samples = state.sample(2000, seed=1)
    assert abs(float(np.mean(samples / (1 << n))) - 0.5) < 0.05
    assert state.collapse([n - 1, 0], 1) == pytest.approx(0.25, abs=1e-5)
    assert (state.sample(50, seed=2) >> (n - 1) == 1).all()
    assert pool.total_bytes() < (8 << n) + (1 << 28)
    with pytest.raises(MemoryError, match="ranks would do"):
        qd.StateVector(35, device="cuda")
    del state
    pool.free_all_blocks()


@both
@pytest.mark.parametrize("n", [8, 15])
def test_wide_matrices_on_a_threads_own_amplitudes(n: int, dtype: str) -> None:
    for seed in range(3):
        check(wide_matrices(n, seed), dtype)
