"""A training that storms, tests and timings disturb: ``survivor.py KIND FOLDER OUT`` on any number of ranks.

KIND is "hybrid" (a layer and a circuit, rows over "dp", amplitudes over "state") or "mesh" (a net with dropout
under ZeRO, cut into the stages of a pipeline). Rank 0 writes the losses to OUT, exactly, when all steps are taken.
``--die RANK:STEP:HOW`` (kill, stop, raise, full, hang) disturbs the first life of the job by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import qdist as qd
from qdist import data, nn, optim, training
from qdist.parallel import DataParallel, Plan, parallelize
from qdist.tensor import functional, manual_seed


class Hybrid(nn.Module):
    """(n, 4) to (n, 3) scores, by a circuit that ranks share."""

    def __init__(self, comm: Any) -> None:
        super().__init__()
        x, w = qd.ParameterVector("x", 6), qd.ParameterVector("w", 12)
        circuit = qd.Circuit(6)
        for k in range(6):
            circuit.ry(x[k], k).ry(w[k], k)
        for k in range(6):
            circuit.cx(k, (k + 1) % 6).rz(w[6 + k], k).rx(0.4, k)
        self.first, self.drop = nn.Linear(4, 6), nn.Dropout(0.2)
        observables = ["Z0", "Z1", "Z2"]
        self.quantum = nn.QuantumLayer(circuit, observables, inputs=x, weights=w, comm=comm)

    def forward(self, x: Any) -> Any:
        return self.quantum(self.drop(self.first(x)))


def rows_of(mesh: qd.comm.Mesh, rows: int) -> training.Batches:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (3 * rows, 4)).astype(np.float32), rng.integers(0, 3, 3 * rows)
    loader = data.DataLoader(data.ArrayDataset(x, y), rows, shuffle=True, seed=1, ranks=mesh["dp"])
    return training.Batches(loader)


def hybrid(comm: Any, steps: int, rows: int) -> tuple[dict[str, Any], Any]:
    mesh = qd.comm.Mesh(comm, dp=-1, state=2 if comm.size % 2 == 0 else 1)
    manual_seed(5)
    model = DataParallel(Hybrid(mesh["state"]), mesh["dp"])
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    schedule, batches = optim.CosineLR(optimizer, steps), rows_of(mesh, rows)

    def step() -> float:
        x, y = next(batches)
        value = training.descend(functional.cross_entropy(model(x), y), optimizer, mesh["dp"])
        schedule.step()
        return value

    return {"model": model, "optimizer": optimizer, "schedule": schedule, "batches": batches}, step


def on_mesh(comm: Any, steps: int, rows: int) -> tuple[dict[str, Any], Any]:
    mesh = qd.comm.Mesh(comm, dp=-1, pp=2 if comm.size % 2 == 0 else 1)
    manual_seed(5)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    model = parallelize(
        net,
        mesh,
        Plan(zero=1 if mesh["dp"].size > 1 else 0, micro_batches=2),
        optimizer=lambda parameters: optim.Adam(parameters, lr=0.05),
        loss=nn.CrossEntropyLoss(),
    )
    batches = rows_of(mesh, rows)
    return {"model": model, "batches": batches}, lambda: model.train_batch(*next(batches))


def disturb(how: str, comm: Any) -> None:
    if how == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    elif how == "hang":
        time.sleep(600)
    elif how == "raise":
        raise RuntimeError("a failure of the program's own")
    else:
        os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["hybrid", "mesh"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--rows", type=int, default=12, help="of a batch, for 1, 2, 3, 4 or 6 ranks; 24 for 8 too")
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--behind", action="store_true")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds a step, so that there is time to disturb it")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds until a rank that does not come is missed")
    parser.add_argument("--die", default="", help="RANK:STEP:HOW in the first life of the job")
    args = parser.parse_args()
    comm = qd.comm.init(timeout=args.timeout)
    parts, take = (hybrid if args.kind == "hybrid" else on_mesh)(comm, args.steps, args.rows)
    rank, number, how = args.die.split(":") if args.die and "QDIST_RESTART" not in os.environ else ("-1", "-1", "")
    loop = training.steps(args.steps, parts, args.folder, every=args.every, behind=args.behind, comm=comm)
    for step in loop:
        if (comm.rank, step) == (int(rank), int(number)):
            disturb(how, comm)
        step.record(loss=take())
        time.sleep(args.pause)
    if comm.rank == 0:
        args.out.write_text(json.dumps({"ranks": comm.size, "losses": [x.hex() for x in loop.history.values["loss"]]}))


if __name__ == "__main__":
    main()
