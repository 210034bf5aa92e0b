"""What the adjoint sweep's kernel keeps in shared memory: all that operations read, in the room there is."""

import numpy as np
import pytest

import qdist as qd
from qdist.backends.cuda.lowering.back_resident import resident
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.records.tiles import OPS
from qdist.backends.cuda.lowering.tile import back_shape_of, shape_of, tile_level
from qdist.backends.cuda.target import target_of
from qdist.plan.planner import make_plan
from qdist.plan.stages.division import divided

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
OF_A_MULTIPROCESSOR, OF_A_BLOCK = 228 << 10, 1 << 10
"""Shared memory of compute capability 9.0, and what each block takes of it for itself (CUDA C++ Programming Guide)."""


def tables_of(circuit: qd.Circuit, dtype: str) -> BackTables:
    kind, n = np.dtype(dtype), circuit.num_qubits
    shape = back_shape_of(kind)
    (segment,) = make_plan(circuit, kind, [tile_level(n, shape_of(kind))]).segments
    stages = [s for s in divided(segment.stages, n, target_of(kind, shape)) if not s[0].is_wide]
    return BackTables(n, kind, stages, shape, set(circuit.affine().slots.tolist()))


def mixed(n: int) -> qd.Circuit:
    """RY, RZ and CX, and gates that are dense, controlled, tables, wide, and phases of many qubits."""
    circuit = qd.library.hardware_efficient(n, 3)
    t = qd.ParameterVector("more", 6)
    rng = np.random.default_rng(1)
    circuit.rxx(t[0], 0, n - 1).u(t[1], t[2], t[3], 4).crx(t[4], 2, 7).cp(t[5], 1, n - 2)
    circuit.diagonal(np.exp(1j * rng.normal(size=8)), [3, 5, n - 1])
    circuit.unitary(np.linalg.qr(rng.normal(size=(16, 16)))[0], [0, 2, 5, 6])
    return circuit


@both
@pytest.mark.parametrize("make", [lambda: qd.library.hardware_efficient(28, 8), lambda: mixed(20)])
def test_what_operations_read_is_there(make: object, dtype: str) -> None:
    tables = tables_of(make(), dtype)  # type: ignore[operator]
    arrays = tables.arrays()
    sizes = {OPS["real1"]: 4 * tables.shape.registers, OPS["phases"]: 2 << tables.shape.registers}
    sizes |= {OPS["dense1"]: 8, OPS["controlled1"]: 8, OPS["dense2"]: 32, OPS["controlled2"]: 32}
    seen = 0
    for stage, extent in zip(tables.stages, tables.extents):
        for op in arrays["ops"][stage.first_op : stage.first_op + stage.num_ops]:
            kind, data = int(op["kind"]) & ~7, int(op["data"])
            if kind in sizes:
                assert stage.first_number <= data <= data + sizes[kind] <= stage.first_number + stage.num_numbers
                seen += 1
            elif kind in (OPS["turn"], OPS["cross"]):
                assert extent.terms[0] <= data <= int(op["threads"]) <= sum(extent.terms)
            elif kind == OPS["weigh"]:
                assert extent.weighs[0] <= data < sum(extent.weighs)
                results = arrays["parities"][extent.parities[0] : sum(extent.parities)]["result"]
                assert results.max(initial=-1) < extent.sums[1]
        begins = arrays["begins"][stage.first_coefficient :][: stage.num_coefficients + 1]
        assert begins[-1] - begins[0] == extent.parts
    assert seen > 10
    for name in ("terms", "parities", "weighs"):
        assert sum(getattr(extent, name)[1] for extent in tables.extents) == len(arrays[name])


@both
def test_as_many_blocks_find_room_as_registers_allow(dtype: str) -> None:
    tables = tables_of(qd.library.hardware_efficient(28, 8), dtype)
    shape = tables.shape
    for stage, extent in list(zip(tables.stages, tables.extents))[:-1]:
        places, size = resident(stage, extent, shape)
        assert (size + OF_A_BLOCK) * shape.blocks <= OF_A_MULTIPROCESSOR
        assert places["coefficients"] == shape.states * shape.itemsize << stage.size
    # The last one undoes all layers on the first qubits, in one tile.
    assert resident(tables.stages[-1], tables.extents[-1], shape)[1] <= shape.shared_bytes


def test_stages_of_many_phases_are_divided() -> None:
    circuit = qd.library.hardware_efficient(11, 100)
    tables = tables_of(circuit, "complex64")
    assert 1 < len(tables.stages) < 10
    assert all(
        resident(stage, extent, tables.shape)[1] <= tables.shape.shared_bytes
        for stage, extent in zip(tables.stages, tables.extents)
    )
    real = tables.arrays()["ops"]
    assert sum(int(op["threads"]).bit_count() for op in real[real["kind"] == OPS["real1"]]) == 11 * 100
