"""What derivatives need of transition matrices: no more is summed up, and gradients are right. No GPU needed."""

import numpy as np
import pytest
from test_back_tables import check

import qdist as qd
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.gradients import Core, core_of
from qdist.backends.cuda.lowering.records.tiles import OPS
from qdist.backends.cuda.lowering.tile import Shape, tile_level
from qdist.backends.cuda.target import target_of
from qdist.backends.in_tile import dense_targets, factors_of
from qdist.circuit import unitary_gate
from qdist.plan.planner import make_plan
from qdist.plan.stages.division import Tiles

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


def plaquettes(n: int, width: int, layers: int, seed: int = 0) -> qd.Circuit:
    """Random matrices on all qubits, then fSim with angles of their own along one direction of a grid."""
    rng = np.random.default_rng(seed)
    circuit, number = qd.Circuit(n), 0
    for layer in range(layers):
        for q in range(n):
            circuit.append(unitary_gate(qd.library.random_circuits.random_su(2, seed=int(rng.integers(99)))), [q])
        step = (1, width)[layer % 2]
        for q in range(n - step):
            if (q // step + layer // 2) % 2 == 0 and (step > 1 or q % width + 1 < width):
                circuit.fsim(qd.Parameter(f"a{number}"), qd.Parameter(f"b{number}"), q, q + step)
                number += 1
    return circuit


def stages_of(circuit: qd.Circuit, dtype: str, shape: Shape) -> list[Tiles]:
    level, kind = tile_level(circuit.num_qubits, shape), np.dtype(dtype)
    (segment,) = make_plan(circuit, kind, [level], target=target_of(kind, shape)).segments
    return list(segment.stages)


@both
def test_gradients_of_grids(dtype: str) -> None:
    itemsize = np.dtype(dtype).itemsize
    for registers in (3, 4):
        pair = (Shape(itemsize, 6, registers, 1), Shape(itemsize, 6, registers, 1, states=2))
        circuit = plaquettes(8, 4, 6)
        check(circuit, dtype, pair)
        stages = stages_of(circuit, dtype, pair[0])
        tables = BackTables(8, np.dtype(dtype), stages, pair[1], set(range(circuit.num_parameters)))
        arrays = tables.arrays()
        kinds = [int(kind) & ~7 for kind in arrays["ops"]["kind"]]
        # Matrices before an fSim or behind it, not both, leave its derivatives with entries that keep parities.
        assert kinds.count(OPS["core_transition"]) > 2 * kinds.count(OPS["transition2"]) > 0


def test_which_entries_derivatives_depend_on() -> None:
    su = [unitary_gate(qd.library.random_circuits.random_su(2, seed=k)) for k in range(4)]
    a, b = qd.ParameterVector("t", 2)
    last = qd.Circuit(2).append(su[0], [0]).append(su[1], [1]).fsim(a, b, 0, 1)
    first = qd.Circuit(2).fsim(a, b, 1, 0).append(su[0], [0]).append(su[1], [1])
    middle = qd.Circuit(2).append(su[2], [0]).fsim(a, b, 0, 1).append(su[3], [1])
    turned = qd.Circuit(2).rx(a, 0).fsim(0.3, b, 0, 1)
    # fSim needs Im T_11,11 and one number of 01 and 10; other turns more.
    few = 1 << 1 | 1 << 7
    for circuit, wanted in (
        (last, Core(False, few)),
        (first, Core(True, few)),
        (middle, None),
        (turned, None),
        (qd.Circuit(2).rxx(a, 0, 1), Core(False, 1 << 3 | 1 << 7)),
        (qd.Circuit(2).rxx(a, 0, 1).rzz(b, 0, 1), Core(False, 0b10111011)),
    ):
        shape = Shape(16, tile=3, registers=2, contiguous=1)
        ((_, blocks),) = stages_of(circuit, "complex128", shape)
        block = next(block for block in blocks if block.mixes.bit_count() == 2)
        factors = factors_of(block, dense_targets(block))
        assert core_of(factors, [0, 1], {slot for _, slots, *_ in factors for slot in slots}) == wanted
        # Without angles to differentiate by nothing is needed.
        assert core_of(factors, [0, 1], set()) == Core(False, 0)
    assert [core.is_few for core in (Core(False, few), Core(False, 0b11), Core(True, 0b110000))] == [True, False, False]
