"""A GPT's training step on two ranks beside torch over gloo: time and peak memory, in the same run.

    python benchmarks/gpt_bench.py [--ranks 2] [--repeats 20] [--only dp,zero,tp] [--save]

    dp      data parallel               beside DistributedDataParallel
    zero    parameters divided (ZeRO 3) beside fully_shard (FSDP2), a block at a time
    tp      tensor parallel             beside torch.distributed.tensor.parallel

Both libraries begin with the same weights and get the same rows; AdamW. Losses of the first steps must agree. The
libraries take turns of a few steps, so that a busy machine slows both. A step lasts until the last rank has done it;
medians. Peak memory is a rank's of a fresh process over that before the model is built.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import qdist as qd
from qdist import nn, optim
from qdist.comm import Communicator, Mesh
from qdist.parallel import Plan, parallelize
from qdist.tensor import Tensor, manual_seed, set_num_threads

sys.path.append(str(Path(__file__).parent))

TURN = 3  # timed steps a turn
AGREE = 4  # steps whose losses are compared
LR = 1e-3
WAYS = {"dp": "DDP", "zero": "FSDP2", "tp": "tensor parallel"}


class Size(NamedTuple):
    """Of the model and of a rank's batch."""

    layers: int = 4
    width: int = 256
    heads: int = 8
    length: int = 128
    tokens: int = 512
    rows: int = 8


class Tokens(nn.Module):
    """Tokens to vectors, with where they stand."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens, self.wpe = nn.Embedding(size.tokens, size.width), nn.Embedding(size.length, size.width)

    def forward(self, x: Any) -> Tensor:
        return self.tokens(x) + self.wpe.weight[: x.shape[1]]


def build(size: Size) -> nn.Sequential:
    manual_seed(0)
    blocks = [nn.TransformerBlock(size.width, size.heads, causal=True) for _ in range(size.layers)]
    model = nn.Sequential(Tokens(size), *blocks, nn.LayerNorm(size.width), nn.Linear(size.width, size.tokens, False))
    for name, parameter in model.named_parameters():
        if name.startswith("0."):
            parameter.data *= np.float32(0.02)  # As GPT-2 begins.
    return model


def batch(size: Size, step: int, rank: int, way: str) -> tuple[np.ndarray, np.ndarray]:
    """A rank's rows; with "tp" all ranks have the same."""
    row = np.random.default_rng([step, 0 if way == "tp" else rank])
    tokens = row.integers(0, size.tokens, (size.rows, size.length + 1))
    return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])


def ours(way: str, size: Size, comm: Communicator) -> Callable[[Any, Any], float]:
    mesh = Mesh(comm, **{"tp" if way == "tp" else "dp": comm.size})
    blocks = {f"[1-{size.layers}]": "block"} if way == "tp" else {}
    model = parallelize(
        build(size),
        mesh,
        Plan(blocks, zero=3 if way == "zero" else 0),
        optimizer=lambda parameters: optim.AdamW(parameters, lr=LR, weight_decay=0.1),
        loss=nn.CrossEntropyLoss(),
    )
    return model.train_batch


def theirs(way: str, size: Size, comm: Communicator) -> Callable[[Any, Any], float]:
    from gpt_peer import step_of

    state = {name: value.numpy().copy() for name, value in build(size).state_dict().items()}
    step = step_of(way, size, state, comm.size, LR)
    return lambda x, y: float(step(x, y))


def _open(folder: str, name: str) -> Communicator:
    import torch
    import torch.distributed as dist

    comm = qd.comm.init()
    threads = int(os.environ.get("OMP_NUM_THREADS", comm.cores))
    torch.set_num_threads(threads)
    set_num_threads(threads)
    dist.init_process_group("gloo", init_method=f"file://{folder}/{name}", rank=comm.rank, world_size=comm.size)
    return comm


def _mean(comm: Communicator, value: float, way: str, library: str) -> float:
    """The loss of the whole batch: torch gives a rank's own."""
    if library == "torch" and way != "tp":
        return float(comm.all_reduce(np.array(value))) / comm.size
    return value


def timed(folder: str, way: str, size: Size, repeats: int) -> dict[str, Any]:
    """Median milliseconds a step of both libraries, and how far their first losses are apart."""
    import torch.distributed as dist

    comm = _open(folder, f"time-{way}")
    steps = {"qdist": ours(way, size, comm), "torch": theirs(way, size, comm)}
    losses = {
        key: [_mean(comm, step(*batch(size, i, comm.rank, way)), way, key) for i in range(AGREE)]
        for key, step in steps.items()
    }
    times: dict[str, list[float]] = {key: [] for key in steps}
    count = AGREE
    while len(times["qdist"]) < repeats:
        for key, step in steps.items():
            step(*batch(size, count, comm.rank, way))
            for _ in range(TURN):
                data = batch(size, count, comm.rank, way)
                comm.barrier()
                start = time.perf_counter()
                step(*data)
                mine = np.array(time.perf_counter() - start)
                times[key].append(float(comm.all_reduce(mine, "max")))
        count += 1
    dist.destroy_process_group()
    apart = max(abs(a - b) for a, b in zip(*losses.values()))
    return {"apart": apart, **{key: 1e3 * statistics.median(values) for key, values in times.items()}}


def _status(field: str) -> float:
    """MiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def peak(folder: str, way: str, library: str, size: Size) -> float:
    """The most MiB that a rank has while it trains over what it had before it built the model; the largest of all."""
    import torch.distributed as dist

    comm = _open(folder, f"{library}-{way}")
    # Imports and first calls of both libraries are none of the model's.
    import gpt_peer  # noqa: F401

    dist.barrier()
    comm.barrier()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # The peak starts anew.
    step = (ours if library == "qdist" else theirs)(way, size, comm)
    for i in range(3):
        step(*batch(size, i, comm.rank, way))
    mine = np.array(_status("VmHWM") - before)
    dist.destroy_process_group()
    return float(comm.all_reduce(mine, "max"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="ranks on this machine (default 2)")
    parser.add_argument("--repeats", type=int, default=20, help="timed steps of each library (default 20)")
    parser.add_argument("--only", default=",".join(WAYS), help=f"comma-separated part of: {', '.join(WAYS)}")
    for name, value in Size()._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"(default {value})")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/gpt.json")
    options = parser.parse_args()
    ways = options.only.split(",")
    unknown = set(ways) - set(WAYS)
    if unknown or options.ranks < 1 or options.repeats < 1:
        parser.error(f"unknown case {', '.join(sorted(unknown))}" if unknown else "--ranks and --repeats are positive")
    import torch
    from common import machine_line, save, table

    size = Size(*(getattr(options, name) for name in Size._fields))
    count = sum(p.size for p in build(size).parameters())
    print(f"{machine_line()}; torch {torch.__version__}; {options.ranks} ranks, {size}, {count / 1e6:.1f}M parameters")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for way in ways:
            row: dict[str, Any] = {"way": way, "beside": WAYS[way]}
            found = qd.spawn(timed, options.ranks, (folder, way, size, options.repeats))[0]
            assert found["apart"] < 1e-3, f"{way}: losses of the libraries are {found['apart']:.1e} apart"
            row |= {"losses apart": found["apart"], "qdist ms": found["qdist"], "torch ms": found["torch"]}
            row["torch / qdist"] = found["torch"] / found["qdist"]
            for library in ("qdist", "torch"):
                row[f"{library} MiB"] = qd.spawn(peak, options.ranks, (folder, way, library, size))[0]
            rows.append(row)
            print(", ".join(f"{key} {value}" for key, value in row.items()), file=sys.stderr, flush=True)
    print(table(list(rows[0]), [list(row.values()) for row in rows]))
    print("\ntorch / qdist above 1: faster than torch")
    if options.save:
        print(save("gpt", {"ranks": options.ranks, "size": size._asdict(), "parameters": count, "rows": rows}))


if __name__ == "__main__":
    main()
