"""A storm: trainings that are disturbed at random moments must end with the very loss curve of an undisturbed one.

    python benchmarks/storm.py --runs 200              # on 4 ranks of this machine; a seed repeats the disturbances
    python benchmarks/storm.py --runs 3 --ranks 2      # as quick as it gets

Every run is `qdist run --restarts` of survivor.py, alternately a hybrid net and a ZeRO + pipeline mesh, with one
disturbance after a random time: a rank is killed, a rank is stopped (SIGSTOP, so that a time-out must find it), the
launcher is killed, the launcher gets SIGTERM, or checkpoints cannot be written any more (a limit of file sizes on one
rank, as a full disk). A run whose launcher is gone or asked to end is started again by the same command, as a scheduler
would. Prints one line a run and a JSON summary. Links are cut by tests/comm/launch, where hosts are namespaces.
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
import time
from collections import Counter
from pathlib import Path

SURVIVOR = Path(__file__).with_name("survivor.py")
KINDS = ("hybrid", "mesh")
WAYS = ("kill", "stop", "launcher", "sigterm", "full")
LONGEST = 600.0
"""Seconds after which a run has hung."""


def command(args: argparse.Namespace, kind: str, folder: Path) -> list[str]:
    launch = [sys.executable, "-m", "qdist", "run", "-n", str(args.ranks), "--restarts", "3", "--backoff", "0.1"]
    program = [str(SURVIVOR), kind, str(folder), f"{folder}.json", "--steps", str(args.steps), "--pause", "0.05"]
    return [*launch, "--start-timeout", "120", *program, "--behind", "--timeout", str(args.timeout)]


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


def disturb(way: str, launcher: subprocess.Popen[str], rng: random.Random) -> bool:
    """Whether there was something to disturb."""
    ranks = ranks_of(launcher.pid)
    if not ranks or launcher.poll() is not None:
        return False
    victim = rng.choice(ranks)
    try:
        if way == "launcher":
            launcher.kill()
        elif way == "sigterm":
            launcher.send_signal(signal.SIGTERM)
        elif way == "full":
            resource.prlimit(victim, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        else:
            os.kill(victim, signal.SIGSTOP if way == "stop" else signal.SIGKILL)
    except (OSError, ValueError):
        return False
    return True


def one(args: argparse.Namespace, number: int, folder: Path, curve: list[str]) -> dict[str, object]:
    rng = random.Random(args.seed * 100_000 + number)
    kind, way = KINDS[number % 2], rng.choice(WAYS)
    start = time.monotonic()
    hit, lives, told = False, 0, ""
    while lives < 5:
        lives += 1
        with open(f"{folder}.err", "a+") as log:
            job = subprocess.Popen(command(args, kind, folder), stderr=log, stdout=log, text=True)
            if not hit:
                while not (folder / "log.jsonl").exists() and job.poll() is None:
                    time.sleep(0.02)
                time.sleep(rng.uniform(0, 0.08 * args.steps))
                hit = disturb(way, job, rng)
            try:
                code = job.wait(LONGEST)
            except subprocess.TimeoutExpired:
                job.terminate()
                job.wait()
                told = "hung"
                break
        if code == 0:
            break
        time.sleep(0.5)  # A launcher that was killed leaves its ranks to the keeper, which ends them.
    out = Path(f"{folder}.json")
    same = out.exists() and json.loads(out.read_text())["losses"] == curve
    restarts = Path(f"{folder}.err").read_text().count("qdist run: restart ")
    return {
        "run": number, "kind": kind, "way": way, "disturbed": hit, "same": same, "lives": lives, "restarts": restarts,
        "seconds": round(time.monotonic() - start, 1), "note": told,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds until a stopped rank is missed")
    parser.add_argument("--out", type=Path, help="write the summary here")
    args = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="storm-"))
    curves = {}
    for kind in KINDS:
        subprocess.run(command(args, kind, place / kind), check=True, timeout=LONGEST)
        curves[kind] = json.loads((place / f"{kind}.json").read_text())["losses"]
    results = []
    for number in range(args.runs):
        result = one(args, number, place / f"run{number}", curves[KINDS[number % 2]])
        results.append(result)
        print(json.dumps(result), flush=True)
    bad = [r["run"] for r in results if not r["same"]]
    summary = {
        "runs": args.runs, "ranks": args.ranks, "steps": args.steps, "seed": args.seed,
        "same curve": args.runs - len(bad), "disturbed": sum(bool(r["disturbed"]) for r in results),
        "ways": Counter(str(r["way"]) for r in results),
        "restarts": sum(int(str(r["restarts"])) for r in results), "bad": bad,
    }  # fmt: skip
    print(json.dumps(summary))
    if args.out:
        args.out.write_text(json.dumps({"summary": summary, "runs": results}, indent=1) + "\n")
    if not bad:
        shutil.rmtree(place)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
