"""How long do ranks of a pipeline wait, and how much do they keep? Counted from the schedules, and measured on ranks.

    python papers/pipeline/measure.py [--ranks 4] [--micro-batches 4 8 16] [--repeats 3] [--save] [--pictures FOLDER]

"formula" is the papers' bubble, "counted" comes from the schedule's clock, "measured" is 1 - work / seconds of a real
step in which every stage sleeps for as long as its passes are said to take: a machine with fewer cores than ranks could
not run them side by side otherwise. The least of the repeats counts: other work on the machine only adds. "MiB" is the
most that rank 0 allocated in a step of a real perceptron.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import qdist as qd
from qdist import nn
from qdist.parallel import Pipeline, make_schedule, save_schedule_picture
from qdist.tensor import Tensor, custom_function

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import machine_line, save, table

# Name, virtual stages, recomputation.
KINDS = [
    ("naive", 1, False),
    ("f-then-b", 1, False),
    ("f-then-b", 1, True),
    ("1f1b", 1, False),
    ("interleaved", 2, False),
]
SLOT = 0.1
"""Seconds of a forward pass through all of a rank's stages, and of a backward pass."""
WIDTH, ROWS = 128, 512


class Sleeper(nn.Module):
    """Multiplies by a weight and sleeps, in both directions."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.ones(1))

        def asleep(value: Any) -> Any:
            time.sleep(seconds)
            return value

        self.sleep = custom_function("sleep", lambda x: (asleep(x), ()), lambda saved, g: asleep(g))

    def forward(self, x: Tensor) -> Tensor:
        return self.sleep(x * self.weight)


def formula(name: str, ranks: int, micro_batches: int, virtual: int) -> Fraction:
    if name == "naive":
        return Fraction(ranks - 1, ranks)
    return Fraction(ranks - 1, virtual * micro_batches + ranks - 1)


def seconds_of_a_step(name: str, virtual: int, recompute: bool, micro_batches: int, repeats: int) -> float:
    comm = qd.comm.init()
    layers = [Sleeper(SLOT / virtual) for _ in range(comm.size * virtual)]
    options = {"schedule": name, "virtual_stages": virtual, "recompute": recompute, "micro_batches": micro_batches}
    pipeline = Pipeline(layers, nn.MSELoss(), comm, **options)
    rows = np.ones((micro_batches, 1))
    pipeline.train_batch(rows, rows)
    times = []
    for _ in range(repeats):
        comm.barrier()
        start = time.perf_counter()
        pipeline.train_batch(rows, rows)
        times.append(float(comm.all_reduce(np.array(time.perf_counter() - start), "max")))
    return min(times)


def bytes_kept(name: str, virtual: int, recompute: bool, micro_batches: int) -> int:
    comm = qd.comm.init()
    per_stage = [nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU()]
    layers = [layer for _ in range(comm.size * 2) for layer in per_stage]
    options = {"schedule": name, "virtual_stages": virtual, "recompute": recompute, "micro_batches": micro_batches}
    pipeline = Pipeline(layers, nn.MSELoss(), comm, **options)
    batch = np.ones((ROWS * micro_batches, WIDTH), np.float32)
    pipeline.train_batch(batch, batch)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    pipeline.train_batch(batch, batch)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak


def on_a_rank(counts: list[int], repeats: int) -> list[dict[str, Any]]:
    rows = []
    comm = qd.comm.init()
    for name, virtual, recompute in KINDS:
        for micro_batches in counts:
            schedule = make_schedule(name, comm.size, micro_batches, virtual)
            wall = seconds_of_a_step(name, virtual, recompute, micro_batches, repeats)
            # A backward pass that runs the forward pass again takes twice as long.
            slots = 3 if recompute else 2
            rows.append(
                {
                    "schedule": f"{name}{', recomputed' * recompute}",
                    "micro-batches": micro_batches,
                    "formula": float(formula(name, comm.size, micro_batches, virtual)),
                    "counted": float(schedule.bubble(1, slots - 1)),
                    "measured": 1 - slots * SLOT * micro_batches / wall,
                    "kept": " ".join(map(str, schedule.peak_live())),
                    "MiB": bytes_kept(name, virtual, recompute, micro_batches) / 2**20,
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/pipeline_paper.json")
    parser.add_argument("--pictures", type=Path, help="draw the schedules into this folder (needs matplotlib)")
    options = parser.parse_args()
    rows = qd.spawn(on_a_rank, options.ranks, (options.micro_batches, options.repeats))[0]
    print(f"{machine_line()}; {options.ranks} ranks")
    print(table(list(rows[0]), [list(row.values()) for row in rows]))
    if options.save:
        print(save("pipeline_paper", {"ranks": options.ranks, "slot_seconds": SLOT, "rows": rows}))
    if options.pictures is not None:
        for name, virtual, recompute in KINDS:
            if not recompute:
                schedule = make_schedule(name, options.ranks, 2 * options.ranks, virtual)
                save_schedule_picture(schedule, options.pictures / f"{name}.png", 1, 2)


if __name__ == "__main__":
    main()
