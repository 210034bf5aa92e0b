"""Fewer CX gates: the same state, and as few as a chain where all pairs amount to one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qdist as qd
from qdist.plan.network.cnots import fewer_cnots
from qdist.plan.operations import Operation, operations
from qdist.state import reference


def effect(ops: list[Operation], n: int) -> np.ndarray:
    """The state that CX, Hadamard and T gates make of a product state."""
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.ry(0.3 + 0.2 * q, q)
    for o in ops:
        if o.kind == "flip":
            circuit.cx(o.controls[0][0], o.targets[0])
        elif o.kind == "dense":
            circuit.h(o.targets[0])
        else:
            circuit.t(o.z_like.bit_length() - 1)
    return reference.state(circuit)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 3)), max_size=60))
def test_the_effect_stays_and_gates_do_not_grow(gates: list[tuple[int, int, int]]) -> None:
    n = 5
    circuit = qd.Circuit(n)
    for kind, q, other in gates:
        if kind == 0:
            circuit.h(q)
        elif kind == 1:
            circuit.t(q)
        else:
            circuit.cx(q, (q + 1 + other) % n)
    ops = list(operations(circuit))
    fewer = fewer_cnots(ops)
    assert len(fewer) <= len(ops)
    np.testing.assert_allclose(effect(fewer, n), effect(ops, n), atol=1e-13)


@pytest.mark.parametrize("n", [3, 6, 34])
def test_all_pairs_in_order_are_a_chain(n: int) -> None:
    circuit = qd.Circuit(n)
    for a in range(n):
        for b in range(a + 1, n):
            circuit.cx(a, b)
    found = [(o.controls[0][0], o.targets[0]) for o in fewer_cnots(list(operations(circuit)))]
    if n == 3:
        # Three gates on three qubits are left alone.
        assert found == [(0, 1), (0, 2), (1, 2)]
    else:
        assert found == [(k - 1, k) for k in reversed(range(1, n))]


def test_rotations_between_keep_layers_apart() -> None:
    ops = list(operations(qd.library.efficient_su2(8, 3, "full")))
    fewer = fewer_cnots(ops)
    assert sum(o.kind == "flip" for o in fewer) == 3 * 7
    assert sum(o.kind != "flip" for o in fewer) == sum(o.kind != "flip" for o in ops)


def test_chains_and_rings_are_left_alone() -> None:
    for entanglement in ("linear", "circular"):
        ops = list(operations(qd.library.hardware_efficient(7, 3, entanglement=entanglement)))
        assert fewer_cnots(ops) == ops
