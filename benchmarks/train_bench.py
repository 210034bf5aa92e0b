"""One training step beside torch on the CPU: same model, same weights' shapes, same threads, same run.

    python benchmarks/train_bench.py [--repeats 15] [--threads N] [--only mlp,cnn,transformer] [--json FILE]

The libraries take turns of a few steps, so that a busy machine slows both; before a turn there is a pause and
an untimed step, because each library's idle worker threads spin for a while and would steal the other's
cores. The ratio is of medians (above 1: faster than torch); `best` is the ratio of the fastest steps, which
other programs disturb least. NumPy's BLAS threads wait for each other in a busy loop: on a machine whose
cores are taken by others, compare with --threads 1. Also printed: the Python time that one small operation
costs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="timed steps of each library (default 15)")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="for both (default: all cores)"
    )
    parser.add_argument("--only", default="", help="comma-separated part of: mlp, cnn, transformer, overhead")
    parser.add_argument("--json", help="write the results to this file")
    return parser.parse_args()


args = parse()
# Both BLAS libraries read this once, when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(args.threads)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as tf  # noqa: E402

from qdist import nn, optim  # noqa: E402
from qdist import tensor as qt  # noqa: E402
from qdist.tensor import functional  # noqa: E402

torch.set_num_threads(args.threads)
qt.set_num_threads(args.threads)
TURN = 5  # timed steps a turn
WIDTHS = (784, 512, 256, 128, 64, 10)


def ours(model: nn.Module, x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    """A training step of this library."""
    optimizer = optim.Adam(model.parameters(), lr=1e-4)
    inputs, targets = qt.Tensor(x), qt.Tensor(y)

    def step() -> float:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def theirs(model: torch.nn.Module, x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    """The same step of torch, with its fused optimiser."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> float:
        optimizer.zero_grad()
        logits = model(inputs)
        loss = tf.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def mlp(library: object) -> object:
    """784-512-256-128-64-10 with ReLU between."""
    module = nn if library is qt else torch.nn
    layers: list = []
    for a, b in pairwise(WIDTHS):
        layers += [module.Linear(a, b), module.ReLU()]
    return module.Sequential(*layers[:-1])


def cnn(library: object) -> object:
    """Two 3x3 convolutions with pooling, then a linear layer, on 28x28 images."""
    module = nn if library is qt else torch.nn
    return module.Sequential(
        module.Conv2d(1, 16, 3, padding=1),
        module.ReLU(),
        module.MaxPool2d(2),
        module.Conv2d(16, 32, 3, padding=1),
        module.ReLU(),
        module.MaxPool2d(2),
        module.Flatten(),
        module.Linear(32 * 49, 10),
    )


class TorchBlock(torch.nn.Module):
    """The block of nn.TransformerBlock in torch's own pieces, with its fused attention."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(features), torch.nn.LayerNorm(features)
        self.qkv, self.out = torch.nn.Linear(features, 3 * features), torch.nn.Linear(features, features)
        self.expand, self.shrink = (
            torch.nn.Linear(features, 4 * features),
            torch.nn.Linear(4 * features, features),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, d = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = tf.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, d))
        return x + self.shrink(tf.gelu(self.expand(self.norm2(x))))


def transformer(library: object) -> object:
    """Four blocks of 256 features and 4 heads, causal."""
    if library is qt:
        return nn.Sequential(*(nn.TransformerBlock(256, 4, causal=True) for _ in range(4)))
    return torch.nn.Sequential(*(TorchBlock(256, 4) for _ in range(4)))


def compare(name: str, build: Callable, x: np.ndarray, y: np.ndarray) -> dict[str, float | str]:
    """Time both, in turns."""
    steps = [ours(build(qt), x, y), theirs(build(torch), x, y)]
    times: list[list[float]] = [[], []]
    while len(times[1]) < args.repeats:
        for step, record in zip(steps, times):
            time.sleep(0.2)
            step()
            for _ in range(TURN):
                start = time.perf_counter()
                step()
                record.append(time.perf_counter() - start)
    mine, other = (1e3 * statistics.median(record) for record in times)
    best = min(times[1]) / min(times[0])
    print(f"{name:28s} {mine:10.2f} {other:10.2f} {other / mine:8.2f} {best:8.2f}", flush=True)
    return {"case": name, "qdist_ms": mine, "torch_ms": other, "ratio": other / mine, "ratio_of_best": best}


def overhead() -> dict[str, float | str]:
    """Microseconds for one multiplication of two numbers, forward and with its backward."""

    def per_op(one: Callable, make: Callable) -> tuple[float, float]:
        a, b = make(True), make(False)
        forward, both = [], []
        for _ in range(args.repeats):
            start = time.perf_counter()
            for _ in range(20):
                z = a
                for _ in range(50):
                    z = one(z, b)
            forward.append((time.perf_counter() - start) / 1000)
            start = time.perf_counter()
            for _ in range(20):
                z = a
                for _ in range(50):
                    z = one(z, b)
                z.backward()
            both.append((time.perf_counter() - start) / 1000)
        return 1e6 * statistics.median(forward), 1e6 * statistics.median(both)

    mine = per_op(lambda z, b: z * b, lambda g: qt.Tensor(1.0, requires_grad=g))
    other = per_op(lambda z, b: z * b, lambda g: torch.tensor(1.0, requires_grad=g))
    print(
        f"\nPython overhead per operation: forward {mine[0]:.1f} us (torch {other[0]:.1f}), "
        f"forward and backward {mine[1]:.1f} us (torch {other[1]:.1f})"
    )
    return {"case": "overhead", "qdist_us": mine[1], "torch_us": other[1], "ratio": other[1] / mine[1]}


def main() -> None:
    chosen = set(args.only.split(",")) if args.only else {"mlp", "cnn", "transformer", "overhead"}
    print(
        f"{platform.machine()}, {args.threads} thread(s), Python {sys.version.split()[0]}, "
        f"NumPy {np.__version__}, torch {torch.__version__}, median of {args.repeats}\n"
    )
    print(f"{'training step':28s} {'qdist ms':>10s} {'torch ms':>10s} {'ratio':>8s} {'best':>8s}")
    rng = np.random.default_rng(0)
    results = []
    if "mlp" in chosen:
        for batch in (64, 1024):
            x, y = rng.random((batch, 784), np.float32), rng.integers(0, 10, batch)
            results.append(compare(f"MLP, batch {batch}", mlp, x, y))
    if "cnn" in chosen:
        x, y = rng.random((64, 1, 28, 28), np.float32), rng.integers(0, 10, 64)
        results.append(compare("CNN, batch 64", cnn, x, y))
    if "transformer" in chosen:
        x, y = rng.standard_normal((8, 128, 256), np.float32), rng.integers(0, 256, (8, 128))
        results.append(compare("transformer, 8 x 128 x 256", transformer, x, y))
    if "overhead" in chosen:
        results.append(overhead())
    if args.json:
        with open(args.json, "w") as file:
            setting = {"machine": platform.machine(), "cores": os.cpu_count(), "threads": args.threads}
            versions = {"numpy": np.__version__, "torch": torch.__version__, "repeats": args.repeats}
            json.dump({**setting, **versions, "results": results}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
