"""Plans of long circuits in complex64 on a GPU: stages for tiles that are computed in double."""

import numpy as np

import qdist as qd
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.target import CudaTarget, cuda_target
from qdist.plan.plan import Plan
from qdist.plan.planner import make_plan

SINGLE, DOUBLE = np.dtype("complex64"), np.dtype("complex128")


def planned(layers: int, far: int = 0) -> tuple[qd.Circuit, Plan, CudaTarget]:
    """Of layers of general one-qubit gates and CX: 2 are short, 20 are long."""
    theta, circuit = iter(qd.ParameterVector("t", 42 * layers)), qd.Circuit(14)
    for k in range(layers):
        for q in range(14):
            circuit.u(next(theta), next(theta), next(theta), q)
        for q in range(14):
            circuit.cx(q, (q + k % 13 + 1) % 14)
    plan = make_plan(circuit, SINGLE, far=far, target=cuda_target(SINGLE), gradients=True)
    assert isinstance(plan.target, CudaTarget)
    return circuit, plan, plan.target


def test_long_circuits_are_staged_for_tiles_in_double() -> None:
    _, short, target = planned(2)
    assert (short.in_double, target) == (False, cuda_target(SINGLE))
    for far in (0, 2):
        circuit, plan, target = planned(20, far)
        assert plan.in_double
        assert (plan.dtype, target.dtype, target.shape.dtype) == (SINGLE, SINGLE, DOUBLE)
        # Rows of memory are those of complex64, tiles of shared memory those of complex128.
        assert target.contiguous == cuda_target(SINGLE).contiguous
        assert all(len(stage.close) <= target.shape.widest for s in plan.segments for stage, _ in s.stages)
        assert target.widened() is target
        again = make_plan(circuit, DOUBLE, far=far, target=cuda_target(DOUBLE))
        assert (plan.exchanges, plan.num_gates) == (again.exchanges, again.num_gates)
        back = plan.backward(plan.segments[0], -1)
        assert isinstance(back.target, CudaTarget)
        assert (back.target.dtype, back.target.shape.dtype, back.target.shape.states) == (SINGLE, DOUBLE, 2)


def test_their_numbers_are_of_double_precision() -> None:
    circuit, plan, target = planned(20)
    (segment,) = plan.segments
    back = plan.backward(segment, 0)
    assert isinstance(back.target, CudaTarget)
    angles = circuit.affine()(np.linspace(-2, 2, circuit.num_parameters))[None]
    for tables in (
        Tables(14, target.shape.dtype, segment.stages, target.shape),
        BackTables(14, DOUBLE, back.stages, back.target.shape, set(circuit.affine().slots.tolist())),
    ):
        assert tables.binding.values(angles)[0].dtype == np.float64
        assert not any(stage.long for stage in tables.stages)
