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


GPT = ["--width", 16, "--rows", 6, "--warm-up", 1, "--lr", 0.01]


NEAR = {"float32": 2e-5, "bfloat16": 2.0**-8}


@pytest.mark.parametrize(("kind", "dtype"), [("gpt", "float32"), ("llama", "float32"), ("gpt", "bfloat16")])
def test_a_gpt_has_the_same_curve_on_any_mesh_and_goes_on_from_any_other(
    comm, kind: str, dtype: str, tmp_path_factory
) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    program = programs.load("train_gpt")
    own = comm.split([[rank] for rank in range(comm.size)])
    chosen = [*GPT, "--dtype", dtype, *(["--llama"] if kind == "llama" else [])]
    want = programs.curve(program, programs.small(program, 3, *chosen), own)
    meshes = ["dp=4", "dp=2,tp=2", "pp=2,cp=2", "tp=4"] if kind == "gpt" else ["cp=2,tp=2", "dp=2,pp=2"]
    path = comm.broadcast_object(str(tmp_path_factory.mktemp("gpt") / kind) if comm.rank == 0 else None)
    for number, mesh in enumerate(meshes):
        # The first stops after two steps, and the others go on from there.
        saved = ["--resume", path] if number else ["--save", path]
        zero = ["--zero", 1] if mesh == "dp=4" else []
        args = programs.small(program, 3 if number else 2, *chosen, "--mesh", mesh, *saved, *zero)
        curve = programs.curve(program, args, comm)
        np.testing.assert_allclose(curve, want[: len(curve)], rtol=NEAR[dtype], err_msg=mesh)
        comm.barrier()
