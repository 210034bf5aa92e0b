"""qdist's all_reduce and all_to_all beside raw mpi4py's, in the same run.

    mpirun -n 2 python benchmarks/comm_bench.py
    python benchmarks/comm_bench.py --ranks 1 2 4 8

Both sides send the same arrays into the same buffers; their calls take turns, so whatever else the machine does falls
on both. Each side goes round two pairs of arrays, so that nothing is won by seeing the arrays of the last call again.
`ratio` is qdist's median time over mpi4py's, `added` the difference.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
from common import machine_line, save, table

import qdist.comm as qc
from qdist.comm.bootstrap.environment import launched_by
from qdist.comm.launch import run

SIZES = [8, 1 << 10, 1 << 15, 1 << 20, 1 << 22, 1 << 24, 1 << 26]
HEADER = ["op", "bytes", "mpi4py us", "qdist us", "ratio", "added us", "GB/s"]


def alternate(comm: qc.Communicator, sides: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds a call of each side, the slowest rank's. A sample is several calls, so that the clock is fine."""
    for call in sides.values():
        call()
    start = time.perf_counter()
    for call in sides.values():
        call()
    once = float(comm.all_reduce(np.array(time.perf_counter() - start), "max")) / len(sides)
    inner = max(1, min(100, int(2e-3 / max(once, 1e-7))))
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats):
        order = list(sides) if turn % 2 else list(sides)[::-1]
        for name in order:
            comm.barrier()
            start = time.perf_counter()
            for _ in range(inner):
                sides[name]()
            samples[name].append((time.perf_counter() - start) / inner)
    slowest = comm.all_reduce(np.array([samples[name] for name in sides]), "max")
    return dict(zip(sides, np.median(slowest, axis=1).tolist()))


def mpi4py_side(call: Callable[..., Any], pairs: list[tuple[Any, Any]]) -> Callable[[], Any]:
    turns = cycle(pairs)

    def run() -> None:
        x, out = next(turns)
        call(x, out)

    return run


def qdist_side(call: Callable[..., Any], pairs: list[tuple[Any, Any]]) -> Callable[[], Any]:
    turns = cycle(pairs)

    def run() -> None:
        x, out = next(turns)
        call(x, out=out)

    return run


def measure(comm: qc.Communicator, sizes: list[int], repeats: int, progress: bool) -> list[dict[str, Any]]:
    from mpi4py import MPI

    raw = MPI.COMM_WORLD
    results = []
    for op in ("all_reduce", "all_to_all"):
        for nbytes in sizes:
            count = max(1, nbytes // 8 // comm.size) * comm.size
            shape = (comm.size, count // comm.size)
            pairs = [(np.ones(shape), np.empty(shape)) for _ in range(2)]
            theirs = raw.Allreduce if op == "all_reduce" else raw.Alltoall
            ours = comm.all_reduce if op == "all_reduce" else comm.all_to_all
            sides = {"mpi4py": mpi4py_side(theirs, pairs), "qdist": qdist_side(ours, pairs)}
            if progress and comm.rank == 0:
                print(f"\r{op} {nbytes} bytes ...", end="", file=sys.stderr, flush=True)
            seconds = alternate(comm, sides, repeats)
            results.append({"op": op, "ranks": comm.size, "bytes": pairs[0][0].nbytes, **seconds})
    if progress and comm.rank == 0:
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return results


def row(r: dict[str, Any]) -> list[Any]:
    ours, theirs = r["qdist"], r["mpi4py"]
    return [
        r["op"], r["bytes"], theirs * 1e6, ours * 1e6, ours / theirs, (ours - theirs) * 1e6, r["bytes"] / ours / 1e9,
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", metavar="N", help="start these many ranks, one after another")
    parser.add_argument("--repeats", type=int, default=41, help="samples a side (default 41)")
    parser.add_argument("--quick", action="store_true", help="few sizes, few repeats: a look, not a measurement")
    parser.add_argument("--save", metavar="NAME", help="write benchmarks/results/NAME.json (NAME-<ranks> with --ranks)")
    parser.add_argument("--progress", action="store_true", help="show what is being measured")
    options = parser.parse_args()
    if options.ranks and launched_by(os.environ) is None:
        flags = [f"--repeats={options.repeats}"] + ["--quick"] * options.quick + ["--progress"] * options.progress
        for ranks in options.ranks:
            name = [f"--save={options.save}-{ranks}"] if options.save else []
            if code := run([sys.executable, __file__, *flags, *name], ranks):
                return code
        return 0
    comm = qc.init(backend="mpi")
    sizes = [8, 1 << 20, 1 << 24] if options.quick else SIZES
    results = measure(comm, sizes, 7 if options.quick else options.repeats, options.progress)
    if comm.rank == 0:
        print(f"{comm.size} ranks on {machine_line()}")
        print(table(HEADER, [row(r) for r in results]), flush=True)
        if options.save:
            print(f"written: {save(options.save, results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
