"""The programs of Paddle's distributed primer on ranks, beside one process; its names, beside what is here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qdist.interop.paddle.distributed import launch

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "papers" / "source_documents.md"


@pytest.mark.parametrize("ranks", [4, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 2, 8))])
def test_every_program_gives_what_one_process_gives(run_ranks, ranks: int, tmp_path: Path) -> None:
    done = run_ranks(ranks, [HERE / "paddle" / "run_all.py", tmp_path])
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "all equal" in done.stdout
    assert (tmp_path / f"d2s_main_program_{ranks - 1}.svg").stat().st_size > 1000


def test_the_launcher_starts_a_rank_for_each_gpu_and_writes_its_log(tmp_path: Path, monkeypatch) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "from qdist.interop.paddle.distributed import get_rank, get_world_size, barrier\n"
        "barrier()\n"
        "print(get_rank(), get_world_size(), os.environ['CUDA_VISIBLE_DEVICES'], sys.argv[1:])\n"
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    logs = tmp_path / "logs"
    assert launch.main(["--gpus=0,1", "--log_dir", str(logs), str(program), "--epochs", "3"]) == 0
    for rank in (0, 1):
        assert (logs / f"workerlog.{rank}").read_text() == f"{rank} 2 0,1 ['--epochs', '3']\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus=0,0", "x.py"], "different numbers"),
        (["--gpus=0,1", "--nproc_per_node=3", "x.py"], "a rank for each"),
        (["--nproc_per_node=0", "x.py"], "at least 1"),
        (["--nnodes=2", "x.py"], "takes --master=HOST:PORT and this machine's --rank"),
        (["--nnodes=0", "x.py"], "--nnodes=0: at least 1"),
        (["--nnodes=2", "--rank=2", "--master=127.0.0.1:29400", "x.py"], "of --nnodes 2: from 0 to 1"),
        (["--rank=1", "x.py"], "give --nnodes too"),
        (["--master=127.0.0.1", "x.py"], "--master=127.0.0.1: HOST:PORT"),
        (["--ips=127.0.0.1,127.0.0.1", "x.py"], "different addresses"),
        (["--ips=127.0.0.1,192.0.2.1", "--nnodes=3", "x.py"], "--ips has 2 addresses"),
        (["--ips=10.0.0.1,10.0.0.2", "x.py"], "0 of them are this machine's: say which it is with --rank"),
        (["--ips=10.0.0.3,10.0.0.2", "x.py"], "QDIST_SECRET"),
    ],
)
def test_the_launcher_refuses_what_does_not_fit(arguments, message, capsys, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(launch, "_is_here", lambda address: address == "10.0.0.3")
    for name in ("QDIST_SECRET", "QDIST_SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert launch.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("by", ["master", "ips"])
def test_launchers_on_several_machines_make_one_job(bundled_mpich, tmp_path: Path, free_port: int, by: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\n"
        "from qdist.interop.paddle.distributed import all_reduce, get_rank, get_world_size\n"
        "from qdist.tensor import Tensor\n"
        "x = Tensor(np.array([float(get_rank())]))\n"
        "all_reduce(x)\n"
        "print(get_rank(), get_world_size(), x.item())\n"
    )
    options = {
        "master": ["--nnodes=2", f"--master=127.0.0.1:{free_port}"],
        "ips": ["--ips=127.0.0.1,127.0.0.2", f"--master=127.0.0.1:{free_port}"],
    }[by]
    environ = os.environ | {"QDIST_SECRET": "of a test, and long enough to be one", "OMP_NUM_THREADS": "1"}
    jobs = [
        subprocess.Popen(
            [sys.executable, "-m", "qdist.interop.paddle.distributed.launch", *options, f"--rank={node}"]
            + ["--nproc_per_node=2", f"--log_dir={tmp_path / 'logs'}", str(program)],
            stderr=subprocess.PIPE, text=True, env=environ,
        )
        for node in (1, 0)
    ]  # fmt: skip
    said = [job.communicate(timeout=120)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    logs = [(tmp_path / "logs" / f"workerlog.{rank}").read_text() for rank in range(4)]
    assert logs == [f"{rank} 4 6.0\n" for rank in range(4)]


def test_an_address_says_which_machine_this_is(monkeypatch) -> None:
    assert launch._is_here("127.0.0.1")
    assert not launch._is_here("no such host")
    monkeypatch.setattr(launch, "_is_here", lambda address: address == "10.0.0.3")
    assert launch._machine("10.0.0.1,10.0.0.3", None, None, None) == (2, 1, ("10.0.0.1", 6070))
    assert launch._machine("10.0.0.3,10.0.0.1", 2, None, "[::1]:8000") == (2, 0, ("[::1]", 8000))
    assert launch._machine("10.0.0.1", None, None, None).machines == 1


def test_every_name_of_the_programs_is_in_the_table() -> None:
    text = "\n".join(path.read_text() for path in (HERE / "paddle").glob("*.py"))
    used = set(re.findall(r"\bpaddle\.(?:\w+\.)*[a-zA-Z]\w*", text.replace("qdist.interop.paddle", "")))
    section = TABLE.read_text().partition("\n## Paddle\n")[2].partition("\n## ")[0]
    known = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| "))
    assert "paddle.nn.Linear" in known
    last = {name.rpartition(".")[2] for name in used}
    assert {name for name in last if not re.search(rf"\b{name}\b", known)} == set()


def test_programs_name_the_lines_that_had_to_change() -> None:
    for path in (HERE / "paddle").glob("*.py"):
        if path.name != "run_all.py":
            assert re.search(r"[Cc]hange", path.read_text().split('"""')[1]), path.name
