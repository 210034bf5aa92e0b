"""Names of hosts, and whatever else comes from outside and ends up on the command lines of mpirun and ssh."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qdist.comm.launch import mpirun_command, run
from qdist.comm.launch.hosts import check_hosts, host_of_rank, parse_hostfile, parse_hosts
from qdist.comm.transports.libmpi import find_mpirun

NO_HOSTS = [
    "-oProxyCommand=touch${IFS}/tmp/x",
    "-v",
    "--",
    "",
    " ",
    "a b",
    "a;b",
    "$(b)",
    "`b`",
    "a|b",
    "a\nb",
    "a\0",
    "user@a",
    "::1",
    "[::1]",
    "a/b",
    "ä",
    ".a",
    "a-",
    "x" * 254,
]


@pytest.mark.parametrize("name", NO_HOSTS)
def test_what_is_no_name_of_a_host_reaches_no_command(name: str, tmp_path: Path) -> None:
    for hosts in (f"node0:1,{name}:2", name):
        with pytest.raises(ValueError):
            parse_hosts(hosts)
    file = tmp_path / "hosts"
    if name.strip() and "\n" not in name:
        file.write_text(f"node0\n{name} slots=2\n")
        with pytest.raises(ValueError):
            parse_hostfile(str(file))
    with pytest.raises(ValueError, match="a host is a name"):
        run(["true"], hosts=[("node0", 1), (name, 2)])
    with pytest.raises(ValueError, match="a host is a name"):
        mpirun_command(find_mpirun(), 1, [(name, 2)])


@pytest.mark.parametrize("slots", ["0", "-1", "²", "1_0", "1e3", "", "99999999", "9" * 5000])
def test_what_is_no_number_of_ranks_is_refused(slots: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        parse_hosts(f"node0:{slots}")
    (tmp_path / "hosts").write_text(f"node0 slots={slots}")
    with pytest.raises(ValueError):
        parse_hostfile(str(tmp_path / "hosts"))


def test_hosts_from_python_are_checked_for_their_form() -> None:
    for hosts in ([("a", 0)], [("a", True)], [("a", "2")], [("a",)], ["a"], [(b"a", 1)]):
        with pytest.raises(ValueError, match="host"):
            check_hosts(hosts)  # type: ignore[arg-type]
    good = [("node0", 1), ("10.0.0.2", 3), ("a.b-c_d", 2), ("n", 1)]
    assert check_hosts(good) == good
    assert [host_of_rank([("a", 2), ("b", 1)], rank) for rank in range(4)] == ["a", "a", "b", None]


def test_the_error_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--hosts '-oProxyCommand=x': host '-oProxyCommand=x': a host is"):
        parse_hosts("node0,-oProxyCommand=x")
    (tmp_path / "hosts").write_text("node0\n-v slots=2\n")
    with pytest.raises(ValueError, match=r"line 2: host '-v': a host is"):
        parse_hostfile(str(tmp_path / "hosts"))
    (tmp_path / "hosts").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="no text file"):
        parse_hostfile(str(tmp_path / "hosts"))


@pytest.fixture
def mpirun(tmp_path: Path) -> Path:
    """A launcher that writes down its arguments instead of starting anything."""
    path = tmp_path / "mpirun"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo HYDRA build 1.0 && exit\necho "$@" > {tmp_path}/arguments\nexit 3\n'
    )
    path.chmod(0o755)
    return path


def command(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", "qdist", "run", *map(str, arguments)]
    return subprocess.run(whole, capture_output=True, text=True, timeout=60, env=os.environ | environ)


def test_options_in_the_place_of_hosts_do_not_reach_mpirun(mpirun: Path, tmp_path: Path) -> None:
    assert command("--mpi", mpirun, "-H", "node0,node1", "true").returncode == 3
    assert "-hosts node0:1,node1:1" in (tmp_path / "arguments").read_text()
    (tmp_path / "arguments").unlink()
    (tmp_path / "hosts").write_text("-v\n")
    for arguments in (["-H=-oProxyCommand=x"], ["-H", ""], ["-f", tmp_path / "hosts"]):
        done = command("--mpi", mpirun, *arguments, "true")
        assert done.returncode == 2, done.stdout
        assert done.stderr.startswith("qdist run:")
    assert not (tmp_path / "arguments").exists()


def test_a_programs_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text(f"import json, sys; json.dump(sys.argv[1:], open({str(tmp_path / 'seen')!r}, 'w'))")
    arguments = ["a", ":", "-n", "7", "", "x y", "'\"", "$HOME", "-oProxyCommand=x", "ä"]
    # A value that this process was itself started with must not send the output elsewhere.
    done = command("-n", "1", "--mpi", "bundled", script, *arguments, QDIST_OUTPUT=str(tmp_path / "elsewhere"))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "seen").read_text()) == arguments
    assert not (tmp_path / "elsewhere.0").exists()


def test_output_into_a_folder_that_is_not_there_is_refused_before_anything_starts(mpirun: Path, tmp_path: Path) -> None:
    done = command("--mpi", mpirun, "--output-filename", tmp_path / "no" / "out", "true")
    assert done.returncode == 2
    assert f"there is no folder {tmp_path / 'no'}" in done.stderr
    assert not (tmp_path / "arguments").exists()
