"""Point to point, Python values, groups and meshes, on real ranks."""

from typing import Any

import numpy as np
import pytest
from arrays import DTYPES, KINDS, expected_dtype, make

import qdist.comm as qc
from qdist.native.core_share import core_share


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_messages_go_round(comm: qc.Communicator, dtype: str, kind: str) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    x, want = make(comm.rank, dtype, kind), np.asarray(make(left, dtype, kind))
    out = np.empty(want.shape, expected_dtype(dtype, kind))
    sent = comm.isend(x, right, tag=3)
    assert comm.recv(out, left, tag=3) is out
    assert sent.wait() is None
    np.testing.assert_array_equal(out, want)
    strided = np.zeros((*want.shape, 2), out.dtype)[..., 0]
    pending = comm.irecv(strided, left)
    comm.isend(x, right).wait() if comm.size == 1 else comm.send(x, right)
    assert pending.wait() is strided
    np.testing.assert_array_equal(strided, want)
    np.testing.assert_array_equal(comm.sendrecv(x, right, np.empty_like(out), left), want)


def test_trades_pair_up_in_the_order_in_which_they_start(comm: qc.Communicator) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    trades = []
    for size in (3, 0, 1000, 70_000):
        x = np.arange(size) + 1j * comm.rank
        trades.append((comm.isendrecv(x, right, np.empty((2, size), complex)[1], left, tag=9), size))
    for work, size in trades:
        np.testing.assert_array_equal(work.wait(), np.arange(size) + 1j * left)
        assert work.is_completed()
    with pytest.raises(ValueError, match="source=99 is not a rank"):
        comm.sendrecv(np.zeros(1), right, np.zeros(1), 99)


def test_messages_with_different_tags_do_not_meet(comm: qc.Communicator) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    works = [comm.isend(np.array([tag]), right, tag=tag) for tag in (5, 6)]
    six = comm.recv(np.empty(1, int), left, tag=6)
    five = comm.recv(np.empty(1, int), left, tag=5)
    assert (five[0], six[0]) == (5, 6)
    for work in works:
        work.wait()


def test_small_python_values(comm: qc.Communicator) -> None:
    mine = {"rank": comm.rank, "list": list(range(comm.rank))}
    root = comm.size - 1
    assert comm.broadcast_object(mine if comm.rank == root else None, root) == {
        "rank": root,
        "list": list(range(root)),
    }
    everyone = [{"rank": r, "list": list(range(r))} for r in range(comm.size)]
    assert comm.all_gather_object(mine) == everyone
    assert comm.gather_object(mine, root) == (everyone if comm.rank == root else None)


def test_split_orders_ranks_as_listed_and_leaves_others_out(comm: qc.Communicator) -> None:
    evens = list(range(0, comm.size, 2))[::-1]
    part = comm.split([evens])
    if comm.rank % 2:
        assert part is None
        return
    assert part is not None
    assert part.group == tuple(evens)
    assert part.rank == evens.index(comm.rank)
    np.testing.assert_array_equal(part.all_gather(np.array(comm.rank)), evens)
    part.close()


def test_groups_of_groups_know_their_world_ranks(comm: qc.Communicator) -> None:
    if comm.size < 4:
        pytest.skip("needs 4 ranks")
    half = comm.size // 2
    part = comm.split([list(range(half)), list(range(half, comm.size))])
    assert part is not None
    inner = part.new_group([part.size - 1, 0])
    if part.rank in (0, part.size - 1):
        assert inner is not None
        assert inner.group == (part.group[-1], part.group[0])
        assert int(inner.all_reduce(np.array(comm.rank))) == sum(inner.group)
    else:
        assert inner is None


def test_new_group_needs_its_members_alone(comm: qc.Communicator) -> None:
    if comm.rank == 0:
        alone = comm.new_group([0])
        assert alone is not None
        assert alone.size == 1
        assert int(alone.all_reduce(np.array(7))) == 7


def test_groups_do_not_hear_each_other(comm: qc.Communicator) -> None:
    twin = comm.split([list(range(comm.size))])
    assert twin is not None
    pending = comm.all_reduce(np.array(1), async_op=True)
    assert int(twin.all_reduce(np.array(10))) == 10 * comm.size
    assert int(pending.wait()) == comm.size


def test_mesh_groups_differ_in_their_axis_alone(comm: qc.Communicator) -> None:
    if comm.size % 2:
        with pytest.raises(ValueError, match=f"dp=2 does not make {comm.size} rank"):
            qc.Mesh(comm, dp=2)
        return
    mesh = qc.Mesh(comm, dp=2, tp=1, state=-1)
    state = comm.size // 2
    assert mesh.shape == {"dp": 2, "tp": 1, "state": state}
    assert mesh.coordinates == {"dp": comm.rank // state, "tp": 0, "state": comm.rank % state}
    rows: Any = np.arange(comm.size).reshape(2, state)
    assert mesh["state"].group == tuple(rows[mesh.coordinates["dp"]])
    assert mesh["dp"].group == tuple(rows[:, mesh.coordinates["state"]])
    assert mesh["tp"].size == 1
    assert mesh["dp", "state"].group == tuple(range(comm.size))
    assert int(mesh["state"].all_reduce(np.array(comm.rank))) == sum(mesh["state"].group)


def test_every_rank_of_one_machine_has_its_number(comm: qc.Communicator) -> None:
    assert (comm.node, comm.num_nodes, comm.local_size) == (0, 1, comm.size)
    assert core_share() == (comm.cores if comm.size > 1 else None)
    assert comm.all_gather_object(comm.local_rank) == list(range(comm.size))
    assert comm.all_gather_object(comm.host) == [comm.host] * comm.size


def test_recording_counts_real_traffic(comm: qc.Communicator) -> None:
    with comm.recording() as messages:
        comm.all_reduce(np.zeros(100, np.float32))
        comm.all_to_all(np.zeros((comm.size, 8)))
    assert [(m.op, m.bytes) for m in messages] == [("all_reduce", 400), ("all_to_all", 64 * comm.size)]
    assert messages[0].wire_bytes == pytest.approx(2 * (comm.size - 1) / comm.size * 400)
    assert comm.messages is None
