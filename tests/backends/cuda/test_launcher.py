"""What kernels are launched with: a few records, whose addresses are those of the tables. A stand-in for CuPy keeps the
arguments; tests/backends/cuda/test_on_gpu.py runs them."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pinned import add_pinned

import qdist as qd
from qdist.backends.cuda import launcher, sweep
from qdist.backends.cuda.lowering.patterns import multiples
from qdist.backends.cuda.lowering.records.tiles import BACKWARD_PLACES, FORWARD_PLACES, LAUNCH, OP, PHASE, SLOT, SWEEP
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import back_shape_of, shape_of, tile_level
from qdist.backends.cuda.target import target_of
from qdist.plan.planner import make_plan
from qdist.plan.stages.backward import Backward


class FakeArray:
    """A NumPy array with the address that CuPy's have."""

    def __init__(self, of: Any) -> None:
        self.of = np.ascontiguousarray(of)
        self.data = SimpleNamespace(ptr=self.of.ctypes.data)
        self.shape = self.of.shape


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of each launch of a stage's kernel."""
    kept: list[tuple[Any, ...]] = []
    card = {"multiProcessorCount": 2, "sharedMemPerMultiprocessor": 228 << 10, "reservedSharedMemPerBlock": 1024}
    cuda = SimpleNamespace(
        Device=lambda number: nullcontext(), runtime=SimpleNamespace(getDeviceProperties=lambda d: card)
    )
    fake = SimpleNamespace(asarray=FakeArray, zeros=lambda *a: FakeArray(np.zeros(*a)), cuda=cuda)
    fake.empty = lambda *a: FakeArray(np.empty(*a))
    monkeypatch.setitem(sys.modules, "cupy", fake)

    def kernel(*key: Any) -> Any:
        return lambda grid, block, arguments, shared_mem=0: kept.append(arguments)

    monkeypatch.setattr(launcher, "stage_kernel", kernel)
    add_pinned(cuda, monkeypatch)
    monkeypatch.setattr(sweep, "sum_kernel", lambda *key: lambda grid, block, arguments: None)
    return kept


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_stage_is_launched_with_three_records(launches: list[tuple[Any, ...]], dtype: str) -> None:
    kind, n = np.dtype(dtype), 14
    shape = shape_of(kind)
    circuit = qd.library.hardware_efficient(n, 3)
    (segment,) = make_plan(circuit, kind, [tile_level(n, shape)]).segments
    tables = Tables(n, kind, segment.stages, shape)
    own = launcher.Launcher(tables, kind, 0)
    own.bind(circuit.affine()(np.zeros(circuit.num_parameters))[None])
    state = FakeArray(np.zeros(1 << n, kind))
    assert len(tables.stages) > 1
    for number, stage in enumerate(tables.stages):
        own.run(number, state, 3 << n, (1 << n) - 1, 1)
        launch, places, fours = launches.pop()
        assert launch.shape == places.shape == fours.shape == ()
        # CuPy is given bytes: listing a record's fields for each launch would take longer than the launch.
        assert all(record.dtype.fields is None for record in (launch, places, fours))
        launch, places = launch.view(LAUNCH.dtype), places.view(FORWARD_PLACES.dtype)
        assert (launch["ket"], launch["size"], launch["offset"]) == (state.data.ptr, 1 << n, 3 << n)
        assert launch["tiles"] == 1 << n - len(stage.tile)
        assert launch["outside"] == (1 << n) - 1 - sum(1 << p for p in stage.tile)
        for name, first, record in (
            ("phases", stage.first_phase, PHASE),
            ("ops", stage.first_op, OP),
            ("slots", stage.first_slot, SLOT),
        ):
            assert launch[name] == own.array(name).data.ptr + first * record.dtype.itemsize
        assert launch["places"] == own.array("places").of[stage.places :].ctypes.data
        assert launch["begins"] == own.array("begins").of[stage.first_coefficient :].ctypes.data
        bound = own.bound
        assert bound is not None
        assert (launch["reals"], launch["turns"]) == (bound.reals, bound.turns)
        assert launch["reals"] % 16 == launch["turns"] % 16 == 0
        reals, turns = tables.binding.values(circuit.affine()(np.zeros(circuit.num_parameters))[None])
        assert (launch["reals_stride"], launch["turns_stride"]) == (reals.shape[1], turns.shape[1])
        kept = bound.buffer.of
        np.testing.assert_array_equal(kept[: reals.nbytes].view(reals.dtype), reals[0])
        begin = bound.turns - bound.reals
        np.testing.assert_array_equal(kept[begin : begin + turns.nbytes].view(turns.dtype), turns[0])
        assert (launch["load_flip"], launch["load_flip_end"]) == stage.load_flips
        assert (launch["store_flip"], launch["store_flip_end"]) == stage.store_flips
        assert (places["num_ops"], places["with_launch"]) == (stage.num_ops, 1)


def test_a_stage_of_the_adjoint_sweep_is_launched_with_three_records(launches: list[tuple[Any, ...]]) -> None:
    kind, n = np.dtype("complex64"), 14
    circuit = qd.library.hardware_efficient(n, 2)
    (segment,) = make_plan(circuit, kind, [tile_level(n, shape_of(kind))]).segments
    plan = Backward(target_of(kind, back_shape_of(kind)), segment.stages)
    back = sweep.CudaSweep(n, plan, multiples(circuit.affine()), 0)
    own = back._launcher
    own.bind(circuit.affine()(np.zeros(circuit.num_parameters))[None])
    kets, bras = (FakeArray(np.zeros((1, 1 << n), kind)) for _ in range(2))
    sums = FakeSums()
    partial = FakeArray(np.zeros(back._partial_size(0, (1 << n) - 1, 1)[1]))
    back._undo(0, kets, bras, 0, (1 << n) - 1, 1, sums, partial.data.ptr, False, 4096)
    ((launch, swept, places),) = launches
    launch, swept, places = (x.view(r.dtype) for x, r in zip((launch, swept, places), (LAUNCH, SWEEP, BACKWARD_PLACES)))
    assert (launch["ket"], swept["bra"], swept["keep"]) == (kets.data.ptr, bras.data.ptr, 0)
    assert (swept["partial"], swept["shifts"]) == (partial.data.ptr, 4096)
    assert swept["parities"] == own.array("parities").data.ptr
    assert swept["weighs"] == own.array("weighs").data.ptr
    assert swept["num_sums"] == back._tables.extents[0].sums[1] > 0
    assert places == back._resident[0][0].view(BACKWARD_PLACES.dtype)


class FakeSums:
    shape, itemsize, data = (1, 4), 8, SimpleNamespace(ptr=1 << 20)
