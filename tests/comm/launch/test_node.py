"""One launcher a machine: ranks that meet at MASTER_ADDR, here by two launchers on this machine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qdist.comm.bootstrap.environment import without_launcher

pytestmark = pytest.mark.ranks

SECRET = "a secret of the tests alone"
TALK = """
import os, sys, numpy as np, qdist.comm as c
w = c.init(timeout=60)
total = int(w.all_reduce(np.array(w.rank)))
sys.stdout.write(f"rank {w.rank} of {w.size} local {os.environ['LOCAL_RANK']} sum {total} {sys.argv[1:]}\\n")
"""


def launcher(*arguments: str | Path, **environ: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "qdist", "run", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environ
    )


def test_two_launchers_make_one_job(tmp_path: Path, free_port: int) -> None:
    script = tmp_path / "talk.py"
    script.write_text(TALK)
    options = ["--nproc-per-node=2", "--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port}"]
    # As if srun had started the launchers: its numbers are not the ranks'.
    started = {
        "QDIST_SECRET": SECRET,
        "SLURM_PROCID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "PMI_RANK": "1",
        "MPI_LOCALRANKID": "5",
    }
    jobs = [launcher(*options, f"--node-rank={node}", script, "--lr", "1", **started) for node in (1, 0)]
    done = [job.communicate(timeout=120) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], done
    lines = sorted("".join(out for out, _ in done).splitlines())
    assert lines == [f"rank {r} of 4 local {r % 2} sum 6 ['--lr', '1']" for r in range(4)]


def test_the_first_to_fail_ends_the_others(tmp_path: Path) -> None:
    script = tmp_path / "fail.py"
    other = tmp_path / "out.2"
    # The first to fail has to find another that runs.
    wait = f"while not os.path.exists({str(other)!r}): time.sleep(0.01)"
    script.write_text(
        f"import os, sys, time\nif os.environ['RANK'] == '3':\n    {wait}\n    sys.exit(5)\ntime.sleep(300)\n"
    )
    options = ["--nproc-per-node=2", "--nnodes=2", "--node-rank=1", "--output-filename", tmp_path / "out"]
    began = time.monotonic()
    job = launcher(*options, script, QDIST_SECRET=SECRET)
    _, err = job.communicate(timeout=60)
    assert job.returncode == 5
    assert "rank 3 (pid" in err
    assert "ended with code 5; the others here are ended" in err
    assert time.monotonic() - began < 60
    assert sorted(path.name for path in tmp_path.glob("out.*")) == ["out.2", "out.3"]


def test_numbers_of_other_launchers_are_left_out() -> None:
    environ = {"PMI_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "SLURM_PROCID": "0", "RANK": "3", "HOME": "/"}
    assert without_launcher(environ) == {"RANK": "3", "HOME": "/"}
