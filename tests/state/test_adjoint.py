"""Adjoint gradients against the reference's forward mode: every gate with angles, wherever it can be in a tile."""

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from states import random_sum
from strategies import circuits

import qdist as qd
from qdist.circuit import GATES, diagonal_gate, pauli_rotation_gate, permutation_gate, unitary_gate
from qdist.circuit.gate import Gate
from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.program import workspace
from qdist.program.adjoint import sweep_back
from qdist.state import reference
from qdist.state.outputs import State

DTYPES = ["complex64", "complex128"]
both = pytest.mark.parametrize("dtype", DTYPES)
N = 7


def tiles(dtype: str, more: int, n: int = N) -> list[Level]:
    """Tiles of one vector and ``more`` bits."""
    lanes = kernels.lane_bits[dtype == "complex128"]
    return [Level("cache", min(n, lanes + more), min(n, lanes))]


def program_of(circuit: qd.Circuit, dtype: str, levels: list[Level] | None) -> qd.Program:
    """A program with these tiles; a GPU, where --device asks for one (conftest.py), has the tiles of its kernel."""
    on_gpu = qd.Program.__init__.__kwdefaults__["device"] == "cuda"
    return qd.Program(circuit, dtype=dtype, levels=None if on_gpu else levels)


def values(circuit: qd.Circuit) -> np.ndarray:
    return np.random.default_rng(circuit.num_parameters).uniform(-3, 3, circuit.num_parameters)


def some_sum(n: int, seed: int) -> qd.PauliSum:
    """Random strings, and a letter of each qubit, because the values of strings with many letters are often zero."""
    return random_sum(n, 6, seed) + qd.PauliSum({f"{'XYZ'[(q + seed) % 3]}{q}": 1.0 / (q + 1) for q in range(n)})


_wanted: dict[tuple[int, int], tuple[qd.Circuit, float, np.ndarray]] = {}


def wanted(circuit: qd.Circuit, seed: int) -> tuple[float, np.ndarray]:
    """The reference's value and gradient, for which circuits that come again are asked once."""
    key = (id(circuit), seed)
    if key not in _wanted:
        observable, params = some_sum(circuit.num_qubits, seed), values(circuit)
        value = reference.expectation(circuit, observable, params)
        _wanted[key] = circuit, value, reference.gradient(circuit, observable, params)
    return _wanted[key][1:]


def check(circuit: qd.Circuit, dtype: str, levels: list[Level] | None = None, seed: int = 0) -> None:
    """Value and gradient equal the reference's, and the sweep ends where the run began."""
    observable, params = some_sum(circuit.num_qubits, seed), values(circuit)
    program = program_of(circuit, dtype, levels)
    value, gradient = program.value_and_grad(observable, params)
    scale = np.abs(observable.coefficients).sum()
    tolerance = scale * (1e-5 if dtype == "complex64" else 1e-13)
    assert gradient.dtype == np.float64
    want_value, want = wanted(circuit, seed)
    assert value == pytest.approx(want_value, abs=tolerance)
    np.testing.assert_allclose(gradient, want, atol=tolerance)
    ket = program.run(params)
    bra = ket.apply_pauli_sum(observable)
    again = program.affine.transposed(sweep_back(program, ket, bra, recover=True))
    np.testing.assert_allclose(again, gradient, atol=tolerance)
    np.testing.assert_allclose(ket.amplitudes(), np.eye(1, 1 << circuit.num_qubits)[0], atol=tolerance)


@cache
def everywhere(gate: Gate, places: tuple[tuple[int, ...], ...], n: int = N) -> qd.Circuit:
    """The gate at each place with angles of its own, in a state and before an observable that tell them apart."""
    theta = qd.ParameterVector("t", len(places) * gate.num_params)
    rng = np.random.default_rng(3)
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.u(*rng.uniform(-3, 3, 3), q)
    for k, qubits in enumerate(places):
        circuit.append(gate, qubits, [theta[k * gate.num_params + j] for j in range(gate.num_params)])
        # Keeps neighbours from becoming one block with it, and from commuting.
        circuit.u(*rng.uniform(-3, 3, 3), int(rng.integers(n)))
        circuit.cx(*rng.permutation(n)[:2].tolist())
    return circuit


def gates_with_angles(width: int) -> list[str]:
    return sorted({g.name for g in GATES.values() if g.num_qubits == width and g.num_params})


def test_every_gate_with_angles_is_looked_at() -> None:
    widths = {g.num_qubits for g in GATES.values() if g.num_params}
    assert widths == {0, 1, 2}


@both
def test_a_global_phase_changes_nothing_it_is_not_controlled_by(dtype: str) -> None:
    check(everywhere(GATES["gphase"], ((), ())), dtype)


@both
@pytest.mark.parametrize("name", gates_with_angles(1))
def test_one_qubit_gates_everywhere(name: str, dtype: str) -> None:
    circuit = everywhere(GATES[name], tuple((q,) for q in range(N)))
    for levels in (None, tiles(dtype, 1)):
        check(circuit, dtype, levels)


@both
@pytest.mark.parametrize("name", gates_with_angles(2))
def test_two_qubit_gates_everywhere(name: str, dtype: str) -> None:
    circuit = everywhere(GATES[name], tuple(itertools.permutations(range(N), 2)))
    for levels in (None, tiles(dtype, 2)):
        check(circuit, dtype, levels)


@cache
def beside_constants(names: str, where: str) -> qd.Circuit:
    """Trained gates on every pair of qubits, and constant matrices of the pair behind them, ahead of them, or both."""
    rng, circuit = np.random.default_rng(6), qd.Circuit(N)
    for q in range(N):
        circuit.u(*rng.uniform(-3, 3, 3), q)
    for k, pair in enumerate(itertools.combinations(range(N), 2)):
        place = pair[:: 1 - 2 * (k % 2)]
        unitaries = [np.linalg.qr(rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)))[0] for _ in range(2)]
        if where != "before":
            circuit.unitary(unitaries[0], place)
        for gate in map(GATES.__getitem__, names.split()):
            for qubits in [place] if gate.num_qubits == 2 else [[place[0]], [place[1]]]:
                theta = [qd.Parameter(f"t{circuit.num_parameters + j}") for j in range(gate.num_params)]
                circuit.append(gate, qubits, theta)
        if where != "after":
            circuit.unitary(unitaries[1], place)
    return circuit


@both
@pytest.mark.parametrize("where", ["before", "after", "between"])
@pytest.mark.parametrize("names", ["ry", "rx rz", "u", "fsim", "fsim rz", "crx", "cu3", "rxx cp", "xx_plus_yy ry"])
def test_gates_of_a_pair_beside_constant_matrices(names: str, where: str, dtype: str) -> None:
    """They become one matrix; which parts of the transition matrix are summed up, and where, depends on all of it."""
    circuit = beside_constants(names, where)
    assert "dense" in {block.kind for block in program_of(circuit, dtype, None).plan.blocks}
    for levels in (None, tiles(dtype, 2)):
        check(circuit, dtype, levels)


def controlled_gates() -> list[Gate]:
    return [
        GATES["p"].controlled(3, 5),
        GATES["rz"].controlled(1, 0),
        GATES["rz"].controlled(2, 2),
        GATES["rzz"].controlled(2, 2),
        GATES["ry"].controlled(1, 0),
        GATES["u"].controlled(2, 1),
        GATES["rx"].controlled(3, 6),
        GATES["fsim"].controlled(1, 0),
        GATES["xx_plus_yy"].controlled(2, 1),
        GATES["rzx"].controlled(),
        GATES["gphase"].controlled(2, 0),
        pauli_rotation_gate("XIY").controlled(2, 1),
        pauli_rotation_gate("ZZ").controlled(1, 0),
        pauli_rotation_gate("I").controlled(1, 0),
        *(
            pauli_rotation_gate(label)
            for label in ["I", "IZ", "Z", "ZZ", "ZIZZZ", "Y", "XY", "ZX", "YYZX", "XZZZY", "XYXYZXY"]
        ),
    ]


@both
@pytest.mark.parametrize("gate", controlled_gates(), ids=lambda g: f"{g.name} {g.data or ''}")
def test_controlled_gates_and_strings_in_many_places(gate: Gate, dtype: str) -> None:
    rng = np.random.default_rng(6)
    circuit = everywhere(gate, tuple(tuple(rng.permutation(N)[: gate.num_qubits].tolist()) for _ in range(10)))
    for levels in (None, tiles(dtype, 1), tiles(dtype, 3)):
        check(circuit, dtype, levels)


@both
def test_angles_at_which_gates_are_special(dtype: str) -> None:
    """At multiples of pi gates are real, diagonal or permutations; their derivatives are not."""
    circuit = everywhere(GATES["rx"], tuple((q,) for q in range(N)))
    for name in ("ry", "r", "u", "cry", "xx_plus_yy"):
        gate = GATES[name]
        places = tuple((q, (q + 3) % N)[: gate.num_qubits] for q in range(N))
        other = everywhere(gate, places)
        names = qd.ParameterVector(name, other.num_parameters)
        circuit = circuit.compose(other.bind(dict(zip(other.parameters, names))))
    observable = random_sum(N, 6, seed=5)
    for angle in (0.0, np.pi, -2 * np.pi, np.pi / 2):
        params = np.full(circuit.num_parameters, angle)
        want = reference.gradient(circuit, observable, params)
        for levels in (None, tiles(dtype, 2)):
            _, gradient = program_of(circuit, dtype, levels).value_and_grad(observable, params)
            np.testing.assert_allclose(gradient, want, atol=3e-5 if dtype == "complex64" else 1e-12)


@both
def test_gates_without_derivatives_are_gone_through(dtype: str) -> None:
    rng = np.random.default_rng(11)
    phases = np.exp(1j * rng.normal(size=64))
    gates = [
        unitary_gate(qd.library.random_circuits.random_su(8, seed=1)),
        unitary_gate(qd.library.random_circuits.random_su(64, seed=3)),
        unitary_gate(qd.library.random_circuits.random_su(4, seed=4)).controlled(2, 1),
        diagonal_gate(phases[:8]),
        diagonal_gate(phases),
        diagonal_gate(phases[:4]).controlled(2, 2),
        permutation_gate(rng.permutation(32)),
        permutation_gate(rng.permutation(4)).controlled(1, 0),
        GATES["x"].controlled(5, 19),
        GATES["rccx"],
        GATES["swap"],
    ]
    theta = qd.ParameterVector("t", 2 * len(gates))
    circuit = qd.Circuit(N).h(range(N))
    for k, gate in enumerate(gates):
        for j in range(2):
            circuit.append(GATES["rx" if j else "rz"], [int(rng.integers(N))], [theta[2 * k + j]])
            circuit.append(gate, rng.permutation(N)[: gate.num_qubits].tolist())
    for levels in (None, tiles(dtype, 1), tiles(dtype, 3)):
        check(circuit, dtype, levels)


@both
@given(
    circuits(max_qubits=9, max_gates=14, parameters=list(qd.ParameterVector("t", 4))),
    st.integers(0, 3),
    st.integers(0, 99),
)
@settings(max_examples=60)
def test_any_circuit_and_observable(dtype: str, circuit: qd.Circuit, more: int, seed: int) -> None:
    check(circuit, dtype, tiles(dtype, more, circuit.num_qubits), seed)
    check(circuit, dtype, None, seed)


@both
@pytest.mark.parametrize("n", [1, 2])
def test_states_smaller_than_a_vector(n: int, dtype: str) -> None:
    check(qd.library.hardware_efficient(n, 3), dtype)


@both
def test_phases_before_the_first_rotations_of_other_qubits(dtype: str) -> None:
    """Once those rotations are undone, half of a tile is of no use any more, and the phases must not sum it up."""
    first, second, third = qd.ParameterVector("t", 3)
    observable = qd.PauliSum({f"Y{q}": 1.0 for q in range(N)})
    for circuit in (
        qd.Circuit(N).rzz(first, 2, 3).ry(second, 4).ry(third, 5),
        qd.Circuit(N).crz(first, 0, 3).ry(second, 0).ry(third, 6),
    ):
        program, params = program_of(circuit, dtype, None), values(circuit)
        want = reference.gradient(circuit, observable, params)
        np.testing.assert_allclose(program.value_and_grad(observable, params)[1], want, atol=1e-5)


@both
def test_phases_of_whole_rows(dtype: str) -> None:
    """Phases that depend on the higher bits of a tile alone, where they come last and where they do not."""
    for more in (3, 4):
        for end in (0, 1, N):
            theta = iter(qd.ParameterVector("t", 5 * N))
            circuit = qd.Circuit(N)
            for q in range(N):
                circuit.ry(next(theta), q)
            for q in range(4, N):
                circuit.rz(next(theta), q)
            circuit.rzz(next(theta), 5, 6).cp(next(theta), 4, 6)
            for q in range(N - end, N):
                circuit.rx(next(theta), q)
            check(circuit, dtype, tiles(dtype, more), seed=end)


@both
def test_long_rows_of_rotations_stay_in_range(dtype: str) -> None:
    """Cosines that are left out are brought in again before their product becomes small, whatever the angles."""
    circuit = qd.library.real_amplitudes(6, 30)
    observable = random_sum(6, 6, seed=2)
    for params in (values(circuit), np.full(circuit.num_parameters, np.pi - 1e-3)):
        program = qd.compile(circuit, dtype=dtype)
        tolerance = 2e-4 if dtype == "complex64" else 1e-11
        np.testing.assert_allclose(program.run(params).amplitudes(), reference.state(circuit, params), atol=tolerance)
        _, gradient = program.value_and_grad(observable, params)
        np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, params), atol=tolerance)


@pytest.fixture(scope="module")
def large() -> tuple[qd.Circuit, qd.PauliSum, np.ndarray, np.ndarray]:
    """A circuit of several default tiles in either dtype, where diagonals reach inside, across and outside of them."""
    n = 13
    theta = iter(qd.ParameterVector("t", 3 * n + 12))
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.ry(next(theta), q).rz(next(theta), q)
    for a, b in [(0, 1), (1, 12), (11, 12), (4, 7), (3, 12), (0, 11)]:
        circuit.rzz(next(theta), a, b).cx(b, a).cp(next(theta), a, b)
    for q in range(n):
        circuit.rx(next(theta), q)
    observable, params = random_sum(n, 6), values(circuit)
    return circuit, observable, params, reference.gradient(circuit, observable, params)


@both
def test_a_circuit_of_several_default_tiles(large: Any, dtype: str) -> None:
    circuit, observable, params, want = large
    program = qd.compile(circuit, dtype=dtype)
    assert program.plan.sweeps > 1
    _, gradient = program.value_and_grad(observable, params)
    np.testing.assert_allclose(gradient, want, atol=1e-5 if dtype == "complex64" else 1e-12)


def test_the_same_bits_from_run_to_run_and_for_any_number_of_threads() -> None:
    program = qd.compile(qd.library.hardware_efficient(15, 3))
    observable, params = qd.library.heisenberg_xxz(15), values(program.circuit)
    before = kernels.max_threads()
    results = set()
    for threads in (1, 2, 2, 3):
        kernels.set_threads(threads)
        results.add(program.value_and_grad(observable, params)[1].tobytes())
    kernels.set_threads(before)
    assert len(results) == 1


def test_shared_parameters_and_expressions_of_them() -> None:
    a, b = qd.Parameter("a"), qd.Parameter("b")
    circuit = qd.Circuit(3).ry(a, 0).rx(2 * a - 0.5 * b + 0.1, 1).cx(0, 1).u(b, a, -a + b, 2).rzz(a, 0, 2).ry(0.3, 1)
    circuit.pauli_rotation(b, "XYZ", [0, 1, 2]).cp(3 * a, 1, 2).rx(a, 0)
    check(circuit, "complex128")


def test_a_circuit_that_starts_from_given_amplitudes() -> None:
    amplitudes = np.arange(1, 33) / np.linalg.norm(np.arange(1, 33))
    circuit = qd.Circuit(5).initialize(amplitudes).compose(qd.library.hardware_efficient(5, 2))
    observable, params = random_sum(5, 6), values(circuit)
    _, gradient = qd.compile(circuit, dtype="complex128").value_and_grad(observable, params)
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, params), atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_pennylane_lightning(dtype: str) -> None:
    qml = pytest.importorskip("pennylane")
    pytest.importorskip("pennylane_lightning")
    n = 8
    circuit = qd.library.hardware_efficient(n, 4)
    params = values(circuit)
    terms = [(q, letter) for q in range(n - 1) for letter in "XYZ"]
    device = qml.device("lightning.qubit", wires=n, c_dtype=np.dtype(dtype).type)

    @qml.qnode(device, diff_method="adjoint")
    def energy(theta: object) -> object:
        angles = iter(theta)  # type: ignore[call-overload]
        for _ in range(4):
            for gate in (qml.RY, qml.RZ):
                for q in range(n):
                    gate(next(angles), wires=q)
            for q in range(n - 1):
                qml.CNOT(wires=[q, q + 1])
        pauli = {"X": qml.PauliX, "Y": qml.PauliY, "Z": qml.PauliZ}
        return qml.expval(qml.dot([1.0] * len(terms), [pauli[p](q) @ pauli[p](q + 1) for q, p in terms]))

    want = np.asarray(qml.grad(energy)(qml.numpy.array(params, requires_grad=True)))
    observable = qd.PauliSum({f"{p}{q} {p}{q + 1}": 1.0 for q, p in terms})
    _, gradient = qd.compile(circuit, dtype=dtype).value_and_grad(observable, params)
    np.testing.assert_allclose(gradient, want, atol=2e-5 if dtype == "complex64" else 1e-11)


def test_states_that_are_not_large_stay_with_their_program(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, observable = qd.library.hardware_efficient(9, 2, entangler="cz"), qd.library.heisenberg_xxz(9)
    program = qd.compile(circuit, dtype="complex128", device="cpu")
    params = values(circuit)
    first = program.value_and_grad(observable, params)
    kept = program.workspaces.take()
    states = kept.ket, kept.bra
    assert states[0] is not None
    program.workspaces.put_back(kept)
    # What is left in them from other parameters and outputs does not matter.
    program.vjp([observable, State()], params + 1, [1.0, np.ones(512, np.complex128)])
    assert program.workspaces.take() is kept
    assert (kept.ket, kept.bra) == states
    program.workspaces.put_back(kept)
    again = program.value_and_grad(observable, params)
    assert again[0] == first[0]
    np.testing.assert_array_equal(again[1], first[1])
    monkeypatch.setattr(workspace, "MOST_BYTES", 512 * 16 - 1)
    program.value_and_grad(observable, params)
    assert program.workspaces.take().bra is None
