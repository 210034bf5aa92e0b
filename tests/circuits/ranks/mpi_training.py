"""Every training program on all ranks of a job gives the loss curve that it gives alone; run on every rank at once."""

from types import ModuleType

import numpy as np
import programs
import pytest

import qdist as qd
from qdist.parallel import check_replicas

STEPS = 2


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=120)


def alone(comm: qd.comm.Communicator, program: ModuleType) -> list[float]:
    """The curve that rank 0 gets by itself, while the others wait."""
    own = comm.split([[rank] for rank in range(comm.size)])
    args = programs.small(program, STEPS)
    return comm.broadcast_object(programs.curve(program, args, own) if comm.rank == 0 else None)


@pytest.mark.parametrize("name", programs.NAMES)
def test_the_curve_is_that_of_one_process(comm, name: str) -> None:
    program = programs.load(name)
    curve = programs.curve(program, programs.small(program, STEPS), comm)
    np.testing.assert_allclose(curve, alone(comm, program), rtol=1e-5)
    assert comm.all_gather_object(curve) == [curve] * comm.size


def test_digits_with_shared_states_and_shared_batches(comm) -> None:
    program = programs.load("classify_digits")
    curve = programs.curve(program, programs.small(program, STEPS, "--state", 2), comm)
    np.testing.assert_allclose(curve, alone(comm, program), rtol=1e-5)
    _, model = program.train(programs.small(program, STEPS, "--state", 2), comm)
    check_replicas(model, comm)


def test_rank_0_writes_a_checkpoint_and_all_go_on_from_it(comm, tmp_path_factory) -> None:
    program = programs.load("vqe_h2")
    path = comm.broadcast_object(str(tmp_path_factory.mktemp("c") / "c") if comm.rank == 0 else None)
    whole = programs.curve(program, programs.small(program, 12), comm)
    programs.curve(program, programs.small(program, 10, "--save", path), comm)
    comm.barrier()
    assert programs.curve(program, programs.small(program, 12, "--resume", path), comm) == whole
