"""The GPU's tables, interpreted in NumPy, against the dense reference: no GPU needed."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import Interpreter
from strategies import circuits

import qdist as qd
from qdist.backends.cuda.lowering.records.tiles import MODES, OPS
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import Shape, shape_of, tile_level
from qdist.backends.cuda.target import target_of
from qdist.circuit import GATES, diagonal_gate, pauli_rotation_gate, permutation_gate, unitary_gate
from qdist.circuit.channels import LinearGate
from qdist.circuit.gate import Gate
from qdist.circuit.instruction import Instruction
from qdist.plan.layout import Layout
from qdist.plan.operations import operations
from qdist.plan.planner import make_plan
from qdist.plan.stages.moving import staged_moving
from qdist.state import reference

N = 7
SMALL = {"complex64": Shape(8, tile=5, registers=3, contiguous=1), "complex128": Shape(16, 4, 2, 1)}
"""Tiles so small that at 7 qubits many gates reach outside of threads and tiles."""
TOLERANCE = {"complex64": 1e-6, "complex128": 1e-13}
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


def tables_of(circuit: qd.Circuit, dtype: str, shape: Shape) -> list[Tables]:
    n, kind = circuit.num_qubits, np.dtype(dtype)
    plan = make_plan(circuit, kind, [tile_level(n, shape)], target=target_of(kind, shape), start=Layout.identity(n))
    return [Tables(n, kind, segment.stages, shape, pairs=True) for segment in plan.segments]


def check(circuit: qd.Circuit, dtype: str, shape: Shape | None = None, params: object = None) -> None:
    n = circuit.num_qubits
    rng = np.random.default_rng(n)
    start = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    start /= np.linalg.norm(start)
    got = start.copy()
    angles = circuit.affine()(np.zeros(0) if params is None else np.asarray(params))
    for tables in tables_of(circuit, dtype, shape or SMALL[dtype]):
        Interpreter(tables, angles).run(got)
    np.testing.assert_allclose(got, reference.state(circuit, params, initial=start), atol=TOLERANCE[dtype])


def exchanging(n: int, seed: int) -> qd.Circuit:
    """Layers of matrices on one qubit and fSim that exchanges, on random qubits, with other gates in between."""
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(n)
    for layer in range(6):
        for q in range(n):
            circuit.unitary(qd.library.random_circuits.random_su(2, seed=100 * layer + q), [q])
        for a, b in rng.permutation(n)[: n // 2 * 2].reshape(-1, 2).tolist():
            circuit.fsim(np.pi / 2, 0.3, a, b)
        if seed % 2:
            a, b = rng.permutation(n)[:2].tolist()
            circuit.cx(a, b).rzz(0.3, b, a).swap(a, b)
    return circuit


@both
def test_multiples_of_rotations_are_no_rotations(dtype: str) -> None:
    """The kernel runs real rotations as shears, which keep no length."""
    circuit = qd.Circuit(N)
    for q in range(N):
        turned = np.array([[np.cos(q), -np.sin(q)], [np.sin(q), np.cos(q)]])
        channel = [Instruction(LinearGate(matrix), (q,)) for matrix in (0.9 * turned, 0.8 * np.eye(2))]
        circuit = circuit.ry(0.3 + q, q).with_instructions([*circuit, channel[q % 2]])
    check(circuit, dtype)
    shape = replace(SMALL[dtype], tile=6)
    (tables,) = tables_of(circuit, dtype, shape)
    real = [int(op["word"]) for op in tables.arrays()["ops"] if op["kind"] & ~7 == OPS["real1"]]
    assert sum((word >> 16).bit_count() for word in real) == N


@both
@pytest.mark.parametrize("seed", range(4))
def test_qubits_change_places_between_stages(seed: int, dtype: str) -> None:
    n, kind, shape = 9, np.dtype(dtype), replace(SMALL[dtype], contiguous=2, tile=5)
    circuit, target = exchanging(n, seed), target_of(kind, shape)
    angles = circuit.affine()(np.zeros(0))
    stages = staged_moving(list(operations(circuit)), n, target, 0)
    assert stages is not None
    tables = Tables(n, kind, stages, shape, pairs=True, fixed=angles)
    # Parts of matrices are handed on to others where qubits have moved.
    names = [name for name, kind in OPS.items() for op in tables.arrays()["ops"]["kind"] if op & ~7 == kind]
    assert seed % 2 or "exchange" in names
    rng = np.random.default_rng(seed)
    start = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    start /= np.linalg.norm(start)
    got = start.copy()
    Interpreter(tables, angles).run(got)
    np.testing.assert_allclose(got, reference.state(circuit, None, initial=start), atol=TOLERANCE[dtype])


def wide_matrices(n: int, seed: int, angle: qd.Parameter | float = 0.4) -> qd.Circuit:
    """Matrices of three and four qubits on random ones, with rotations, pairs and changes of index in between."""
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(n).h(range(n))
    for k in range(8):
        qubits = rng.permutation(n).tolist()
        count = 3 + k % 2
        circuit.unitary(qd.library.random_circuits.random_su(1 << count, seed=9 * seed + k), qubits[:count])
        circuit.rx(angle, qubits[0]).ry(angle, qubits[1]).u(0.1, 0.2, 0.3, qubits[-1]).rzz(angle, *qubits[1:3])
        if k % 3 == 0:
            circuit.cx(*qubits[2:4]).unitary(qd.library.random_circuits.random_su(4, seed=seed + k), qubits[3:5])
    return circuit


@both
@pytest.mark.parametrize("seed", range(3))
def test_wide_matrices_on_a_threads_own_amplitudes(seed: int, dtype: str) -> None:
    """Of complex64 bit 0 is the last register in every phase."""
    shape = {"complex64": Shape(8, 7, 5, 2), "complex128": Shape(16, 6, 4, 2)}[dtype]
    circuit = wide_matrices(9, seed)
    check(circuit, dtype, shape)
    modes = [mode for tables in tables_of(circuit, dtype, shape) for mode in tables.arrays()["phases"]["mode"]]
    assert modes.count(MODES["mixed"]) == 8
    assert MODES["wide"] not in modes


def angles(gate: Gate) -> list[float]:
    return [0.37 + 0.61 * k for k in range(gate.num_params)]


@both
@pytest.mark.parametrize("name", sorted({g.name for g in GATES.values()}))
def test_every_gate_in_many_places(name: str, dtype: str) -> None:
    gate = GATES[name]
    every = list(itertools.permutations(range(N), gate.num_qubits))
    places = np.random.default_rng(5).permutation(len(every))[:4]
    for place in places:
        qubits = every[place]
        other = next(q for q in range(N) if q not in qubits[:1])
        circuit = qd.Circuit(N).h(range(N)).append(gate, qubits, angles(gate))
        check(circuit.cx(qubits[0], other) if qubits else circuit, dtype)


def odd_gates() -> dict[str, Gate]:
    rng = np.random.default_rng(11)
    phases = np.exp(1j * rng.normal(size=64))
    su = qd.library.random_circuits.random_su
    found = {
        "unitary 3": unitary_gate(su(8, seed=1)),
        "unitary 4": unitary_gate(su(16, seed=2)),
        "controlled unitary": unitary_gate(su(4, seed=4)).controlled(2, 1),
        "controlled unitary 3": unitary_gate(su(8, seed=4)).controlled(2, 2),
        "diagonal 2": diagonal_gate(phases[:4]),
        "diagonal 6": diagonal_gate(phases),
        "controlled diagonal": diagonal_gate(phases[:16]).controlled(2, 2),
        "permutation 3": permutation_gate(rng.permutation(8)),
        "permutation 4": permutation_gate(rng.permutation(16)),
        "controlled permutation": permutation_gate(rng.permutation(4)).controlled(1, 0),
        "x under five": GATES["x"].controlled(5, 19),
        "p under three": GATES["p"].controlled(3, 5),
        "rzz under two": GATES["rzz"].controlled(2, 2),
        "ry_o0": GATES["ry"].controlled(1, 0),
        "swap_o0": GATES["swap"].controlled(1, 0),
        "controlled phase of everything": GATES["gphase"].controlled(2, 0),
        "controlled rotation": pauli_rotation_gate("XIY").controlled(2, 1),
    }
    labels = ["I", "IZ", "ZZ", "ZIZZZ", "X", "Y", "ZX", "XYZ", "YYZX", "XZZZY", "XYXYZXY"]
    return found | {f"rotation {label}": pauli_rotation_gate(label) for label in labels}


@both
@pytest.mark.parametrize("name", odd_gates())
def test_gates_with_data_controls_and_strings(name: str, dtype: str) -> None:
    gate = odd_gates()[name]
    rng = np.random.default_rng(6)
    for _ in range(3):
        qubits = rng.permutation(N)[: gate.num_qubits].tolist()
        circuit = qd.Circuit(N).h(range(N)).append(gate, qubits, angles(gate)).rx(0.4, 0)
        check(circuit, dtype)


@both
@given(circuits(max_qubits=8), st.integers(2, 4), st.integers(0, 2), st.integers(0, 2))
@settings(max_examples=25)
def test_any_circuit(dtype: str, circuit: qd.Circuit, registers: int, more: int, low: int) -> None:
    if circuit.num_qubits == 0 or any(not i.gate.is_unitary and not i.gate.is_directive for i in circuit):
        return
    shape = Shape(np.dtype(dtype).itemsize, registers + low + more, registers, low)
    check(circuit, dtype, shape, np.linspace(-2, 2, circuit.num_parameters))


@both
def test_default_tiles(dtype: str) -> None:
    n = 14
    circuits_ = {
        "ansatz": qd.library.hardware_efficient(n, 3),
        "volume": qd.library.quantum_volume(n, 3, seed=n),
        "qft": qd.library.qft(n),
    }
    for circuit in circuits_.values():
        check(circuit, dtype, shape_of(np.dtype(dtype)), np.linspace(-2, 2, circuit.num_parameters))


@both
def test_rows_of_a_batch_are_bound_as_each_alone(dtype: str) -> None:
    circuit = qd.library.hardware_efficient(6, 2).pauli_rotation(qd.Parameter("a"), "XYZ", [0, 2, 5])
    (tables,) = tables_of(circuit, dtype, SMALL[dtype])
    angles = np.stack([circuit.affine()(np.linspace(-k, 9, circuit.num_parameters)) for k in (1, 2, 3)])
    reals, turns = tables.binding.values(angles)
    assert len(np.unique(reals, axis=0)) == len(np.unique(turns, axis=0)) == 3
    for k in range(3):
        alone = tables.binding.values(angles[k : k + 1])
        np.testing.assert_array_equal(alone[0][0], reals[k])
        np.testing.assert_array_equal(alone[1][0], turns[k])


@both
def test_what_few_circuits_need_asks_for_the_larger_kernel(dtype: str) -> None:
    def rare(circuit: qd.Circuit) -> bool:
        return any(stage.rare for tables in tables_of(circuit, dtype, SMALL[dtype]) for stage in tables.stages)

    library = qd.library
    for circuit in (library.qft(N), library.quantum_volume(N, 3, seed=1)):
        assert not rare(circuit)
    angle = qd.Parameter("t")
    assert not rare(library.hardware_efficient(N, 2))
    assert not rare(qd.Circuit(N).rx(angle, 3).rxx(angle, 0, 6).rzz(angle, 2, 5).swap(1, 4).cp(angle, 0, 5).cx(6, 0))
    for circuit in (
        qd.Circuit(N).crx(0.3, 0, 1),
        qd.Circuit(N).pauli_rotation(0.3, "XZY", [0, 3, 5]),
        qd.Circuit(N).append(permutation_gate([0, 1, 2, 3, 4, 5, 7, 6]), [0, 1, 2]),
        qd.Circuit(N).append(diagonal_gate(np.exp(1j * np.arange(32.0) ** 3)), [0, 1, 2, 3, 4]),
        qd.Circuit(N).append(unitary_gate(np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]), [0, 1, 2]),
    ):
        assert rare(circuit)


@both
def test_norms_of_tiles_are_kept_in_long_stages_of_single_precision(dtype: str) -> None:
    def long(rotations: int) -> list[bool]:
        circuit = qd.Circuit(5)
        for k in range(rotations):
            circuit.pauli_rotation(0.1 * k + 0.1, "XZY", [k % 5, (k + 1) % 5, (k + 2) % 5])
        return [stage.long for tables in tables_of(circuit, dtype, SMALL[dtype]) for stage in tables.stages]

    assert not any(long(10))
    assert any(long(80)) == (dtype == "complex64")
