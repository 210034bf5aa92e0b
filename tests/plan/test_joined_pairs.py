"""Runs of gates on the same two qubits as one matrix."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import qdist as qd
from qdist.circuit.pauli.text import qubits_of
from qdist.plan import fastest
from qdist.plan.operations import Operation, operations
from qdist.plan.plan import Plan
from qdist.plan.planner import make_plan
from qdist.plan.rewrites.pairs import with_pairs_joined
from qdist.plan.stages import cpu_target as cpu_targets
from qdist.state import reference

ONE = ["h", "s", "t", "sx", "x", "y", "rx", "ry", "rz", "p", "u", "u2", "r"]
TWO = [
    *("cx", "cy", "cz", "ch", "csx", "swap", "iswap", "dcx", "ecr", "cp", "crx", "cry", "crz", "cu"),
    *("rxx", "ryy", "rzz", "rzx", "fsim", "xx_plus_yy"),
]
TOLERANCE = {"complex64": 1e-5, "complex128": 1e-12}


def runs_on_pairs(n: int, runs: int, seed: int, two: list[str] = TWO) -> tuple[qd.Circuit, np.ndarray]:
    """Runs of 2 to 14 gates on random pairs, of all kinds, with angles of parameters and numbers."""
    rng = np.random.default_rng(seed)
    theta = qd.ParameterVector("t", 6)
    circuit = qd.Circuit(n)
    for _ in range(runs):
        a, b = rng.permutation(n)[:2].tolist()
        for _ in range(int(rng.integers(2, 15))):
            name = str(rng.choice(ONE if rng.random() < 0.6 else two))
            gate = qd.circuit.GATES[name]
            angles = [
                float(rng.normal()) if rng.random() < 0.4 else theta[int(rng.integers(6))] * float(rng.normal())
                for _ in range(gate.num_params)
            ]
            circuit.append(gate, rng.permutation([a, b])[: gate.num_qubits].tolist(), angles)
        if rng.random() < 0.3:
            circuit.append(qd.circuit.GATES["cx"].controlled(1, 0), rng.permutation(n)[:3].tolist())
        if rng.random() < 0.3:
            circuit.append(qd.circuit.GATES["x"].controlled(1, 0), [a, b])
            circuit.append(qd.circuit.GATES["sx"].controlled(1, 0), [b, a])
    circuit.rx(theta[0], 0)
    return circuit, rng.uniform(-2, 2, 6)


def joined(plan: Plan) -> list[Operation]:
    return [o for block in plan.blocks for o in block.operations if o.parts]


@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_same_operator(seed: int) -> None:
    """Of the operations themselves, whatever the planner chooses: each as a matrix on all qubits."""
    n = 4
    circuit, values = runs_on_pairs(n, 5, seed)
    before = list(operations(circuit))
    after = with_pairs_joined(before, n)
    assert after is not None
    found = [o for o in after if o.parts]
    assert found
    assert all(o.mixes.bit_count() == 2 and not o.controls for o in found)
    same_operator(circuit, values, before, after, atol=1e-12)
    assert {s for o in after for s in o.reads} == {s for o in before for s in o.reads}


def same_operator(
    circuit: qd.Circuit, values: np.ndarray, before: list[Operation], after: list[Operation], atol: float = 1e-11
) -> None:
    """Asserts that both lists of operations of a circuit do the same at these parameters."""
    n, angles = circuit.num_qubits, qd.Program(circuit).affine(values)
    np.testing.assert_allclose(product(after, n, angles), product(before, n, angles), rtol=0, atol=atol)


def product(gates: list[Operation], n: int, angles: np.ndarray) -> np.ndarray:
    """The matrix of operations on n qubits, by definition of each kind."""
    result = np.eye(1 << n, dtype=complex)
    for o in gates:
        result = whole(o, n, angles) @ result
    return result


def whole(o: Operation, n: int, angles: np.ndarray) -> np.ndarray:
    if o.parts:
        return product(list(o.parts), n, angles)
    size = 1 << n

    def holds(index: int) -> bool:
        return all(index >> q & 1 == value for q, value in o.controls)

    def affine(terms) -> float:
        constant, slots = terms
        return constant + sum(c * angles[s] for s, c in slots)

    if o.kind == "diagonal":
        phases = np.zeros(size)
        for index in range(size):
            phases[index] += sum(affine(a) for bits, a in o.terms if all(index >> q & 1 for q in bits))
            phases[index] += sum(affine(a) for tests, a in o.wide if all(index >> q & 1 == v for q, v in tests))
        return np.diag(np.exp(1j * phases))
    if o.kind == "rotation":
        string = np.eye(1)
        letters = dict(zip(o.targets, o.letters))
        for q in reversed(range(n)):
            string = np.kron(string, qd.circuit.GATES[letters.get(q, "id").lower()].matrix())
        half = o.sign * angles[o.slots[0]] / 2
        return np.cos(half) * np.eye(size) - 1j * np.sin(half) * string
    if o.kind == "flip":
        small: np.ndarray = qd.circuit.GATES["x"].matrix()
    elif o.kind == "swap":
        small = qd.circuit.GATES["swap"].matrix()
    elif o.kind == "permute":
        small = np.eye(1 << len(o.targets))[np.asarray(o.matrix)]
    elif o.matrix is not None:
        small = np.asarray(o.matrix)
    else:
        assert o.gate is not None
        small = o.gate.matrix(*(angles[s] for s in o.slots))
    result = np.zeros((size, size), complex)
    mask = sum(1 << q for q in o.targets)
    for column in range(size):
        if not holds(column):
            result[column, column] = 1
            continue
        setting = sum((column >> q & 1) << k for k, q in enumerate(o.targets))
        for row in range(len(small)):
            to = column & ~mask | sum((row >> k & 1) << q for k, q in enumerate(o.targets))
            result[to, column] += small[row, setting]
    return result


OBSERVABLE = qd.PauliSum({"Z0 X12": 0.7, "Y5": 1.0, "Z3 Z4": -0.3, "X1": 0.4})


@cache
def expected(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """State and gradient of runs on pairs of 13 qubits, for both dtypes."""
    circuit, values = runs_on_pairs(13, 24, seed)
    return reference.state(circuit, values), reference.gradient(circuit, OBSERVABLE, values)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(4, 8))])
def test_states_and_gradients(seed: int, dtype: str, device: str) -> None:
    circuit, values = runs_on_pairs(13, 24, seed)
    program = qd.Program(circuit, dtype=dtype, device=device)
    state, derivatives = expected(seed)
    np.testing.assert_allclose(program.run(values).amplitudes(), state, atol=TOLERANCE[dtype])
    assert joined(program.plan)
    assert any(o.reads for o in joined(program.plan))
    value, gradient = program.value_and_grad(OBSERVABLE, values)
    assert value == pytest.approx(reference.expectation(state, OBSERVABLE), abs=10 * TOLERANCE[dtype])
    np.testing.assert_allclose(gradient, derivatives, atol=30 * TOLERANCE[dtype])


def transpiled_volume(n: int, depth: int) -> qd.Circuit:
    """Random gates on pairs as transpilers write them: three CX, and matrices of one qubit around them."""
    rng, circuit = np.random.default_rng(2), qd.Circuit(n)
    for _ in range(depth):
        order = rng.permutation(n).tolist()
        for a, b in zip(order[::2], order[1::2]):
            for k in range(4):
                for q in (a, b):
                    circuit.u(*rng.uniform(-3, 3, 3), q)
                if k < 3:
                    circuit.cx(a, b)
    return circuit


@pytest.mark.parametrize("instructions", ["aarch64", "x86_64_v3", "x86_64_v4"])
def test_transpiled_gates_on_pairs_are_a_matrix_each(monkeypatch: pytest.MonkeyPatch, instructions: str) -> None:
    monkeypatch.setattr(cpu_targets, "variant", instructions)
    plan = make_plan(transpiled_volume(20, 10), np.dtype(np.complex64))
    assert {block.kind for block in plan.blocks} == {"dense"}
    assert sum(1 for _ in plan.blocks) <= 100  # Two runs on the same pair in a row are one.


def test_where_rotations_and_moves_are_cheaper_nothing_is_joined() -> None:
    n = 20
    chain, layers = qd.Circuit(n), qd.Circuit(n)
    for a in range(n - 1):
        chain.rxx(0.1, a, a + 1).ryy(0.2, a, a + 1).rzz(0.3, a, a + 1).rz(0.4, a)
        layers.ry(0.1, a).cx(a, a + 1)
    for circuit in (chain, layers):
        assert with_pairs_joined(list(operations(circuit)), n) is None
    matrix = qd.Circuit(2).u(0.1, 0.2, 0.3, 0).fsim(0.3, 0.4, 0, 1).u(0.1, 0.2, 0.3, 1)
    assert with_pairs_joined(list(operations(matrix)), 2) is None  # The matrix takes them in anyway.


def test_pairs_with_a_far_qubit_stay_apart() -> None:
    """A control may be far, and a matrix may not."""
    circuit = qd.Circuit(3)
    for _ in range(4):
        circuit.u(0.1, 0.2, 0.3, 1).cx(2, 1).cx(0, 1).u(0.1, 0.2, 0.3, 0).u(0.3, 0.2, 0.3, 1).cx(0, 1).u(0.1, 1, 2, 0)
    gates = list(operations(circuit))
    after = with_pairs_joined(gates, 2)
    assert after is not None
    assert all(o.mixes >> 2 == 0 for o in after)
    angles = qd.Program(circuit).affine(np.zeros(0))
    np.testing.assert_allclose(product(after, 3, angles), product(gates, 3, angles), atol=1e-12)


def test_runs_end_where_something_else_acts() -> None:
    circuit = qd.Circuit(3)
    for _ in range(3):
        circuit.u(1, 2, 3, 0).u(1, 2, 3, 1).cx(0, 1).u(1, 2, 3, 0).u(1, 2, 3, 1).cx(0, 1).u(1, 2, 3, 1).cz(1, 2)
    after = with_pairs_joined(list(operations(circuit)), 3)
    assert after is not None
    assert [tuple(qubits_of(o.all)) for o in after if o.all.bit_count() == 2] == 3 * [(0, 1), (1, 2)]


def test_the_planner_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = transpiled_volume(14, 6)
    least = make_plan(circuit, np.dtype(np.complex64))
    monkeypatch.setattr(fastest, "with_pairs_joined", lambda *_: None)
    plain = make_plan(circuit, np.dtype(np.complex64))
    assert joined(least)
    assert not joined(plain)
    cost = [sum(fastest.cost_of(p.target, s.stages, 14, 0) for s in p.segments) for p in (least, plain)]
    assert cost[0] < 0.6 * cost[1]
