"""Does a k times larger batch train as well with a k times larger rate and a warm-up? On handwritten digits.

    python papers/large_minibatch/measure.py [--factors 1 4 8 16 32] [--rate 0.02] [--save]
    mpirun -n 4 python papers/large_minibatch/measure.py        the same numbers, the batch shared out over 4 ranks

"unscaled" keeps the small batch's rate, "scaled" multiplies it by k at once, "warm-up" gets there over five epochs.
Errors are percentages of wrong held-out digits, mean and standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Nets this small only lose by sharing each product among cores. BLAS reads this when NumPy is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import qdist as qd
from qdist import data, nn, optim
from qdist.parallel import DataParallel
from qdist.tensor import Tensor, functional, manual_seed, no_grad

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import machine_line, save, table

BATCH, WARM_EPOCHS = 16, 5


def build() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def train(
    comm: qd.comm.Communicator, factor: int, way: str, rate: float, epochs: int, seed: int
) -> tuple[float, float]:
    """The mean loss of the last epoch and the error on held-out digits, in percent."""
    x, y, x_test, y_test = data.digits(seed=seed)
    manual_seed(seed)
    model = DataParallel(build(), comm)
    rows = BATCH * factor
    loader = data.DataLoader(data.ArrayDataset(x, y), rows, shuffle=True, seed=seed, drop_last=True, ranks=comm)
    first_rate = rate * factor if way == "scaled" else rate
    optimizer = optim.SGD(model.parameters(), lr=first_rate, momentum=0.9, weight_decay=1e-4)
    warm = WARM_EPOCHS * len(loader) if way == "warm-up" else 0
    schedule: optim.Scheduler = optim.CosineLR(optimizer, epochs * len(loader) - warm)
    if warm:
        schedule = optim.WarmupLR(optimizer, warm, factor, schedule)
    loss = np.nan
    for _ in range(epochs):
        losses = []
        for images, labels in loader:
            optimizer.zero_grad()
            mine = functional.cross_entropy(model(images), labels)
            mine.backward()
            optimizer.step()
            schedule.step()
            losses.append(mine.item() * len(labels) / rows)
        loss = float(comm.all_reduce(np.array(np.mean(losses))))
    with no_grad():
        guess = model(Tensor(x_test)).argmax(1).numpy()
    return loss, 100 * float((guess != y_test).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--rate", type=float, default=0.02, help="of the small batch (default 0.02)")
    parser.add_argument("--epochs", type=int, default=30, help="more than the 5 of the warm-up (default 30)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/large_minibatch_paper.json")
    options = parser.parse_args()
    if options.epochs <= WARM_EPOCHS:
        parser.error(f"--epochs {options.epochs}: the rate is raised over the first {WARM_EPOCHS}, so take more")
    comm = qd.comm.init()
    rows = []
    for factor in options.factors:
        for way in ("unscaled", "scaled", "warm-up") if factor > 1 else ("unscaled",):
            runs = np.array(
                [train(comm, factor, way, options.rate, options.epochs, seed) for seed in range(options.seeds)]
            )
            (loss, error), (_, spread) = runs.mean(axis=0), runs.std(axis=0)
            rows.append(
                {
                    "k": factor,
                    "batch": BATCH * factor,
                    "rate": way,
                    "loss": float(loss),
                    "error %": float(error),
                    "+-": float(spread),
                }
            )
    if comm.rank > 0:
        return
    print(f"{machine_line()}; {options.epochs} epochs, {options.seeds} seeds, {comm.size} rank(s)\n")
    print(table(list(rows[0]), [list(row.values()) for row in rows]))
    if options.save:
        print(save("large_minibatch_paper", {**vars(options), "rows": rows}))


if __name__ == "__main__":
    main()
