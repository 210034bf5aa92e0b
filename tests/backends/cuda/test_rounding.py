"""What rounding leaves of the norm, and large angles, in the GPU's tables: interpreted in NumPy, no GPU needed.

The interpreter computes in double precision, so that only the rounding of the tables' numbers shows.
"""

import numpy as np
import pytest
from back_interpreter import BackInterpreter
from interpreter import Interpreter

import qdist as qd
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import Shape, tile_level
from qdist.plan.planner import make_plan

N = 6
SIZES = (5, 3, 1)
C64 = np.dtype("complex64")


def trotter(steps: int) -> qd.Circuit:
    theta = qd.ParameterVector("t", 2)
    circuit = qd.Circuit(N)
    for _ in range(steps):
        for q in range(N - 1):
            circuit.rzz(theta[0], q, q + 1)
        for q in range(N):
            circuit.rx(theta[1], q)
    return circuit


def rotations(count: int) -> qd.Circuit:
    theta = qd.ParameterVector("t", 2)
    circuit = qd.Circuit(N)
    for k in range(count):
        circuit.pauli_rotation(theta[k % 2], "XZY", [(k + j) % N for j in range(3)])
    return circuit


@pytest.mark.parametrize(
    ("circuit", "params"),
    [(trotter(40), (0.0123, 0.0234)), (trotter(40), (0.7, 0.9)), (rotations(200), (0.37, 0.0011))],
    ids=["short steps", "long steps", "rotations"],
)
def test_rounded_numbers_keep_the_norm(circuit: qd.Circuit, params: tuple[float, float]) -> None:
    affine = circuit.affine()
    angles = affine(params)
    forward, back = Shape(8, *SIZES), Shape(8, *SIZES, states=2)
    segments = list(make_plan(circuit, C64, [tile_level(N, forward)]).segments)
    ket = np.eye(1, 1 << N, dtype=np.complex128)[0]
    for segment in segments:
        Interpreter(Tables(N, C64, segment.stages, forward), angles).run(ket)
    assert np.linalg.norm(ket) == pytest.approx(1, abs=6e-7)
    bra = ket[::-1].copy()
    for segment in reversed(segments):
        tables = BackTables(N, C64, segment.stages, back, set(affine.slots.tolist()))
        BackInterpreter(tables, angles).run(ket, bra)
    assert np.linalg.norm(ket) == pytest.approx(1, abs=6e-7)
    assert np.linalg.norm(bra) == pytest.approx(1, abs=6e-7)


def test_large_angles_are_reduced_before_they_are_added() -> None:
    dtype, shape = np.dtype("complex128"), Shape(16, 4, 2, 1)
    large = np.random.default_rng(2).uniform(-1e9, 1e9, 30)
    circuit = qd.Circuit(N).h(range(N))
    for k, angle in enumerate(large):
        circuit.rz(angle, k % 3).rzz(-angle, 3, 4).p(angle, 3)
    (segment,) = make_plan(circuit, dtype, [tile_level(N, shape)]).segments
    state = np.eye(1, 1 << N, dtype=np.complex128)[0]
    Interpreter(Tables(N, dtype, segment.stages, shape), circuit.affine()(())).run(state)
    # The CPU's sums are tested against rational arithmetic.
    wanted = qd.simulate(circuit, dtype="complex128", device="cpu").amplitudes()
    np.testing.assert_allclose(state, wanted, atol=1e-12)


def test_rows_of_a_batch_are_bound_like_single_sets() -> None:
    circuit = rotations(20)
    affine = circuit.affine()
    rows = np.stack([affine((0.37, 0.0011)), affine((2.5, 0.7)), affine((0.1, 3.0))])
    (segment,) = make_plan(circuit, C64, [tile_level(N, Shape(8, *SIZES))]).segments
    binding = Tables(N, C64, segment.stages, Shape(8, *SIZES)).binding
    reals, turns = binding.values(rows)
    for row, own_reals, own_turns in zip(rows, reals, turns):
        alone_reals, alone_turns = binding.values(row[None])
        np.testing.assert_array_equal(own_reals, alone_reals[0])
        np.testing.assert_array_equal(own_turns, alone_turns[0])
