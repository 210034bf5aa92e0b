"""CX, phases, CX, and X, phases, X: phases that are the same as the gates and leave no CX and no X behind."""

import random

import numpy as np
import pytest

import qdist as qd
from qdist.plan.operations import operations
from qdist.plan.rewrites.sandwiches import without_sandwiches
from qdist.program.adjoint import sweep_back
from qdist.state import reference


def left(circuit: qd.Circuit) -> list[str]:
    return [o.kind for o in without_sandwiches(list(operations(circuit)))]


@pytest.mark.parametrize(
    ("circuit", "kinds"),
    [
        (lambda c: c.cx(0, 1).rz(0.1, 1).cx(0, 1), ["diagonal"]),
        (lambda c: c.cx(0, 1).p(0.1, 1).cp(0.3, 0, 1).cz(0, 2).cx(0, 1), ["diagonal"] * 3),
        (lambda c: c.cx(0, 1).h(2).cx(0, 2).t(1).cx(0, 1), ["dense", "flip", "diagonal"]),
        (lambda c: c.cx(0, 1).cx(0, 1), []),
        # What is between does not commute with the control, is no phase of the target, or has a third qubit's bit.
        (lambda c: c.cx(0, 1).rz(0.1, 1).h(0).cx(0, 1), ["flip", "diagonal", "dense", "flip"]),
        (lambda c: c.cx(0, 1).h(1).cx(0, 1), ["flip", "dense", "flip"]),
        (lambda c: c.cx(0, 1).cz(1, 2).cx(0, 1), ["flip", "diagonal", "flip"]),
        (lambda c: c.cx(0, 1).cx(2, 1).cx(0, 1), ["flip"] * 3),
        (lambda c: c.cx(0, 1).cx(1, 0).cx(0, 1), ["flip"] * 3),
        (lambda c: c.cx(0, 1).rz(0.1, 1).cx(1, 2).cx(0, 1), ["flip", "diagonal", "flip", "flip"]),
        (lambda c: c.x(1).rz(0.1, 1).cz(1, 2).mcp(0.3, [0, 1], 2).x(1), ["diagonal"] * 3),
        (lambda c: c.x(1).x(1), []),
        (lambda c: c.x(1).h(2).t(1).x(1), ["dense", "diagonal"]),
        (lambda c: c.x(1).h(1).x(1), ["flip", "dense", "flip"]),
        (lambda c: c.x(1).cx(1, 0).x(1), ["flip"] * 3),
    ],
)
def test_which_pairs_of_cx_go(circuit, kinds: list[str]) -> None:
    assert left(circuit(qd.Circuit(3))) == kinds


def test_a_feature_map_is_one_block_of_phases_a_layer() -> None:
    circuit = qd.Circuit(10)
    for _ in range(2):
        circuit.h(range(10)).p(0.3, range(10))
        for b in range(10):
            for a in range(b):
                circuit.cx(a, b).p(0.1 * (a + b), b).cx(a, b)
    plan = qd.Program(circuit, device="cpu").plan
    kinds = [block.kind for block in plan.blocks]
    assert kinds.count("diagonal") == 2
    assert set(kinds) == {"dense", "diagonal"}


def random_circuit(seed: int, n: int = 5) -> qd.Circuit:
    """Mostly CX on few pairs with phases between, so that many of them can go."""
    rng = random.Random(seed)
    theta = qd.ParameterVector("t", 4)
    circuit = qd.Circuit(n).h(range(n))
    pairs = [rng.sample(range(n), 2) for _ in range(3)]
    for _ in range(40):
        (a, b), c = rng.choice(pairs), rng.randrange(n)
        angle = rng.choice([0.4, 2 * theta[rng.randrange(4)] + 0.1])
        match rng.randrange(14):
            case 10 | 11:
                circuit.x(b)
            case 12:
                d, e, f = rng.sample(range(n), 3)
                circuit.mcp(angle, [d, e], f, ctrl_state=rng.randrange(4))
            case 13:
                circuit.diagonal([1j ** (k**3 % 7 / 2) for k in range(16)], rng.sample(range(n), 4))
            case 0:
                circuit.rz(angle, b)
            case 1:
                circuit.p(angle, b)
            case 2:
                circuit.rzz(angle, a, b)
            case 3:
                circuit.cp(angle, a, c if c != a else b)
            case 4:
                circuit.rx(angle, c)
            case _:
                circuit.cx(a, b)
    return circuit


@pytest.mark.parametrize("seed", range(20))
def test_states_and_gradients_stay_the_same(seed: int) -> None:
    circuit = random_circuit(seed)
    assert len(left(circuit)) < len(list(operations(circuit)))
    values = np.random.default_rng(seed).uniform(-3, 3, circuit.num_parameters)
    program = qd.Program(circuit, dtype="complex128", device="cpu")
    ket = program.run(values)
    np.testing.assert_allclose(ket.amplitudes(), reference.state(circuit, values), atol=1e-13)
    observable = qd.PauliSum({"X0 Z1": 1.0, "Y2": 0.7, "X3 X4": -0.4})
    gradient = program.affine.transposed(sweep_back(program, ket, ket.apply_pauli_sum(observable)))
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, values), atol=1e-12)
