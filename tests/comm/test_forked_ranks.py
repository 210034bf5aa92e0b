"""Forked children of ranks: refused where they would wait for ever, and no hindrance to the ranks."""

import os
from pathlib import Path

import pytest

from qdist.comm import counting_communicator
from qdist.comm.communicator import Communicator
from qdist.comm.errors import CommError
from qdist.comm.transports.forked import ForkedTransport

SCRIPT = Path(__file__).parent / "ranks" / "forked_child.py"


def test_forked_children_of_ranks_cannot_communicate_and_do_not_hang(run_ranks) -> None:
    done = run_ranks(2, [SCRIPT], timeout=120)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("goes on") == 2


def test_every_primitive_of_a_forked_childs_transport_is_refused() -> None:
    comm = counting_communicator(4, 3)
    cut_off = ForkedTransport(comm._host)
    assert (cut_off.rank, cut_off.size) == (3, 4)
    names = [n for n in dir(comm._host) if not n.startswith("_") and callable(getattr(comm._host, n))]
    assert {"all_reduce", "barrier", "split", "send"} <= set(names)
    for name in names:
        if name != "close":
            with pytest.raises(CommError, match="forked from rank 3"):
                getattr(cut_off, name)()


def test_what_counts_alone_is_left_alone_by_forks() -> None:
    comm: Communicator = counting_communicator(4)
    pid = os.fork()
    if pid == 0:
        try:
            comm.barrier()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
