"""How far angles spread a state, and which precision gradients take by that."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import qdist as qd
from qdist.backends.cpu import backend as cpu
from qdist.backends.spread import Spread
from qdist.plan import precision
from qdist.plan.planner import make_plan
from qdist.plan.stages.cpu_target import cpu_target
from qdist.plan.stages.target import Target
from qdist.program.runner import Runner

C64 = np.dtype("complex64")


def target() -> Target:
    """Of a CPU that has matrices where a GPU has them, so that phases and rotations of two qubits are one."""
    return replace(cpu_target(C64), parities=0, joins_phases=True)


def trotter(n: int, steps: int) -> qd.Circuit:
    theta = iter(qd.ParameterVector("t", 4 * steps))
    circuit = qd.Circuit(n).x(range(0, n, 2))
    for x, y, z, field in zip(theta, theta, theta, theta):
        for q in [*range(0, n - 1, 2), *range(1, n - 1, 2)]:
            circuit.rxx(x, q, q + 1).ryy(y, q, q + 1).rzz(z, q, q + 1)
        circuit.rz(field, range(n))
    return circuit


def probability(circuit: qd.Circuit, params: object, least: float = 0.0) -> float:
    return Spread(make_plan(circuit, C64, target=target())).probability(circuit.affine()(params), least)


def test_the_most_probable_path_of_gates_that_do_not_meet_ends_in_the_most_probable_state() -> None:
    t = qd.ParameterVector("t", 9)
    circuit = qd.Circuit(6).x(0).cx(0, 5).swap(0, 3).x(1)
    circuit.rxx(t[0], 0, 1).ryy(t[1], 0, 1).rzz(t[2], 0, 1).rz(t[3], 0)
    circuit.ry(t[4], 2).rx(t[5], 2).rxx(t[6], 5, 3).rz(t[7], 3).rzz(t[8], 2, 4)
    for seed in range(6):
        params = np.random.default_rng(seed).uniform(-3, 3, 9)
        # X, then Y of a qubit are one matrix, as all gates of a pair are.
        amplitudes = qd.simulate(circuit, params, dtype="complex128", device="cpu").amplitudes()
        assert probability(circuit, params) == pytest.approx(np.abs(amplitudes).max() ** 2)


@pytest.mark.parametrize("flips", [0.0, np.pi])
def test_it_is_one_where_gates_move_basis_states_and_falls_with_each_that_does_not(flips: float) -> None:
    circuit = trotter(8, 3)
    params = np.array([flips, 0, 0.7, 0.9] * 3)
    assert probability(circuit, params) == pytest.approx(1)
    # 21 pairs, each turned by 0.2 more, and the basis state is followed where it went.
    off = params + np.array([0.2, 0, 0, 0] * 3)
    assert probability(circuit, off) == pytest.approx(np.cos(0.1) ** 42)
    assert probability(circuit, off, least=0.9) < 0.9


def test_large_angles_that_cancel_in_a_matrix_spread_nothing() -> None:
    """RXX and RYY turn 01 and 10 by the sum of their angles, 00 and 11 by the difference."""
    circuit, opposite, equal = trotter(8, 3), (0.8, -0.8, 0.7, 0.9), (0.8, 0.8, 0.7, 0.9)
    assert probability(circuit, np.tile(opposite, 3)) == pytest.approx(1)
    assert probability(circuit, np.tile(equal, 3)) < 0.01


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> qd.Program:
    """Of a circuit whose gradients take the precision that angles ask for."""
    monkeypatch.setattr(Target, "chooses_numbers", lambda self, block: block.keeps_parity)
    monkeypatch.setattr(cpu, "cpu_target", lambda dtype: target())
    monkeypatch.setattr(precision, "_FEWEST_QUBITS", 16)
    return qd.compile(trotter(16, 10), device="cpu")


def test_gradients_take_the_precision_that_the_angles_ask_for(
    program: qd.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    energy, found = qd.library.heisenberg_xxz(16), []
    assert "gradients computed in double unless angles spread the state" in program.plan.summary()
    ran = Runner.evolved
    monkeypatch.setattr(
        Runner, "evolved", lambda self, *given, **names: found.append(self) or ran(self, *given, **names)
    )
    double = qd.compile(program.circuit, dtype="complex128", device="cpu")
    large, small = (np.random.default_rng(1).uniform(-size, size, 40) for size in (2.0, 0.05))
    for params, in_double in ((large, False), (small, True), (large, False)):
        got, want = (which.value_and_grad(energy, params) for which in (program, double))
        assert found[-2].plan.in_double == in_double
        assert np.linalg.norm(got[1] - want[1]) < 1e-5 * np.linalg.norm(want[1])
        assert got[0] == pytest.approx(want[0], abs=1e-5)
        # What a thread has bound counts, where no values are given.
        assert program.for_gradients_at(None).plan.in_double == in_double
    wrong = np.where(np.arange(40) == 7, np.nan, large)
    with pytest.raises(qd.CircuitError, match=r"t\[7\]"):
        program.value_and_grad(energy, wrong)


def test_threads_decide_by_values_of_their_own(program: qd.Program) -> None:
    rows = np.random.default_rng(2).uniform(-1, 1, (8, 40)) * np.array([0.05, 2.0] * 4)[:, None]
    with ThreadPoolExecutor(4) as threads:
        chosen = list(threads.map(lambda row: program.for_gradients_at(row), rows))
    assert [runner.plan.in_double for runner in chosen] == [True, False] * 4
    assert len(set(map(id, chosen))) == 2


def test_angles_decide_nothing_where_weights_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "chooses_numbers", lambda self, block: block.keeps_parity)

    def decide(circuit: qd.Circuit, dtype: str = "complex64") -> tuple[bool, bool]:
        plan = make_plan(circuit, np.dtype(dtype), target=target())
        return plan.gradients_in_double, plan.angles_decide

    assert decide(trotter(22, 10)) == (True, True)
    assert decide(trotter(22, 14)) == (True, False)
    assert decide(trotter(22, 4)) == (False, False)
    assert decide(trotter(20, 10)) == (True, False)
    assert decide(trotter(22, 10), "complex128") == (True, False)
    assert decide(trotter(22, 10).bind(np.ones(40))) == (False, False)
    # Controlled rotations are not followed.
    assert decide(trotter(22, 10).crx(0.3, 0, 1)) == (True, False)
