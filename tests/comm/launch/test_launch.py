"""`qdist run`, spawn() and `qdist info`."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import qdist
from qdist.cli import main
from qdist.comm.launch.hosts import parse_hostfile, parse_hosts, widened

pytestmark = pytest.mark.ranks

HELLO = "import sys, qdist.comm as c; w = c.init(); sys.stdout.write(f'rank {w.rank} of {w.size}\\n')"


def qdist_command(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.endswith("NUM_THREADS")}
    command = [sys.executable, "-m", "qdist", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=clean | environ)


def vqnetrun(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What the installed command runs: the function that pyproject.toml names."""
    scripts = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["vqnetrun"].partition(":")
    text = f"import sys; from {module} import {function}; sys.exit({function}())"
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "hello.py"
    path.write_text(HELLO)
    return path


@pytest.mark.parametrize(("flag", "program"), [("-n", []), ("-np", ["python"])])
def test_run_starts_as_many_ranks_as_asked(script: Path, flag: str, program: list[str]) -> None:
    done = qdist_command("run", flag, "3", "--mpi", "bundled", *program, script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "rank 0 of 3", "rank 1 of 3", "rank 2 of 3"]


def test_run_takes_hosts_and_hostfiles(script: Path, tmp_path: Path) -> None:
    done = qdist_command("run", "--mpi", "bundled", "-H", "localhost:2", script)
    assert done.stdout.count("of 2") == 2, done.stderr
    (tmp_path / "hosts").write_text("# the machine here\nlocalhost slots=2\n")
    done = qdist_command("run", "--mpi", "bundled", "-np", "2", "-hostfile", tmp_path / "hosts", script)
    assert done.stdout.count("of 2") == 2, done.stderr


def test_more_ranks_than_slots_start_with_a_note(tmp_path: Path) -> None:
    script = tmp_path / "numbers.py"
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    script.write_text(f"import os, sys; sys.stdout.write(' '.join(os.environ[n] for n in {names}) + '\\n')")
    command = ["run", "--mpi", "bundled", "-np", "3", "-H", "localhost:1,127.0.0.1:1", "python", script]
    done = qdist_command(*command, RANK="7", WORLD_SIZE="9", LOCAL_RANK="8")
    assert done.returncode == 0, done.stderr
    assert "note: 3 ranks on hosts with 2 slots: localhost takes 2, 127.0.0.1 takes 1" in done.stderr
    lines = sorted(line.split() for line in done.stdout.splitlines())
    # Every name is a host to the launcher, so the third rank is the first on its own.
    assert [line[:4] for line in lines] == [["0", "3", "0", "2"], ["1", "3", "1", "2"], ["2", "3", "0", "1"]]
    assert {line[4] for line in lines} == {"127.0.0.1"}
    assert len({line[5] for line in lines}) == 1
    assert 0 < int(lines[0][5]) < 65536


def test_ranks_are_shared_out_in_proportion_to_the_slots() -> None:
    assert widened([("a", 1), ("b", 1)], 4) == [("a", 2), ("b", 2)]
    assert widened([("a", 1), ("b", 2)], 4) == [("a", 2), ("b", 2)]
    assert widened([("a", 1), ("b", 3)], 16) == [("a", 4), ("b", 12)]
    for ranks in range(7, 40):
        hosts = [("a", 1), ("b", 3), ("c", 2)]
        wide = widened(hosts, ranks)
        assert sum(n for _, n in wide) == ranks
        assert all(n >= slots for (_, n), (_, slots) in zip(wide, hosts, strict=True))


def test_run_writes_one_file_a_rank(script: Path, tmp_path: Path) -> None:
    done = qdist_command("run", "--mpi", "bundled", "-n", "2", "--output-filename", tmp_path / "out", script)
    assert done.returncode == 0
    assert done.stdout == ""
    assert [(tmp_path / f"out.{r}").read_text() for r in (0, 1)] == ["rank 0 of 2\n", "rank 1 of 2\n"]


def test_restarts_go_on_in_the_files_of_the_ranks(tmp_path: Path) -> None:
    """Why a job failed is still there when it has been started again; a job that is started anew begins new files."""
    script, out = tmp_path / "fails.py", tmp_path / "out"
    script.write_text(
        "import os, sys\nstart = os.environ.get('QDIST_RESTART', '0')\nprint('start', start, flush=True)\n"
        "sys.exit(f'failed {start}' if start != '2' else 0)\n"
    )
    for _ in range(2):
        again = ["--restarts", "2", "--backoff", "0"]
        done = qdist_command("run", "--mpi", "bundled", *again, "--output-filename", out, script)
        assert done.returncode == 0, done.stderr
        lines = ["start 0", "failed 0", "start 1", "failed 1", "start 2"]
        assert (tmp_path / "out.0").read_text().splitlines() == lines


def test_verbose_run_checks_the_ranks_first(script: Path) -> None:
    done = qdist_command("run", "--mpi", "bundled", "-n", "2", "--verbose", script)
    assert done.returncode == 0, done.stderr
    assert "rank 0 (node 0," in done.stdout
    assert "GB/s" in done.stdout
    assert "hello.py" in done.stderr


def test_run_shares_the_cores_among_the_ranks(tmp_path: Path) -> None:
    script = tmp_path / "threads.py"
    script.write_text("import os, sys; sys.stdout.write(os.environ['OMP_NUM_THREADS'] + '\\n')")
    share = str(max(1, qdist.comm.cores() // 2))
    assert qdist_command("run", "--mpi", "bundled", "-n", "2", script).stdout.split() == [share, share]
    done = qdist_command("run", "--mpi", "bundled", "-n", "2", script, OMP_NUM_THREADS="5")
    assert done.stdout.split() == ["5", "5"]


def test_run_passes_on_the_exit_code_and_names_the_killed(tmp_path: Path) -> None:
    script = tmp_path / "fail.py"
    # All ranks have started before one ends. Where the others are ended before anybody looks, no rank is named.
    kill = "if os.environ['PMI_RANK'] == '1': os.kill(os.getpid(), 9)"
    script.write_text(f"import os, time\ntime.sleep(1)\n{kill}\ntime.sleep(30)")
    for _ in range(8):
        done = qdist_command("run", "--mpi", "bundled", "-n", "3", script)
        assert done.returncode != 0
        if "was the first to fail" in done.stderr:
            break
    assert "qdist run: rank 1 (pid" in done.stderr
    script.write_text("import sys; sys.exit(7)")
    assert qdist_command("run", "--mpi", "bundled", "-n", "2", script).returncode == 7


def test_ranks_that_do_not_start_in_time_are_named(script: Path, tmp_path: Path) -> None:
    slow = tmp_path / "mpirun"
    slow.write_text('#!/bin/sh\n[ "$1" = --version ] && echo HYDRA build 1.0 && exit\nexec sleep 60\n')
    slow.chmod(0o755)
    done = qdist_command("run", "-n", "2", "--mpi", slow, "--start-timeout", "0.5", script)
    assert done.returncode == 2
    assert "0 of 2 ranks started within 0.5 s; missing are ranks [0, 1]" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "0", "x.py"], "-n 0: at least one rank"),
        (["-n", "2"], "nothing to run"),
        (["-n", "2", "no-such-program"], "neither a Python script nor a program on PATH"),
        (["--nproc-per-node", "0", "x.py"], "--nproc-per-node 0 --nnodes 1: at least 1 of each"),
        (["--nproc-per-node", "2", "-n", "2", "x.py"], "take the place of --ranks"),
        (["--nnodes", "2", "-H", "a:1", "x.py"], "take the place of --hosts"),
        (["--nnodes", "2", "--node-rank", "2", "x.py"], "--node-rank 2 of --nnodes 2: from 0 to 1"),
        (["--nnodes", "2", "--verbose", "x.py"], "leave out --nnodes"),
        (["--nnodes", "2", "--master-port", "70000", "x.py"], "--master-port 70000: from 1 to 65535"),
        *((["--nnodes", "2", "--master-port", port, "x.py"], f"--master-port {port}: from 1") for port in ("0", "-1")),
        *((["-n", "2", "--master-port", port, "x.py"], f"--master-port {port}: from 1") for port in ("0", "70000")),
        (["--nnodes", "2", "--master-addr", "10.1.1.20", "x.py"], "share no secret"),
        (["-H", "a:zero", "x.py"], "'a:zero' is not name or name:ranks"),
        *(([flag, "/no/such/file", "x.py"], "No such file") for flag in ("-f", "-hostfile", "--hostfile")),
        (["--mpi", "/no/such/mpirun", "x.py"], "no launcher at '/no/such/mpirun'"),
        (["-n", "2", "--backoff", "3", "x.py"], "--backoff 3 is for restarts: give --restarts N too"),
        (["--nnodes", "2", "--start-timeout", "5", "x.py"], "--start-timeout is for one launcher"),
        *((["--grace", text, "x.py"], f"--grace {text}: more than 0") for text in ("0", "inf", "nan", "1e+30")),
        *((["--start-timeout", text, "x.py"], f"--start-timeout {text}: more than 0") for text in ("0", "-1", "nan")),
    ],
)
def test_wrong_command_lines_say_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_wrong_command_line_ends_the_command_without_a_traceback() -> None:
    done = qdist_command("run", "-n", "2", "no-such-program")
    assert done.returncode == 2
    assert "neither a Python script nor a program on PATH" in done.stderr
    assert "Traceback" not in done.stderr


def test_hosts_are_read_as_written(tmp_path: Path) -> None:
    assert parse_hosts("node0:1,node2:3, n4") == [("node0", 1), ("node2", 3), ("n4", 1)]
    file = tmp_path / "hosts"
    file.write_text("node0 slots=1\n\nnode2   slots = 4 # big\nnode3:2\nnode5\n")
    assert parse_hostfile(str(file)) == [("node0", 1), ("node2", 4), ("node3", 2), ("node5", 1)]
    file.write_text("node0 slots=1\nnode1 slot=2\n")
    with pytest.raises(ValueError, match="line 2: 'node1 slot=2' is not of the form"):
        parse_hostfile(str(file))
    file.write_text("# nothing\n")
    with pytest.raises(ValueError, match="names no host"):
        parse_hostfile(str(file))


def test_help_lists_every_option() -> None:
    text, vqnets = qdist_command("run", "-h").stdout, vqnetrun("-h").stdout
    for option in (
        "-n",
        "-np",
        "-H",
        "--hosts",
        "-f",
        "--hostfile",
        "--output-filename",
        "--verbose",
        "--start-timeout",
        "--nproc-per-node",
        "--nnodes",
        "--node-rank",
        "--master-addr",
        "--master-port",
    ):
        assert option in text
        assert option in vqnets


def test_vqnetrun_is_the_same_command(script: Path) -> None:
    done = vqnetrun("-n", "2", "--mpi", "bundled", "python", script)
    assert sorted(done.stdout.split("\n")) == ["", "rank 0 of 2", "rank 1 of 2"], done.stderr
    done = vqnetrun("-n", "0", "python", script)
    assert done.returncode == 2
    assert done.stderr == "vqnetrun: -n 0: at least one rank\n"


def test_spawn_returns_what_each_rank_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 3

    def job(offset: int) -> tuple[int, int]:
        comm = qdist.comm.init()
        return comm.rank * factor + offset, int(comm.all_reduce(np.array(1)))

    assert qdist.spawn(job, 3, (10,)) == [(10, 3), (13, 3), (16, 3)]
    # Ranks find the modules that this process finds, wherever it looks for them.
    (tmp_path / "only_here.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    double = importlib.import_module("only_here").double
    assert qdist.spawn(lambda offset: (double(21), *job(offset)), 1, (0,)) == [(42, 0, 1)]


def test_spawn_beside_a_folder_of_the_packages_name_takes_the_package_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "qdist").mkdir()
    (tmp_path / "qdist" / "__init__.py").write_text("raise ImportError('a checkout without kernels')")
    monkeypatch.chdir(tmp_path)
    assert qdist.spawn(lambda: __import__("qdist").__file__, 2) == [qdist.__file__] * 2


def test_spawn_raises_the_first_ranks_exception_here() -> None:
    def job() -> None:
        comm = qdist.comm.init()
        if comm.rank == 1:
            raise KeyError("missing", 5)
        comm.barrier()

    with pytest.raises(KeyError) as caught:
        qdist.spawn(job, 3)
    assert caught.value.args == ("missing", 5)
    assert "raised on rank 1" in caught.value.__notes__[0]
    assert "test_launch.py" in caught.value.__notes__[0]


def test_spawn_tells_of_exceptions_that_cannot_travel_and_of_deaths() -> None:
    def local_error() -> None:
        class Odd(Exception):
            def __reduce__(self):
                raise TypeError("stays here")

        raise Odd("as text")

    with pytest.raises(RuntimeError, match="Odd: as text"):
        qdist.spawn(local_error, 2)
    with pytest.raises(qdist.comm.CommError, match="ended without a result"):
        qdist.spawn(lambda: os._exit(0), 2)
    with pytest.raises(qdist.comm.CommError, match="not done within 1 s"):
        qdist.spawn(lambda: __import__("time").sleep(60), 2, timeout=1)
    with pytest.raises(ValueError, match="nprocs=0"):
        qdist.spawn(print, 0)


def test_info_tells_what_is_there_and_how_to_get_the_rest() -> None:
    text = qdist_command("info").stdout
    for name in ("MPI", "GPU", "CuPy", "NCCL", "cuStateVec", "cores", "memory", "CPU kernels"):
        assert name in text
    for line in text.splitlines():
        assert line.startswith(("ok", "missing"))
        if line.startswith("missing  CuPy"):
            assert "pip install" in line


@pytest.mark.parametrize(
    ("given", "text"), [((2, print), "takes a function, .* got 2"), ((print, "2"), "nprocs='2': a whole number")]
)
def test_spawn_names_what_is_no_function_and_no_number(given, text):
    with pytest.raises(TypeError, match=text):
        qdist.spawn(*given)
