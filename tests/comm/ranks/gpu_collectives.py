"""The collectives on CuPy arrays: over MPI (staged or CUDA-aware) or over NCCL, against the same call on NumPy arrays.

Run by tests/comm/test_gpu.py; QDIST_TEST_BACKEND says which.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from arrays import DTYPES, make

import qdist.comm as qc
from qdist.comm.gpu_windows import share_gpus

cupy = pytest.importorskip("cupy")


@pytest.fixture(scope="session")
def comm() -> qc.Communicator:
    return qc.init(backend=os.environ["QDIST_TEST_BACKEND"], timeout=120)


CALLS = [
    ("all_reduce", {"op": "sum"}, None),
    ("all_reduce", {"op": "product"}, None),
    ("all_reduce", {"op": "max"}, None),
    ("all_reduce", {"op": "bxor"}, None),
    ("all_reduce", {"op": "avg"}, None),
    ("reduce", {"op": "sum", "root": 0}, None),
    ("reduce", {"op": "band", "root": 0}, None),
    ("reduce_scatter", {"op": "sum"}, "rows"),
    ("reduce_scatter", {"op": "bor"}, "rows"),
    ("broadcast", {"root": 0}, None),
    ("all_gather", {}, None),
    ("gather", {"root": 0}, None),
    ("all_to_all", {}, "rows"),
]


def cases() -> Iterator[Any]:
    for name, arguments, rows in CALLS:
        for dtype in DTYPES:
            op = arguments.get("op")
            try:
                if op is not None:
                    qc.ReduceOp.of(op).check(np.dtype(dtype))
            except TypeError:
                continue
            yield pytest.param(name, arguments, rows, dtype, id=f"{name}-{op}-{dtype}")


@pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("kind", ["contiguous", "strided", "zero-size", "scalar"])
@pytest.mark.parametrize(("name", "arguments", "rows", "dtype"), list(cases()))
def test_as_on_the_host(
    comm: qc.Communicator, name: str, arguments: dict, rows: str | None, dtype: str, kind: str, async_op: bool
) -> None:
    x = make(comm.rank, dtype, kind, comm.size if rows else None)
    on_device = cupy.asarray(x) if kind != "strided" else cupy.asarray(np.repeat(x, 2, axis=-1))[..., ::2]
    want = getattr(comm, name)(x, **arguments)
    got = getattr(comm, name)(on_device, **arguments, async_op=async_op)
    if async_op:
        got = got.wait()
    if want is None:
        assert got is None
        return
    assert isinstance(got, cupy.ndarray)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(cupy.asnumpy(got), want, rtol=1e-6)
    np.testing.assert_array_equal(cupy.asnumpy(on_device), x)


def test_what_is_still_being_computed_is_sent_when_it_is_there(comm: qc.Communicator) -> None:
    x = cupy.ones(1 << 22, cupy.float64)
    for _ in range(50):
        x = x * 1.0 + 1.0
    assert float(comm.all_reduce(x)[-1]) == 51.0 * comm.size


def test_messages_and_ragged_lists(comm: qc.Communicator) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    out = cupy.empty(5)
    if comm.size > 1:
        # NCCL knows no tags and pairs messages in order, so neighbours take turns.
        first, second = (comm.isend, comm.irecv) if comm.rank % 2 == 0 else (comm.irecv, comm.isend)
        for call in (first, second):
            peer, x = (right, cupy.full(5, float(comm.rank))) if call == comm.isend else (left, out)
            call(x, peer).wait()
        assert float(out[3]) == left
    parts = [cupy.full((comm.rank, d + 1), d) for d in range(comm.size)]
    for source, part in enumerate(comm.all_to_all(parts)):
        assert part.shape == (source, comm.rank + 1)
        assert (part == comm.rank).all()
    row = comm.scatter(
        cupy.arange(comm.size * 2.0).reshape(comm.size, 2) if comm.rank == 0 else None, out=cupy.empty(2)
    )
    assert row.tolist() == [2.0 * comm.rank, 2.0 * comm.rank + 1]


@pytest.mark.parametrize("met", [False, True], ids=["strangers", "met"])
def test_trades_under_way_together(comm: qc.Communicator, met: bool) -> None:
    """More than one at a time, of what is still being computed, into memory that is still being read."""
    if met:
        share_gpus(comm)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    x, out, total = cupy.zeros((4, 1 << 18)), cupy.empty((2, 1 << 18)), cupy.zeros(1 << 18)
    works = []

    def take(number: int) -> None:
        nonlocal total
        incoming = works[number].wait()
        assert incoming.data.ptr == out[number % 2].data.ptr
        total += incoming

    for number in range(4):
        if number >= 2:
            take(number - 2)
        x[number] += comm.rank + 10 * number
        works.append(comm.isendrecv(x[number], right, out[number % 2], left))
    take(2)
    take(3)
    if comm.size == 2:
        # With one rank both ways: too small for a window, of its sizes, and too large.
        for size in (3, 1 << 19, (1 << 22) + 1):
            mine, theirs = cupy.full(size, comm.rank + 7.0), cupy.empty(size)
            assert (comm.sendrecv(mine, 1 - comm.rank, theirs, 1 - comm.rank) == 8.0 - comm.rank).all()
    np.testing.assert_array_equal(cupy.asnumpy(total), np.full(1 << 18, 4 * left + 60))
    assert all(work.is_completed() for work in works)
    strided = cupy.zeros((5, 2))[:, 1]
    assert comm.sendrecv(cupy.full((10,), comm.rank)[::2].astype(float), right, strided, left) is strided
    assert (strided == left).all()
    with pytest.raises(TypeError, match="not one of each"):
        comm.sendrecv(cupy.zeros(1), right, np.zeros(1), left)


def test_groups(comm: qc.Communicator) -> None:
    part = comm.split([[r] for r in range(comm.size)])
    assert part is not None
    assert float(part.all_reduce(cupy.array(3.0))) == 3.0
    whole = comm.new_group(list(range(comm.size))[::-1])
    assert whole is not None
    assert cupy.asnumpy(whole.all_gather(cupy.array(comm.rank))).tolist() == list(range(comm.size))[::-1]


def test_out_on_the_other_side_is_refused(comm: qc.Communicator) -> None:
    with pytest.raises(TypeError, match="the input is a CuPy array, out is a NumPy array"):
        comm.all_reduce(cupy.zeros(3), out=np.zeros(3))
