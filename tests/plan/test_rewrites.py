"""Gates as others that take less: rows of one qubit's gates, moves and phases, SWAP gates as names."""

from __future__ import annotations

import numpy as np
import pytest

import qdist as qd
from qdist.plan.operations import Operation, operations
from qdist.plan.planner import make_plan
from qdist.plan.rewrites.cliffords import with_cliffords_behind
from qdist.plan.rewrites.monomials import as_moves
from qdist.plan.stages.cpu_target import cpu_target
from qdist.state import reference

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
TOLERANCE = {"complex64": 3e-6, "complex128": 1e-12}


def row(circuit: qd.Circuit) -> list[str]:
    """What becomes of a row of gates on qubit 0: names of matrices, kinds of the rest."""
    return [_name(o) for o in with_cliffords_behind(list(operations(circuit)), False) if o.all]


def _name(operation: Operation) -> str:
    return operation.gate.name if operation.gate is not None else operation.kind


@pytest.mark.parametrize(
    ("gates", "left"),
    [
        ("rz sx rz sx rz", ["diagonal", "ry", "unitary", "diagonal"]),
        ("h rz h", ["rx"]),
        ("h rx h", ["diagonal"]),
        ("h t h", ["unitary"]),
        ("h h", []),
        ("h s s h", ["flip"]),
        ("y", ["flip", "diagonal"]),
        ("sx sx", ["flip"]),
        ("sdg h rz h s", ["diagonal", "rx", "diagonal"]),
        # Nothing is saved: one matrix, or two rotations about different axes.
        ("rz ry rz", ["diagonal", "ry", "diagonal"]),
        ("ry rz ry", ["ry", "diagonal", "ry"]),
        ("u", ["u"]),
        ("h", ["h"]),
        ("rx ry", ["rx", "ry"]),
    ],
)
def test_what_is_left_of_a_row(gates: str, left: list[str]) -> None:
    circuit = qd.Circuit(1)
    for k, name in enumerate(gates.split()):
        count = qd.circuit.GATES[name].num_params
        getattr(circuit, name)(*(0.3 + k + i for i in range(count)), 0)
    found = row(circuit)
    assert found == left
    np.testing.assert_allclose(qd.Program(circuit).run().amplitudes(), reference.state(circuit), atol=1e-6)


NAMES = ["h", "s", "sdg", "t", "sx", "sxdg", "x", "y", "z", "rx", "ry", "rz", "p", "u", "u2", "r"]
PAIRS = ["cx", "cy", "cz", "iswap", "swap", "dcx", "cp", "rzz", "rxx", "ecr", "fsim", "ccx", "rccx", "cswap"]


def random_circuit(seed: int, n: int = 9, length: int = 200) -> tuple[qd.Circuit, np.ndarray]:
    """Long rows of one qubit's gates, with angles of parameters and numbers, between gates that move amplitudes."""
    rng = np.random.default_rng(seed)
    theta = qd.ParameterVector("t", 8)
    circuit = qd.Circuit(n)
    for _ in range(length):
        name = str(rng.choice(NAMES if rng.random() < 0.8 else PAIRS))
        gate = qd.circuit.GATES[name]
        angles = [
            float(rng.normal()) if rng.random() < 0.3 else theta[int(rng.integers(8))] * float(rng.normal())
            for _ in range(gate.num_params)
        ]
        circuit.append(gate, rng.permutation(n)[: gate.num_qubits].tolist(), angles)
    if seed % 3 == 0:
        circuit.unitary(qd.library.random_circuits.random_su(2, seed=seed), [0]).h(0).unitary(np.diag([1, 1j]), [0])
    return circuit, rng.uniform(-2, 2, 8)


@both
@pytest.mark.parametrize("seed", range(8))
def test_states_and_gradients(seed: int, dtype: str) -> None:
    circuit, values = random_circuit(seed)
    program = qd.Program(circuit, dtype=dtype)
    np.testing.assert_allclose(
        program.run(values).amplitudes(), reference.state(circuit, values), atol=TOLERANCE[dtype]
    )
    rng = np.random.default_rng(seed)
    start = rng.normal(size=1 << 9) + 1j * rng.normal(size=1 << 9)
    start /= np.linalg.norm(start)
    given = program.run(values, initial=qd.StateVector.from_amplitudes(start, dtype))
    np.testing.assert_allclose(
        given.amplitudes(), reference.state(circuit, values, initial=start), atol=TOLERANCE[dtype]
    )
    observable = qd.PauliSum({"Z0 X1": 1.0, "Y3": 0.5, "Z2 Z4": -0.7})
    _, gradient = program.value_and_grad(observable, values)
    expected = reference.gradient(circuit, observable, values)
    np.testing.assert_allclose(gradient, expected, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["iswap", "iswapdg", "cy", "dcx", "dcxdg", "rccx", "rc3x", "rc3xdg", "y"])
def test_gates_that_move_amplitudes_have_no_matrix(name: str) -> None:
    gate = qd.circuit.GATES[name]
    circuit = qd.Circuit(4).append(gate, range(gate.num_qubits))
    (operation,) = operations(circuit)
    parts = as_moves(operation)
    # What is left of a matrix is an X under conditions.
    assert all(o.kind != "dense" or (o.gate is not None and o.gate.name == "x") for o in parts)
    assert {o.kind for o in parts} <= {"flip", "swap", "diagonal", "dense"}


@pytest.mark.parametrize("name", ["ch", "csx", "ecr", "fsim", "h"])
def test_other_gates_stay(name: str) -> None:
    gate = qd.circuit.GATES[name]
    circuit = qd.Circuit(4).append(gate, range(gate.num_qubits), [0.3] * gate.num_params)
    (operation,) = operations(circuit)
    assert as_moves(operation) == [operation]


def test_a_nearly_unitary_matrix_keeps_its_numbers() -> None:
    """Given in single precision, entries are 1e-8 off; nothing makes them a phase."""
    given = np.array([[0, 1], [1 + 2e-9, 0]])
    circuit = qd.Circuit(1).unitary(given, [0]).h(0)
    (first, *_) = operations(circuit)
    assert as_moves(first) == [first]


@pytest.mark.parametrize("seed", range(4))
def test_swaps_are_names_from_zero(seed: int) -> None:
    """A circuit with SWAP gates anywhere takes no sweep more than the one without them, on other qubits."""
    rng = np.random.default_rng(seed)
    n = 16
    circuit, names, plain = qd.Circuit(n), list(range(n)), []
    for _ in range(120):
        a, b = rng.permutation(n)[:2].tolist()
        if rng.random() < 0.4:
            circuit.swap(a, b)
            names[a], names[b] = names[b], names[a]
        else:
            circuit.ry(0.3, a).cx(a, b)
            plain.append((names[a], names[b]))
    # Where each of the first names is at the end.
    ends = {name: q for q, name in enumerate(names)}
    without = qd.Circuit(n)
    for a, b in plain:
        without.ry(0.3, ends[a]).cx(ends[a], ends[b])
    program, other = qd.Program(circuit, dtype="complex128"), qd.Program(without, dtype="complex128")
    assert program.plan.sweeps == other.plan.sweeps
    assert len(program.plan.blocks) == len(other.plan.blocks)
    assert program.plan.only_from_zero
    assert program.run().layout == other.run().layout
    np.testing.assert_allclose(program.run().amplitudes(), other.run().amplitudes(), atol=1e-14)


def test_equal_neighbours_that_act_like_x_are_one_matrix() -> None:
    """As in Trotter steps of second order: the last rotations of a step beside the first of the next."""
    theta = qd.ParameterVector("t", 2)
    circuit = qd.Circuit(8)
    for _ in range(3):
        circuit.rx(theta[0], range(8))
        for q in range(8):
            circuit.rzz(theta[1], q, (q + 1) % 8)
        circuit.rx(theta[0], range(8))
    kinds = [block.kind for block in qd.Program(circuit).plan.blocks]
    assert (kinds.count("dense"), kinds.count("diagonal")) == (4 * 8, 3)


@both
@pytest.mark.parametrize("name", ["fsim", "xx_plus_yy"])
def test_hopping_among_phases_is_rotations(name: str, dtype: str) -> None:
    """Networks of fermions: no matrix of two qubits; with one on one qubit beside it the gate stays a matrix."""
    n, theta = 10, qd.ParameterVector("t", 40)
    circuit = qd.Circuit(n).x(range(0, n, 2))
    for layer in range(4):
        for k, q in enumerate(range(layer % 2, n - 1, 2)):
            circuit.append(
                qd.circuit.GATES[name], [q, q + 1], [theta[10 * layer + 2 * k], theta[10 * layer + 2 * k + 1]]
            )
            circuit.rz(0.3, q).cp(0.2, q, (q + 5) % n)
    kind, target = np.dtype(dtype), cpu_target(np.dtype(dtype))
    assert {b.kind for b in make_plan(circuit, kind, target=target).blocks} <= {"rotation", "diagonal", "linear"}
    values = np.random.default_rng(1).uniform(-2, 2, circuit.num_parameters)
    program, observable = qd.Program(circuit, dtype=dtype), qd.PauliSum({"X0 Y3": 1.0, "Z2 Z4": -0.7, "Y8 X9": 0.4})
    np.testing.assert_allclose(
        program.run(values).amplitudes(), reference.state(circuit, values), atol=TOLERANCE[dtype]
    )
    _, gradient = program.value_and_grad(observable, values)
    expected = reference.gradient(circuit, observable, values)
    np.testing.assert_allclose(gradient, expected, atol=3 * TOLERANCE[dtype])
    beside = qd.Circuit(3).ry(0.1, 0).append(qd.circuit.GATES[name], [0, 1], [0.2, 0.3])
    (block,) = make_plan(beside, kind, target=target).blocks
    assert block.kind == "dense"
