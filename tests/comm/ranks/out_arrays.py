"""Every call x every way in which ``out`` can lie in the input's memory, against NumPy on copies of the inputs.

Runs on NumPy arrays, or with QDIST_TEST_ARRAYS=cupy on CuPy arrays; QDIST_TEST_BACKEND names the backend.
"""

import importlib
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import qdist.comm as qc

xp = importlib.import_module(os.environ.get("QDIST_TEST_ARRAYS", "numpy"))


@pytest.fixture(scope="session")
def comm() -> qc.Communicator:
    return qc.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


SIZES = [3, 20_000]
"""Elements a row: a message of the second is far beyond what MPI buffers."""

WAYS: dict[str, Callable[[Any, int, int], tuple[Any, Any]]] = {
    "apart": lambda m, a, b: (m[:a], m[a : a + b]),
    "from the same start": lambda m, a, b: (m[:a], m[:b]),
    "behind": lambda m, a, b: (m[:a], m[2 : 2 + b]),
    "ahead": lambda m, a, b: (m[2 : 2 + a], m[:b]),
    "half": lambda m, a, b: (m[:a], m[a // 2 : a // 2 + b]),
    "reversed out": lambda m, a, b: (m[:a], m[:b][::-1]),
    "reversed input": lambda m, a, b: (m[:a][::-1], m[:b]),
    "both reversed": lambda m, a, b: (m[:a][::-1], m[1 : 1 + b][::-1]),
    "between": lambda m, a, b: (m[0 : 2 * a : 2], m[1 : 1 + 2 * b : 2]),
    "every other out": lambda m, a, b: (m[:a], m[: 2 * b : 2]),
    "every other input": lambda m, a, b: (m[: 2 * a : 2], m[:b]),
}
"""(input, out) of a and b elements as views of one memory."""


class Case:
    """A call of (comm, x, out, async_op), the shapes of x and out, and what NumPy makes of everybody's x."""

    def __init__(self, call: Any, x_shape: Any, out_shape: Any, model: Any, dtype: str = "float64") -> None:
        self.call, self.x_shape, self.out_shape, self.model, self.dtype = call, x_shape, out_shape, model, dtype


def reduction(op: str, fold: Callable[[Any], Any], dtype: str = "float64") -> Case:
    return Case(
        lambda c, x, out, **how: c.all_reduce(x, op, out=out, **how),
        lambda size, n: (2, n),
        lambda size, n: (2, n),
        lambda xs, rank: fold(np.stack(xs)),
        dtype,
    )


def right(c: qc.Communicator) -> int:
    return (c.rank + 1) % c.size


def left(c: qc.Communicator) -> int:
    return (c.rank - 1) % c.size


def trade(c: qc.Communicator, x: Any, out: Any, async_op: bool) -> Any:
    call = c.isendrecv if async_op else c.sendrecv
    return call(x, right(c), out, left(c))


CASES = {
    "all_reduce": reduction("sum", lambda x: x.sum(0)),
    "all_reduce max": reduction("max", lambda x: x.max(0), "int32"),
    "all_reduce avg": reduction("avg", lambda x: x.mean(0)),
    "all_reduce bor of bools": reduction("bor", lambda x: x.any(0), "bool"),
    "reduce": Case(
        lambda c, x, out, **how: c.reduce(x, c.size - 1, out=out, **how),
        lambda size, n: (n,),
        lambda size, n: (n,),
        lambda xs, rank: sum(xs) if rank == len(xs) - 1 else None,
        "complex64",
    ),
    "reduce_scatter": Case(
        lambda c, x, out, **how: c.reduce_scatter(x, out=out, **how),
        lambda size, n: (size, n),
        lambda size, n: (n,),
        lambda xs, rank: sum(xs)[rank],
    ),
    "broadcast": Case(
        lambda c, x, out, **how: c.broadcast(x, c.size - 1, out=out, **how),
        lambda size, n: (n, 2),
        lambda size, n: (n, 2),
        lambda xs, rank: xs[-1],
        "float16",
    ),
    "all_gather": Case(
        lambda c, x, out, **how: c.all_gather(x, out=out, **how),
        lambda size, n: (n,),
        lambda size, n: (size, n),
        lambda xs, rank: np.stack(xs),
    ),
    "gather": Case(
        lambda c, x, out, **how: c.gather(x, 0, out=out, **how),
        lambda size, n: (n,),
        lambda size, n: (size, n),
        lambda xs, rank: np.stack(xs) if rank == 0 else None,
    ),
    "scatter": Case(
        lambda c, x, out, **how: c.scatter(x, 0, out=out, **how),
        lambda size, n: (size, n),
        lambda size, n: (n,),
        lambda xs, rank: xs[0][rank],
        "complex128",
    ),
    "all_to_all": Case(
        lambda c, x, out, **how: c.all_to_all(x, out=out, **how),
        lambda size, n: (size, n),
        lambda size, n: (size, n),
        lambda xs, rank: np.stack([x[rank] for x in xs]),
    ),
    "all_to_all with counts": Case(
        lambda c, x, out, **how: c.all_to_all(
            x, send_counts=[len(x) // c.size] * c.size, recv_counts=[len(x) // c.size] * c.size, out=out, **how
        ),
        lambda size, n: (size * n,),
        lambda size, n: (size * n,),
        lambda xs, rank: np.concatenate([x.reshape(len(xs), -1)[rank] for x in xs]),
    ),
    "sendrecv": Case(trade, lambda size, n: (n,), lambda size, n: (n,), lambda xs, rank: xs[rank - 1], "int64"),
}


@cache
def memory(rank: int, size: int, n: int, dtype: str) -> np.ndarray:
    """What a rank starts from; tests write to copies of it."""
    values = np.random.default_rng([rank, n]).integers(0, 100, 4 * max(size, 2) * n + 8)
    made = (values > 50) if dtype == "bool" else values.astype(dtype)
    made.flags.writeable = False
    return made


@pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("name", CASES)
def test_out_may_overlap_the_input_in_any_way(comm: qc.Communicator, name: str, async_op: bool) -> None:
    case = CASES[name]
    for n in SIZES:
        x_shape, out_shape = case.x_shape(comm.size, n), case.out_shape(comm.size, n)
        everyone = [memory(rank, comm.size, n, case.dtype) for rank in range(comm.size)]
        for way, views in WAYS.items():

            def pair(whole: Any, views: Any = views, shapes: Any = (x_shape, out_shape)) -> tuple[Any, Any]:
                x, out = views(whole, *(int(np.prod(shape)) for shape in shapes))
                return x.reshape(shapes[0]), out.reshape(shapes[1])

            want = everyone[comm.rank].copy()
            result = case.model([pair(whole)[0].copy() for whole in everyone], comm.rank)
            if result is not None:
                target = pair(want)[1]
                assert np.shares_memory(target, want)
                target[...] = result
            mine = xp.asarray(everyone[comm.rank].copy())
            x, out = pair(mine)
            got = case.call(comm, x, out, async_op=async_op)
            got = got.wait() if async_op else got
            assert (got is out) == (result is not None)
            after = mine if xp is np else mine.get()
            assert np.array_equal(after, want), f"{name}, {way}, {n} elements"


@pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("name", [name for name, c in CASES.items() if c.x_shape(5, 7) == c.out_shape(5, 7)])
def test_out_may_be_the_input_itself(comm: qc.Communicator, name: str, async_op: bool) -> None:
    case = CASES[name]
    for n in SIZES:
        shape = case.x_shape(comm.size, n)
        count = int(np.prod(shape))
        everyone = [memory(rank, comm.size, n, case.dtype)[:count].reshape(shape) for rank in range(comm.size)]
        x = xp.asarray(everyone[comm.rank].copy())
        got = case.call(comm, x, x, async_op=async_op)
        got = got.wait() if async_op else got
        want = case.model(everyone, comm.rank)
        assert (got is x) == (want is not None)
        after = x if xp is np else x.get()
        np.testing.assert_array_equal(after, everyone[comm.rank] if want is None else want)


def read_only(shape: Any, dtype: str) -> Any:
    out = np.empty(shape, dtype)
    out.flags.writeable = False
    return out


WRONG: dict[str, tuple[Callable[[Any, str], Any], type[Exception], str]] = {
    "another dtype": (lambda s, d: xp.empty(s, "int8"), TypeError, "one dtype"),
    "another shape": (lambda s, d: xp.empty((*s, 2), d), ValueError, "out has shape"),
    "one element more": (lambda s, d: xp.empty((*s[:-1], s[-1] + 1), d), ValueError, "out has shape"),
    "a list": (lambda s, d: [0.0], TypeError, "NumPy or CuPy array, not list"),
    "elements in one place": (
        lambda s, d: xp.lib.stride_tricks.as_strided(xp.empty(1, d), s, (0,) * len(s)),
        ValueError,
        "share memory",
    ),
}
if xp is np:
    WRONG["read-only"] = (read_only, ValueError, "read-only")


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("scatter", "sendrecv")])
def test_what_cannot_hold_the_result_is_refused_on_every_rank(comm: qc.Communicator, name: str, wrong: str) -> None:
    case = CASES[name]
    make, error, words = WRONG[wrong]
    x = xp.asarray(memory(comm.rank, comm.size, 3, case.dtype)[: int(np.prod(case.x_shape(comm.size, 3)))])
    out = make(case.out_shape(comm.size, 3), case.dtype)
    with pytest.raises(error, match=words):
        case.call(comm, x.reshape(case.x_shape(comm.size, 3)), out, async_op=False)


@pytest.mark.parametrize("wrong", ["a list", "elements in one place", *(["read-only"] if xp is np else [])])
def test_messages_need_memory_that_can_be_written(comm: qc.Communicator, wrong: str) -> None:
    make, error, words = WRONG[wrong]
    out = make((3,), "float64")
    with pytest.raises(error, match=words):
        comm.sendrecv(xp.zeros(3), comm.rank, out, comm.rank)
    with pytest.raises(error, match=words):
        comm.recv(out, comm.rank)
    with pytest.raises(error, match=words):
        comm.irecv(out, comm.rank)
    if wrong == "a list":
        with pytest.raises(error, match=words):
            comm.scatter(None, 0, out=out)


@pytest.mark.skipif(xp is not np, reason="of NumPy arrays alone")
def test_a_shorter_message_leaves_the_rest_and_comes_in_the_byte_order_of_out(comm: qc.Communicator) -> None:
    for out in (np.full(10, -1.0), np.full(20, -1.0)[::2], np.full(10, -1.0, ">f8")):
        pending = comm.irecv(out, left(comm), tag=4)
        sent = comm.isend(np.arange(4) + float(comm.rank), right(comm), tag=4)
        assert pending.wait() is out
        sent.wait()
        assert out.tolist() == [left(comm) + float(k) for k in range(4)] + [-1.0] * 6
    with pytest.raises(TypeError, match="cannot be communicated"):
        comm.recv(np.empty(3, object), left(comm))
    with pytest.raises(qc.CommError, match=r"sendrecv: the message|does not fit"):
        comm.sendrecv(np.zeros(4), right(comm), np.zeros(5), left(comm))


@pytest.mark.skipif(xp is not np, reason="CuPy aligns its memory")
def test_unaligned_memory_is_right_too(comm: qc.Communicator) -> None:
    raw = np.zeros(8 * 2001 + 1, np.uint8)
    x = raw[1:].view(np.float64)
    assert not x.flags.aligned
    x[...] = comm.rank + 1.0
    assert comm.all_reduce(x, out=x) is x
    assert (x == sum(range(1, comm.size + 1))).all()
