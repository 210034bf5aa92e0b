"""The tutorial of torch.distributed (seed 001) and the notes (seed 004): their programs, and their surface."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch as real_torch

from qdist import nn
from qdist.comm import cuda_devices
from qdist.interop import torch_distributed
from qdist.interop.torch_distributed import torch
from qdist.tensor import Tensor, functional, manual_seed

HERE = Path(__file__).parent
PROGRAMS = HERE / "ranks" / "mpi_torch_programs.py"
COLLECTIVES = HERE.parent / "interop" / "ranks" / "mpi_torch_distributed.py"


@pytest.mark.parametrize("ranks", [4, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 2, 8))])
def test_the_programs_and_the_collectives(request, device: str, ranks: int) -> None:
    start = request.getfixturevalue("pass_on_ranks" if device == "cpu" else "pass_on_nccl_ranks")
    start(ranks, [PROGRAMS, COLLECTIVES])


def python(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=os.environ | plain | environ)


def test_naming_a_device_brings_no_ranks_together() -> None:
    """A program does that itself, over NCCL: after a world over MPI it could not."""
    text = "import documents, qdist.comm; print(documents.device()['DEVICE'], qdist.comm.is_initialized())"
    for rank in (0, 5):
        launch = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "8"}
        done = python("-c", text, PYTHONPATH=str(HERE), QDIST_TEST_BACKEND="nccl", **launch)
        assert done.stdout.split() == [str(1000 + rank % max(1, cuda_devices())), "False"], done.stderr


def test_the_template_starts_its_own_processes(bundled_mpich, tmp_path: Path, free_port: int) -> None:
    done = python(HERE / "torch_distributed" / "template.py", tmp_path, FREE_PORT=str(free_port))
    assert done.returncode == 0, done.stderr
    assert "backend='gloo' is MPI here" in done.stderr
    assert [(tmp_path / f"rank.{r}").read_text() for r in (0, 1)] == ["0 2 0 2 mpi", "1 2 1 2 mpi"]


def test_the_launcher_tells_scripts_their_number(tmp_path: Path) -> None:
    launch = ["-m", "qdist.interop.torch_distributed.launch", "--nproc-per-node=2"]
    # The script takes the GPU of its number: fewer than two are hidden from the two ranks, and one rank has one.
    few = {} if cuda_devices() >= 2 else {"CUDA_VISIBLE_DEVICES": ""}
    done = python(*launch, HERE / "torch_distributed" / "launched.py", tmp_path, **few)
    assert done.returncode == 0, done.stderr
    found = [(tmp_path / f"rank.{r}").read_text() for r in (0, 1)]
    assert found == ["0 2 [[1.5, 1.5]]", "1 2 [[1.5, 1.5]]"]
    one = [*launch[:2], "--nproc-per-node=1"]
    done = python(*one, HERE / "torch_distributed" / "launched.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "rank.0").read_text() == "0 1 [[1.0, 1.0]]"
    (tmp_path / "show.py").write_text(
        "import os, sys; sys.stdout.write(f'{os.environ[\"LOCAL_RANK\"]}{sys.argv[1:]};')"
    )
    for options, want in (
        (["--local-rank-name=local_rank"], "['--local_rank={}', 'a']"),
        (["--use-env"], "['a']"),
    ):
        done = python(*launch, *options, tmp_path / "show.py", "a")
        assert sorted(done.stdout.split(";")) == ["", *(f"{r}{want.format(r)}" for r in (0, 1))], done.stderr


class Model(nn.Module):
    """A network with a buffer that counts and a mask that is drawn."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4, dtype=np.float64), nn.Linear(4, 2, dtype=np.float64)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("cnt", Tensor(0))

    def forward(self, x):
        self.cnt += 1
        return self.second(self.dropout(functional.relu(self.first(x))))


def wrapped(model: nn.Module, devices: list) -> nn.Module:
    text = (HERE / "notes" / "data_parallel.py").read_text()
    names = {"DEVICE_IDS": devices}
    exec(compile(text, "data_parallel.py", "exec"), names)
    over, plain = names["wrapped"](model)
    assert plain.devices == [f"cuda:{i}" for i in range(cuda_devices())]
    return over


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_the_notes_dp_divides_the_batch_in_one_process(device: str, count: int) -> None:
    where = ["cpu"] * count if device == "cpu" else [i % cuda_devices() for i in range(count)]
    manual_seed(1)
    model, x = Model().to(device if device == "cpu" else "cuda:0"), np.random.default_rng(0).normal(size=(7, 3))
    over = wrapped(model, where)
    output = over(Tensor(x, device=next(model.parameters()).device))
    (output * output).mean().backward()
    got = [p.grad.numpy() for p in model.parameters()]
    manual_seed(1)
    plain = Model()
    want = plain(Tensor(x))
    (want * want).mean().backward()
    np.testing.assert_allclose(output.numpy(), want.numpy(), atol=1e-12)
    for a, b in zip(got, plain.parameters(), strict=True):
        np.testing.assert_allclose(a, b.grad.numpy(), atol=1e-12)
    assert model.cnt.item() == 1  # The first device's.
    assert over.module is model
    assert {name: t.tolist() for name, t in over.module.state_dict().items()}.keys() == plain.state_dict().keys()


class Pair(NamedTuple):
    """A batch in two parts."""

    left: Tensor
    right: Tensor


class Paired(nn.Module):
    """Takes and gives columns in a named tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4, dtype=np.float64)

    def forward(self, pair: Pair, factor: Tensor) -> Pair:
        return Pair(*(self.layer((part * factor).T).T for part in pair))


@pytest.mark.parametrize("dim", [1, -1])
def test_batches_along_another_axis_and_in_named_tuples(dim: int) -> None:
    rng, model = np.random.default_rng(0), Paired()
    pair, factor = Pair(*(Tensor(rng.normal(size=(3, 5))) for _ in range(2))), Tensor(np.array(0.7))
    over = torch.nn.DataParallel(model, ["cpu"] * 3, dim=dim)
    got = over(pair, factor)
    assert isinstance(got, Pair)
    for a, b in zip(got, model(pair, factor), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-14)
    for columns in (1, 4, 6):
        with pytest.raises(ValueError, match=f"5 rows of the first, {columns} of one of shape"):
            over(Pair(pair.left, Tensor(np.ones((3, columns)))), factor)


def test_masks_over_devices_do_not_depend_on_threads() -> None:
    x = Tensor(np.tile(np.random.default_rng(0).normal(size=(16, 3)), (4, 1)))
    drawn = []
    for _ in range(3):
        manual_seed(2)
        drawn.append(torch.nn.DataParallel(Model(0.5), ["cpu"] * 4)(x).numpy())
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0][:16], drawn[0][16:32])
    with torch.no_grad():
        assert not torch.nn.DataParallel(Model(), ["cpu"] * 4)(x).requires_grad


@pytest.mark.skipif(cuda_devices() > 0, reason="there is a GPU")
def test_devices_that_are_not_there_are_told() -> None:
    with pytest.raises(ValueError, match="the module is on cpu and not on cuda:0"):
        torch.nn.DataParallel(Model(), [0, 1])
    with pytest.raises(RuntimeError, match="GPU 1 asked for, but this process sees 0"):
        torch.cuda.set_device(1)
    with pytest.raises(RuntimeError, match="needs CuPy and a CUDA driver"):
        torch.tensor([1]).cuda(0)
    assert not torch.cuda.is_available()


def test_names_of_torch_do_what_torchs_do() -> None:
    x = np.arange(10.0)
    for pieces in (1, 3, 4, 10, 12):
        want = [part.tolist() for part in real_torch.chunk(real_torch.tensor(x), pieces)]
        assert [part.tolist() for part in torch.chunk(torch.tensor(x), pieces)] == want
    made = torch.tensor(x)
    made.add_(1)
    assert x[0] == 0  # A copy.
    assert torch.zeros(1).tolist() == [0.0]
    assert torch_distributed.is_available()
    assert not torch_distributed.is_initialized()
