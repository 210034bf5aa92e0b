"""Plans for many shards: executed shard by shard they give the circuit's state, with no more exchanges than counted."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import circuits

import qdist as qd
from qdist.native import kernels
from qdist.plan.layout import Layout
from qdist.plan.levels import Level
from qdist.plan.plan import Plan
from qdist.plan.planner import SCHEDULES, make_plan
from qdist.state import reference
from qdist.state.cpu import CpuProgram
from qdist.state.product_start import ProductStart

SINGLE, DOUBLE = np.dtype("complex64"), np.dtype("complex128")


def executed(plan: Plan, circuit: qd.Circuit, initial: np.ndarray | None = None) -> np.ndarray:
    """What the plan of a circuit without parameters makes of |0...0> or of `initial`, all shards in this process."""
    close = plan.num_qubits - plan.far
    places = np.arange(1 << plan.num_qubits)
    angles = circuit.affine()(np.zeros(0))
    state = np.zeros(len(places), plan.dtype)
    if initial is None:
        start = ProductStart(plan)
        start.bind(angles)
        state[:: 1 << close] = [start.value(s) for s in range(1 << plan.far)]
    else:
        state[:] = initial[plan.layout.to_logical(places)]
    layout = plan.layout
    for segment in plan.segments:
        for a, b in segment.swaps:
            differ = (places >> a ^ places >> b) & 1
            state = state[places ^ (differ << a | differ << b)]
            layout = layout.swap(a, b)
        assert layout == segment.layout
        native = CpuProgram(close, plan.dtype, segment.stages, circuit.affine())
        assert native.bind(np.zeros(0))
        for s in range(1 << plan.far):
            native.run(state[s << close : s + 1 << close], s << close)
    return state[layout.to_physical(places)]


@settings(max_examples=60)
@given(circuits(min_qubits=6, max_qubits=8, max_gates=20), st.integers(0, 3), st.sampled_from(SCHEDULES), st.data())
def test_a_plan_executed_in_its_order_gives_the_state_of_the_circuit(
    circuit: qd.Circuit, far: int, schedule: str, data: st.DataObject
) -> None:
    n = circuit.num_qubits
    far = min(far, n - 5)
    lanes = kernels.lane_bits[1]
    levels = [Level("cache", min(n - far, lanes + 2), min(n - far, lanes))]
    plan = make_plan(circuit, DOUBLE, levels, far, schedule=schedule)
    np.testing.assert_allclose(executed(plan, circuit), reference.state(circuit), atol=1e-13)
    start = Layout(data.draw(st.permutations(range(n))))
    given_start = make_plan(circuit, DOUBLE, levels, far, schedule=schedule, start=start)
    assert given_start.layout == start
    assert not given_start.folded
    rng = np.random.default_rng(0)
    initial = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    want = reference.state(circuit, initial=initial)
    np.testing.assert_allclose(executed(given_start, circuit, initial), want, atol=1e-11)


def su2_random(n: int) -> qd.Circuit:
    """EfficientSU2 with all pairs entangled."""
    return qd.library.efficient_su2(n, 3, "full")


# The number of exchanges with 28 of 34 qubits close, on 64 ranks.
EXCHANGES = {
    "ghz": (qd.library.ghz(34), 1),
    "w_state": (qd.library.w_state(34), 1),
    "graph_state": (qd.library.graph_state([(k, (k + 1) % 34) for k in range(34)]), 0),
    "bernstein_vazirani": (qd.library.bernstein_vazirani("01" * 16 + "1"), 0),
    "deutsch_jozsa": (qd.library.deutsch_jozsa(qd.library.parity_oracle("1" * 33)), 1),
    "grover": (qd.library.grover(["10" * 17], iterations=2), 4),
    "qft": (qd.library.qft(34, swaps=False), 1),
    "qft with swaps": (qd.library.qft(34), 1),
    "hardware_efficient": (qd.library.hardware_efficient(34, 8), 5),
    "real_amplitudes": (qd.library.real_amplitudes(34, 3), 3),
    "efficient_su2 full": (su2_random(34), 3),
    "qaoa": (qd.library.qaoa_maxcut([(k, (k + s) % 34) for k in range(34) for s in (1, 5)], 3), 3),
    "ising": (qd.library.tfim_evolution((34,), 1.0, 4), 3),
    "quantum_volume": (qd.library.quantum_volume(34, 10, seed=1), 9),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_no_more_exchanges_than_this_on_64_ranks(name: str) -> None:
    circuit, exchanges = EXCHANGES[name]
    plan = make_plan(circuit, SINGLE, far=6, time_limit=0.3)
    assert plan.exchanges <= exchanges
    assert plan.exchanges <= make_plan(circuit, SINGLE, far=6, schedule="paper").exchanges


PLANNER34 = Path(__file__).parents[3] / "shared" / "circuits" / "planner34"


@pytest.mark.skipif(not PLANNER34.exists(), reason="the circuits that Atlas planned are not beside this checkout")
def test_no_more_exchanges_than_atlas() -> None:
    stages = json.loads((PLANNER34 / "atlas_stages.json").read_text())["stages"]
    for name, count in stages.items():
        (path,) = PLANNER34.glob(f"{name}_*.qasm")
        assert make_plan(qd.Circuit.from_file(path), SINGLE, far=6).exchanges <= count - 1, name
