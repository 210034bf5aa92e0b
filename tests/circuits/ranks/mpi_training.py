"""Every training program on all ranks of a job gives the loss curve that it gives alone; run on every rank at once."""

import numpy as np
import programs
import pytest

import qdist as qd


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=120)


@pytest.fixture(scope="session")
def alone(comm: qd.comm.Communicator) -> qd.comm.Communicator:
    own = comm.split([[rank] for rank in range(comm.size)])
    assert own is not None
    return own


@pytest.mark.parametrize("name", programs.NAMES)
def test_the_curve_is_that_of_one_process(comm, alone, name: str) -> None:
    program = programs.load(name)
    args = programs.small(program, 3)
    curve = programs.curve(program, args, comm)
    np.testing.assert_allclose(curve, programs.curve(program, args, alone), rtol=1e-5)
    assert comm.all_gather_object(curve) == [curve] * comm.size


def test_digits_with_shared_states_and_shared_batches(comm, alone) -> None:
    program = programs.load("classify_digits")
    args = programs.small(program, 3)
    shared = programs.small(program, 3, "--state", 2)
    np.testing.assert_allclose(programs.curve(program, shared, comm), programs.curve(program, args, alone), rtol=1e-5)


def test_rank_0_writes_a_checkpoint_and_all_go_on_from_it(comm, tmp_path_factory) -> None:
    program = programs.load("vqe_tfim")
    path = comm.broadcast_object(str(tmp_path_factory.mktemp("c") / "c") if comm.rank == 0 else None)
    whole = programs.curve(program, programs.small(program, 12), comm)
    programs.curve(program, programs.small(program, 10, "--save", path), comm)
    comm.barrier()
    assert programs.curve(program, programs.small(program, 12, "--resume", path), comm) == whole
