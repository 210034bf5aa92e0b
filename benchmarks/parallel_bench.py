"""A data-parallel training step beside torch's DistributedDataParallel over gloo: same model, same ranks, same run.

    python benchmarks/parallel_bench.py [--ranks 2] [--repeats 20] [--only mlp,wide,cnn] [--save]

Every rank has its own rows and one thread for each of its cores. The libraries take turns of a few steps, so that a
busy machine slows both. A step lasts until the last rank has done it; medians. "after" averages gradients when the
backward pass is over, where DataParallel does it meanwhile; "alone" is the same step without communication. The weights
after the first step must be equal.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import qdist as qd
from qdist import nn, optim
from qdist.parallel import DataParallel, average_gradients
from qdist.tensor import Tensor, functional, set_num_threads

sys.path.append(str(Path(__file__).parent))

TURN = 5  # timed steps a turn
WIDTHS = {"mlp": (784, 512, 256, 128, 64, 10), "wide": (784, 1024, 1024, 1024, 10)}
BATCH = 64


def build(name: str, module: Any) -> Any:
    """The same layers from qdist.nn or torch.nn."""
    if name in WIDTHS:
        layers: list[Any] = []
        for a, b in pairwise(WIDTHS[name]):
            layers += [module.Linear(a, b), module.ReLU()]
        return module.Sequential(*layers[:-1])
    first, second = module.Conv2d(1, 16, 3, padding=1), module.Conv2d(16, 32, 3, padding=1)
    last = module.Linear(32 * 49, 10)
    pools = module.MaxPool2d(2), module.MaxPool2d(2)
    return module.Sequential(first, module.ReLU(), pools[0], second, module.ReLU(), pools[1], module.Flatten(), last)


def data(name: str, rank: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rank)
    shape = (BATCH, 1, 28, 28) if name == "cnn" else (BATCH, 784)
    return rng.random(shape, np.float32), rng.integers(0, 10, BATCH)


def ours(model: Any, x: np.ndarray, y: np.ndarray, between: Callable[[], Any] = lambda: None) -> Callable[[], Any]:
    optimizer = optim.SGD(model.parameters(), lr=1e-2)
    inputs, targets = Tensor(x), Tensor(y)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        between()
        optimizer.step()

    return step


def theirs(model: Any, x: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, fused=True)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def compare(comm: qd.comm.Communicator, name: str, repeats: int) -> dict[str, Any]:
    """Times of both libraries on this group of ranks, and how far their weights are apart after a step."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model, peer = build(name, nn), build(name, torch.nn)
    model.load_state_dict({key: value.numpy().copy() for key, value in peer.state_dict().items()})
    after, single, single_peer = build(name, nn), build(name, nn), build(name, torch.nn)
    x, y = data(name, comm.rank)
    steps = {
        "qdist": ours(DataParallel(model, comm), x, y),
        "torch": theirs(DistributedDataParallel(peer), x, y),
        "qdist after": ours(after, x, y, lambda: average_gradients(after, comm)),
        "qdist alone": ours(single, x, y),
        "torch alone": theirs(single_peer, x, y),
    }
    for step in steps.values():
        step()
    apart = max(float(abs(p.numpy() - q.detach().numpy()).max()) for p, q in zip(model.parameters(), peer.parameters()))
    times: dict[str, list[float]] = {key: [] for key in steps}
    while len(times["qdist"]) < repeats:
        for key, step in steps.items():
            step()
            for _ in range(TURN):
                comm.barrier()
                start = time.perf_counter()
                step()
                mine = np.array(time.perf_counter() - start)
                times[key].append(float(comm.all_reduce(mine, "max")))
    milliseconds = {key: 1e3 * statistics.median(values) for key, values in times.items()}
    return {"case": name, "apart": apart, **milliseconds}


def one_rank(folder: str, names: list[str], repeats: int) -> list[dict[str, Any]]:
    import torch
    import torch.distributed as dist

    comm = qd.comm.init()
    threads = int(os.environ.get("OMP_NUM_THREADS", comm.cores))
    torch.set_num_threads(threads)
    set_num_threads(threads)
    dist.init_process_group("gloo", init_method=f"file://{folder}/torch", rank=comm.rank, world_size=comm.size)
    try:
        return [compare(comm, name, repeats) for name in names]
    finally:
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="ranks on this machine (default 2)")
    parser.add_argument("--repeats", type=int, default=20, help="timed steps of each library (default 20)")
    parser.add_argument("--only", default="mlp,wide,cnn", help="comma-separated part of: mlp, wide, cnn")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/parallel.json")
    options = parser.parse_args()
    names = options.only.split(",")
    unknown = set(names) - {"mlp", "wide", "cnn"}
    if unknown or options.ranks < 1 or options.repeats < 1:
        parser.error(f"unknown case {', '.join(sorted(unknown))}" if unknown else "--ranks and --repeats are positive")
    from common import machine_line, save, table

    with tempfile.TemporaryDirectory() as folder:
        results = qd.spawn(one_rank, options.ranks, (folder, names, options.repeats))[0]
    print(f"{machine_line()}; {options.ranks} ranks, {BATCH} rows each, ms a step\n")
    for row in results:
        assert row["apart"] < 1e-5, f"{row['case']}: the libraries disagree by {row['apart']:.1e} after a step"
        row["ratio"] = row["torch"] / row["qdist"]
    print(table(list(results[0]), [list(row.values()) for row in results]))
    print("\nratio above 1: faster than torch")
    if options.save:
        print(save("parallel", {"ranks": options.ranks, "batch": BATCH, "rows": results}))


if __name__ == "__main__":
    main()
