"""The stages that the adjoint sweep undoes: they undo the program, whatever their rows, and are the cheaper ones."""

import numpy as np
import pytest
from back_interpreter import BackInterpreter

import qdist as qd
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.tile import Shape, back_shape_of, shape_of, tile_level
from qdist.backends.cuda.target import cuda_target, target_of
from qdist.plan.fuse import Block
from qdist.plan.planner import make_plan
from qdist.plan.stages import backward as sweeps
from qdist.plan.stages.backward import Backward, backward
from qdist.plan.stages.division import staged, sweeps_of
from qdist.plan.stages.moving import staged_moving
from qdist.plan.stages.schedule import Stage
from qdist.state import reference


def stages_of(circuit: qd.Circuit, dtype: str, shape: Shape) -> list[tuple[Stage, list[Block]]]:
    (segment,) = make_plan(circuit, np.dtype(dtype), [tile_level(circuit.num_qubits, shape)]).segments
    return list(segment.stages)


@pytest.mark.parametrize("moves", [False, True])
def test_other_stages_undo_the_same(moves: bool) -> None:
    n, kind = 8, np.dtype("complex128")
    circuit = qd.library.hardware_efficient(n, 3).compose(qd.library.qft(n)).rzz(qd.Parameter("z"), 0, n - 1)
    params = np.random.default_rng(1).uniform(-3, 3, circuit.num_parameters)
    observable = qd.library.heisenberg_xxz(n)
    given = Shape(16, 5, 2, 2, states=2)
    stages = stages_of(circuit, "complex128", given)
    shorter = Shape(16, 5, 2, 1, states=2)
    operations, target = [o for _, blocks in stages for b in blocks for o in b.operations], target_of(kind, shorter)
    other = staged_moving(operations, n, target, 0) if moves else staged(operations, n, target)
    assert other is not None
    assert [stage.close for stage, _ in other] != [stage.close for stage, _ in stages]
    affine = circuit.affine()
    ket = reference.state(circuit, params)
    bra = qd.StateVector.from_amplitudes(ket, "complex128").apply_pauli_sum(observable).amplitudes()
    back = BackInterpreter(BackTables(n, kind, other, shorter, set(affine.slots.tolist())), affine(params))
    back.run(ket, bra)
    np.testing.assert_allclose(ket, np.eye(1, 1 << n)[0], atol=1e-12)
    got = affine.transposed(back.gradient())
    np.testing.assert_allclose(got, reference.gradient(circuit, observable, params), atol=1e-11)


@pytest.mark.parametrize(
    ("n", "dtype", "rows", "most"),
    [
        (28, "complex64", (11, 3), 28),
        (30, "complex64", (11, 4), 24),
        (27, "complex128", (12, 3), 31),
        (29, "complex128", (11, 3), 28),
    ],
)
def test_shorter_rows_or_larger_tiles_where_they_spare_sweeps(
    n: int, dtype: str, rows: tuple[int, int], most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs that were measured, in phases, of which a sweep is 3: 28 are 22.6 ms at 28 qubits, and 33 are 26.6."""
    monkeypatch.setattr(sweeps, "_WORTH_MOVING", 0.0)  # Qubits stay.
    kind = np.dtype(dtype)
    target = cuda_target(kind)
    stages = stages_of(qd.library.hardware_efficient(n, 8), dtype, shape_of(kind))
    chosen = backward(stages, n, target, 0)
    assert not any(stage.is_wide for stage, _ in chosen.stages)
    assert (chosen.target.tile, chosen.target.contiguous) == rows
    least = sweeps_of(chosen.target, chosen.stages, n, 0)
    assert 3 * least < most
    same = target.backward()[0]
    assert least <= sweeps_of(same, stages, n, 0) <= sweeps_of(same, stages, n, -1)


def test_orders_of_other_tiles_are_tried_for_large_states() -> None:
    """Rings of two-qubit gates: what larger tiles bring together has fewer phases in smaller ones too."""
    n, kind = 26, np.dtype("complex64")
    theta, circuit = qd.ParameterVector("t", 20), qd.Circuit(n)
    for k in range(10):
        for q in [*range(0, n - 1, 2), *range(1, n - 1, 2)]:
            circuit.rxx(theta[2 * k], q, q + 1).ryy(theta[2 * k + 1], q, q + 1)
    plan = make_plan(circuit, kind, target=cuda_target(kind), gradients=True)
    (segment,) = plan.segments
    chosen = plan.backward(segment, 0)
    undone = segment.still or Backward(plan.target, segment.stages)
    operations = [o for _, blocks in undone.stages for b in blocks for o in b.operations]
    once = [sweeps_of(t, staged(operations, n, t), n, 0) for t in undone.target.backward()]
    assert sweeps_of(chosen.target, chosen.stages, n, 0) < 0.97 * min(once)
    found = [o for _, blocks in chosen.stages for b in blocks for o in b.operations]
    assert sorted(o.slots for o in found) == sorted(o.slots for o in operations)


def test_small_states_and_wide_gates_keep_the_stages() -> None:
    kind = np.dtype("complex64")
    shape = back_shape_of(kind)
    wide = qd.library.hardware_efficient(14, 1).unitary(np.roll(np.eye(1 << 8), 3, axis=0), range(5, 13))
    for circuit in (qd.library.hardware_efficient(10, 2), wide):
        stages = stages_of(circuit, "complex64", shape_of(kind))
        assert backward(stages, circuit.num_qubits, cuda_target(kind), 0).target == target_of(kind, shape)
