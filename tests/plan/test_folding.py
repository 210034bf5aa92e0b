"""CX gates and phases that alternate: phases of parities, and what is left of the CX gates."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from test_joined_pairs import same_operator

import qdist as qd
from qdist.plan.operations import operations
from qdist.plan.rewrites.folding import with_phases_folded
from qdist.state import reference


def toffoli(circuit: qd.Circuit, x: int, y: int, z: int) -> None:
    """As compilers write it."""
    circuit.h(z).cx(y, z).tdg(z).cx(x, z).t(z).cx(y, z).tdg(z).cx(x, z).t(y).t(z).h(z)
    circuit.cx(x, y).t(x).tdg(y).cx(x, y)


def random_circuit(n: int, length: int, seed: int) -> tuple[qd.Circuit, np.ndarray]:
    """CX, X, SWAP and phases of one and two qubits, on few qubits for a while, with H between now and then."""
    rng = np.random.default_rng(seed)
    theta = qd.ParameterVector("t", 3)
    circuit = qd.Circuit(n).h(range(n))
    for _ in range(length):
        a, b, c = rng.permutation(n)[:3].tolist()
        angle = theta[int(rng.integers(3))] * float(rng.normal()) + float(rng.normal())
        match rng.integers(12):
            case 0:
                circuit.h(a)
            case 1:
                circuit.x(a)
            case 2:
                circuit.swap(a, b)
            case 3:
                circuit.cz(a, b)
            case 4:
                circuit.cp(angle, a, b)
            case 5:
                circuit.rzz(angle, a, b)
            case 6:
                circuit.append(qd.circuit.GATES["x"].controlled(1, 0), [a, b])
            case 7:
                toffoli(circuit, a, b, c)
            case 8 | 9:
                circuit.rz(angle, a).t(b)
            case _:
                circuit.cx(a, b).p(angle, b).cx(a, c)
    circuit.rx(theta[0] + theta[1] + theta[2], 0)
    return circuit, rng.uniform(-2, 2, 3)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_same_operator(seed: int) -> None:
    n = 4 + seed % 2
    circuit, values = random_circuit(n, 30, seed)
    before = list(operations(circuit))
    after = with_phases_folded(before)
    assert after != before
    same_operator(circuit, values, before, after)
    assert {s for o in after for s in o.reads} <= {s for o in before for s in o.reads}


def test_a_toffoli_gate_is_one_phase_between_two_h() -> None:
    circuit = qd.Circuit(3)
    toffoli(circuit, 0, 1, 2)
    first, phases, second, rest = with_phases_folded(list(operations(circuit)))
    assert (first.kind, phases.kind, second.kind, rest.kind) == ("dense", "diagonal", "dense", "diagonal")
    ((conditions, (angle, slots)),) = phases.wide
    assert sorted(conditions) == [(0, 1), (1, 1), (2, 1)]
    assert angle == pytest.approx(np.pi)
    assert not slots
    assert not rest.wide


def test_an_adder_of_compiled_toffoli_gates_has_few_blocks() -> None:
    n = 12
    gates, compiled = qd.Circuit(n).h(range(n)), qd.Circuit(n).h(range(n))
    for k in range(0, n - 2):
        gates.ccx(k, k + 1, k + 2)
        toffoli(compiled, k, k + 1, k + 2)
    found = qd.Program(compiled).plan.blocks
    assert len(found) <= 4 * (n - 2) + 4
    assert not any(block.kind == "linear" for block in found)
    np.testing.assert_allclose(
        qd.Program(compiled, dtype="complex128").run().amplitudes(), reference.state(gates), atol=1e-12
    )


def test_parities_of_many_bits_stay_as_they_are() -> None:
    circuit = qd.Circuit(6)
    for q in range(5):
        circuit.cx(q, q + 1)
    circuit.rz(0.3, 5)
    for q in reversed(range(5)):
        circuit.cx(q, q + 1)
    gates = list(operations(circuit))
    assert with_phases_folded(gates) == gates


def test_what_does_not_alternate_stays_as_it_is() -> None:
    circuit = qd.Circuit(4).rz(0.1, range(4)).cx(0, 1).cx(2, 3).rz(0.2, range(4)).ry(0.1, range(4)).cx(1, 2).rz(0.3, 2)
    gates = list(operations(circuit))
    assert with_phases_folded(gates) == gates


OBSERVABLE = qd.PauliSum({"Z0 X12": 0.7, "Y5": 1.0, "X3 Z4": -0.3})


@cache
def expected(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """State and gradient of a circuit on 13 qubits, for both dtypes."""
    circuit, values = random_circuit(13, 120, seed)
    return reference.state(circuit, values), reference.gradient(circuit, OBSERVABLE, values)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=pytest.mark.thorough) for k in range(3, 6))])
def test_states_and_gradients(seed: int, dtype: str, device: str) -> None:
    circuit, values = random_circuit(13, 120, seed)
    program = qd.Program(circuit, dtype=dtype, device=device)
    tolerance = 1e-5 if dtype == "complex64" else 1e-12
    state, derivatives = expected(seed)
    np.testing.assert_allclose(program.run(values).amplitudes(), state, atol=tolerance)
    _, gradient = program.value_and_grad(OBSERVABLE, values)
    np.testing.assert_allclose(gradient, derivatives, atol=30 * tolerance)
