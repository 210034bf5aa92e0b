"""Long runs of split states: saved, gone on from, and flipped bits found; run on every rank at once."""

import os
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist.backends import StateError
from qdist.state import storage
from qdist.state.moves import exchange


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=120)


def circuit() -> qd.Circuit:
    made = qd.Circuit(8)
    for turn in range(3):
        for k in range(8):
            made.ry(0.3 + k + turn, k).cx(k, (k + 1) % 8).rx(0.7 * k, k)
    return made


def test_a_run_goes_on_and_a_flipped_bit_is_found(comm, monkeypatch) -> None:
    path = Path(comm.broadcast_object(os.environ["QDIST_TEST_FOLDER"])) / "run"
    program = qd.compile(circuit(), comm=comm)
    assert program.plan.exchanges >= 2
    want = program.run(verify=True).amplitudes()
    np.testing.assert_allclose(want, qd.compile(circuit()).run().amplitudes(), atol=1e-6)
    save = storage.save

    def killed(*arguments) -> None:
        save(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(storage, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        program.run(checkpoint=path, seconds=0)
    monkeypatch.undo()
    comm.barrier()
    got = program.run(checkpoint=path, seconds=0).amplitudes()
    np.testing.assert_array_equal(got, want)
    assert not path.exists()

    start = exchange._start

    class Flipped:
        def __init__(self, work, incoming) -> None:
            self._work, self._incoming = work, incoming

        def wait(self) -> None:
            self._work.wait()
            self._incoming.view(np.uint8)[5] ^= 16

    def corrupted(state, peer, outgoing, incoming):
        work = start(state, peer, outgoing, incoming)
        if comm.rank == 1 and isinstance(work, exchange._Checked):
            work._work = Flipped(work._work, incoming)
        return work

    monkeypatch.setattr(exchange, "_start", corrupted)
    with pytest.raises(StateError, match="corrupted amplitudes on rank 1: what rank 0 sent"):
        program.run(verify=True)
    monkeypatch.undo()
    np.testing.assert_array_equal(program.run(verify=True).amplitudes(), want)
