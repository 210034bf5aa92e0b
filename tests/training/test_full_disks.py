"""Disks that are really full or read-only, quotas, and two jobs on one folder: one message, and nothing is lost."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qdist import checkpoint, training
from qdist.training import lock

PROGRAM = Path(__file__).with_name("on_small_disk.py")
IN_NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]


def why_not() -> str | None:
    """The reason why no small file system can be mounted here, or None."""
    try:
        tried = subprocess.run(
            [*IN_NAMESPACE, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, text=True, timeout=60
        )
    except OSError as error:
        return f"small file systems need unshare (util-linux, Linux): {error}"
    return f"no file system can be mounted here: {tried.stderr.strip()}" if tried.returncode else None


REASON = why_not()


@pytest.mark.skipif(REASON is not None, reason=str(REASON))
@pytest.mark.parametrize("how", ["at once", "behind"])
def test_a_full_and_a_read_only_disk_name_the_last_good_checkpoint(tmp_path: Path, how: str) -> None:
    command = [*IN_NAMESPACE, sys.executable, PROGRAM, "all", tmp_path, how]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lives = json.loads(done.stdout)
    good = tmp_path / "step-00000004.safetensors"
    for life, why in (
        ("it grows", "No space left on device"),
        ("still full", "No space left on device"),
        ("read-only", "Read-only file system"),
    ):
        code, told, files = lives[life]
        assert code == training.EXIT_SAVE_FAILED, told
        (line,) = told.splitlines()
        assert why in line, line
        assert line.endswith(f"the last good checkpoint is {good}"), line
        assert files == ["log.jsonl", "step-00000002.safetensors", good.name], files
    code, told, files = lives["room again"]
    assert (code, told) == (0, ""), told
    assert files[-1] == "step-00000020.safetensors"
    # Every step stands in the log once, and the training went on after the fourth.
    assert lives["log"] == list(range(20))
    assert lives["resumed"] == [4]


def test_a_quota_ends_in_the_same_message(tmp_path: Path, monkeypatch, capsys) -> None:
    for _ in training.steps(3, {}, tmp_path):
        pass

    def over_quota(file: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))  # What NFS says when it is asked to write at last.

    monkeypatch.setattr(os, "fsync", over_quota)
    with pytest.raises(training.SaveFailed) as failed:
        list(training.steps(5, {}, tmp_path))
    assert failed.value.code == 74
    (line,) = capsys.readouterr().err.splitlines()
    assert os.strerror(errno.EDQUOT) in line
    assert line.endswith(f"the last good checkpoint is {tmp_path / 'step-00000003.safetensors'}")
    assert checkpoint.load(tmp_path / "step-00000003.safetensors")["loop"]["done"] == 3
    assert sorted(os.listdir(tmp_path)) == ["log.jsonl", "step-00000003.safetensors"]


def test_two_jobs_do_not_write_to_one_folder(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.3)
    loop = training.steps(4, {}, tmp_path, every=1)
    for step in loop:
        if step == 2:
            left = tmp_path / ".step-00000009.safetensors.0a1b2c3d.part"
            left.touch()  # Of the first job, which may still be writing it.
            with pytest.raises(training.SaveFailed, match="another job writes there, process"):
                list(training.steps(4, {}, tmp_path))
            assert left.exists()
    told = capsys.readouterr().err
    assert f"process {os.getpid()} on {os.uname().nodename} since " in told
    assert "the last good checkpoint is" in told
    assert loop.done == 4
    assert not (tmp_path / lock.NAME).exists()
    assert list(training.steps(4, {}, tmp_path)) == []


def test_a_lock_is_waited_for_and_goes_with_its_process(tmp_path: Path, monkeypatch) -> None:
    """A job that is being ended is waited for, and one that was killed holds nothing."""
    command = [sys.executable, str(PROGRAM), "hold", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        def end_it(seconds: float) -> None:
            holder.kill()
            holder.wait()

        monkeypatch.setattr(lock.time, "sleep", end_it)
        assert [int(step) for step in training.steps(2, {}, tmp_path)] == [0, 1]
        assert holder.returncode == -signal.SIGKILL
    assert sorted(os.listdir(tmp_path)) == ["log.jsonl", "step-00000002.safetensors"]
