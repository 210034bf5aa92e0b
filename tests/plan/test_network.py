"""The network level: as few exchanges as an exhaustive search finds, and no gate before one that it may not pass."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import circuits

import qdist as qd
from qdist.plan.layout import Layout
from qdist.plan.network.exchanges import VISITS_PER_SECOND, NetworkStage, in_order, lazy, placed, tiled
from qdist.plan.operations import Operation, operations

SECOND = int(VISITS_PER_SECOND)


def commute(a: Operation, b: Operation) -> bool:
    """Whether on every qubit they share both are like Z or both like X."""
    return not a.all & b.all & ~(a.z_like & b.z_like | a.x_like & b.x_like)


def exchanges(stages: list[NetworkStage]) -> int:
    return sum(bool(s.swaps) for s in stages)


def fewest_exchanges(ops: list[Operation], n: int, close: int, start: Layout | None) -> int:
    """By trying every set of close qubits in every stage."""
    before = [[j for j in range(k) if not commute(ops[j], ops[k])] for k in range(len(ops))]

    def left_after(left: frozenset[int], mask: int) -> frozenset[int]:
        rest: set[int] = set()
        for k in sorted(left):
            if ops[k].mixes & ~mask or any(j in rest for j in before[k]):
                rest.add(k)
        return frozenset(rest)

    sets = [sum(1 << q for q in chosen) for chosen in itertools.combinations(range(n), close)]
    everything = frozenset(range(len(ops)))
    first = sets if start is None else [sum(1 << q for q in start.qubits[:close])]
    layer = {left_after(everything, mask) for mask in first}
    for count in itertools.count():
        if frozenset() in layer:
            return count
        layer = {left_after(left, mask) for left in layer for mask in sets}
        # What leaves more is never better.
        layer = {a for a in layer if not any(b < a for b in layer)}
    raise AssertionError


def check(ops: list[Operation], stages: list[NetworkStage], n: int, close: int, layout: Layout | None) -> None:
    """Each gate once, after those it may not pass, with what it mixes close; swaps lead from layout to layout."""
    order = [o for s in stages for o in s.operations]
    place = {id(o): k for k, o in enumerate(order)}
    assert len(order) == len(place) == len(ops)
    for k, second in enumerate(ops):
        for first in ops[:k]:
            assert commute(first, second) or place[id(first)] < place[id(second)]
    for stage in stages:
        for a, b in stage.swaps:
            assert layout is not None
            assert a < close <= b
            layout = layout.swap(a, b)
        layout = layout or stage.layout
        assert layout == stage.layout
        near = sum(1 << q for q in stage.layout.qubits[:close])
        assert all(not o.mixes & ~near for o in stage.operations)


@pytest.mark.parametrize("far", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_no_more_exchanges_than_an_exhaustive_search_finds(seed: int, far: int) -> None:
    n = 6
    rng = np.random.default_rng(seed)
    kinds = [qd.library.random_circuits.RANDOM_GATES, ("cx", "ry"), ("cx", "h", "cz"), ("iswap", "cx", "rx")]
    ops = list(operations(qd.library.random_circuit(n, 5 + seed % 3, seed=seed, gates=kinds[seed % 4])))
    for start in (None, Layout(rng.permutation(n).tolist())):
        stages, _ = lazy(ops, n, n - far, start, SECOND)
        check(ops, stages, n, n - far, start)
        assert exchanges(stages) == fewest_exchanges(ops, n, n - far, start)


@settings(max_examples=80)
@given(circuits(min_qubits=4, max_qubits=8, max_gates=25), st.integers(1, 4), st.data())
def test_every_schedule_keeps_the_order_of_what_does_not_commute(
    circuit: qd.Circuit, far: int, data: st.DataObject
) -> None:
    n = circuit.num_qubits
    ops = list(operations(circuit))
    close = max([n - far, 1, *(o.mixes.bit_count() for o in ops)])
    start = Layout(data.draw(st.permutations(range(n))))
    for layout in (None, start):
        stages, _ = lazy(ops, n, close, layout, SECOND // 100)
        check(ops, stages, n, close, layout)
        assert exchanges(stages) <= exchanges(in_order(ops, close, start))
    check(ops, in_order(ops, close, start), n, close, start)
    check(ops, tiled(ops, close, start), n, close, start)


def test_in_order_swaps_in_and_back_for_each_gate_that_mixes_a_far_qubit() -> None:
    circuit = qd.Circuit(4).h(3).cx(3, 0).cz(2, 3).cx(0, 3).h(0)
    stages = in_order(list(operations(circuit)), 3, Layout.identity(4))
    assert [(s.swaps, len(s.operations)) for s in stages] == [
        (((2, 3),), 1),
        (((2, 3),), 2),
        (((2, 3),), 1),
        (((2, 3),), 1),
    ]
    assert stages[-1].layout.is_identity


def test_a_tile_takes_gates_until_its_qubits_are_as_many_as_are_close() -> None:
    # The first tile is on qubits 0 to 2; cx(2, 3) does not fit, and what follows it on qubits 2 and 3 waits.
    circuit = qd.Circuit(4).cx(0, 1).cx(1, 2).cx(2, 3).h(0).h(2).cx(0, 1).h(3)
    tiles = tiled(list(operations(circuit)), 3, Layout.identity(4))
    assert [[o.kind for o in t.operations] for t in tiles] == [
        ["flip", "flip", "dense", "flip"],
        ["flip", "dense", "dense"],
    ]
    assert [t.swaps for t in tiles] == [(), ((1, 3),)]


def test_one_qubit_that_comes_takes_one_that_leaves() -> None:
    # Qubits 0 to 3 first, then 4 with 0: one swap, and the qubit that is not wanted again goes.
    circuit = qd.Circuit(5).rxx(0.1, 0, 1).rxx(0.1, 2, 3).rxx(0.1, 0, 4).rxx(0.1, 2, 1).rxx(0.1, 0, 2)
    stages, _ = lazy(list(operations(circuit)), 5, 4, None, SECOND)
    assert [len(s.swaps) for s in stages] == [0, 1]


def test_where_qubits_wait() -> None:
    (gate,) = operations(qd.Circuit(1).h(0))
    # Qubits 0 and 1 leave first; 0 comes back in the place of 5, and 1 never.
    sets = [0b001111, 0b111100, 0b011101]
    first, second, third = placed(sets, [[gate]] * 3, 6, 4, None)
    # Those that leave first begin at the highest close positions.
    assert first.layout.qubits == (2, 3, 0, 1, 4, 5)
    # Those that come back soon wait at the lowest far positions.
    assert second.layout.positions[0] == 4
    assert second.layout.positions[1] == 5
    assert [len(s.swaps) for s in (first, second, third)] == [0, 2, 1]
    # Without a swap between them two sets are one stage.
    (together,) = placed(sets[:1] * 2, [[gate]] * 2, 6, 4, None)
    assert together.operations == [gate, gate]


def test_the_search_stops_at_its_limit() -> None:
    ops = list(operations(qd.library.quantum_volume(34, 10, seed=1)))
    greedy, least = lazy(ops, 34, 28, None, 0)
    assert least < SECOND // 100
    for limit in (SECOND // 20, SECOND // 5):
        found, work = lazy(ops, 34, 28, None, limit)
        assert least < work < 1.2 * limit
        assert len(found) <= len(greedy)


def test_the_search_gives_the_same_every_time() -> None:
    ops = list(operations(qd.library.quantum_volume(14, 8, seed=2)))
    found = [[(s.swaps, s.layout) for s in lazy(ops, 14, 10, None, SECOND // 20)[0]] for _ in range(2)]
    assert found[0] == found[1]
