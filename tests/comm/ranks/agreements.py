"""That ranks which call something else are found, by shared memory and by messages, on real ranks."""

import gc
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdist.comm as qc
from qdist.comm.guard import node_memory
from qdist.comm.guard.call_agreement import CallAgreement
from qdist.comm.messages.call import Call

FIRST = EVERY = 32
RING = 256


def call(comm: qc.Communicator, op: str = "all_reduce", shape: Any = (4,), dtype: Any = "f8", *rest: Any) -> Call:
    return Call(op, comm, shape, None if dtype is None else np.dtype(dtype), *rest)


DIFFERENT = [
    ("all_reduce", (4,), "f8", "sum"),
    ("all_reduce", (4,), "i8", "sum"),
    ("all_reduce", (4,), "f4", "sum"),
    ("all_reduce", (2, 2), "f8", "sum"),
    ("all_reduce", (), "f8", "sum"),
    ("all_reduce", (4,), "f8", "max"),
    ("reduce", (4,), "f8", "sum", 0),
    ("reduce", (4,), "f8", "sum", 1),
    ("broadcast", (4,), "f8", None, 0),
    ("all_gather", (4,), "f8"),
    ("all_to_all (ragged)", None, "f8"),
    ("barrier", None, None),
    ("broadcast", (1,) * 9, "f8", None, 0),
    ("broadcast", (*((1,) * 8), 2), "f8", None, 0),
]


def test_every_difference_is_found_before_anything_is_sent(comm: qc.Communicator) -> None:
    agreement = CallAgreement(comm, comm._guard, comm._host, 0)
    agreements = [CallAgreement(comm, comm._guard, comm._host, 0) for _ in DIFFERENT]
    for (a, b), pair in zip(zip(DIFFERENT, DIFFERENT[1:] + DIFFERENT[:1]), agreements):
        found = None
        try:
            pair.enter(call(comm, *(b if comm.rank == comm.size - 1 else a)), False, False)
        except qc.CollectiveMismatch as error:
            found = str(error)
        seen = [text for text in comm.all_gather_object(found) if text is not None]
        assert (len(seen) > 0) == (comm.size > 1), (a, b)
        for text in seen:
            assert re.search(rf"rank {comm.size - 1} called .*, where ranks? [-\d, ]+ called ", text)
        # Whoever comes later is told as well, and nobody is where all call the same.
        if comm.size > 1:
            with pytest.raises(qc.CollectiveMismatch, match="cannot be used any more: the ranks of"):
                pair.enter(call(comm, *a), False, False)
    for same in DIFFERENT:
        agreement.enter(call(comm, *same), False, False)


def test_a_difference_that_the_ring_has_lost_shows_at_the_next_common_call(comm: qc.Communicator) -> None:
    if comm.size == 1:
        pytest.skip("needs others")
    agreement = CallAgreement(comm, comm._guard, comm._host, 0)
    ahead = comm.rank == 0
    if ahead:  # Far ahead of the others, as the root of broadcasts may be.
        for _ in range(RING + 10):
            agreement.enter(call(comm), False, False)
    comm.barrier()
    found = None
    if not ahead:
        try:
            for number in range(RING + 10):
                agreement.enter(call(comm, dtype="i8" if number == 2 else "f8"), False, False)
        except qc.CollectiveMismatch as error:
            found = str(error)
    texts = comm.all_gather_object(found)
    assert any(text is not None for text in texts[1:])


@pytest.mark.parametrize("nodes", ["each its own", "two"])
def test_between_nodes_digests_are_compared(comm: qc.Communicator, nodes: str) -> None:
    if comm.size == 1:
        pytest.skip("needs others")
    last = comm.size - 1
    node = comm.rank if nodes == "each its own" else int(comm.rank == last)
    for number, noticed in ((1, 1), (FIRST, FIRST), (FIRST + 3, FIRST + EVERY)):
        agreement = CallAgreement(comm, comm._guard, comm._host, node)
        for count in range(1, noticed):
            dtype = "i8" if count == number and comm.rank == last else "f8"
            agreement.enter(call(comm, "all_gather", (4,), dtype), False, False)
        dtype = "i8" if noticed == number and comm.rank == last else "f8"
        with pytest.raises(qc.CollectiveMismatch) as raised:
            agreement.enter(call(comm, "all_gather", (4,), dtype), False, False)
        others = "rank 0" if last == 1 else f"ranks 0-{last - 1}"
        assert str(raised.value) == (
            f"the ranks of {comm.name!r} do not call the same (call {number}): rank {last} called "
            f"all_gather(int64[4]), where {others} called all_gather(float64[4])"
        )


def test_calls_that_may_not_wait_leave_the_comparison_to_the_next(comm: qc.Communicator) -> None:
    if comm.size == 1:
        pytest.skip("needs others")
    agreement = CallAgreement(comm, comm._guard, comm._host, comm.rank)
    for _ in range(3):
        if comm.rank == 0:  # Alone: nothing may be waited for.
            agreement.enter(call(comm, "broadcast", (1 + comm.rank,)), True, False)
        comm.barrier()
        if comm.rank != 0:
            agreement.enter(call(comm, "broadcast", (1 + comm.rank,)), True, False)
    with pytest.raises(qc.CollectiveMismatch, match=r"broadcast\(float64\[1\]\) with async_op=True"):
        agreement.enter(call(comm, "barrier", None, None), False, False)


def test_ranks_that_cannot_open_each_others_memory_compare_by_messages(
    comm: qc.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    if comm.size == 1:
        pytest.skip("needs others")
    monkeypatch.setattr(node_memory, "_open", lambda *_: None)
    agreement = CallAgreement(comm, comm._guard, comm._host, 0)
    assert agreement._near == [comm.rank]
    agreement.enter(call(comm), False, False)
    with pytest.raises(qc.CollectiveMismatch):
        agreement.enter(call(comm, shape=(comm.rank,)), False, False)


def test_memory_of_another_process_is_not_taken_for_the_leaders(comm: qc.Communicator) -> None:
    memory, descriptor = node_memory._make(4096)
    memory[:8].view(np.int64)[0] = 41
    path = f"/proc/self/fd/{descriptor}"
    assert node_memory._open(path, 4096, 42) is None
    assert node_memory._open(path, 4096, 41) is not None
    os.close(descriptor)
    assert node_memory._open(path, 4096, 41) is None


def _mapped() -> set[str]:
    """The tables that this process has mapped, by their inodes."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "memfd:qdist" in line}


def _descriptors() -> int:
    """Open files that are no sockets: rank 0 takes connections to its store whenever it gets to them."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # The one by which the folder was read.
            found += not os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return found


def _gone(tables: set[str]) -> bool:
    """Whether tables are unmapped, at once or as soon as the guard's thread has looked at them for the last time."""
    deadline = time.monotonic() + 30
    while _mapped() & tables and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _mapped() & tables


def test_groups_have_tables_of_their_own_which_go_with_them(comm: qc.Communicator) -> None:
    everyone = list(range(comm.size))
    files = _descriptors()
    for _ in range(8):
        before = _mapped()  # Tables of other tests' groups may be among them, and go at any time.
        part = comm.split([everyone])
        assert part is not None
        assert int(part.all_reduce(np.array(1))) == comm.size
        again = part.new_group(everyone[::-1])
        assert again is not None
        x = np.ones((comm.size, 2))
        assert again.all_to_all(x, out=np.empty_like(x)).sum() == 2 * comm.size
        own = _mapped() - before
        assert len(own) == 2 * (comm.size > 1)
        again.close()
        part.close()
        del part, again
        gc.collect()
        assert _gone(own)
    assert _descriptors() <= files


def test_threads_on_groups_of_their_own_do_not_disturb_each_other(comm: qc.Communicator) -> None:
    from concurrent.futures import ThreadPoolExecutor

    groups = [comm.split([list(range(comm.size))]) for _ in range(2)]

    def work(number: int) -> float:
        group = groups[number]
        assert group is not None
        return sum(float(group.all_reduce(np.full(3 + number, 1.0))[0]) for _ in range(50))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, range(2))) == [50.0 * comm.size] * 2


@pytest.mark.parametrize("dtype", ["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "f", "d", "F", "D"])
def test_a_call_is_the_same_with_out_and_without(comm: qc.Communicator, dtype: str) -> None:
    x = np.ones((comm.size, 2), dtype)
    out = np.empty_like(x) if comm.rank == 0 else None
    assert comm.all_to_all(x, out=out).all()
    if dtype != "?":
        assert (comm.all_reduce(x, out=out) == comm.size).all()


def test_collectives_between_nodes_go_on_and_end_within_so_many_calls(
    comm: qc.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    if comm.size == 1:
        pytest.skip("needs others")
    monkeypatch.setattr(node_memory, "_open", lambda *_: None)
    part = comm.split([list(range(comm.size))], name="far")
    assert part is not None
    x, out = np.ones(4), np.empty(4)
    for _ in range(100):
        assert part.all_reduce(x, out=out)[0] == comm.size
        assert int(part.all_reduce(np.array(1), "max")) == 1
    # Of the same number of bytes, so that MPI itself goes on.
    other = x.astype(np.int64) if comm.rank == 0 else x
    part.all_reduce(other, out=np.empty_like(other))
    for _ in range(202, 7 * EVERY):
        part.all_reduce(x, out=out)
    with pytest.raises(qc.CollectiveMismatch, match=r"\(call 201\): rank . called all_reduce\(.*64\[4\], sum\), where"):
        part.all_reduce(x, out=out)


def test_debug_compares_the_counts_of_ragged_parts(comm: qc.Communicator) -> None:
    if comm.size == 1:
        pytest.skip("needs others")
    part = comm.split([list(range(comm.size))])
    assert part is not None
    part.debug = True
    last = comm.size - 1
    sends = [1 + (comm.rank == 0 and peer == last) for peer in range(comm.size)]
    receives = [1] * comm.size
    with pytest.raises(qc.CollectiveMismatch, match=f"rank 0 sends 2 elements to rank {last}, which expects 1"):
        part.all_to_all(np.zeros(sum(sends)), send_counts=sends, recv_counts=receives)
