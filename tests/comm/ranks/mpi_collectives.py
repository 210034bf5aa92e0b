"""Every collective x dtype x array kind x blocking and async, against NumPy on what the ranks put in."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from arrays import DTYPES, TESTED_KINDS, each, expected_dtype, make

import qdist.comm as qc

both_ways = each(async_op=[False, True])
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_kind = each(kind=TESTED_KINDS)
# Inputs and outputs are prepared the same way for all reductions: all_reduce goes through every kind.
some_kinds = each(kind=[kind for kind in ("contiguous", "strided", "zero-size", "read-only") if kind in TESTED_KINDS])

FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
DEFINED = {"f": "sum product min max avg", "c": "sum product avg", "i": "sum product min max band bor bxor"}
DEFINED["b"] = "product min max band bor bxor"
OPS_OF = {dtype: DEFINED[np.dtype(dtype).kind].split() for dtype in DTYPES}
REDUCTIONS = [(dtype, op) for dtype in DTYPES for op in OPS_OF[dtype]]


def fold(inputs: list[Any], op: str) -> np.ndarray:
    arrays = [np.asarray(x) for x in inputs]
    if op == "avg":
        return reduce(np.add, arrays) / np.asarray(len(arrays), arrays[0].real.dtype)
    return reduce(FOLD[op], arrays)


def finish(outcome: Any, async_op: bool) -> Any:
    if not async_op:
        return outcome
    assert isinstance(outcome, qc.Work)
    result = outcome.wait()
    assert outcome.is_completed()
    assert outcome.result() is result
    return result


def same(got: np.ndarray, want: np.ndarray, dtype: np.dtype | None = None) -> None:
    assert got.dtype == (want.dtype if dtype is None else dtype)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5 if got.dtype.itemsize in (4, 8) else 1e-12)


def inputs(comm: qc.Communicator, dtype: str, kind: str, rows: int | None = None) -> list[Any]:
    return [make(rank, dtype, kind, rows) for rank in range(comm.size)]


def untouched(comm: qc.Communicator, x: Any, dtype: str, kind: str, rows: int | None = None) -> None:
    np.testing.assert_array_equal(x, make(comm.rank, dtype, kind, rows))


@both_ways
@every_kind
@pytest.mark.parametrize(("dtype", "op"), REDUCTIONS)
def test_all_reduce(comm: qc.Communicator, dtype: str, op: str, kind: str, async_op: bool) -> None:
    everyone = inputs(comm, dtype, kind)
    if kind == "list" and np.asarray(everyone[0]).dtype.kind != np.dtype(dtype).kind:
        return  # A list of this dtype becomes another.
    got = finish(comm.all_reduce(everyone[comm.rank], op, async_op=async_op), async_op)
    same(got, fold(everyone, op).astype(expected_dtype(dtype, kind)), expected_dtype(dtype, kind))
    untouched(comm, everyone[comm.rank], dtype, kind)


@both_ways
@some_kinds
@pytest.mark.parametrize(("dtype", "op"), REDUCTIONS)
def test_reduce(comm: qc.Communicator, dtype: str, op: str, kind: str, async_op: bool) -> None:
    everyone = inputs(comm, dtype, kind)
    root = comm.size - 1
    got = finish(comm.reduce(everyone[comm.rank], root, op, async_op=async_op), async_op)
    if comm.rank == root:
        same(got, fold(everyone, op).astype(expected_dtype(dtype, kind)))
    else:
        assert got is None


@both_ways
@some_kinds
@pytest.mark.parametrize(("dtype", "op"), REDUCTIONS)
def test_reduce_scatter(comm: qc.Communicator, dtype: str, op: str, kind: str, async_op: bool) -> None:
    everyone = inputs(comm, dtype, kind, rows=comm.size)
    got = finish(comm.reduce_scatter(everyone[comm.rank], op, async_op=async_op), async_op)
    same(got, fold(everyone, op)[comm.rank, ...].astype(expected_dtype(dtype, kind)))
    untouched(comm, everyone[comm.rank], dtype, kind, comm.size)


@both_ways
@every_kind
@every_dtype
def test_broadcast_from_every_root(comm: qc.Communicator, dtype: str, kind: str, async_op: bool) -> None:
    everyone = inputs(comm, dtype, kind)
    for root in range(comm.size):
        got = finish(comm.broadcast(everyone[comm.rank], root, async_op=async_op), async_op)
        same(got, np.asarray(everyone[root]), expected_dtype(dtype, kind))
    untouched(comm, everyone[comm.rank], dtype, kind)


@both_ways
@every_kind
@every_dtype
def test_all_gather(comm: qc.Communicator, dtype: str, kind: str, async_op: bool) -> None:
    everyone = inputs(comm, dtype, kind)
    got = finish(comm.all_gather(everyone[comm.rank], async_op=async_op), async_op)
    same(got, np.stack([np.asarray(x) for x in everyone]), expected_dtype(dtype, kind))


@both_ways
@every_kind
@every_dtype
def test_gather(comm: qc.Communicator, dtype: str, kind: str, async_op: bool) -> None:
    everyone = inputs(comm, dtype, kind)
    root = comm.size // 2
    got = finish(comm.gather(everyone[comm.rank], root, async_op=async_op), async_op)
    if comm.rank == root:
        same(got, np.stack([np.asarray(x) for x in everyone]), expected_dtype(dtype, kind))
    else:
        assert got is None


@both_ways
@every_kind
@every_dtype
def test_scatter_needs_the_array_on_root_alone(comm: qc.Communicator, dtype: str, kind: str, async_op: bool) -> None:
    root = comm.size // 2
    whole = make(root, dtype, kind, rows=comm.size)
    got = finish(comm.scatter(whole if comm.rank == root else None, root, async_op=async_op), async_op)
    same(got, np.asarray(whole)[comm.rank, ...], expected_dtype(dtype, kind))


@both_ways
@pytest.mark.parametrize("dtype", [[("a", "<i4"), ("b", "<f8")], [("a", "u1"), ("b", "<f4", (2,))]])
def test_rows_with_fields_are_scattered_with_them(comm: qc.Communicator, dtype: Any, async_op: bool) -> None:
    root = comm.size - 1
    whole = np.zeros((comm.size, 3), dtype)
    whole["a"], whole["b"] = np.arange(comm.size)[:, None], 0.5
    for out in (None, np.zeros(3, dtype)):
        x = whole if comm.rank == root else None
        got = finish(comm.scatter(x, root, out=out, async_op=async_op), async_op)
        assert got.dtype == whole.dtype
        assert (got == whole[comm.rank]).all()


@both_ways
@every_kind
@every_dtype
def test_all_to_all(comm: qc.Communicator, dtype: str, kind: str, async_op: bool) -> None:
    everyone = inputs(comm, dtype, kind, rows=comm.size)
    x = everyone[comm.rank]
    got = finish(comm.all_to_all(np.asarray(x) if kind == "list" else x, async_op=async_op), async_op)
    same(got, np.stack([np.asarray(y)[comm.rank, ...] for y in everyone]), expected_dtype(dtype, kind))


@both_ways
@every_dtype
def test_ragged_all_to_all_of_lists_carries_shapes(comm: qc.Communicator, dtype: str, async_op: bool) -> None:
    def part(source: int, dest: int) -> np.ndarray:
        shape = (source + 1, dest) if (source + dest) % 2 else (dest + 2,)
        return (np.arange(np.prod(shape)).reshape(shape) + 10 * source + dest).astype(dtype)

    got = finish(comm.all_to_all([part(comm.rank, dest) for dest in range(comm.size)], async_op=async_op), async_op)
    assert len(got) == comm.size
    for source, x in enumerate(got):
        same(x, part(source, comm.rank))


@both_ways
@every_dtype
def test_ragged_all_to_all_with_counts(comm: qc.Communicator, dtype: str, async_op: bool) -> None:
    def count(source: int, dest: int) -> int:
        return (source * 3 + dest) % 4

    def part(source: int, dest: int) -> np.ndarray:
        return (np.arange(count(source, dest)) + source + 2 * dest).astype(dtype)

    sends = [count(comm.rank, dest) for dest in range(comm.size)]
    receives = [count(source, comm.rank) for source in range(comm.size)]
    x = np.concatenate([part(comm.rank, dest) for dest in range(comm.size)])
    got = finish(comm.all_to_all(x, send_counts=sends, recv_counts=receives, async_op=async_op), async_op)
    same(got, np.concatenate([part(source, comm.rank) for source in range(comm.size)]))


@both_ways
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("kind", ["contiguous", "scalar"])
def test_premul_sum_takes_a_factor_of_each_rank(comm: qc.Communicator, kind: str, dtype: str, async_op: bool) -> None:
    everyone = inputs(comm, dtype, kind)
    op = qc.ReduceOp.premul_sum(0.5 + comm.rank)
    want = sum((0.5 + rank) * np.asarray(x) for rank, x in enumerate(everyone)).astype(dtype)
    same(finish(comm.all_reduce(everyone[comm.rank], op, async_op=async_op), async_op), want)
    got = finish(comm.reduce(everyone[comm.rank], 0, op, async_op=async_op), async_op)
    if comm.rank == 0:
        same(got, want)
    rows = inputs(comm, dtype, kind, comm.size)
    got = finish(comm.reduce_scatter(rows[comm.rank], op, async_op=async_op), async_op)
    same(got, sum((0.5 + rank) * x[comm.rank] for rank, x in enumerate(rows)).astype(dtype))


@both_ways
def test_barrier_holds_until_the_last_has_come(comm: qc.Communicator, async_op: bool) -> None:
    assert finish(comm.barrier(async_op=async_op), async_op) is None


@both_ways
@pytest.mark.parametrize("kind", ["contiguous", "strided", "fortran", "itself"])
def test_out_is_written_and_returned(comm: qc.Communicator, kind: str, async_op: bool) -> None:
    x = np.arange(12.0).reshape(3, 4) + comm.rank
    want = sum(np.arange(12.0).reshape(3, 4) + rank for rank in range(comm.size))
    out = {
        "contiguous": np.empty((3, 4)),
        "strided": np.empty((3, 8))[:, ::2],
        "fortran": np.empty((3, 4), order="F"),
        "itself": x,
    }[kind]
    got = finish(comm.all_reduce(x, out=out, async_op=async_op), async_op)
    assert got is out
    np.testing.assert_array_equal(got, want)


def test_out_that_overlaps_the_input_is_as_good_as_any(comm: qc.Communicator) -> None:
    room = np.arange(10.0) + comm.rank
    want = sum(np.arange(8.0) + rank for rank in range(comm.size))
    comm.all_reduce(room[:8], out=room[2:])
    np.testing.assert_array_equal(room[2:], want)


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint16", [("a", "<i4"), ("b", "<f8")]])
def test_any_plain_dtype_travels(comm: qc.Communicator, dtype: Any) -> None:
    x = np.zeros(4, dtype)
    if x.dtype.names:
        x["a"], x["b"] = comm.rank, comm.rank / 2
    else:
        x[:] = comm.rank
    rows = comm.all_gather(x)
    assert rows.dtype == x.dtype
    assert rows.shape == (comm.size, 4)
    for rank in range(comm.size):
        assert (rows[rank] == (np.array((rank, rank / 2), x.dtype) if x.dtype.names else rank)).all()


@both_ways
@each(dtype=["longdouble", "clongdouble"])
def test_wide_numbers_are_gathered_in_any_length(comm: qc.Communicator, dtype: str, async_op: bool) -> None:
    # MPICH cuts long messages of a gather in the middle of an element of 32 bytes, and ends there.
    everyone = [np.arange(20_001).astype(dtype) + rank for rank in range(comm.size)]
    got = finish(comm.gather(everyone[comm.rank], comm.size - 1, async_op=async_op), async_op)
    if comm.rank == comm.size - 1:
        same(got, np.stack(everyone))


def test_works_may_be_left_alone_and_waited_for_out_of_order(comm: qc.Communicator) -> None:
    works = [comm.all_reduce(np.full(100, float(k)), async_op=True) for k in range(150)]
    for k in reversed(range(0, 150, 2)):
        np.testing.assert_array_equal(works[k].wait(), np.full(100, float(k) * comm.size))
    del works
    comm.barrier()


def test_ring_all_reduce_equals_the_transports(comm: qc.Communicator) -> None:
    for shape in [(), (1,), (7,), (5, 6), (1000,)]:
        x = np.random.default_rng(comm.rank).normal(size=shape)
        np.testing.assert_allclose(qc.ring_all_reduce(comm, x), comm.all_reduce(x), rtol=1e-12)
