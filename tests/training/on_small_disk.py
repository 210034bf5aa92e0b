"""Trainings for test_full_disks.py: ``on_small_disk.py WHAT FOLDER [HOW]``; "all" mounts, in a mount namespace."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from qdist import training


class Big:
    """Its state is small at first, and then larger than the disk where it grows."""

    def __init__(self, grows: bool) -> None:
        self.grows, self.grown = grows, False

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"x": np.zeros(100_000 if self.grown else 500)}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        pass


def train(folder: str, how: str, grows: bool) -> None:
    big = Big(grows)
    for step in training.steps(20, {"big": big}, folder, every=2, behind=how == "behind"):
        big.grown = grows and step >= 4
        step.record(loss=step)


def hold(folder: str) -> None:
    for _ in training.steps(1, {}, folder):
        print("held", flush=True)
        sys.stdin.read()


def lives(folder: Path, how: str) -> dict[str, object]:
    """Lives of a training on a disk of 400 kB: (exit code, stderr, files) of each."""

    def life(what: str) -> tuple[int, str, list[str]]:
        command = [sys.executable, __file__, what, str(folder), how]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        files = sorted(path.name for path in folder.iterdir() if path.name not in ("filler", ".lock"))
        return done.returncode, done.stderr, files

    def mount(*options: str) -> None:
        subprocess.run(["mount", *options, str(folder)], check=True)

    mount("-t", "tmpfs", "-o", "size=400k", "none")
    found: dict[str, object] = {"it grows": life("grow")}
    filler = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(filler, bytes(4096))
    except OSError:
        os.close(filler)
    found["still full"] = life("train")
    (folder / "filler").unlink()
    mount("-o", "remount,ro")
    found["read-only"] = life("train")
    mount("-o", "remount,rw")
    found["room again"] = life("train")
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    found["log"] = [entry["step"] for entry in entries if "step" in entry]
    found["resumed"] = [entry["at"] for entry in entries if entry.get("event") == "resumed"]
    return found


if __name__ == "__main__":
    what, where = sys.argv[1:3]
    if what == "all":
        print(json.dumps(lives(Path(where), sys.argv[3])))
    elif what == "hold":
        hold(where)
    else:
        train(where, sys.argv[3], grows=what == "grow")
