"""Run on ranks: a forked child cannot communicate and is told so; it ends as it likes, and the ranks go on."""

import os
import signal
import sys

import numpy as np
import pytest

import qdist as qd
from qdist.comm import CommError

comm = qd.comm.init()
part = comm.split([list(range(comm.size))])
x = np.ones(3)
work = comm.all_reduce(x, async_op=True)


def in_child() -> None:
    calls = [
        lambda: comm.all_reduce(x),
        lambda: comm.all_reduce(x, out=np.empty(3)),
        lambda: comm.all_to_all(np.ones((comm.size, 2)), out=np.empty((comm.size, 2))),
        lambda: comm.broadcast(x, async_op=True),
        lambda: comm.send(x, (comm.rank + 1) % comm.size),
        lambda: comm.recv(x, (comm.rank + 1) % comm.size),
        lambda: comm.split([[0]]),
        lambda: comm.new_group([comm.rank]),
        lambda: comm.all_gather_object("text"),
        lambda: qd.comm.world().barrier(),
        lambda: part.barrier(),
        lambda: qd.simulate(qd.Circuit(10).h(0), comm=comm).norm(),
        work.wait,
        work.is_completed,
    ]
    for call in calls:
        with pytest.raises(CommError, match=rf"forked from rank {comm.rank} .*'spawn'"):
            call()
    # What needs no other rank works.
    assert abs(qd.simulate(qd.Circuit(10).h(0)).norm() - 1) < 1e-6


def status_of(end: str) -> int:
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.alarm(30)  # A child that hangs fails the test instead of lasting.
    in_child()
    if end == "raise":
        raise ValueError("an error of the child's own")
    sys.exit(7)


assert status_of("exit") == 7
assert status_of("raise") == 1
assert work.wait().tolist() == [comm.size] * 3
assert comm.all_reduce(x).tolist() == [comm.size] * 3
sys.stdout.write(f"rank {comm.rank} goes on\n")
