"""A training step as the automatic mode plans it beside pure data parallelism: same model, same ranks, same run.

    python benchmarks/auto_bench.py [--ranks 2] [--repeats 20] [--only wide,block,rows] [--save]

"wide" (few rows, wide layers) and "block" (a transformer block, few tokens) are cases for tensor parallelism, "rows"
(many rows, small layers) for data parallelism. The two plans take turns, so that a busy machine slows both. A step
lasts until the last rank has done it; medians. "predicted" is the ratio by the cost model. Losses must be equal.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import qdist as qd
from qdist import nn, optim
from qdist.parallel.auto import Engine, Machine, ProcessMesh, Strategy, cost_of, data_parallel
from qdist.tensor import functional, manual_seed, set_num_threads

sys.path.append(str(Path(__file__).parent))

CASES = {"wide": (32, 256), "block": (2, 16, 512), "rows": (2048, 64)}
"""Shape of the inputs, and of the outputs."""


def build(case: str) -> nn.Module:
    """The net of a case, from the same seed."""
    manual_seed(0)
    width = CASES[case][-1]
    if case == "block":
        return nn.TransformerBlock(width, 8)
    inner = 40 * width if case == "wide" else width
    return nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))


def engine(case: str, comm: Any, automatic: bool) -> Engine:
    """The net with Adam, on all ranks."""
    model = build(case)
    mesh = ProcessMesh(list(range(comm.size)), ["dp"], comm)
    strategy = Strategy(auto=automatic, machine=Machine(state=2))
    return Engine(model, functional.mse_loss, optim.Adam(model.parameters()), None, strategy, mesh)


def one_rank(cases: list[str], repeats: int) -> list[dict[str, Any]]:
    """What spawn runs on every rank: a row for each case."""
    comm = qd.comm.init()
    set_num_threads(comm.cores)
    rows = []
    for case in cases:
        rng = np.random.default_rng(0)
        x, y = rng.random((2, *CASES[case]), np.float32)
        engines = {"auto": engine(case, comm, True), "data parallel": engine(case, comm, False)}
        first = [e.run((x, y))["loss"] for e in engines.values()]
        times: dict[str, list[float]] = {name: [] for name in engines}
        for _ in range(repeats):
            for name, e in engines.items():
                comm.barrier()
                start = time.perf_counter()
                e.run((x, y))
                comm.barrier()
                times[name].append(time.perf_counter() - start)
        plan, machine = engines["auto"].plan, Machine(state=2)
        plain = cost_of(data_parallel(plan.graph, plan.mesh), machine).seconds
        row: dict[str, Any] = {"case": case}
        row |= {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}
        row["ratio"] = row["data parallel"] / row["auto"]
        row["predicted"] = plain / cost_of(plan, machine).seconds
        row["apart"] = abs(first[0] - first[1]) / abs(first[1])
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="ranks on this machine (default 2)")
    parser.add_argument("--repeats", type=int, default=20, help="timed steps of each plan (default 20)")
    parser.add_argument("--only", default=",".join(CASES), help=f"comma-separated part of: {', '.join(CASES)}")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/auto.json")
    options = parser.parse_args()
    names = options.only.split(",")
    unknown = set(names) - set(CASES)
    if unknown or options.ranks < 1 or options.repeats < 1:
        parser.error(f"unknown case {', '.join(sorted(unknown))}" if unknown else "--ranks and --repeats are positive")
    from common import machine_line, save, table

    results = qd.spawn(one_rank, options.ranks, (names, options.repeats))[0]
    print(f"{machine_line()}; {options.ranks} ranks, ms a step\n")
    for row in results:
        assert row["apart"] < 1e-4, f"{row['case']}: the first losses differ by {row['apart']:.1e}"
    print(table(list(results[0]), [list(row.values()) for row in results]))
    print("\nratio above 1: faster than data parallel")
    if options.save:
        print(save("auto", {"ranks": options.ranks, "rows": results}))


if __name__ == "__main__":
    main()
