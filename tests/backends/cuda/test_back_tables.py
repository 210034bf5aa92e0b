"""The tables of the adjoint sweep, interpreted in NumPy, against the CPU's adjoint and the reference: no GPU needed."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from back_interpreter import BackInterpreter
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import Interpreter
from strategies import circuits
from test_tables import odd_gates, wide_matrices

import qdist as qd
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.patterns import multiples
from qdist.backends.cuda.lowering.records.tiles import OPS
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import Shape, back_shape_of, shape_of, tile_level
from qdist.backends.cuda.target import target_of
from qdist.circuit import GATES, pauli_rotation_gate
from qdist.circuit.gate import Gate
from qdist.plan.planner import make_plan
from qdist.state import reference

N = 6
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
SMALL = {"complex64": (5, 3, 1), "complex128": (4, 2, 1)}
"""(tile, registers, contiguous): so small that many gates reach outside of threads and tiles."""
TOLERANCE = {"complex64": 1e-5, "complex128": 1e-12}


def shapes(dtype: str, sizes: tuple[int, int, int]) -> tuple[Shape, Shape]:
    itemsize = np.dtype(dtype).itemsize
    return Shape(itemsize, *sizes), Shape(itemsize, *sizes, states=2)


def swept(
    circuit: qd.Circuit, dtype: str, params: np.ndarray, observable: qd.PauliSum, pair: tuple[Shape, Shape]
) -> np.ndarray:
    """The gradient by the tables; checks that the ket ends where it began."""
    n, kind = circuit.num_qubits, np.dtype(dtype)
    affine = circuit.affine()
    angles = affine(params)
    plan = make_plan(circuit, kind, [tile_level(n, pair[0])], target=target_of(kind, pair[0]))
    ket = np.eye(1, 1 << n, dtype=np.complex128)[0]
    segments = list(plan.segments)
    for segment in segments:
        Interpreter(Tables(n, kind, segment.stages, pair[0]), angles).run(ket)
    np.testing.assert_allclose(ket, reference.state(circuit, params), atol=TOLERANCE[dtype])
    bra = qd.StateVector.from_amplitudes(ket, "complex128").apply_pauli_sum(observable).amplitudes()
    by_angle = np.zeros(len(angles))
    for segment in reversed(segments):
        back = BackInterpreter(BackTables(n, kind, segment.stages, pair[1], multiples(affine)), angles)
        back.run(ket, bra)
        by_angle += back.gradient()
    np.testing.assert_allclose(ket, np.eye(1, 1 << n)[0], atol=TOLERANCE[dtype])
    return affine.transposed(by_angle)


def check(circuit: qd.Circuit, dtype: str, pair: tuple[Shape, Shape] | None = None, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    n = circuit.num_qubits
    params = rng.uniform(-3, 3, circuit.num_parameters)
    masks = rng.integers(0, 1 << n, (2, 5), dtype=np.uint64)
    observable = qd.PauliSum.from_masks(*masks, rng.normal(size=5))
    got = swept(circuit, dtype, params, observable, pair or shapes(dtype, SMALL[dtype]))
    want = qd.compile(circuit, dtype="complex128", device="cpu").value_and_grad(observable, params)[1]
    np.testing.assert_allclose(got, want, atol=TOLERANCE[dtype] * np.abs(observable.coefficients).sum())


def everywhere(gate: Gate, places: list[tuple[int, ...]], n: int = N) -> qd.Circuit:
    """The gate at each place with angles of its own, between gates that keep it apart from the next."""
    theta = qd.ParameterVector("t", len(places) * gate.num_params)
    rng = np.random.default_rng(3)
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.u(*rng.uniform(-3, 3, 3), q)
    for k, qubits in enumerate(places):
        circuit.append(gate, qubits, [theta[k * gate.num_params + j] for j in range(gate.num_params)])
        circuit.u(*rng.uniform(-3, 3, 3), int(rng.integers(n)))
        circuit.cx(*rng.permutation(n)[:2].tolist())
    return circuit


@both
@pytest.mark.parametrize("name", sorted({g.name for g in GATES.values() if g.num_params}))
def test_every_gate_with_angles_in_many_places(name: str, dtype: str) -> None:
    gate = GATES[name]
    every = list(itertools.permutations(range(N), gate.num_qubits))
    chosen = np.random.default_rng(5).permutation(len(every))[:6]
    check(everywhere(gate, [every[k] for k in chosen]), dtype)


@both
@pytest.mark.parametrize("seed", range(2))
def test_wide_matrices_among_angles(seed: int, dtype: str) -> None:
    check(wide_matrices(9, seed, qd.Parameter("t")), dtype, shapes(dtype, (7, 4, 2)))


@both
def test_an_angle_that_many_phases_share_is_one_sum_a_block(dtype: str) -> None:
    """Whatever multiples of it they have; angles of their own, and what two angles share, stay sums by themselves."""
    n, (a, b, c) = 9, qd.ParameterVector("t", 3)
    rng = np.random.default_rng(2)
    edges = list(itertools.combinations(range(n), 2))
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.u(*rng.uniform(-3, 3, 3), q)
    for k, (p, q) in enumerate(edges):
        circuit.rzz(a * float(rng.normal()), p, q)
        if k % 5 == 0:
            circuit.cp(b - 0.3 * c, p, q)
    circuit.rz(c, range(0, n, 2)).ry(b, range(n))
    check(circuit, dtype)
    kind, pair = np.dtype(dtype), shapes(dtype, (6, 4, 1))
    chain = qd.Circuit(n).h(range(n))
    for p, q in edges:
        chain.rzz(a, p, q)
    check(chain.rx(b, range(n)), dtype, pair)
    plan = make_plan(chain, kind, [tile_level(n, pair[0])], target=target_of(kind, pair[0]))
    (segment,) = plan.segments
    tables = BackTables(n, kind, segment.stages, pair[1], multiples(chain.affine()))
    weighed = [op for op in tables.arrays()["ops"] if int(op["kind"]) == OPS["weigh"]]
    own = Counter(result for _, result, _ in tables.arrays()["parities"].tolist() if result >= 0)
    assert 0 < len(own) <= len(weighed) < len(edges)


@both
@pytest.mark.parametrize("name", odd_gates())
def test_gates_with_data_controls_and_strings(name: str, dtype: str) -> None:
    gate = odd_gates()[name]
    n = max(N, gate.num_qubits)
    rng = np.random.default_rng(6)
    circuit = everywhere(gate, [tuple(rng.permutation(n)[: gate.num_qubits].tolist()) for _ in range(3)], n)
    for q in range(n):
        circuit.ry(qd.Parameter(f"y{q}"), q)
    check(circuit, dtype)


@both
@given(
    circuits(max_qubits=7, parameters=list(qd.ParameterVector("t", 4))),
    st.integers(2, 4),
    st.integers(0, 2),
    st.integers(0, 2),
)
@settings(max_examples=20)
def test_any_circuit(dtype: str, circuit: qd.Circuit, registers: int, more: int, low: int) -> None:
    check(circuit, dtype, shapes(dtype, (registers + low + more, registers, low)))


@both
def test_default_tiles(dtype: str) -> None:
    kind, n = np.dtype(dtype), 12
    circuit = qd.library.hardware_efficient(n, 2)
    circuit.pauli_rotation(qd.Parameter("a"), "XYZ", [0, 2, 11]).rzz(qd.Parameter("b"), 3, 11)
    circuit.append(GATES["p"].controlled(3, 5), [1, 11, 4, 6], [qd.Parameter("c")])
    check(circuit, dtype, (shape_of(kind), back_shape_of(kind)))
    check(qd.library.hardware_efficient(2, 2), dtype, (shape_of(kind), back_shape_of(kind)))


@both
def test_sums_are_few(dtype: str) -> None:
    """Real rotations are one number each, RZ and RZZ one parity each, and blocks without angles none."""
    kind, n = np.dtype(dtype), 20
    theta = iter(qd.ParameterVector("t", 3 * n))
    circuit = qd.Circuit(n).h(range(n))
    for q in range(n):
        circuit.rz(next(theta), q)
    for q in range(n - 1):
        circuit.rzz(next(theta), q, q + 1)
    circuit.append(pauli_rotation_gate("XYX"), [3, 9, 17], [next(theta)])
    plan = make_plan(circuit, kind, [tile_level(n, shape_of(kind))])
    (segment,) = plan.segments
    slots = set(circuit.affine().slots.tolist())
    tables = BackTables(n, kind, segment.stages, back_shape_of(kind), slots)
    assert tables.num_sums == 2 * n
    kinds = tables.arrays()["ops"]["kind"]
    assert not ((kinds >= OPS["transition1"]) & (kinds < OPS["weigh"])).any()
    ansatz = qd.library.hardware_efficient(n, 1)
    (segment,) = make_plan(ansatz, kind, [tile_level(n, shape_of(kind))]).segments
    tables = BackTables(n, kind, segment.stages, back_shape_of(kind), set(ansatz.affine().slots.tolist()))
    real = [op for op in tables.arrays()["ops"] if op["kind"] == OPS["real1"]]
    assert sum(int(op["threads"]).bit_count() for op in real) == n
    assert sum(extent.sums[1] for extent in tables.extents) == tables.num_sums <= n + 4 * len(real)


@both
def test_turns_about_x_are_one_number_each(dtype: str) -> None:
    kind, n = np.dtype(dtype), 14
    t = qd.ParameterVector("t", 4)
    circuit = qd.Circuit(n).h(range(n))
    for coupling, field in (t[:2], t[2:]):
        for q in range(n - 1):
            circuit.rzz(coupling, q, q + 1)
        circuit.rx(field, range(n))
    check(circuit, dtype, (shape_of(kind), back_shape_of(kind)))
    (segment,) = make_plan(circuit, kind, [tile_level(n, shape_of(kind))]).segments
    tables = BackTables(n, kind, segment.stages, back_shape_of(kind), set(circuit.affine().slots.tolist()))
    ops = tables.arrays()["ops"]
    assert not ((ops["kind"] >= OPS["transition1"]) & (ops["kind"] < OPS["weigh"])).any()
    assert not ((ops["kind"] >= OPS["dense1"]) & (ops["kind"] < OPS["dense2"])).any()
    summed = sum(int(op["threads"]).bit_count() for op in ops[ops["kind"] == OPS["imag1"]])
    assert summed == 2 * n


def test_derivatives_of_a_kind_that_nothing_sums_are_refused() -> None:
    kind, shape = np.dtype("complex128"), back_shape_of(np.dtype("complex128"))
    circuit = qd.Circuit(9).rz(qd.Parameter("t"), 0)
    ((stage, (block,)),) = make_plan(circuit, kind, [tile_level(9, shape)]).segments[0].stages
    with pytest.raises(NotImplementedError, match="angles of linear blocks"):
        BackTables(9, kind, [(stage, [replace(block, kind="linear")])], shape, {0})
    assert BackTables(9, kind, [(stage, [block])], shape, {0}).num_sums > 0
    circuit = qd.Circuit(9).unitary(qd.library.random_circuits.random_su(8, seed=1), [0, 1, 2])
    ((stage, (block,)),) = make_plan(circuit, kind, [tile_level(9, shape)]).segments[0].stages
    with_angle = replace(block, operations=[replace(block.operations[0], slots=(0,))])
    with pytest.raises(NotImplementedError, match="angles of dense blocks that mix 3 qubits"):
        BackTables(9, kind, [(stage, [with_angle])], shape, {0})
