"""Tiles in shared memory: no bank conflicts that could be avoided, whole rows from memory, and few phases."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

import qdist as qd
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import Shape, back_shape_of, rank, shape_of, tile_level
from qdist.backends.index_map import IndexMap, index_map
from qdist.plan.operations import operations
from qdist.plan.planner import make_plan

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


@both
def test_places_are_a_permutation_and_their_own_inverse(dtype: str) -> None:
    shape = shape_of(np.dtype(dtype))
    places = [shape.swizzled(i) for i in range(1 << shape.tile)]
    assert sorted(places) == list(range(1 << shape.tile))
    assert [shape.swizzled(p) for p in places] == list(range(1 << shape.tile))
    assert shape.swizzled(0b1010101) ^ shape.swizzled(0b0110011) == shape.swizzled(0b1010101 ^ 0b0110011)


@both
@pytest.mark.parametrize("of", [shape_of, back_shape_of])
def test_lanes_reach_every_bank_whatever_the_register_bits(of: Callable[[np.dtype], Shape], dtype: str) -> None:
    shape = of(np.dtype(dtype))
    banks = (1 << shape.bank_bits) - 1
    # All banks together serve 128 bytes at a time.
    assert shape.place_bytes << shape.bank_bits == 128
    for registers in combinations(range(shape.tile), shape.registers):
        if shape.pairs_up and 0 not in registers:
            continue
        lanes = [k for k in range(shape.tile) if k not in registers]
        assert rank(shape.swizzled(1 << k) >> shape.kept & banks for k in lanes) == shape.bank_bits


@both
@pytest.mark.parametrize("name", ["ansatz", "qft", "volume"])
def test_phases_of_the_benchmarks(name: str, dtype: str) -> None:
    n = 30
    circuit, most = {
        "ansatz": (qd.library.hardware_efficient(n, 8), 90),
        "qft": (qd.library.qft(n), 16),
        "volume": (qd.library.quantum_volume(n, 10, seed=3), 87),
    }[name]
    shape = shape_of(np.dtype(dtype))
    (segment,) = make_plan(circuit, np.dtype(dtype), [tile_level(n, shape)]).segments
    tables = Tables(n, np.dtype(dtype), segment.stages, shape)
    arrays = tables.arrays()
    assert sum(stage.num_phases for stage in tables.stages) <= most
    lanes, conflicts = 1 << shape.bank_bits, 0
    slots = arrays["slots"].reshape(-1, 4)
    for stage in tables.stages:
        threads = 1 << stage.size - shape.registers
        for number in range(stage.num_phases):
            first = slots[stage.first_slot + number * threads :][:lanes]
            for column in (0, 1):
                conflicts += len(np.unique((first[:, column] >> shape.kept) % lanes)) < lanes
        # The lowest bits of a thread's number are neighbours in memory, when reading and when writing.
        # Where a thread reads two neighbours at once, bit 0 is not among those of its number.
        row, step = 1 << shape.contiguous - shape.kept, 1 + shape.kept
        for at in (stage.places, stage.places + shape.registers + threads):
            places = arrays["places"][at + shape.registers :][:threads].reshape(-1, row)
            assert (np.ptp(places.astype(np.int64), axis=1) == step * (row - 1)).all()
    assert conflicts <= 4


def test_index_maps_follow_the_gates_and_lead_back() -> None:
    rng = np.random.default_rng(2)
    bit = {3: 0, 5: 1, 6: 2, 8: 3, 9: 4}
    circuit = qd.Circuit(10)
    for _ in range(40):
        a, b = rng.permutation(list(bit))[:2].tolist()
        kind = rng.integers(4)
        if kind == 0:
            circuit.x(a)
        elif kind == 1:
            circuit.swap(a, b)
        else:
            circuit.cx(a if kind == 2 else 0, b)
    change = index_map(list(operations(circuit)), bit, 5)
    back = change.inverse()
    for far in (0, 1):
        flips = 0
        for mask, value, bits in change.flips:
            flips ^= bits * (far & mask == value)
        returning = 0
        for mask, value, bits in back.flips:
            returning ^= bits * (far & mask == value)
        for i in range(32):
            # Where amplitude number i of the tile comes from, by going back through the gates one by one.
            place = far | sum((i >> k & 1) << position for position, k in bit.items())
            for gate, qubits, *_ in reversed(list(circuit)):
                if gate.name == "x":
                    place ^= 1 << qubits[0]
                elif gate.name == "cx":
                    place ^= (place >> qubits[0] & 1) << qubits[1]
                else:
                    low, high = (place >> q & 1 for q in qubits)
                    place = place & ~(1 << qubits[0] | 1 << qubits[1]) | high << qubits[0] | low << qubits[1]
            want = sum((place >> position & 1) << k for position, k in bit.items())
            source = change.linear(i) ^ change.constant ^ flips
            assert source == want
            assert back.linear(source) ^ back.constant ^ returning == i
    assert IndexMap.identity(4).inverse() == IndexMap.identity(4)
