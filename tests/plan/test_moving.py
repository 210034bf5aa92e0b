"""Stages between which qubits change places."""

from dataclasses import replace

import numpy as np
import pytest

import qdist as qd
from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.plan.operations import Operation, operations
from qdist.plan.planner import make_plan
from qdist.plan.stages import backward as sweeps
from qdist.plan.stages.backward import Backward, backward
from qdist.plan.stages.division import Tiles, sweeps_of
from qdist.plan.stages.moving import staged_moving
from qdist.plan.stages.target import Target
from qdist.plan.tail import without_tail

COMPLEX64 = np.dtype(np.complex64)


class Tile(Target):
    """Tiles of five bits, two of which every tile holds."""

    def levels(self, num_bits: int) -> tuple[Level, ...]:
        return (Level("tile", 5, 2),)


TARGET = Tile("tile", COMPLEX64, 5, 2)


def permuted(circuit: qd.Circuit, stages: list[Tiles]) -> list[tuple[Operation, ...]]:
    """For each qubit what happens to it in the stages, in order, on qubits: swaps that were not in the circuit are
    followed."""
    given = [o for o in operations(circuit) if o.kind == "swap"]
    assert not given, "swaps of the circuit cannot be told from those of the plan"
    qubit_at = list(range(circuit.num_qubits))
    seen: list[list[tuple[str, int, tuple[int, ...]]]] = [[] for _ in qubit_at]
    for stage, _ in stages:
        held = set(stage.close)
        assert {0, 1} <= held, "every tile holds the lowest positions"
        assert len(held) == 5
        for o in stage.operations:
            assert all(p in held for p in range(circuit.num_qubits) if o.mixes >> p & 1)
            if o.kind == "swap":
                a, b = o.targets
                qubit_at[a], qubit_at[b] = qubit_at[b], qubit_at[a]
                continue
            on = tuple(qubit_at[p] for p in o.targets)
            for q in on:
                seen[q].append((o.kind, o.slots[0], on))
    assert qubit_at == list(range(circuit.num_qubits)), "in the end every qubit is at its own position"
    return [tuple(own) for own in seen]


def random_circuit(n: int, seed: int) -> qd.Circuit:
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(n)
    for angle in rng.normal(size=40):
        a, b = rng.permutation(n)[:2].tolist()
        circuit.fsim(angle, 0.3, a, b).ry(angle, a)
    return circuit


@pytest.mark.parametrize("seed", range(8))
def test_every_qubit_meets_its_gates_in_order(seed: int) -> None:
    circuit = random_circuit(9, seed)
    stages = staged_moving(list(operations(circuit)), 9, TARGET, 0)
    assert stages is not None
    want: list[list[tuple[str, int, tuple[int, ...]]]] = [[] for _ in range(9)]
    for o in operations(circuit):
        for q in o.targets:
            want[q].append((o.kind, o.slots[0], o.targets))
    assert permuted(circuit, stages) == [tuple(own) for own in want]
    # The blocks are those operations.
    for stage, blocks in stages:
        assert len(stage.operations) == sum(len(block.operations) for block in blocks)
    # The same again: all ranks plan alike.
    again = staged_moving(list(operations(circuit)), 9, TARGET, 0)
    assert again is not None
    assert [s.operations for s, _ in again] == [s.operations for s, _ in stages]


def test_fewer_stages_than_where_qubits_stay() -> None:
    circuit = qd.library.quantum_volume(12, 12, seed=1)
    plan = make_plan(circuit, COMPLEX64, TARGET.levels(12), target=TARGET)
    moving = staged_moving(list(operations(circuit)), 12, TARGET, 0)
    assert moving is not None
    first = next(k for k, (stage, _) in enumerate(moving) if not stage.only_moves)
    assert len(moving) - first < 0.8 * plan.sweeps
    # Of |0...0> nothing moves.
    assert sweeps_of(TARGET, moving, 12, 0) == sweeps_of(TARGET, moving[first:], 12, 0)
    assert sweeps_of(TARGET, moving, 12, -1) == len(moving)


class Moving(Tile):
    """Their sweep has one more target to be compared, and qubits that may change places."""

    def backward(self) -> tuple[Target, ...]:
        return self, replace(self, name="other")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("moves", [False, True])
def test_the_adjoint_sweep_moves_qubits_where_that_costs_less(
    seed: int, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "_WORTH_ORDERS", 9)
    target = Moving("tile", COMPLEX64, 5, 2, moves_qubits=moves)
    circuit = random_circuit(12, seed)
    (segment,) = make_plan(circuit, COMPLEX64, target.levels(12), target=target).segments
    plan = backward(segment.stages, 12, target, 0)
    swaps = any(o.kind == "swap" for stage, _ in plan.stages for o in stage.operations)
    assert swaps == moves
    cost, still = (sweeps_of(target, stages, 12, 0) for stages in (plan.stages, segment.stages))
    assert cost < 0.91 * still if moves else cost <= still
    # Gates that commute may have changed their order when the program was planned, not here.
    want = permuted(circuit, segment.stages)
    assert [sorted(own) for own in permuted(circuit, plan.stages)] == [sorted(own) for own in want]


def test_gates_that_leave_no_room_for_qubits_that_stay_are_not_planned_so() -> None:
    wide = qd.Circuit(9).unitary(qd.library.random_circuits.random_su(16, seed=1), [0, 3, 5, 7])
    assert staged_moving(list(operations(wide)), 9, TARGET, 0) is None
    # A tile that holds everything needs no moves.
    assert staged_moving(list(operations(random_circuit(5, 1))), 5, TARGET, 0) is None


def test_the_search_says_what_it_cannot_do() -> None:
    masks = np.array([0b1111], np.uint64), np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    with pytest.raises(ValueError, match="more qubits than find room"):
        kernels.schedule_moving(*masks, np.ones(1), 9, 5, 0b11, 0, 1, 0.1)
    ((close, gates),) = kernels.schedule_moving(*masks, np.ones(1), 9, 6, 0b11, 0, 1, 0.1)
    assert (close.bit_count(), close & 0b1111, gates) == (6, 0b1111, [0])


def test_a_tail_is_taken_from_the_plan_whose_qubits_stay() -> None:
    circuit = qd.library.hardware_efficient(8, 1).cx(0, 5).x(6).cx(5, 7)
    plan = make_plan(circuit, COMPLEX64, TARGET.levels(8), target=TARGET)
    (segment,) = plan.segments
    moving = staged_moving([o for stage, _ in segment.stages for o in stage.operations], 8, TARGET, 0)
    assert moving is not None
    still = Backward(TARGET, segment.stages)
    parts = [replace(plan.parts[0], segments=[replace(segment, stages=moving, still=still)])]
    moved = replace(plan, parts=parts)
    assert moved.only_from_zero
    assert not plan.only_from_zero
    short, gates = without_tail(moved)
    expected, same = without_tail(plan)
    assert gates.key == same.key
    assert [s.operations for s, _ in short.segments[0].stages] == [s.operations for s, _ in expected.segments[0].stages]
    # What is undone is that plan too.
    assert moved.backward(moved.segments[0], 0).stages == plan.backward(segment, 0).stages
    # Without a tail the plan is as it was.
    turned = make_plan(circuit.copy().ry(0.3, 7).ry(0.2, 6).ry(0.1, 5), COMPLEX64, TARGET.levels(8), target=TARGET)
    assert without_tail(turned)[0] is turned
