"""Plans: what they need in sweeps, that they keep the order of what does not commute, and that they stay the same."""

import numpy as np
import pytest

import qdist as qd
from qdist.native import kernels
from qdist.plan.fuse import fuse
from qdist.plan.levels import Level
from qdist.plan.operations import Operation, operations
from qdist.plan.planner import make_plan
from qdist.plan.rewrites.ladders import narrowed
from qdist.plan.stages.cpu_target import cpu_target
from qdist.plan.stages.schedule import schedule
from qdist.state import reference

SINGLE, DOUBLE = np.dtype("complex64"), np.dtype("complex128")


@pytest.mark.parametrize(
    ("circuit", "dtype", "sweeps"),
    [
        (qd.library.hardware_efficient(16, 8), SINGLE, 4),
        (qd.library.hardware_efficient(20, 8), SINGLE, 6),
        (qd.library.hardware_efficient(24, 8), SINGLE, 8),
        (qd.library.hardware_efficient(24, 8), DOUBLE, 10),
        (qd.library.qft(20, swaps=False), SINGLE, 2),
        (qd.library.qft(24, swaps=False), SINGLE, 3),
        (qd.library.qft(24, swaps=False), DOUBLE, 3),
        (qd.library.quantum_volume(20, 10, seed=1), SINGLE, 9),
        (qd.library.quantum_volume(24, 10, seed=1), SINGLE, 13),
        (qd.library.quantum_volume(24, 10, seed=1), DOUBLE, 15),
    ],
)
def test_no_more_sweeps_than_this(circuit: qd.Circuit, dtype: np.dtype, sweeps: int) -> None:
    assert make_plan(circuit, dtype).sweeps <= sweeps


def test_a_layer_of_the_ansatz_is_rotations_one_diagonal_and_one_index_change() -> None:
    plan = make_plan(qd.library.hardware_efficient(12, 3), SINGLE)
    kinds = [block.kind for block in plan.blocks]
    # The last layer's chain ends the circuit, so three of each.
    assert kinds == (["dense"] * 12 + ["diagonal", "linear"]) * 3


def commute(a: Operation, b: Operation) -> bool:
    shared = a.all & b.all
    return not shared & ~((a.z_like & b.z_like & ~a.mixes & ~b.mixes) | (a.x_like & b.x_like))


@pytest.mark.parametrize("seed", range(8))
def test_every_gate_runs_once_and_never_before_what_it_does_not_commute_with(seed: int) -> None:
    n = 9
    circuit = qd.library.random_circuit(n, 12, seed=seed)
    ops = list(operations(circuit))
    levels = [Level("cache", 4, 2)]
    stages = schedule(ops, n, levels)
    order = [op for stage in stages for op in stage.operations]
    place = {id(op): k for k, op in enumerate(order)}
    assert len(place) == len(ops) == len(order)
    for k, first in enumerate(ops):
        for second in ops[k + 1 :]:
            assert commute(first, second) or place[id(first)] < place[id(second)]
    for stage in stages:
        assert {0, 1} <= set(stage.close)
        for op in stage.operations:
            assert not op.mixes & ~sum(1 << q for q in stage.close)


def test_levels_nest() -> None:
    ops = list(operations(qd.library.hardware_efficient(12, 4)))
    outer = schedule(ops, 12, [Level("memory", 9), Level("cache", 6, 2)])
    for stage in outer:
        inner = [op for part in stage.stages for op in part.operations]
        assert sorted(map(id, inner)) == sorted(map(id, stage.operations))
        for part in stage.stages:
            assert len(part.close) <= 6


def test_plans_are_always_the_same_and_print() -> None:
    circuit = qd.library.random_circuit(14, 10, seed=3)
    texts = {make_plan(circuit, DOUBLE).summary() for _ in range(3)}
    assert len(texts) == 1
    (text,) = texts
    assert "14 qubits, complex128" in text
    assert "sweep of tiles of bits 0-" in text


def test_cost_counts_bytes_and_flops() -> None:
    plan = make_plan(qd.library.hardware_efficient(20, 8), SINGLE)
    assert plan.bytes_moved == 2 * plan.sweeps * 8 * 2**20
    per_layer_and_qubit = plan.flops / 2**20 / 8 / 20
    assert 6 <= per_layer_and_qubit < 10
    fourier = make_plan(qd.library.qft(20, swaps=False), SINGLE)
    assert fourier.flops / 2**20 / 20 < 15


def test_gates_wider_than_a_tile_bring_their_own_room() -> None:
    unitary = qd.library.random_circuits.random_su(32, seed=0)
    plan = make_plan(qd.Circuit(8).unitary(unitary, [1, 3, 5, 6, 7]), SINGLE, [Level("cache", 4, 2)])
    (segment,) = plan.segments
    assert segment.stages[0][0].close == (0, 1, 3, 5, 6, 7)


def test_wide_rotations_become_narrow_ones_between_ladders() -> None:
    circuit = qd.Circuit(6).pauli_rotation(0.7, "XYZXYX", range(6))
    (wide,) = operations(circuit)
    parts = narrowed(wide, 2)
    assert [p.kind for p in parts] == ["flip"] * 4 + ["rotation"] + ["flip"] * 4
    assert parts[4].mixes.bit_count() == 1
    lanes = kernels.lane_bits[1]
    state = qd.Program(circuit, dtype="complex128", levels=[Level("cache", lanes + 2, lanes)]).run()
    np.testing.assert_allclose(state.amplitudes(), reference.state(circuit), atol=1e-14)


def test_diagonals_pass_controls_and_flips_pass_targets() -> None:
    # CX gates that share a target, and diagonals on their controls: one diagonal block, one index change.
    circuit = qd.Circuit(4).cx(0, 3).rz(0.1, 0).cx(1, 3).cz(0, 1).cx(2, 3).t(2)
    assert sorted(block.kind for block in fuse(operations(circuit))) == ["diagonal", "linear"]


def test_cache_levels_follow_the_precision() -> None:
    assert cpu_target(SINGLE).levels(30) == (Level("cache", 12, 4),)
    assert cpu_target(DOUBLE).levels(30) == (Level("cache", 11, 3),)
    assert cpu_target(DOUBLE).levels(3) == (Level("cache", 3, 3),)
