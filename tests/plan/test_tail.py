"""Plans without their last sweeps that only move amplitudes."""

import numpy as np

import qdist as qd
from qdist.plan.levels import Level
from qdist.plan.planner import make_plan
from qdist.plan.tail import without_tail

TILES = [Level("cache", 4, 2)]


def plan_of(circuit: qd.Circuit, far: int = 0) -> qd.plan.plan.Plan:
    return make_plan(circuit, np.dtype(np.complex64), TILES, far)


def test_the_last_sweeps_and_blocks_and_their_gates_go() -> None:
    circuit = qd.library.hardware_efficient(8, 1).cx(0, 5).x(6).swap(3, 7).cx(5, 7)
    plan = plan_of(circuit)
    short, gates = without_tail(plan)
    assert 0 < short.sweeps < plan.sweeps
    stage, blocks = short.segments[-1].stages[-1]
    assert blocks[-1].kind != "linear"
    assert stage.operations == [o for block in blocks for o in block.operations]
    operations = [sum(len(s.operations) for segment in p.segments for s, _ in segment.stages) for p in (plan, short)]
    assert operations[0] - operations[1] == len(gates) > 0
    assert {o.kind for o in gates} <= {"flip", "swap"}
    # The plan itself is left alone.
    assert plan.sweeps == plan_of(circuit).sweeps


def test_an_exchange_for_nothing_else_goes_too() -> None:
    plan = plan_of(qd.library.hardware_efficient(10, 1), far=2)
    short, gates = without_tail(plan)
    assert (plan.exchanges, short.exchanges) == (1, 0)
    # On qubits, wherever the exchange had put them.
    assert all((o.kind, len(o.controls)) == ("flip", 1) and o.targets[0] == o.controls[0][0] + 1 for o in gates)


def test_every_exchange_before_other_gates_stays() -> None:
    for order in ((6, 7, 6), (7, 6), (7, 6, 7, 6), (6, 7, 7, 6)):
        circuit = qd.Circuit(8)
        # Far qubits come close and go back again, one after the other.
        for q in order:
            circuit.h(q).cz(0, q)
        circuit.rx(0.3, 6).ry(0.4, 7).cx(6, 7).cx(7, 5)
        plan = make_plan(circuit, np.dtype(np.complex64), TILES, 2, schedule="in-order")
        assert any(not segment.stages for segment in plan.segments[1:-1])
        short, gates = without_tail(plan)
        assert gates
        at = list(short.layout.qubits)
        for segment in short.segments:
            for a, b in segment.swaps:
                at[a], at[b] = at[b], at[a]
            assert tuple(at) == tuple(segment.layout.qubits)


def test_other_plans_stay_as_they_are() -> None:
    chain = qd.Circuit(8)
    for q in range(7):
        chain.cx(q, q + 1)
    for circuit in (qd.Circuit(3), chain.copy().ry(0.3, 7), chain.copy().measure_all()):
        plan = plan_of(circuit)
        assert without_tail(plan) == (plan, ())
    # Of a plan that only moves amplitudes one block stays.
    assert len(without_tail(plan_of(chain))[0].blocks) == 1
