"""A training step of a quantum layer on small circuits in batches, beside other libraries, in one run.

Prints milliseconds of a step (median), its first call apart, and how many times as long the fastest peer takes. The
loss and the gradient of every library are compared with qdist's. With --busy N, N processes that do nothing but
compute run beside it.

    python benchmarks/layer_bench.py --quick
    python benchmarks/layer_bench.py --save layer

With --overhead: qdist's own layer and its layers in torch and JAX alone, at 4 qubits and 32 rows, a few steps of each
in turn in one process, and by how much the median of those is longer than that of qdist's own. Beside them a layer in
torch that computes nothing: what torch takes for its own part of a step.

    python benchmarks/layer_bench.py --overhead --save layer_overhead
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from common import machine_line, save, table
from layer_peers import LIBRARIES, data, empty_torch_step

POINTS = [(4, 2), (6, 3), (8, 4), (10, 6), (12, 6), (14, 6)]
"""Qubits and layers."""

EMPTY = "torch, a layer that computes nothing"

WARMING, COUNTED = 5, 25
"""Steps of --overhead that a layer has in its turn: those that are left out, and those that count."""


def measured(name: str, point: tuple[int, int, int], threads: int, repeats: int, limit: float) -> dict[str, Any]:
    """What layer_peers.py says of a library, or {"failed": why}."""
    arguments = [name, *map(str, point), str(threads), str(repeats)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "XLA_FLAGS": xla_flags(threads)}
    command = [sys.executable, str(Path(__file__).with_name("layer_peers.py")), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return {"failed": f"over {limit:.0f} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no word"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def xla_flags(threads: int) -> str:
    return "--xla_cpu_multi_thread_eigen=" + ("false" if threads == 1 else "true")


def installed(modules: list[str]) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


def agrees(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    loss = abs(found["loss"] - wanted["loss"]) <= 1e-4 * max(1.0, abs(wanted["loss"]))
    apart = np.linalg.norm(np.subtract(found["gradient"], wanted["gradient"]))
    return bool(loss and apart <= 1e-3 * np.linalg.norm(wanted["gradient"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qubits", type=int, nargs="*", help="of the points 4, 6, 8, 10, 12 and 14; all by default")
    parser.add_argument("--rows", type=int, nargs="*", default=[32, 256, 1024])
    parser.add_argument("--only", nargs="*", choices=list(LIBRARIES), metavar="NAME", help="some of the libraries")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a library may take for a point")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute beside")
    parser.add_argument("--overhead", action="store_true", help="of the layers in torch and JAX over qdist's own")
    parser.add_argument("--quick", action="store_true", help="4 and 8 qubits, 32 rows, 5 repeats")
    parser.add_argument("--save", nargs="?", const="layer", metavar="NAME", help="write results/NAME.json")
    options = parser.parse_args()
    if options.quick:
        options.qubits, options.rows, options.repeats = [4, 8], [32], 5
    if options.overhead:
        result = overhead(options.threads, max(options.repeats, 300))
        if options.save:
            print("written to", save(options.save, result))
        return
    wanted = options.only or list(LIBRARIES)
    missing = [name for name in wanted if not installed(LIBRARIES[name][0])]
    print(machine_line())
    print(f"{options.threads} threads, {options.busy} busy processes beside, median of {options.repeats} steps")
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    results = []
    too_slow: dict[str, list[tuple[int, int]]] = {}
    with ExitStack() as stack:
        for _ in range(options.busy):
            spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(spinning.wait)
            stack.callback(spinning.kill)
        for qubits, layers in POINTS:
            for rows in options.rows if not options.qubits or qubits in options.qubits else []:
                point = {}
                for name in wanted:
                    # Who ran out of time on less is not asked again.
                    if name in missing or any(q <= qubits and r <= rows for q, r in too_slow.get(name, ())):
                        continue
                    size = (qubits, layers, rows)
                    point[name] = measured(name, size, options.threads, options.repeats, options.limit)
                    if point[name].get("failed", "").startswith("over "):
                        too_slow.setdefault(name, []).append((qubits, rows))
                results.append({"qubits": qubits, "layers": layers, "rows": rows, "libraries": point})
                report(results[-1])
    if options.save:
        print("written to", save(options.save, results))


def overhead(threads: int, repeats: int) -> dict[str, Any]:
    """Steps of the layers, a few of each in turn, so that a machine whose speed varies treats them alike; prints them.
    The first of them find caches that the others have filled, which a training does not, and are left out."""
    os.environ.update(OMP_NUM_THREADS=str(threads), XLA_FLAGS=xla_flags(threads), JAX_PLATFORMS="cpu")
    names = [name for name in ("qdist", "qdist in torch", "qdist in JAX (jit)") if installed(LIBRARIES[name][0])]
    features, weights = data(4, 2, 32)
    steps = {name: LIBRARIES[name][1](4, 2, features, threads) for name in names}
    if "qdist in torch" in steps:
        steps[EMPTY] = empty_torch_step(4, 2, features, threads)
    found = {name: dict(zip(("loss", "gradient"), step(weights))) for name, step in steps.items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for k in range(-(-repeats // COUNTED)):
        for name, step in steps.items():
            for j in range(WARMING + COUNTED):
                given = weights + np.float32(0.001 * (k + 1))
                start = time.perf_counter()
                step(given)
                if j >= WARMING:
                    seconds[name].append(time.perf_counter() - start)
    print(machine_line())
    print(f"{threads} threads, medians of {repeats} steps; 4 qubits, 2 layers, 32 rows\n")
    lines = []
    for name in steps:
        more = statistics.median(seconds[name]) - statistics.median(seconds["qdist"])
        note = "" if name == EMPTY or agrees(found[name], found["qdist"]) else "DIFFERENT RESULT"
        lines.append([name, 1e3 * statistics.median(seconds[name]), 1e3 * more, note])
    print(table(["library", "ms a step", "ms more than qdist's own", ""], lines))
    return {"qubits": 4, "layers": 2, "rows": 32, "threads": threads, "seconds": seconds}


def report(result: dict[str, Any]) -> None:
    """Prints one point."""
    own = result["libraries"].get("qdist", {})
    lines = []
    for name, found in result["libraries"].items():
        if "failed" in found:
            lines.append([name, "-", "-", "-", found["failed"]])
            continue
        median = statistics.median(found["seconds"])
        ratio = median / statistics.median(own["seconds"]) if "seconds" in own else float("nan")
        same = "seconds" not in own or agrees(found, own)
        note = found["version"] + ("" if same else ", DIFFERENT RESULT")
        lines.append([name, 1e3 * median, 1e3 * found["first"], ratio, note])
    print(f"\n{result['qubits']} qubits, {result['layers']} layers, {result['rows']} rows")
    print(table(["library", "ms a step", "first ms", "times qdist's", "version"], lines))


if __name__ == "__main__":
    main()
