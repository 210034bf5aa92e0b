"""The tables that a block keeps in shared memory: where they are, and stages whose tables find no room."""

import numpy as np
import pytest
from interpreter import Interpreter

import qdist as qd
from qdist.backends.cuda.lowering import tile
from qdist.backends.cuda.lowering.records.tiles import OP, OPS
from qdist.backends.cuda.lowering.resident import blocks_at_once, resident
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import ROOM, Shape, shape_of, tile_level
from qdist.backends.cuda.target import target_of
from qdist.circuit import diagonal_gate, unitary_gate
from qdist.plan.planner import make_plan
from qdist.plan.stages.division import divided as divided_stages
from qdist.state import reference

N = 8


def tables_of(circuit: qd.Circuit, dtype: str, shape: Shape) -> Tables:
    n, kind = circuit.num_qubits, np.dtype(dtype)
    (segment,) = make_plan(circuit, kind, [tile_level(n, shape)]).segments
    return Tables(n, kind, segment.stages, shape)


@pytest.mark.parametrize(("dtype", "number"), [("complex64", 4), ("complex128", 8)])
def test_tables_stand_one_after_the_other(dtype: str, number: int) -> None:
    shape = shape_of(np.dtype(dtype))
    tables = tables_of(qd.library.hardware_efficient(14, 3), dtype, shape)
    assert len(tables.stages) > 1
    for stage in tables.stages:
        layout, threads = resident(stage, shape), 1 << stage.size - shape.registers
        sizes = {
            "tile": shape.itemsize << stage.size,
            "coefficients": stage.num_coefficients * number,
            "places": 2 * (shape.registers + threads) * 8,
            "numbers": stage.num_numbers * number,
            "ops": stage.num_ops * OP.dtype.itemsize,
            "phases": stage.num_phases * 48,
            "slots": stage.num_phases * threads * 4,
            "norms": 2 * -(-threads // 32) * 8,
        }
        end = 0
        for name, size in sizes.items():
            start = 0 if name == "tile" else getattr(layout, name)
            assert start % 16 == 0
            assert end <= start < end + 16
            end = start + size
        assert layout.end == end <= ROOM
        # The kernel finds number k of all stages at this place and k numbers more.
        assert layout.arguments(stage, shape)["numbers"] + stage.first_number * number == layout.numbers


def test_no_more_blocks_than_shared_memory_has_room_for() -> None:
    shape = shape_of(np.dtype("complex64"))
    card = {"multiProcessorCount": 108, "sharedMemPerMultiprocessor": 164 << 10, "reservedSharedMemPerBlock": 1024}
    assert blocks_at_once(16 << 10, shape, card) == 108 * shape.blocks
    assert blocks_at_once(22 << 10, shape, card) == 108 * 7
    assert blocks_at_once(ROOM, shape, card) == 108


def test_a_stage_has_the_numbers_of_its_operations() -> None:
    shape = shape_of(np.dtype("complex64"))
    circuit = qd.library.hardware_efficient(14, 2).append(diagonal_gate(np.exp(1j * np.arange(256))), range(8))
    circuit.append(unitary_gate(qd.library.random_circuits.random_su(8, seed=1)), [1, 5, 3]).h(range(14))
    tables = tables_of(circuit, "complex64", shape)
    for stage in tables.stages:
        ops = tables.arrays()["ops"][stage.first_op : stage.first_op + stage.num_ops]
        for kind, data in zip(ops["kind"], ops["data"]):
            if kind < OPS["cross"]:
                assert stage.first_number <= data < stage.first_number + stage.num_numbers
        # Neither the diagonal's 256 factors nor the matrix's 64 entries are kept close.
        assert stage.num_numbers <= (2 << shape.registers) * stage.num_ops


def test_stages_whose_tables_find_no_room_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, dtype = qd.library.hardware_efficient(N, 4), np.dtype("complex64")
    shape = Shape(8, tile=6, registers=3, contiguous=1)
    params = np.linspace(-2, 2, circuit.num_parameters)
    (segment,) = make_plan(circuit, dtype, [tile_level(N, shape)]).segments
    plain = list(divided_stages(segment.stages, N, target_of(dtype, shape)))
    assert len(plain) == len(segment.stages)
    monkeypatch.setattr(tile, "ROOM", 2048)
    divided = list(divided_stages(segment.stages, N, target_of(dtype, shape)))
    assert len(divided) > len(plain)
    got = np.zeros(1 << N, complex)
    got[0] = 1
    for step in divided:
        assert not step[0].is_wide
        tables = Tables(N, dtype, [step], shape)
        assert resident(tables.stages[0], shape).end <= 2048
        Interpreter(tables, circuit.affine()(params)).run(got)
    np.testing.assert_allclose(got, reference.state(circuit, params), atol=1e-6)
