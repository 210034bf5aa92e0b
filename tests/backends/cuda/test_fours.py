"""4x4 matrices passed as kernel arguments: whose they are, and when all rows of a batch have them."""

import numpy as np

import qdist as qd
from qdist.backends.cuda.lowering.fours import FourPlaces
from qdist.backends.cuda.lowering.records.tiles import OPS
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import FOURS_BYTES, Shape, shape_of, tile_level
from qdist.backends.cuda.target import target_of
from qdist.circuit import unitary_gate
from qdist.plan.planner import make_plan

su = qd.library.random_circuits.random_su


def tables_of(circuit: qd.Circuit, shape: Shape, dtype: str = "complex64") -> Tables:
    n, kind = circuit.num_qubits, np.dtype(dtype)
    (segment,) = make_plan(circuit, kind, [tile_level(n, shape)], target=target_of(kind, shape)).segments
    return Tables(n, kind, segment.stages, shape, pairs=True)


def test_each_operation_of_a_volume_has_its_slot() -> None:
    for dtype in ("complex64", "complex128"):
        tables = tables_of(qd.library.quantum_volume(16, 6, seed=3), shape_of(np.dtype(dtype)), dtype)
        arrays = tables.arrays()
        reals, _ = tables.binding.values(np.zeros((1, 0)))
        pairs = 0
        for stage in tables.stages:
            same, numbers = FourPlaces(stage.fours).record(reals)
            assert same
            assert numbers.nbytes == FOURS_BYTES == 2 * tables.shape.four_phases * 32 * reals.itemsize
            slots, first = dict(stage.fours), stage.first_op
            for number in range(stage.num_phases):
                phase = arrays["phases"][stage.first_phase + number]
                end = stage.first_op + phase["end_op"]
                flags = 0
                for kind, at in zip(arrays["ops"]["kind"][first:end], arrays["ops"]["data"][first:end]):
                    if number >= tables.shape.four_phases:
                        assert kind & ~7 == OPS["dense2"] or (dtype == "complex128" and kind & ~7 == OPS["pair"])
                        continue
                    pair = int(kind) & 7
                    # Pair 0 has the first slot of a phase, any other the second.
                    slot = 2 * number + (pair > 0)
                    assert slots.pop(slot) == at
                    np.testing.assert_array_equal(numbers["of"][slot].view(reals.dtype), reals[0, at : at + 32])
                    pairs += kind & ~7 == OPS["pair"]
                    flags |= (1 if kind & ~7 == OPS["pair"] else 8) << pair
                assert phase["fours"] == flags
                first = end
            assert not slots
        assert pairs


def test_phases_with_other_operations_keep_theirs_in_the_list() -> None:
    n, gate = 8, unitary_gate(su(4, seed=1))
    circuit = qd.Circuit(n)
    for k in range(3):
        # What the diagonal is between does not become one matrix with it.
        circuit.append(gate, [0, 5]).append(gate, [6, 7]).rzz(qd.Parameter(f"a{k}"), 1, 2).append(gate, [5, 6])
    tables = tables_of(circuit, shape_of(np.dtype("complex64")))
    arrays = tables.arrays()
    assert len(tables.stages) == 1
    first, listed = 0, 0
    for phase in arrays["phases"]:
        kinds = arrays["ops"]["kind"][first : phase["end_op"]] & ~7
        first = phase["end_op"]
        only = len(kinds) > 0 and set(kinds.tolist()) <= {OPS["dense2"], OPS["pair"]}
        assert bool(phase["fours"]) == only
        if not only:
            listed += len(kinds)
            # The list knows no pairs.
            assert OPS["pair"] not in kinds
    assert listed


def test_rows_that_differ_do_not_take_their_numbers_from_the_launch() -> None:
    a, b = qd.Parameter("a"), qd.Parameter("b")
    circuit = qd.Circuit(6).ry(b, 0).rxx(a, 0, 5).ry(b, 2).rxx(b, 2, 3)
    tables = tables_of(circuit, shape_of(np.dtype("complex64")))
    affine = circuit.affine()
    one, other = (affine(np.array(x)) for x in ([0.3, 0.4], [0.3, 0.5]))
    for rows, same in (([one], True), ([one, one], True), ([one, other], False)):
        reals, _ = tables.binding.values(np.stack(rows))
        found = [FourPlaces(stage.fours).record(reals) for stage in tables.stages if stage.fours]
        assert found
        assert all(bool(alike) for alike, _ in found) == same
