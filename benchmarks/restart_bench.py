"""What it takes to survive: the time from the end of a rank to the next step, and what saving costs the steps.

    python benchmarks/restart_bench.py restart --ranks 8 --gib 1 --save restart
    python benchmarks/restart_bench.py saving --ranks 2 --gib 1 --save saving

A net under ZeRO 3 with Adam, whose checkpoint has so many GiB. `restart`: one rank kills itself, and `qdist run` with
--restarts starts all of them again; timed are the launcher's notice, the start of the ranks, the model, reading the
checkpoint with its checksums, and the next step. `saving`: for --seconds without and with checkpoints in turns, written
behind the steps. What a checkpoint costs is how much longer all the steps took during which it was copied and written
than as many other steps of the same turn, given in seconds, and in per cent of 30 s, the time between two of them.
The interval is shorter here so that there are several to take the median of. On machines whose speed varies that says
little; the time that processors spend on a checkpoint varies less: on the copy, for which the steps wait, and on
checksums and writing behind them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

WIDTH, ROWS = 2048, 8
INTERVAL = 10.0
"""Seconds between two checkpoints while saving is timed."""


def note(folder: Path, **what: Any) -> None:
    with open(folder.with_suffix(".times"), "a") as file:
        file.write(json.dumps({**what, "time": time.time()}) + "\n")


def notes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in folder.with_suffix(".times").read_text().splitlines()]


def rank(folder: Path, gib: float, what: str, seconds: float) -> None:
    """What each rank runs."""
    started = time.time()
    import numpy as np

    import qdist as qd
    from qdist import nn, optim, training
    from qdist.parallel import Plan, parallelize
    from qdist.tensor import manual_seed

    comm = qd.comm.init(timeout=300)
    life = int(os.environ.get("QDIST_RESTART") or 0)
    manual_seed(0)
    # Parameters and two moments, 4 bytes each.
    layers = max(1, round(gib * 2**30 / (12 * WIDTH**2)))
    net = nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)])
    mesh = qd.comm.Mesh(comm, dp=-1)
    adam = lambda parameters: optim.Adam(parameters, lr=1e-5)  # noqa: E731
    model = parallelize(net, mesh, Plan(zero=3 if comm.size > 1 else 0), optimizer=adam, loss=nn.MSELoss())
    x = np.random.default_rng(comm.rank).normal(size=(ROWS, WIDTH)).astype(np.float32)
    if comm.rank == 0:
        note(folder, what="started", life=life, at=started)
        note(folder, what="model", life=life)
    if what == "restart":
        for step in training.steps(4, {"model": model}, folder, every=2):
            if life == 0 and step == 3 and comm.rank == comm.size - 1:
                note(folder, what="killed", life=life)
                os.kill(os.getpid(), signal.SIGKILL)
            if life and comm.rank == 0:
                note(folder, what="read", life=life)
            step.record(loss=model.train_batch(x, x))
            if comm.rank == 0:
                note(folder, what="step", life=life)
        return
    model.train_batch(x, x)
    spent = processor_seconds()
    for turn in range(4):
        saved, log = turn % 2 == 1, folder.with_suffix(f".{turn}.jsonl")
        place = {"folder": folder, "seconds": INTERVAL, "behind": True, "resume": False} if saved else {}
        begun = time.perf_counter()
        for step in training.steps(None, {"model": model}, log=log, **place, comm=comm):
            step.record(loss=model.train_batch(x, x))
            if comm.broadcast_object(time.perf_counter() - begun > seconds):
                step.stop()
        if comm.rank == 0:
            note(folder, what="turn", saved=saved, **cost(log))
    if comm.rank == 0:
        note(folder, what="processor", **spent)


def processor_seconds() -> dict[str, list[float]]:
    """Grows by what this rank's processor spends on each checkpoint."""
    from qdist.checkpoint import Saving

    spent: dict[str, list[float]] = {"copy": [], "write": []}

    def timed(function: Callable[..., None], seconds: list[float]) -> Callable[..., None]:
        def call(*args: Any, **how: Any) -> None:
            begun = time.thread_time()
            function(*args, **how)
            seconds.append(time.thread_time() - begun)

        return call

    Saving.__init__ = timed(Saving.__init__, spent["copy"])  # type: ignore[method-assign]
    Saving.write = timed(Saving.write, spent["write"])  # type: ignore[method-assign]
    return spent


def cost(log: Path) -> dict[str, Any]:
    """Mean seconds of steps during which nothing was saved, and the extra seconds of each checkpoint."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    entries = entries[max(k for k, entry in enumerate(entries) if entry.get("step") == 0) :]
    times, windows = [], []
    for entry in entries:
        if "step" in entry:
            times.append(entry["time"])
        elif entry["event"] == "saved":
            # It was begun after so many steps; the copy is taken before the next one.
            windows.append((int(Path(entry["checkpoint"]).stem.partition("-")[2]), len(times)))
    lengths = [b - a for a, b in pairwise(times)]
    inside = {k for first, last in windows for k in range(first - 1, last)}
    step = statistics.mean(length for k, length in enumerate(lengths) if k not in inside)
    # The last is written after all steps.
    extra = [sum(lengths[first - 1 : last]) - step * len(lengths[first - 1 : last]) for first, last in windows[:-1]]
    return {"step": step, "extra": extra}


def restart(folder: Path) -> dict[str, float]:
    found = notes(folder)
    at = {(entry["life"], entry["what"]): entry for entry in reversed(found)}
    killed, begun = at[0, "killed"]["time"], at[1, "started"]["at"]
    parts = {
        "until ranks run again": begun - killed,
        "imports, MPI, the model": at[1, "model"]["time"] - begun,
        "reading the checkpoint": at[1, "read"]["time"] - at[1, "model"]["time"],
        "the next step": at[1, "step"]["time"] - at[1, "read"]["time"],
        "together": at[1, "step"]["time"] - killed,
    }
    return {name: round(seconds, 2) for name, seconds in parts.items()}


def saving(folder: Path) -> dict[str, Any]:
    turns = [entry for entry in notes(folder) if entry["what"] == "turn"]
    extra = [seconds for turn in turns for seconds in turn["extra"]]
    (spent,) = (entry for entry in notes(folder) if entry["what"] == "processor")
    copying, writing = (statistics.median(spent[name]) for name in ("copy", "write"))
    return {
        "seconds a step, not saving": [round(turn["step"], 4) for turn in turns if not turn["saved"]],
        "between checkpoints": [round(turn["step"], 4) for turn in turns if turn["saved"]],
        "seconds of each checkpoint": [round(seconds, 3) for seconds in extra],
        "per cent, one every 30 s": round(100 * statistics.median(extra) / 30, 2),
        "processor seconds, copying": round(copying, 3),
        "processor seconds, writing": round(writing, 3),
        "per cent of a processor": round(100 * (copying + writing) / 30, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["restart", "saving"])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=25.0, help="of a turn of saving, of which there are four")
    parser.add_argument("--folder", type=Path, help="on which disk (default: where temporary files are)")
    parser.add_argument("--save", help="write results/NAME.json")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        rank(args.folder, args.gib, args.what, args.seconds)
        return
    from common import machine_line, save

    print(machine_line())
    place = Path(tempfile.mkdtemp(prefix="restart-", dir=args.folder))
    folder = place / "run"
    own = [__file__, args.what, "--rank", "--folder", folder, "--gib", args.gib, "--seconds", args.seconds]
    again = ["--restarts", "1", "--backoff", "0"] if args.what == "restart" else []
    launch = [sys.executable, "-m", "qdist", "run", "-n", args.ranks, "--start-timeout", "200", *again]
    subprocess.run([str(word) for word in [*launch, *own]], check=True)
    size = max(path.stat().st_size for path in folder.glob("step-*"))
    measured = restart(folder) if args.what == "restart" else saving(folder)
    result = {"ranks": args.ranks, "checkpoint GiB": round(size / 2**30, 3), **measured}
    for name, value in result.items():
        print(f"{name:30} {value}")
    if args.save:
        print(save(args.save, result))
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
