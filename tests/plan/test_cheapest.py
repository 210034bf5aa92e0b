"""Schedules that cost least of several, by what blocks cost."""

import itertools

import numpy as np
import pytest

import qdist as qd
from qdist.plan import fastest
from qdist.plan.commute import commute
from qdist.plan.fuse import fuse
from qdist.plan.levels import Level
from qdist.plan.operations import Operation, operations
from qdist.plan.planner import make_plan
from qdist.plan.stages import cpu_target as cpu_targets
from qdist.plan.stages.division import cost_of, shares_of, staged, staged_cheaply
from qdist.plan.stages.schedule import Stage, cheapest_schedule, schedule
from qdist.state import reference

COMPLEX64 = np.dtype(np.complex64)
LEVEL = Level("tile", 5, 2)


def random_circuit(n: int, seed: int, gates: int = 60) -> qd.Circuit:
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(n)
    for k in range(gates):
        a, b, c = rng.permutation(n)[:3].tolist()
        angle = float(rng.uniform(-3, 3))
        which = int(rng.integers(6))
        if which == 0:
            circuit.ry(angle, a)
        elif which == 1:
            circuit.u(angle, 0.3, 0.1 * k, a)
        elif which == 2:
            circuit.rzz(angle, a, b)
        elif which == 3:
            circuit.cx(a, b)
        elif which == 4:
            circuit.rxx(angle, a, b)
        else:
            circuit.ccx(a, b, c)
    return circuit


def cost(stages: list[Stage], gates: list[Operation], n: int, work: float) -> float:
    """As the search counts: sweeps of what may be nonzero, and of each operation what its weight is worth."""
    weights = {id(o): 0.01 if not o.mixes else 4.0 ** o.mixes.bit_count() for o in gates}
    shares = shares_of(stages, n, 0)
    return sum(share * (1 + work * sum(weights[id(o)] for o in s.operations)) for share, s in zip(shares, stages))


@pytest.mark.parametrize("seed", range(6))
def test_each_operation_runs_once_where_it_can_and_after_what_it_has_to_wait_for(seed: int) -> None:
    n = 9
    gates = list(operations(random_circuit(n, seed)))
    stages = cheapest_schedule(gates, n, LEVEL, 0, 12, 0.1)
    order = [o for stage in stages for o in stage.operations]
    place = {id(o): k for k, o in enumerate(order)}
    assert sorted(place) == sorted(id(o) for o in gates)
    assert len(order) == len(gates)
    for stage in stages:
        held = sum(1 << p for p in stage.close)
        assert held & 3 == 3
        assert len(stage.close) <= 5
        assert not any(o.mixes & ~held for o in stage.operations)
    for a, b in itertools.combinations(gates, 2):
        if place[id(a)] > place[id(b)]:
            (first,), (second,) = fuse([a]), fuse([b])
            assert commute(first, second)


@pytest.mark.parametrize("work", [0.0, 0.02, 0.1])
def test_more_tries_cost_no_more_and_one_is_the_plain_schedule(work: float) -> None:
    n = 10
    for seed in range(4):
        gates = list(operations(random_circuit(n, seed)))
        costs = [cost(cheapest_schedule(gates, n, LEVEL, 0, tries, work), gates, n, work) for tries in (1, 4, 16)]
        assert costs == sorted(costs, reverse=True)
        assert costs[0] == cost(schedule(gates, n, [LEVEL]), gates, n, work)
        again = cheapest_schedule(gates, n, LEVEL, 0, 16, work)
        assert cost(again, gates, n, work) == costs[-1]


@pytest.mark.parametrize("instructions", ["aarch64", "x86_64_v4"])
def test_more_gates_run_while_the_state_is_small(monkeypatch: pytest.MonkeyPatch, instructions: str) -> None:
    monkeypatch.setattr(cpu_targets, "variant", instructions)
    n, target = 20, cpu_targets.cpu_target(COMPLEX64)
    rng, circuit = np.random.default_rng(3), qd.Circuit(n)
    for _ in range(200):
        a, b = rng.permutation(n)[:2].tolist()
        circuit.ry(0.3, a).cx(a, b)
    gates = list(operations(circuit))
    plain, found = staged(gates, n, target), staged_cheaply(gates, n, target, 0, 16)
    assert cost_of(target, found, n, 0) < 0.95 * cost_of(target, plain, n, 0)
    (segment,) = make_plan(circuit, COMPLEX64, target=target).segments
    assert cost_of(target, segment.stages, n, 0) < 0.95 * cost_of(target, plain, n, 0)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("seed", range(3))
def test_states_and_gradients_of_searched_plans(monkeypatch: pytest.MonkeyPatch, seed: int, dtype: str) -> None:
    n = 13
    circuit = random_circuit(n, seed, gates=80)
    theta = qd.Parameter("t")
    circuit.rx(theta, range(n)).rzz(2 * theta, 0, n - 1).ry(theta, 3)
    monkeypatch.setattr(fastest, "_AMPLITUDES_A_TRY", 1e-3)
    searched: list[int] = []
    search = fastest.staged_cheaply

    def noted(*arguments):
        searched.append(arguments[-1])
        return search(*arguments)

    monkeypatch.setattr(fastest, "staged_cheaply", noted)
    program = qd.Program(circuit, dtype=dtype, device="cpu")
    tolerance = 1e-5 if dtype == "complex64" else 1e-12
    np.testing.assert_allclose(program.run([0.4]).amplitudes(), reference.state(circuit, [0.4]), atol=tolerance)
    observable = qd.PauliSum({f"Z0 X{n - 1}": 0.7, "Y5": 1.0, "Z3 Z4": -0.3})
    value, gradient = program.value_and_grad(observable, [0.4])
    assert searched
    assert set(searched) == {16}
    step = 1e-4
    values = [reference.expectation(circuit, observable, [0.4 + d]) for d in (-step, 0.0, step)]
    assert value == pytest.approx(values[1], abs=10 * tolerance)
    assert gradient[0] == pytest.approx((values[2] - values[0]) / (2 * step), abs=max(1e-6, 10 * tolerance))


def test_short_runs_are_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastest, "staged_cheaply", None)
    make_plan(random_circuit(14, 0), COMPLEX64, target=cpu_targets.cpu_target(COMPLEX64))
