"""A plan says how observables are computed where it ends: groups of strings, exchanges, what flips too many qubits."""

import numpy as np

import qdist as qd
from qdist.plan.layout import Layout
from qdist.plan.observables.plan import plan_observables
from qdist.plan.planner import make_plan


def test_a_plan_knows_the_layouts_of_observables() -> None:
    n, far = 8, 2
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.h(q)
    for q in range(n - 1):
        circuit.cx(q, q + 1)
    plan = make_plan(circuit, np.dtype("complex64"), far=far)
    end = plan.segments[-1].layout
    close = [q for q in range(n) if end.positions[q] < n - far]
    away = [q for q in range(n) if end.positions[q] >= n - far]
    sums = [qd.PauliSum({f"X{close[0]} Z{away[0]}": 2.0, f"X{away[1]}": 1.0}), qd.PauliSum({"X" * n: 0.5})]
    found = plan.observables(sums)
    assert found.groups[0].layout == end
    assert found.strings[0].x.tolist() == [1 << end.positions[close[0]]]
    assert len(found.groups) == 2
    for group, part in zip(found.groups, found.strings):
        assert all(int(x) >> plan.shard_bits == 0 for x in part.x), group
    assert found.wide.x.tolist() == [(1 << n) - 1]
    assert found.wide.observable.tolist() == [1]
    assert found.exchanges == 2


def test_multiples_of_the_identity_are_left_out_on_request_unless_there_is_nothing_else() -> None:
    sums = [qd.PauliSum({"Z0": 2.0, "I": 3.0}), qd.PauliSum({"I": 1.5})]
    whole = plan_observables(sums, Layout.identity(2), 2)
    assert (len(whole.strings[0].x), whole.constants.tolist()) == (3, [0, 0])
    without = plan_observables(sums, Layout.identity(2), 2, traceless=True)
    assert (without.strings[0].z.tolist(), without.constants.tolist()) == ([1], [3.0, 1.5])
    alone = plan_observables(sums[1:], Layout.identity(2), 2, traceless=True)
    assert (len(alone.strings[0].x), alone.constants.tolist()) == (1, [0])
    assert whole.exchanges == 0
