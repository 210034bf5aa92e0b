"""Phases of pi between matrices of one qubit: X gates under conditions."""

from __future__ import annotations

import numpy as np
import pytest
from test_folding import toffoli
from test_joined_pairs import product, same_operator

import qdist as qd
from qdist.plan.operations import operations
from qdist.plan.planner import make_plan
from qdist.plan.rewrites.folding import with_phases_folded
from qdist.plan.rewrites.phases import with_phases_gathered
from qdist.plan.rewrites.reflections import with_reflections
from qdist.state import reference

TURNED = np.array([[1, 1j], [1, -1j]]) * np.exp(0.4j) / np.sqrt(2)
"""Turns Z into the plane of X and Y, by an angle of its own."""


def random_circuit(n: int, length: int, seed: int) -> qd.Circuit:
    """Matrices and phases of which many are those that are looked for, and what ends a row of them."""
    rng = np.random.default_rng(seed)
    theta = qd.ParameterVector("t", 2)
    circuit = qd.Circuit(n)
    for _ in range(length):
        a, b, c = rng.permutation(n)[:3].tolist()
        match rng.integers(16):
            case 0 | 1 | 2 | 3:
                circuit.h(a)
            case 4:
                circuit.sx(a)
            case 5:
                circuit.unitary(TURNED, [a])
            case 6:
                circuit.unitary(TURNED.conj().T, [a])
            case 7 | 8 | 9:
                circuit.cz(a, b)
            case 10:
                circuit.append(qd.circuit.GATES["z"].controlled(2, int(rng.integers(4))), [a, b, c])
            case 11:
                circuit.t(a).s(b)
            case 12:
                circuit.z(a).x(b)
            case 13:
                circuit.cx(a, b)
            case 14:
                circuit.rzz(theta[0], a, b)
            case _:
                circuit.ry(theta[1], a)
    return circuit


@pytest.mark.parametrize("seed", range(60))
def test_it_is_the_same_operator(seed: int) -> None:
    n = 3 + seed % 2
    circuit, values = random_circuit(n, 40, seed), np.array([0.7, -1.1])
    before = list(operations(circuit))
    after = with_reflections(before)
    same_operator(circuit, values[: circuit.num_parameters], before, after)


def test_random_circuits_have_some() -> None:
    def mixing(seed: int) -> tuple[int, int]:
        before = list(operations(random_circuit(4, 40, seed)))
        return tuple(
            sum(o.kind == "dense" and not o.controls for o in some) for some in (before, with_reflections(before))
        )

    assert sum(after < before for before, after in map(mixing, range(40))) > 20


def test_a_toffoli_gate_of_six_cx_is_one_x_under_two_conditions() -> None:
    circuit = qd.Circuit(3)
    toffoli(circuit, 0, 1, 2)
    (found,) = with_phases_gathered(with_reflections(with_phases_folded(list(operations(circuit)))))
    assert found.targets == (2,)
    assert sorted(found.controls) == [(0, 1), (1, 1)]
    assert np.allclose(found.matrix, [[0, 1], [1, 0]])


def test_h_cz_h_is_cx() -> None:
    circuit = qd.Circuit(2).h(1).cz(0, 1).h(1)
    (found,) = with_reflections(list(operations(circuit)))
    assert (found.kind, found.targets, found.controls) == ("flip", (1,), ((0, 1),))


def test_of_two_qubits_between_h_one_is_the_target() -> None:
    circuit = qd.Circuit(2).h(0).h(1).cz(0, 1).h(1).h(0)
    found = with_reflections(list(operations(circuit)))
    assert [o.kind for o in found] == ["dense", "flip", "dense"]
    np.testing.assert_allclose(
        product(found, 2, np.zeros(0)), product(list(operations(circuit)), 2, np.zeros(0)), atol=1e-12
    )


def test_rows_of_matrices_are_one() -> None:
    """H as hardware has it, and CZ beside it."""
    circuit = qd.Circuit(2)
    for _ in range(2):
        circuit.rz(np.pi / 2, 1).sx(1).rz(np.pi / 2, 1)
        circuit.cz(0, 1)
    circuit.rz(np.pi / 2, 1).sx(1).rz(np.pi, 1).sx(1).sx(1).rz(np.pi / 2, 1)
    before = list(operations(circuit))
    after = with_reflections(before)
    assert sum(o.kind == "dense" for o in after) < sum(o.kind == "dense" for o in before)
    np.testing.assert_allclose(product(after, 2, np.zeros(0)), product(before, 2, np.zeros(0)), atol=1e-12)


def test_phases_of_other_angles_stay() -> None:
    others = qd.Circuit(2).h(1).cs(0, 1).h(1), qd.Circuit(1).h(0).t(0).h(0), qd.Circuit(2).h(1).cp(0.3, 0, 1).h(1)
    for circuit in others:
        before = list(operations(circuit))
        assert with_reflections(before) == before


def test_an_adder_of_compiled_toffoli_gates_is_planned_as_one_of_toffoli_gates() -> None:
    n = 12
    gates, compiled = qd.Circuit(n).h(range(n)), qd.Circuit(n).h(range(n))
    for k in range(0, n - 2, 2):
        gates.ccx(k, k + 1, k + 2)
        toffoli(compiled, k, k + 1, k + 2)
    one, other = (make_plan(c, np.dtype(np.complex64)) for c in (gates, compiled))
    assert len(other.blocks) == len(one.blocks)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_states_are_those_of_the_reference(seed: int, dtype: str, device: str) -> None:
    circuit, values = random_circuit(7, 80, seed), np.array([0.7, -1.1])
    values = values[: circuit.num_parameters]
    found = qd.Program(circuit, dtype=dtype, device=device).run(values).amplitudes()
    expected = reference.state(circuit, values)
    np.testing.assert_allclose(found, expected, atol=2e-6 if dtype == "complex64" else 1e-12)
