"""Arguments that do not fit are refused before anything is sent, and counting communicators count."""

import re
import sys
from typing import Any

import numpy as np
import pytest

import qdist.comm as qc
from qdist.comm.communicator import Communicator
from qdist.comm.guard.watch import Guard
from qdist.comm.place import Place
from qdist.comm.transports.counting import CountingTransport


@pytest.fixture
def four() -> Communicator:
    """Rank 1 of 4 with nobody else there."""
    return qc.counting_communicator(4, rank=1)


def test_both_dtypes_are_named_when_they_differ(four: Communicator) -> None:
    with pytest.raises(TypeError, match="the input is float32, out is float64"):
        four.all_reduce(np.zeros(3, np.float32), out=np.zeros(3))
    with pytest.raises(TypeError, match="array 0 is int64, array 2 is float64"):
        four.all_to_all([np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.zeros(1)])


def test_out_of_another_shape_or_read_only_is_refused(four: Communicator) -> None:
    with pytest.raises(ValueError, match=r"out has shape \(3,\), the result has shape \(4, 3\)"):
        four.all_gather(np.zeros(3), out=np.zeros(3))
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        four.all_reduce(np.zeros(3), out=frozen)
    with pytest.raises(TypeError, match="out must be a NumPy or CuPy array, not list"):
        four.all_reduce(np.zeros(3), out=[0, 0, 0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "op", "way_out"),
    [
        ("complex64", "max", "complex numbers have no order"),
        ("complex128", "band", "integers"),
        ("float32", "bxor", "not defined for float32"),
        ("bool", "sum", "use 'bor'"),
        ("int64", "avg", "convert to a float dtype first"),
    ],
)
def test_reductions_that_make_no_sense_say_why(four: Communicator, dtype: str, op: str, way_out: str) -> None:
    for call in (four.all_reduce, four.reduce_scatter):
        with pytest.raises(TypeError, match=way_out):
            call(np.ones((4, 2), dtype), op=op)
    with pytest.raises(TypeError, match=way_out):
        four.reduce(np.ones((4, 2), dtype), op=op)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(), (1,), (2, 0), (3, 2)])
@pytest.mark.parametrize("async_op", [False, True])
def test_a_sum_with_a_factor_takes_arrays_of_any_shape(dtype: str, shape: tuple[int, ...], async_op: bool) -> None:
    comm, op = qc.init(backend="solo"), qc.ReduceOp.premul_sum(0.5)
    x = np.full(shape, 3, dtype)
    for call in (comm.all_reduce, comm.reduce):
        for out in (None, np.zeros(shape, dtype)):
            got = call(x, op=op, out=out, async_op=async_op)
            got = got.wait() if async_op else got
            assert out is None or got is out
            np.testing.assert_array_equal(got, np.full(shape, 1.5, dtype), strict=True)
        np.testing.assert_array_equal(x, 3)


def test_unknown_reductions_list_the_known(four: Communicator) -> None:
    with pytest.raises(ValueError, match="unknown reduction 'mean': use one of sum, product, min, max, avg"):
        four.all_reduce(np.zeros(3), "mean")


def test_ranks_outside_the_group_are_refused(four: Communicator) -> None:
    with pytest.raises(ValueError, match="root=4 is not a rank of 'world': ranks are 0 to 3"):
        four.broadcast(np.zeros(3), root=4)
    with pytest.raises(ValueError, match="dest=-1"):
        four.send(np.zeros(3), -1)
    for tag in (-2, 1 << 31):
        with pytest.raises(ValueError, match=f"tag={tag}"):
            four.recv(np.zeros(3), 0, tag=tag)
    with pytest.raises(ValueError, match="group rank=7"):
        four.split([[0, 7]])
    with pytest.raises(ValueError, match="rank 1 stands in two groups"):
        four.split([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="each once"):
        four.new_group([1, 1])


@pytest.mark.parametrize("wrong", [1.0, 0.5, "1", None])
def test_ranks_and_tags_are_whole_numbers(four: Communicator, wrong: Any) -> None:
    x, told = np.zeros(3), re.escape(f"={wrong!r}: a whole number")
    for comm in (four, qc.init()):
        for call in (comm.broadcast, comm.reduce, comm.gather, comm.broadcast_object, comm.gather_object):
            with pytest.raises(TypeError, match=f"root{told}"):
                call(x, root=wrong)
        for call in (comm.send, comm.isend, comm.recv, comm.irecv):
            with pytest.raises(TypeError, match=told):
                call(x, wrong)
            with pytest.raises(TypeError, match=f"tag{told}"):
                call(x, 0, tag=wrong)
        for make, ranks in ((comm.new_group, [wrong]), (comm.split, [[wrong]])):
            with pytest.raises(TypeError, match=f"group rank{told}"):
                make(ranks)
        with pytest.raises(TypeError, match=f"dp{told}"):
            qc.Mesh(comm, dp=wrong)


def test_whole_numbers_of_numpy_make_the_same_groups(four: Communicator) -> None:
    group = four.split([np.array([1, 3])])
    assert group is not None
    assert (group.name, group.group) == ("world[1, 3]", (1, 3))
    assert repr(qc.Mesh(four, dp=np.int64(2), tp=-1).shape) == "{'dp': 2, 'tp': 2}"


def test_rows_must_be_as_many_as_ranks(four: Communicator) -> None:
    for call in (four.all_to_all, four.reduce_scatter):
        with pytest.raises(ValueError, match=r"must have length 4, the input has shape \(3, 2\)"):
            call(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="one array a rank: 4, not 2"):
        four.all_to_all([np.zeros(1), np.zeros(1)])


def test_ragged_counts_must_add_up(four: Communicator) -> None:
    with pytest.raises(ValueError, match="send_counts add up to 4, the input has 5 elements"):
        four.all_to_all(np.zeros(5), send_counts=[1, 1, 1, 1], recv_counts=[1, 1, 1, 1])
    with pytest.raises(ValueError, match="must hold 4 numbers"):
        four.all_to_all(np.zeros(5), send_counts=[5], recv_counts=[1, 1, 1, 1])
    with pytest.raises(ValueError, match="rank 1 sends itself 1 elements but expects 2"):
        four.all_to_all(np.zeros(4), send_counts=[1, 1, 1, 1], recv_counts=[1, 2, 1, 1])
    with pytest.raises(TypeError, match="both send_counts and recv_counts"):
        four.all_to_all(np.zeros(4), send_counts=[1, 1, 1, 1])


def test_python_objects_are_refused_as_arrays(four: Communicator) -> None:
    with pytest.raises(TypeError, match=r"broadcast_object\(\)"):
        four.all_gather(np.array([{}, None]))


def test_counting_records_every_message_and_moves_nothing(four: Communicator) -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(four.all_reduce(x), x)
    np.testing.assert_array_equal(four.reduce_scatter(x), x[1])
    np.testing.assert_array_equal(four.all_gather(x)[[0, 2, 3]], 0)
    np.testing.assert_array_equal(four.all_gather(x)[1], x)
    four.send(x, 3)
    four.broadcast(x, root=2)
    four.all_to_all([x, x, x[:1], x])
    assert four.messages is not None
    noted = [(m.op, m.group, m.bytes, m.wire_bytes) for m in four.messages]
    world = (0, 1, 2, 3)
    header = 4 * 9 * 8
    assert noted == [
        ("all_reduce", world, 32, 48),
        ("reduce_scatter", world, 32, 24),
        ("all_gather", world, 32, 96),
        ("all_gather", world, 32, 96),
        ("send", (1, 3), 32, 32),
        ("broadcast", world, 32, 24),
        ("all_to_all", world, header, header * 3 / 4),
        ("all_to_all (ragged)", world, 104, 72),
    ]


def test_recordings_within_recordings_are_noted_in_both(four: Communicator) -> None:
    for comm in (four, qc.init()):
        always = None if comm.messages is None else list(comm.messages)
        with comm.recording() as outer:
            comm.barrier()
            with comm.recording() as inner:
                comm.all_gather(np.zeros(2))
            comm.broadcast(np.zeros(3))
        assert [m.op for m in inner] == ["all_gather"]
        assert [m.op for m in outer] == ["barrier", "all_gather", "broadcast"]
        assert comm.messages == (None if always is None else [*always, *outer])


def test_a_groups_nodes_are_those_of_its_ranks() -> None:
    nodes = ["a", "a", "b", "b", "c"]
    for rank in range(5):
        guard = Guard(rank, 5, 10.0, None, sys.exit)
        transport = CountingTransport(5, rank)
        place = Place.among(rank, nodes)
        world = Communicator(transport, transport, guard=guard, place=place, group=(0, 1, 2, 3, 4))
        assert world.num_nodes == 3
        pair = world.split([[1, 0], [4, 3], [2]])
        assert pair is not None
        assert pair.num_nodes == (2 if rank > 2 else 1)
        if rank > 2:
            alone = pair.split([[0], [1]])
            assert alone is not None
            assert alone.num_nodes == 1


def test_counting_reaches_sizes_that_no_machine_has() -> None:
    comm = qc.counting_communicator(16384, rank=9000)
    mesh = qc.Mesh(comm, dp=16, state=-1)
    assert mesh["state"].size == 1024
    assert mesh["state"].rank == 9000 % 1024
    mesh["state"].all_to_all(np.zeros((1024, 1)))
    assert mesh["state"].messages[0].wire_bytes == 1023 * 8


@pytest.mark.parametrize(
    ("degrees", "message"),
    [
        ({"dp": 3}, "dp=3 does not make 4 ranks"),
        ({"dp": 2, "tp": 4}, "dp=2 x tp=4 does not make 4 ranks"),
        ({"dp": 0}, "dp=0: a degree is a positive number"),
        ({"dp": -1, "tp": -1}, "only one degree may be -1"),
        ({"dp": -1, "tp": 3}, "does not make 4 ranks"),
        ({}, "a mesh needs axes"),
    ],
)
def test_meshes_that_do_not_fit_are_refused(four: Communicator, degrees: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        qc.Mesh(four, **degrees)
    with pytest.raises(KeyError, match="no axis 'pp': it has dp, tp"):
        qc.Mesh(four, dp=2, tp=2)["pp"]


def test_one_process_receives_what_it_sent_itself_and_nothing_else() -> None:
    comm = qc.init(backend="solo")
    comm.send(np.arange(3), 0)
    np.testing.assert_array_equal(comm.recv(np.zeros(3, int), 0), [0, 1, 2])
    with pytest.raises(qc.CommError, match="nothing was sent, so"):
        comm.recv(np.zeros(3), 0)


def test_a_mesh_is_of_a_communicator():
    with pytest.raises(TypeError, match=r"of a communicator such as .*, not int"):
        qc.Mesh(4, dp=4)


def test_masked_numbers_are_not_sent_as_if_they_were_there() -> None:
    comm = qc.init()
    hidden, open_ = np.ma.array([1.0, 2.0], mask=[True, False]), np.ma.array([1.0, 2.0])
    for call in (comm.all_reduce, comm.all_gather, lambda x: comm.all_reduce(x, out=np.empty(2)), comm.broadcast):
        with pytest.raises(TypeError, match=r"masked array cannot be communicated.*x\.filled\(0\)"):
            call(hidden)
        assert call(open_).ravel().tolist() == [1.0, 2.0]
