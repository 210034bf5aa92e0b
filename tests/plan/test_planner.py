"""Plans for many shards: executed shard by shard they give the circuit's state, with no more exchanges than counted."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import circuits

import qdist as qd
from qdist.backends.cpu.executor import CpuExecutor
from qdist.circuit import GATES, CircuitError
from qdist.native import kernels
from qdist.plan.cost import Cluster, Machine
from qdist.plan.layout import Layout
from qdist.plan.levels import Level, inside_bits
from qdist.plan.plan import Plan
from qdist.plan.planner import SCHEDULES, make_plan
from qdist.program.product_start import ProductStart
from qdist.state import reference

SINGLE, DOUBLE = np.dtype("complex64"), np.dtype("complex128")
CLUSTER = Cluster(Machine(1e12, 1e13, 1e13), inside=1e11, between=1e10, latency=1e-6)
FAR_NODES = replace(CLUSTER, between=1e6)


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
        native = CpuExecutor(close, plan.dtype, segment.stages, circuit.affine())
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
    inside = data.draw(st.integers(0, far))
    # Where nodes are far from each other, exchanges inside them are preferred.
    plan = make_plan(circuit, DOUBLE, levels, far, inside=inside, schedule=schedule, cluster=FAR_NODES)
    np.testing.assert_allclose(executed(plan, circuit), reference.state(circuit), atol=1e-13)
    start = Layout(data.draw(st.permutations(range(n))))
    given_start = make_plan(
        circuit, DOUBLE, levels, far, inside=inside, schedule=schedule, start=start, cluster=FAR_NODES
    )
    assert given_start.layout == start
    assert not given_start.folded
    rng = np.random.default_rng(0)
    initial = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    want = reference.state(circuit, initial=initial)
    np.testing.assert_allclose(executed(given_start, circuit, initial), want, atol=1e-11)


@pytest.mark.parametrize("name", ["x", "y", "sx", "h", "s"])
def test_first_gates_on_far_qubits_are_absorbed_once(name: str) -> None:
    circuit = qd.Circuit(8)
    for q in range(8):
        circuit.append(GATES[name], [q]).ry(0.3 + q, q)
    for q in range(7):
        circuit.cx(q, q + 1)
    bits = kernels.lane_bits[1]
    plan = make_plan(circuit, DOUBLE, [Level("cache", min(5, bits + 2), min(5, bits))], 3)
    assert len(plan.folded) == 3
    np.testing.assert_allclose(executed(plan, circuit), reference.state(circuit), atol=1e-13)


def test_first_gates_of_every_kind_and_gates_that_cancel() -> None:
    # One-qubit gates on all qubits; rotations with identities, which act on one qubit of several; CX that cancel.
    circuit = qd.Circuit(9).gphase(0.3)
    for q in range(9):
        circuit.append(GATES[["h", "x", "y", "sx", "s", "t", "z", "sxdg", "h"][q]], [q])
        circuit.rx(0.1 * q, q).u(0.2, 0.3 * q, 0.4, q).rz(0.5, q).pauli_rotation(0.7, "X", [q])
    circuit.pauli_rotation(0.3, "XI", [8, 0]).pauli_rotation(0.4, "IZ", [7, 1])
    for _ in range(4):
        circuit.cx(0, 8)
    circuit.rxx(0.3, 6, 7).rxx(0.2, 7, 8).rxx(0.2, 0, 8).rxx(0.2, 1, 5).rxx(0.4, 2, 3).rxx(0.4, 3, 4)
    for schedule in SCHEDULES:
        plan = make_plan(circuit, DOUBLE, far=4, schedule=schedule)
        assert bool(plan.folded) == (schedule == "lazy")
        np.testing.assert_allclose(executed(plan, circuit), reference.state(circuit), atol=1e-13)
    nothing = qd.Circuit(9).h(8)
    for _ in range(4):
        nothing.cx(0, 8)
    plan = make_plan(nothing, DOUBLE, far=4)
    assert plan.exchanges == 0
    np.testing.assert_allclose(executed(plan, nothing), reference.state(nothing), atol=1e-13)


# Exchanges with 28 of 34 qubits close, on 64 ranks.
EXCHANGES: dict[str, tuple[Callable[[], qd.Circuit], int]] = {
    "ghz": (lambda: qd.library.ghz(34), 1),
    "w_state": (lambda: qd.library.w_state(34), 1),
    "graph_state": (lambda: qd.library.graph_state([(k, (k + 1) % 34) for k in range(34)]), 0),
    "bernstein_vazirani": (lambda: qd.library.bernstein_vazirani("01" * 16 + "1"), 0),
    "deutsch_jozsa": (lambda: qd.library.deutsch_jozsa(qd.library.parity_oracle("1" * 33)), 1),
    "grover": (lambda: qd.library.grover(["10" * 17], iterations=2), 4),
    "qft": (lambda: qd.library.qft(34, swaps=False), 1),
    "qft with swaps": (lambda: qd.library.qft(34), 1),
    "hardware_efficient": (lambda: qd.library.hardware_efficient(34, 8), 1),
    "real_amplitudes": (lambda: qd.library.real_amplitudes(34, 3), 1),
    "efficient_su2 full": (lambda: qd.library.efficient_su2(34, 3, "full"), 1),
    "strongly_entangling": (lambda: qd.library.strongly_entangling_layers(34, 4), 3),
    "qaoa": (lambda: qd.library.qaoa_maxcut([(k, (k + s) % 34) for k in range(34) for s in (1, 5)], 3), 1),
    "ising": (lambda: qd.library.tfim_evolution(34, 1.0, 4), 1),
    "quantum_volume": (lambda: qd.library.quantum_volume(34, 10, seed=1), 3),
    "random": (lambda: qd.library.random_circuit(34, 20, seed=1), 3),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_no_more_exchanges_than_this_on_64_ranks(name: str) -> None:
    make, exchanges = EXCHANGES[name]
    plan = make_plan(make(), SINGLE, far=6, time_limit=0.1)
    assert plan.exchanges <= exchanges
    assert plan.exchanges <= make_plan(make(), SINGLE, far=6, schedule="paper").exchanges


PLANNER34 = Path(__file__).parents[3] / "shared" / "circuits" / "planner34"


@pytest.mark.skipif(not PLANNER34.exists(), reason="the circuits that Atlas planned are not beside this checkout")
def test_no_more_exchanges_than_atlas() -> None:
    stages = json.loads((PLANNER34 / "atlas_stages.json").read_text())["stages"]
    for name, count in stages.items():
        (path,) = PLANNER34.glob(f"{name}_*.qasm")
        assert make_plan(qd.Circuit.from_file(path), SINGLE, far=6).exchanges <= count - 1, name


FORTY_TWO = {
    "hardware_efficient": (lambda: qd.library.hardware_efficient(42, 8), 1),
    "qft": (lambda: qd.library.qft(42), 1),
    "quantum_volume": (lambda: qd.library.quantum_volume(42, 10, seed=1), 4),
    "layers": (lambda: qd.library.hardware_efficient(42, 20), 3),
    # Ten thousand gates.
    "deep": (lambda: qd.library.hardware_efficient(42, 80), 10),
}


# Four times the layers take four times as long to plan, in the same way.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name == "deep")) for name in FORTY_TWO]
)
def test_42_qubits_on_16384_ranks_are_planned_and_costed(name: str) -> None:
    make, exchanges = FORTY_TWO[name]
    circuit = make()
    plan = make_plan(circuit, SINGLE, far=14, time_limit=0.2)
    assert plan.exchanges == len(plan.segments) - 1 <= exchanges
    assert plan.shard_bytes == 8 << 28
    assert plan.seconds_on(CLUSTER, 16384) > plan.bytes_sent / CLUSTER.inside
    nodes = make_plan(circuit, SINGLE, far=14, inside=3, cluster=CLUSTER, time_limit=0.2)
    assert 0 < nodes.exchanges_between_nodes <= exchanges
    assert 0 < nodes.bytes_between_nodes < nodes.bytes_sent
    assert nodes.seconds_on(CLUSTER, 16384) > nodes.bytes_between_nodes / CLUSTER.between


def test_seconds_are_those_of_sweeps_and_exchanges() -> None:
    plan = make_plan(qd.library.quantum_volume(20, 4, seed=0), SINGLE, far=4, inside=2)
    shard = 8 << 16
    inside = between = messages = 0.0
    for segment in plan.segments:
        crossing = sum(far >= 18 for _, far in segment.swaps)
        between += shard * (1 - 2.0**-crossing)
        inside += shard * (2.0**-crossing - 2.0 ** -len(segment.swaps))
        messages += 2 ** len(segment.swaps) - 1
    assert plan.exchanges > 0
    assert plan.bytes_between_nodes == between
    assert plan.bytes_sent == inside + between
    sweeps = max(2 * plan.sweeps * shard / 1e12, plan.flops / 16 / 1e13)
    assert plan.seconds_on(CLUSTER, 16) == pytest.approx(sweeps + inside / 1e11 + between / 1e10 + messages * 1e-6)
    # Of 16 shards on 12 ranks some hold two.
    assert plan.seconds_on(CLUSTER, 12) == pytest.approx(2 * plan.seconds_on(CLUSTER, 16))


def test_nodes_that_are_joined_slowly_are_crossed_less_often() -> None:
    circuit = qd.library.quantum_volume(12, 12, seed=1)
    flat = make_plan(circuit, SINGLE, far=5, inside=3, cluster=replace(CLUSTER, inside=1e8))
    nested = make_plan(circuit, SINGLE, far=5, inside=3, cluster=replace(CLUSTER, between=1e8))
    assert flat.exchanges <= nested.exchanges
    assert nested.exchanges_between_nodes < flat.exchanges_between_nodes
    assert nested.bytes_between_nodes < flat.bytes_between_nodes
    # On nodes of one rank, or on one node, there is nothing to choose.
    assert make_plan(circuit, SINGLE, far=5, inside=0).exchanges_between_nodes == flat.exchanges
    assert make_plan(circuit, SINGLE, far=5).exchanges_between_nodes == 0


@pytest.mark.parametrize(
    ("nodes", "bits"),
    [
        ("a", 0),
        ("aaaa", 2),
        ("aabb", 1),
        ("abab", 0),
        ("aaaabbbb", 2),
        ("aaabbb", 2),  # 8 shards on 6 ranks: 4 on each node.
        ("aab", 1),  # Shards 0 and 1 on the first node's ranks, 2 and 3 on the last rank.
        ("aabbb", 0),
    ],
)
def test_bits_inside_a_node(nodes: str, bits: int) -> None:
    """Each letter is the node of a rank."""
    assert inside_bits(len(nodes), [rank for rank in range(1, len(nodes)) if nodes[rank] != nodes[rank - 1]]) == bits


def test_what_cannot_be_planned_is_refused() -> None:
    for refuse in (qd.compile, qd.simulate, partial(make_plan, dtype=SINGLE)):
        with pytest.raises(ValueError, match="schedule='eager': there are 'lazy', 'in-order', 'paper'"):
            refuse(qd.Circuit(3), schedule="eager")
    with pytest.raises(ValueError, match="inside=3: of the 2 index bits that select the rank, 0 to 2"):
        make_plan(qd.Circuit(8), SINGLE, far=2, inside=3)
    unitary = qd.library.random_su(16, seed=0)
    with pytest.raises(
        CircuitError, match=r"acts on 4 qubits at once, and a rank's share of the state has 3: use at most 4 ranks"
    ):
        make_plan(qd.Circuit(6).unitary(unitary, [0, 1, 2, 3]), SINGLE, far=3)


def test_plans_on_many_shards_are_always_the_same() -> None:
    circuit = qd.library.quantum_volume(30, 8, seed=2)
    texts = {make_plan(circuit, SINGLE, far=6, inside=3, time_limit=0.1).summary() for _ in range(2)}
    assert len(texts) == 1
    assert "exchange" in texts.pop()
    assert (
        "absorbed into the initial state: of qubits"
        in make_plan(qd.library.hardware_efficient(12, 2), SINGLE, far=3).summary()
    )


def test_more_qubits_than_indices_have_bits_are_refused_wherever_they_come() -> None:
    for width in (63, 64, 65, 100, 1000):
        text = f'OPENQASM 2.0; include "qelib1.inc"; qreg q[{width}]; creg c[{width}]; h q; cx q[0], q[{width - 1}];'
        circuit = qd.Circuit.from_qasm(text)
        assert (circuit.num_qubits, len(circuit)) == (width, width + 1)
        uses = (qd.compile, qd.simulate, partial(make_plan, dtype=SINGLE), partial(make_plan, dtype=SINGLE, far=3))
        for refuse in (*uses, lambda c: qd.simulate(c.measure_all())):
            with pytest.raises(CircuitError, match=rf"{width} qubits cannot be simulated: a state has at most 62"):
                refuse(circuit)
    # Where only memory is missing it is memory that is named.
    with pytest.raises(MemoryError, match="62 qubits need"):
        qd.simulate(qd.Circuit(62).h(0))


def test_plans_are_equal_to_themselves_alone() -> None:
    first, second = (qd.compile(qd.Circuit(3).h(0).cx(0, 1), device="cpu").plan for _ in range(2))
    assert first == first
    assert first != second
    assert len({first, second}) == 2
