"""Phases that become part of two-qubit matrices, and shapes of tiles that are chosen by their cost."""

import numpy as np
import pytest
from excitations import DOUBLE

import qdist as qd
from qdist.backends.cuda.target import cuda_target
from qdist.plan.fuse import Block, fuse
from qdist.plan.operations import keeps_parity, operations
from qdist.plan.planner import make_plan
from qdist.plan.precision import roundings
from qdist.plan.stages.cpu_target import cpu_target
from qdist.plan.stages.division import staged, sweeps_of

SINGLE = np.dtype("complex64")


def joined(circuit: qd.Circuit) -> list[Block]:
    return fuse(operations(circuit), joins_phases=True)


def test_phases_behind_a_matrix_and_right_before_one_are_part_of_it() -> None:
    a = qd.Parameter("a")
    circuit = qd.Circuit(4).rzz(a, 0, 1).rz(a, 1).rxx(a, 0, 1).cp(a, 1, 0).rz(a, 0)
    (block,) = joined(circuit)
    assert block.kind == "dense"
    assert len(block.operations) == 5
    # Of a qubit beside it, or behind another matrix, they are not.
    kinds = [block.kind for block in joined(circuit.rzz(a, 1, 2).rz(a, 3).rxx(a, 1, 2))]
    assert sorted(kinds) == ["dense", "dense", "diagonal"]
    assert [block.kind for block in fuse(operations(circuit))].count("diagonal") > 1


def test_what_is_between_keeps_phases_where_they_are() -> None:
    a = qd.Parameter("a")
    # The RZ does not commute with the RX behind it, which is in the way of the matrix.
    kinds = [block.kind for block in joined(qd.Circuit(3).rz(a, 0).crx(a, 2, 0).rxx(a, 0, 1))]
    assert kinds.count("diagonal") == 1


def test_rotations_with_equal_flips_are_one_beside_matrices_that_phases_join() -> None:
    a = qd.Parameter("a")
    circuit = qd.Circuit(5).rxx(a, 0, 1).ryy(a, 0, 1)
    for letters in ("XXY", "XYX", "YYY"):
        circuit.pauli_rotation(a, letters + "Z", [1, 2, 3, 4])
    controlled = qd.circuit.pauli_rotation_gate("XXY").controlled()
    circuit.append(controlled, [0, 1, 2, 3], [a]).append(controlled, [0, 1, 2, 3], [2 * a])
    found = [(b.kind, len(b.operations)) for b in fuse(operations(circuit), parities=5, joins_phases=True)]
    assert sorted(found) == [("dense", 2), ("rotation", 1), ("rotation", 1), ("rotation", 3)]


def test_double_excitations_round_once() -> None:
    """So that many of them are differentiated in single precision."""
    theta, circuit = qd.ParameterVector("t", 20), qd.Circuit(24)
    for k, angle in enumerate(theta):
        for letters in DOUBLE:
            circuit.pauli_rotation(angle, letters, [k, k + 1, k + 2, k + 4])
    plan = make_plan(circuit, SINGLE, target=cuda_target(SINGLE))
    assert roundings(plan) == 20
    assert not plan.gradients_in_double


def test_a_constant_matrix_stays_one() -> None:
    a = qd.Parameter("a")
    matrix = qd.library.random_circuits.random_su(4, seed=1)
    kinds = [block.kind for block in joined(qd.Circuit(2).unitary(matrix, [0, 1]).rz(a, 0))]
    assert kinds == ["dense", "diagonal"]
    (block,) = joined(qd.Circuit(2).unitary(matrix, [0, 1]).cz(0, 1))
    assert block.is_constant
    (block,) = joined(qd.Circuit(2).iswap(0, 1).rz(a, 0))
    assert block.keeps_parity


@pytest.mark.parametrize(
    ("name", "angles", "keeps"),
    [("rxx", 1, True), ("ryy", 1, True), ("fsim", 2, True), ("iswap", 0, True), ("ecr", 0, False), ("dcx", 0, False)],
)
def test_gates_that_keep_parities(name: str, angles: int, keeps: bool) -> None:
    circuit = getattr(qd.Circuit(2), name)(*[0.4] * angles, 0, 1)
    assert [keeps_parity(o) for o in operations(circuit)] == [keeps]


def test_large_states_get_the_cheapest_of_the_shapes() -> None:
    circuit = qd.library.grover(["01" * 12], 2)
    target = cuda_target(SINGLE)
    plan = make_plan(circuit, SINGLE, target=target)
    assert plan.target in (target, *target.forward(24, False))
    stages = [tiles for segment in plan.segments for tiles in segment.stages]
    first = make_plan(circuit, SINGLE, target.levels(24), target=target)
    own = [tiles for segment in first.segments for tiles in segment.stages]
    assert sweeps_of(plan.target, stages, 24, 0) < sweeps_of(target, own, 24, 0)
    # Every stage finds room, also where it is undone.
    assert all(plan.target.has_room(24, *tiles) for tiles in stages)
    assert plan.target.backward()[0].shape.states == 2


def test_orders_of_other_tiles_spare_sweeps() -> None:
    """A brickwork of turns: in the order of smaller tiles, larger ones need a fifth less time by the model."""
    n, target = 26, cuda_target(SINGLE)
    theta, circuit = qd.ParameterVector("t", 16), qd.Circuit(n)
    for k in range(8):
        for q in [*range(0, n - 1, 2), *range(1, n - 1, 2)]:
            circuit.rxx(theta[2 * k], q, q + 1).ryy(theta[2 * k + 1], q, q + 1)
    plan = make_plan(circuit, SINGLE, target=target)
    (segment,) = plan.segments
    found = sweeps_of(plan.target, segment.stages, n, 0)
    given = list(operations(circuit))
    assert found < 0.9 * min(sweeps_of(t, staged(given, n, t), n, 0) for t in (target, *target.forward(n, True)))
    assert sorted(o.slots for s, _ in segment.stages for o in s.operations) == sorted(o.slots for o in given)


def test_small_states_have_one_shape() -> None:
    assert cuda_target(SINGLE).forward(22, False) == ()
    assert cpu_target(SINGLE).forward(17, False) == ()


def test_cpus_take_larger_tiles_where_they_spare_a_third_of_the_sweeps() -> None:
    n, double = 20, np.dtype("complex128")
    circuit, trained = qd.Circuit(n), qd.Circuit(n)
    angle = qd.Parameter("a")
    for _ in range(6):
        circuit.h(range(n)).mcp(0.3, list(range(n - 1)), n - 1)
        trained.h(range(n)).mcp(angle, list(range(n - 1)), n - 1)
    target = cpu_target(double)
    plan, small = make_plan(circuit, double, target=target), make_plan(circuit, double, target.levels(n), target=target)
    assert small.target.tile == 11 < plan.target.tile
    assert 1.5 * plan.sweeps < small.sweeps
    larger = make_plan(trained, double, target=target).target
    assert larger == (plan.target if target.forward(n, True) else target)
    few = make_plan(qd.library.quantum_volume(n, 4, seed=1), double, target=target)
    assert few.target == target
    state = qd.compile(circuit, device="cpu", dtype="complex128").run()
    program = qd.compile(trained, device="cpu", dtype="complex128")
    np.testing.assert_allclose(state.amplitudes(), program.run([0.3]).amplitudes(), atol=1e-14)
    small_tiles = qd.Program(trained, device="cpu", dtype="complex128", levels=list(target.levels(n)))
    (value, gradient), (other, by_small) = (
        p.value_and_grad({"Z0 Z19": 1.0, "X3": 0.5}, [0.3]) for p in (program, small_tiles)
    )
    assert abs(value - other) < 1e-13
    np.testing.assert_allclose(gradient, by_small, atol=1e-13)
