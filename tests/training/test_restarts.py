"""Jobs that survive: restarts, signals through the launcher, full disks; every life ends with the undisturbed curve."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from qdist.comm import CommError
from qdist.comm.launch import restarts
from qdist.comm.launch.restarts import Restarts, note_reason

SURVIVOR = Path(__file__).parents[2] / "benchmarks" / "survivor.py"
STEPS = ["--steps", "8", "--timeout", "60"]

pytestmark = pytest.mark.ranks


def job(ranks: int, kind: str, folder: Path, *options: str, restarts: int = 0, launch=()) -> subprocess.Popen[str]:
    again = ["--restarts", str(restarts), "--backoff", "0.1"] if restarts else []
    program = [SURVIVOR, kind, folder, folder.with_suffix(".json"), *STEPS, *options]
    command = [
        sys.executable,
        "-m",
        "qdist",
        "run",
        "-n",
        str(ranks),
        "--start-timeout",
        "120",
        *again,
        *launch,
        *program,
    ]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("QDIST_RESTART")}
    return subprocess.Popen(list(map(str, command)), env=environ, stderr=subprocess.PIPE, text=True)


def losses(folder: Path) -> list[float]:
    return [float.fromhex(x) for x in json.loads(folder.with_suffix(".json").read_text())["losses"]]


@pytest.fixture(scope="module")
def curve(tmp_path_factory) -> list[float]:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    done = job(2, "mesh", folder)
    _, told = done.communicate(timeout=300)
    assert done.returncode == 0, told
    return losses(folder)


# Of a rank that signal 9 ended: Linux tells from 6.15 on, before that MPICH's launcher says 9.
@pytest.mark.parametrize(("how", "codes"), [("kill", (137, 9)), ("raise", (1,)), ("full", (74,))])
def test_a_job_that_fails_is_started_again_and_ends_with_the_same_curve(
    curve, tmp_path, how: str, codes: tuple[int, ...]
) -> None:
    folder = tmp_path / "run"
    done = job(2, "mesh", folder, "--die", f"1:5:{how}", *(["--behind"] if how == "full" else []), restarts=1)
    _, told = done.communicate(timeout=300)
    assert done.returncode == 0, told
    assert losses(folder) == curve
    (line,) = [
        line for line in told.splitlines() if line.startswith("qdist run: restart 1 of 1 after 0.1 s, 2 ranks: ")
    ]
    assert any(f"exit code {code}" in line for code in codes)
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines() if "event" in line]
    (resumed,) = [event for event in events if event["event"] == "resumed"]
    assert resumed["restart"] == 1
    assert any(f"exit code {code}" in resumed["reason"] for code in codes)
    if how == "full":
        assert told.count("the last good checkpoint is") == 1


def test_sigterm_through_the_launcher_saves_and_other_ranks_go_on(curve, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = job(2, "mesh", folder, "--pause", "0.3", "--every", "1")
    end = time.monotonic() + 200
    while not list(folder.glob("step-*")) and first.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)
    _, told = first.communicate(timeout=200)
    assert first.returncode == 75, told
    assert told.count("SIGTERM after step") == 1
    # One rank instead of two: no pipeline any more, and equal up to rounding.
    done = job(1, "mesh", folder)
    _, told = done.communicate(timeout=300)
    assert done.returncode == 0, told
    np.testing.assert_allclose(losses(folder), curve, rtol=1e-5)


def test_a_rank_that_does_not_save_in_time_is_ended(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stuck = job(2, "mesh", folder, "--every", "1", "--die", "1:2:hang", "--timeout", "500", launch=["--grace", "0.5"])
    end = time.monotonic() + 200
    while len(list(folder.glob("step-*"))) < 2 and stuck.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    stuck.send_signal(signal.SIGTERM)
    # Not the minute that ranks have by default, nor the time after which they miss each other.
    _, told = stuck.communicate(timeout=45)
    assert stuck.returncode == 128 + signal.SIGTERM, told
    assert [path.name for path in sorted(folder.glob("step-*"))][-1] == "step-00000002.safetensors"


class Starts:
    """A launcher that is told how its jobs end."""

    def __init__(self, *codes: int | str) -> None:
        self.codes, self.seen = list(codes), []

    def __call__(self, ranks, hosts) -> int:
        self.seen.append((ranks, list(hosts)))
        code = self.codes.pop(0)
        if isinstance(code, str):
            raise CommError(code)
        if code not in (129, 130, 138, 143):  # The launcher itself was asked to end, which is no rank's failure.
            note_reason(f"rank 1 was the first to fail, exit code {code}")
        return code


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(restarts.time, "sleep", found.append)
    for name in ("QDIST_RESTART", "QDIST_RESTART_REASON"):
        monkeypatch.setenv(name, "")
    return found


def test_pauses_double_and_hosts_that_are_gone_are_left_out(pauses, monkeypatch, capsys) -> None:
    hosts = [("a", 2), ("b", 2), ("c", 4)]
    answers = [hosts, hosts[:1] + hosts[2:], hosts[:1] + hosts[2:]]
    monkeypatch.setattr(restarts, "reachable", lambda hosts, timeout: answers.pop(0))
    start = Starts(9, "2 of 8 ranks started", 9, 0)
    assert Restarts(5, 6, 0.5).run(start, None, hosts) == 0
    assert pauses == [0.5, 1.0, 2.0]
    assert [ranks for ranks, _ in start.seen] == [8, 8, 6, 6]
    assert start.seen[-1][1] == [("a", 2), ("c", 4)]
    told = capsys.readouterr().err
    assert "restart 2 of 5 after 1 s, 6 ranks on a, c: 2 of 8 ranks started" in told
    assert os.environ["QDIST_RESTART"] == "3"
    assert os.environ["QDIST_RESTART_REASON"] == "rank 1 was the first to fail, exit code 9"


@pytest.mark.parametrize("code", [0, 75, 130, 143])
def test_a_job_that_ended_or_was_asked_to_is_not_started_again(pauses, code: int) -> None:
    assert Restarts(3).run(Starts(code), 2, []) == code
    assert pauses == []


def test_too_few_ranks_and_too_many_failures_end_it(pauses, monkeypatch, capsys) -> None:
    monkeypatch.setattr(restarts, "reachable", lambda hosts, timeout: hosts[:1])
    assert Restarts(3, 3).run(Starts(9), None, [("a", 2), ("b", 2)]) == 9
    assert "b cannot be reached, and the others have slots for 2 ranks; 3 are needed" in capsys.readouterr().err
    assert Restarts(1).run(Starts(9, 7), 2, []) == 7
    assert "no restart is left after 1: rank 1 was the first to fail" in capsys.readouterr().err
    with pytest.raises(ValueError, match="--min-ranks 5: the job has 4 ranks"):
        Restarts(1, 5).run(Starts(0), 4, [])
    for wrong in ((-1, None, 1.0), (1, 0, 1.0), (1, None, -1.0)):
        with pytest.raises(ValueError, match="--"):
            Restarts(*wrong)


@pytest.mark.thorough  # Each of its ways to end a job is above, and what goes on bit by bit in test_loop.py.
def test_a_small_storm() -> None:
    runs = 2
    storm = [SURVIVOR.with_name("storm.py"), "--runs", str(runs), "--ranks", "2", "--steps", "8", "--seed", "1"]
    done = subprocess.run([sys.executable, *map(str, storm)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["same curve"], summary["bad"]) == (runs, [])
