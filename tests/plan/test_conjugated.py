"""Phases between Clifford gates that undo each other: Pauli rotations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from excitations import DOUBLE
from test_joined_pairs import product, same_operator

import qdist as qd
from qdist.plan.operations import operations
from qdist.plan.planner import make_plan
from qdist.plan.rewrites.conjugated import with_rotations_found
from qdist.plan.rewrites.ladders import narrowed
from qdist.plan.rewrites.paulis import Frame, String, axes_of
from qdist.plan.rows import lowered, row_operations
from qdist.state import reference

MOST = 8
TO_Z = {"X": ["h"], "Y": ["sdg", "h"], "Z": []}
FROM_Z = {"X": ["h"], "Y": ["h", "s"], "Z": []}


def compiled(circuit: qd.Circuit, letters: str, qubits: list[int], angle, numbers: bool = False) -> None:
    """exp(-i angle/2 letters) as compilers write it; numbers: with RX by a number for Y."""

    def change(names: dict[str, list[str]], turn: float) -> None:
        for letter, q in zip(letters, qubits):
            if letter == "Y" and numbers:
                circuit.rx(turn, q)
            else:
                for name in names[letter]:
                    circuit.append(qd.circuit.GATES[name], [q])

    change(TO_Z, np.pi / 2)
    ladder = list(pairwise(qubits))
    for a, b in ladder:
        circuit.cx(a, b)
    circuit.rz(angle, qubits[-1])
    for a, b in reversed(ladder):
        circuit.cx(a, b)
    change(FROM_Z, -np.pi / 2)


def random_circuit(n: int, length: int, seed: int) -> tuple[qd.Circuit, np.ndarray]:
    """Compiled rotations among gates of all kinds, some of which stand inside of others."""
    rng = np.random.default_rng(seed)
    theta = qd.ParameterVector("t", 4)
    circuit = qd.Circuit(n)
    for _ in range(length):
        qubits = rng.permutation(n).tolist()
        angle = theta[int(rng.integers(4))] * float(rng.normal())
        a, b = qubits[:2]
        match rng.integers(14):
            case 0 | 1 | 2 | 3 | 4 | 5:
                weight = int(rng.integers(1, n + 1))
                compiled(
                    circuit, "".join(rng.choice(list("XYZ"), weight)), qubits[:weight], angle, bool(rng.integers(2))
                )
            case 6:
                circuit.h(a).sx(b)
            case 7:
                circuit.cx(a, b).rzz(angle, *qubits[-2:]).cz(b, qubits[2])
            case 8:
                circuit.x(a).s(b).t(a)
            case 9:
                circuit.swap(a, b).cp(angle, a, b)
            case 10:
                circuit.append(qd.circuit.GATES["x"].controlled(1, 0), [a, b]).p(angle, b)
                circuit.append(qd.circuit.GATES["x"].controlled(1, 0), [a, b])
            case 11:
                circuit.ry(angle, a)
            case 12:
                circuit.h(a).cz(a, b).rz(angle, b).rz(0.3, a).cz(a, b).sx(a)
            case _:
                circuit.swap(a, b).rz(angle, a).swap(a, b).y(a)
    circuit.rx(theta[0] + theta[1] + theta[2] + theta[3], 0)
    return circuit, rng.uniform(-2, 2, 4)


@pytest.mark.parametrize("seed", range(60))
def test_it_is_the_same_operator(seed: int) -> None:
    n = 3 + seed % 2
    circuit, values = random_circuit(n, 14, seed)
    before = list(operations(circuit))
    after = with_rotations_found(before, MOST)
    same_operator(circuit, values, before, after)
    assert {s for o in after for s in o.reads} == {s for o in before for s in o.reads}


@pytest.mark.parametrize("numbers", [False, True])
def test_compiled_rotations_are_rotations(numbers: bool) -> None:
    rng = np.random.default_rng(1)
    theta = qd.ParameterVector("t", 20)
    circuit = qd.Circuit(6)
    strings = []
    for angle in theta:
        qubits, letters = rng.permutation(6)[:4].tolist(), "".join(rng.choice(list("XYZ"), 4))
        compiled(circuit, letters, qubits, angle, numbers)
        strings.append(dict(zip(qubits, letters)))
    found = with_rotations_found(list(operations(circuit)), MOST)
    found = [o for o in found if o.kind != "diagonal" or o.z_like]
    assert [o.kind for o in found] == ["rotation"] * 20
    assert [dict(zip(o.targets, o.letters)) for o in found] == strings
    assert all(o.sign == 1 for o in found)


def test_a_compiled_excitation_is_one_block() -> None:
    theta = qd.Parameter("t")
    circuit = qd.Circuit(8).x(range(4))
    for string, sign in DOUBLE.items():
        compiled(circuit, string, [0, 3, 5, 7], theta * (sign / 4))
    plan = make_plan(circuit, np.dtype(np.complex64))
    assert [block.kind for block in plan.blocks if block.kind != "linear"] == ["rotation"]


def test_layers_of_phases_between_h_stay_one_pass() -> None:
    n = 8
    theta = iter(qd.ParameterVector("t", n * n))
    circuit = qd.Circuit(n).h(range(n))
    for a in range(n):
        circuit.rz(next(theta), a)
        for b in range(a):
            circuit.rzz(next(theta), a, b)
    circuit.h(range(n))
    before = list(operations(circuit))
    assert [o.kind for o in with_rotations_found(before, MOST)] == [o.kind for o in before]


def test_gates_that_stay_keep_what_is_between_them() -> None:
    """An H that nothing undoes, a T, and a CX whose qubit is mixed meanwhile."""
    t = qd.Parameter("t")
    for circuit in (
        qd.Circuit(2).h(0).rzz(t, 0, 1).t(0).h(0),
        qd.Circuit(2).cx(0, 1).rz(t, 1).ry(t, 0).cx(0, 1),
        qd.Circuit(2).h(0).rzz(t, 0, 1),
        qd.Circuit(3).cx(0, 1).rz(t, 1).cx(1, 2).cx(0, 1),
    ):
        before = list(operations(circuit))
        assert with_rotations_found(before, MOST) == before


def test_rotations_that_flip_too_many_qubits_stay_ladders() -> None:
    theta = qd.ParameterVector("t", 2)
    circuit = qd.Circuit(5)
    compiled(circuit, "XXXXX", list(range(5)), theta[0])
    compiled(circuit, "XYZ", [0, 1, 2], theta[1])
    before = list(operations(circuit))
    found = with_rotations_found(before, 3)
    assert max(o.mixes.bit_count() for o in found) <= 3
    np.testing.assert_allclose(
        product(found, 5, np.array([0.4, 1.1])), product(before, 5, np.array([0.4, 1.1])), atol=1e-12
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_states_and_gradients_are_those_of_the_reference(seed: int, dtype: str, device: str) -> None:
    circuit, values = random_circuit(6, 25, seed)
    program = qd.Program(circuit, dtype=dtype, device=device)
    tolerance = 3e-6 if dtype == "complex64" else 1e-11
    np.testing.assert_allclose(program.run(values).amplitudes(), reference.state(circuit, values), atol=tolerance)
    observable = qd.PauliSum({"Z0": 1.0, "X1 Y2": 0.5, "Z3 Z4": -0.3})
    _, gradient = program.value_and_grad(observable, values)
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, values), atol=20 * tolerance)


@pytest.mark.parametrize("seed", range(10))
def test_a_frame_is_conjugation(seed: int) -> None:
    n, rng = 3, np.random.default_rng(seed)
    frame, circuit = Frame(), qd.Circuit(n)
    for _ in range(12):
        a, b = rng.permutation(n)[:2].tolist()
        match rng.integers(4):
            case 0:
                name = str(rng.choice(["h", "s", "sx", "x", "y", "z", "sdg"]))
                circuit.append(qd.circuit.GATES[name], [a])
                axes = axes_of(np.asarray(qd.circuit.GATES[name].matrix(), complex))
                assert axes is not None
                frame.add_matrix(a, axes)
            case 1:
                circuit.cx(a, b)
                frame.add_cx(a, 1, b)
            case 2:
                circuit.cz(a, b)
                frame.add_cz(a, b)
            case _:
                circuit.swap(a, b)
                frame.add_swap(a, b)
    gate = product(list(operations(circuit)), n, np.zeros(0))
    for x, z in rng.integers(0, 1 << n, (6, 2)).tolist():
        string = String(x, z, (x & z).bit_count() % 4)
        np.testing.assert_allclose(
            matrix_of(frame.of(string), n), gate.conj().T @ matrix_of(string, n) @ gate, atol=1e-12
        )


def matrix_of(string: String, n: int) -> np.ndarray:
    found, letters = np.eye(1), dict(zip(string.qubits, string.letters))
    for q in reversed(range(n)):
        found = np.kron(found, qd.circuit.GATES[letters.get(q, "id").lower()].matrix())
    return string.sign * found


def test_other_matrices_are_no_clifford_gates() -> None:
    assert axes_of(np.asarray(qd.circuit.GATES["t"].matrix(), complex)) is None


def test_strings_that_flip_more_than_a_tile_holds_are_what_such_rotations_are() -> None:
    n, theta = 7, qd.Parameter("t")
    string = "XYZXYXY"
    written, found = qd.Circuit(n), qd.Circuit(n)
    written.pauli_rotation(theta, string[::-1], list(range(n)))
    compiled(found, string, list(range(n)), theta)
    wide = [o for o in operations(written) for o in narrowed(o, 4)]
    narrow = [o for o in with_rotations_found(list(operations(found)), 4) if o.all]
    assert [(o.kind, o.mixes, o.letters) for o in narrow] == [(o.kind, o.mixes, o.letters) for o in wide]
    same_operator(written, [0.7], wide, narrow)


def test_batches_of_compiled_rotations_are_batches_of_rotations() -> None:
    n, rng = 5, np.random.default_rng(6)
    theta = qd.ParameterVector("t", 12)
    written, found = qd.Circuit(n).x(0), qd.Circuit(n).x(0)
    for angle in theta:
        qubits, letters = sorted(rng.permutation(n)[:3].tolist()), "".join(rng.choice(list("XYZ"), 3))
        written.pauli_rotation(angle, letters[::-1], qubits)
        compiled(found, letters, qubits, angle)
    values = rng.uniform(-2, 2, (6, 12))
    observable = {"Z0 Z1": 1.0, "X2 Y3": 0.5}
    programs = [qd.compile(circuit, dtype="complex128") for circuit in (written, found)]
    wanted, gradients = programs[0].value_and_grad(observable, values)
    value, gradient = programs[1].value_and_grad(observable, values)
    np.testing.assert_allclose(value, wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradient, gradients, rtol=0, atol=1e-12)
    rotations = [
        len(lowered(n, row_operations(c), p.affine, range(12)).rotations) for c, p in zip((written, found), programs)
    ]
    assert rotations == [12, 12]
