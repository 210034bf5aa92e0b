"""A storm: trainings that are disturbed at random moments must end with the very loss curve of an undisturbed one.

    python benchmarks/storm.py --runs 200 --out FILE   # on 4 ranks; called again with the same file, it goes on there
    python benchmarks/storm.py --runs 3 --ranks 2      # as quick as it gets

Every run is `qdist run --restarts` of survivor.py, alternately a hybrid net and a ZeRO + pipeline mesh, with one
disturbance after a random time, in turns:

- kill, stop: a rank is killed, or stopped (SIGSTOP, so that a time-out must find it);
- launcher, sigterm: the launcher is killed, or asked to end;
- full: checkpoints cannot be written any more (a limit of file sizes on one rank);
- disk: the disk is full, for a second (root: a small file system of its own);
- link, host: the cable to the second of two hosts is pulled, or that host is gone, for a second (root: namespaces).

A run whose launcher is gone, asked to end, or out of restarts is started again by the same command, as schedulers do.
Prints one line a run and a JSON summary. `--ways` takes some of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from common import machine
from storm_hosts import Hosts, why_not

SURVIVOR = Path(__file__).with_name("survivor.py")
KINDS = ("hybrid", "mesh")
WAYS = ("kill", "stop", "launcher", "sigterm", "full")
AS_ROOT = ("disk", "link", "host")
LONGEST = 300
"""Seconds after which a run has hung."""
AWAY = 1.0
"""Seconds for which a link is cut, a host is gone, a disk is full."""


class Clock(threading.Thread):
    """Seconds in which this process was not stopped (SIGSTOP), as machines that several share do at times."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.now = 0.0
        self.start()

    def run(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(0.05)
            last, before = time.monotonic(), last
            self.now += min(last - before, 1.0)


class Storm:
    """Runs of one set of options, in a folder of their own."""

    def __init__(self, args: argparse.Namespace, place: Path, hosts: Hosts) -> None:
        self.args, self.place, self.hosts, self.clock = args, place, hosts, Clock()

    def command(self, kind: str, way: str, folder: Path) -> list[str]:
        args = self.args
        on_hosts = way in ("link", "host")
        where = ["-H", self.hosts.names(args.ranks)] if on_hosts else ["-n", str(args.ranks)]
        again = ["--restarts", "3", "--backoff", "0.1", "--start-timeout", "120"]
        mpi = ["--mpi", "bundled"] if on_hosts else []
        program = [str(SURVIVOR), kind, str(folder), f"{folder}.json", "--steps", str(args.steps), "--pause", "0.04"]
        launch = [sys.executable, "-m", "qdist", "run", *mpi, *where, *again]
        whole = [*launch, *program, "--behind", "--timeout", str(args.timeout)]
        return self.hosts.command(whole) if on_hosts else whole

    def curve(self, kind: str, way: str) -> list[str]:
        """The losses of an undisturbed run: two hosts add up in another order than one."""
        name = f"{kind}-hosts" if way in ("link", "host") else kind
        out = self.place / f"{name}.json"
        if not out.exists():
            subprocess.run(self.command(kind, way, self.place / name), check=True, timeout=LONGEST)
        return list(json.loads(out.read_text())["losses"])

    def one(self, number: int, way: str) -> dict[str, Any]:
        rng = random.Random(self.args.seed * 100_000 + number)
        kind = KINDS[number % 2]
        curve = self.curve(kind, way)
        folder = self.place / f"run{number}" / "checkpoints"
        folder.parent.mkdir()
        folder.mkdir()
        start = self.clock.now
        hit, lives = False, []
        with ExitStack() as stack:
            if way == "disk":
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)], check=True)
                stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
            told = folder.with_suffix(".err")
            while len(lives) < 5:
                begun = self.clock.now
                with open(told, "a") as log:
                    job = subprocess.Popen(self.command(kind, way, folder), stderr=log, stdout=log, text=True)
                    if not hit:
                        while not (folder / "log.jsonl").exists() and job.poll() is None:
                            time.sleep(0.02)
                        time.sleep(rng.uniform(0, 0.06 * self.args.steps))
                        hit = self.disturb(way, job, folder, rng)
                    code = _code(job)
                lives.append({"code": code, "seconds": round(self.clock.now - begun, 1)})
                if code in (0, None):
                    break
                time.sleep(0.2)
        out = Path(f"{folder}.json")
        same = out.exists() and json.loads(out.read_text())["losses"] == curve
        restarts = told.read_text().count("qdist run: restart ")
        if same and not self.args.keep:
            shutil.rmtree(folder.parent)
        return {
            "run": number, "seed": self.args.seed, "kind": kind, "way": way, "disturbed": hit, "same": same,
            "restarts": restarts, "lives": lives, "seconds": round(self.clock.now - start, 1),
        }  # fmt: skip

    def disturb(self, way: str, launcher: subprocess.Popen[str], folder: Path, rng: random.Random) -> bool:
        """Whether there was something to disturb."""
        ranks = ranks_of(launcher.pid)
        if launcher.poll() is not None or (not ranks and way not in ("link", "host", "disk")):
            return False
        try:
            if way == "launcher":
                launcher.kill()
            elif way == "sigterm":
                launcher.send_signal(signal.SIGTERM)
            elif way == "full":
                resource.prlimit(rng.choice(ranks), resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
            elif way == "disk":
                _fill(folder / "of-others")
                time.sleep(AWAY)
                (folder / "of-others").unlink()
            elif way == "link":
                self.hosts.cut()
                # What was sent is sent again if the cable is back soon; else ranks miss each other.
                time.sleep(rng.choice([AWAY, 1.5 * self.args.timeout]))
                self.hosts.mend()
            elif way == "host":
                self.hosts.power_off()
                time.sleep(AWAY)
                self.hosts.mend()
            else:
                os.kill(rng.choice(ranks), signal.SIGSTOP if way == "stop" else signal.SIGKILL)
        except (OSError, ValueError):
            return False
        return True


def _code(job: subprocess.Popen[str]) -> int | None:
    """The exit code; None for a job that hangs. Seconds in which this process is stopped do not count."""
    for _ in range(LONGEST):
        with suppress(subprocess.TimeoutExpired):
            return job.wait(1)
    job.terminate()
    job.wait()
    return None


def _fill(path: Path) -> None:
    """Writes until the disk is full."""
    with suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


def ranks_of(launcher: int) -> list[int]:
    """The processes of a launcher's ranks: its descendants that run the program."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        children.setdefault(parent, []).append(int(name))
    found = [launcher]
    for pid in found:
        found += children.get(pid, [])
    ranks = []
    for pid in found[1:]:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 1 and words[1].endswith(b"survivor.py"):
            ranks.append(pid)
    return sorted(ranks)


def summary(args: argparse.Namespace, runs: list[dict[str, Any]]) -> dict[str, Any]:
    by_way = {}
    for way in sorted({run["way"] for run in runs}):
        of_it = [run for run in runs if run["way"] == way]
        seconds = sorted(run["seconds"] for run in of_it)
        by_way[way] = {
            "runs": len(of_it), "disturbed": sum(run["disturbed"] for run in of_it),
            "same curve": sum(run["same"] for run in of_it), "restarts": sum(run["restarts"] for run in of_it),
            "started again": sum(len(run["lives"]) - 1 for run in of_it),
            "median seconds": seconds[len(seconds) // 2], "longest": seconds[-1],
        }  # fmt: skip
    return {
        "runs": len(runs), "ranks": args.ranks, "steps": args.steps, "seed": args.seed,
        "same curve": sum(run["same"] for run in runs), "disturbed": sum(run["disturbed"] for run in runs),
        "kinds": Counter(run["kind"] for run in runs), "ways": by_way,
        "bad": [run["run"] for run in runs if not run["same"]],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=8.0, help="seconds until a stopped rank is missed")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, *AS_ROOT], help="default: all that are possible here")
    parser.add_argument("--keep", action="store_true", help="keep what runs have printed and saved")
    parser.add_argument("--out", type=Path, help="write all runs and their summary here; go on where it ends")
    args = parser.parse_args()
    reason = why_not()
    if reason is not None and not args.ways:
        print(f"left out are {', '.join(AS_ROOT)}: {reason}", file=sys.stderr)
    ways = args.ways or [*WAYS, *(AS_ROOT if reason is None else ())]
    runs = json.loads(args.out.read_text())["results"] if args.out and args.out.exists() else []
    place = Path(tempfile.mkdtemp(prefix="storm-"))
    with ExitStack() as stack:
        storm = Storm(args, place, Hosts(stack))
        for number in range(len(runs), args.runs):
            # Both kinds get all ways: a round of all ways for each.
            runs.append(storm.one(number, ways[number // 2 % len(ways)]))
            print(json.dumps(runs[-1]), flush=True)
            if args.out:
                text = json.dumps({"machine": machine(), "summary": summary(args, runs), "results": runs}, indent=1)
                args.out.write_text(text + "\n")
    told = summary(args, runs)
    print(json.dumps(told))
    if told["bad"] or args.keep:
        print(f"what the runs have left is in {place}", file=sys.stderr)
    else:
        shutil.rmtree(place)
    return 1 if told["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
