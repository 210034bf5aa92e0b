"""What each stage of ZeRO sends, and what a rank has in memory, beside the paper's formulas.

    python papers/zero/measure.py [--width 256] [--layers 24] [--ranks 1 2 4 16 64] [--save]

One rank of N is run here, with a communicator that counts instead of sending. Its memory is what Python and NumPy have
allocated between the backward pass and the step: parameters, gradients, optimiser state and nothing else of size.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from qdist import nn, optim
from qdist.comm import counting_communicator
from qdist.parallel import DataParallel, LossScale, Zero
from qdist.tensor import Tensor

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import save, table


def build(width: int, layers: int, dtype: Any = np.float32) -> nn.Module:
    return nn.Sequential(*(nn.Linear(width, width, dtype=dtype) for _ in range(layers)))


def prepare(stage: int, ranks: int, width: int, layers: int, half: bool) -> tuple[Any, Any]:
    """A model and its optimiser; stage 0 is data parallel."""
    comm = counting_communicator(ranks)
    model = build(width, layers)
    optimizer = optim.Adam(model.parameters())
    bucket = 4 * width * (width + 1)
    if stage == 0:
        return DataParallel(model, comm, bucket_bytes=bucket), optimizer
    options: dict[str, Any] = {"precision": np.float16, "loss_scale": LossScale(1.0)} if half else {}
    if stage < 3:
        options["bucket_bytes"] = bucket
    return Zero(model, optimizer, stage, comm, **options), optimizer


def backward(model: Any, width: int) -> None:
    loss = model(Tensor(np.ones((1, width), np.float32))).mean()
    model.backward(loss) if isinstance(model, Zero) else loss.backward()


def sent(stage: int, ranks: int, width: int, layers: int) -> float:
    """Bytes that a rank sends in a step, in units of the parameters' bytes."""
    model, optimizer = prepare(stage, ranks, width, layers, False)
    model.comm.messages.clear()
    backward(model, width)
    model.step() if isinstance(model, Zero) else optimizer.step()
    total = sum(m.wire_bytes for m in model.comm.messages)
    return total / (4 * layers * width * (width + 1))


def held(stage: int, ranks: int, width: int, layers: int, half: bool) -> float:
    """Bytes a parameter that a rank has between the backward pass and the step."""
    tracemalloc.start()
    model, optimizer = prepare(stage, ranks, width, layers, half)
    backward(model, width)
    now = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert optimizer is not None
    return now / (layers * width * (width + 1))


def formula(stage: int, ranks: int, half: bool) -> float:
    """Bytes a parameter: parameters P, gradients G, optimiser state K; of the paper's section 5."""
    P, G, K = (2, 2, 12) if half else (4, 4, 8)
    return [P + G + K, P + G + K / ranks, P + (G + K) / ranks, (P + G + K) / ranks][stage]


def here(stage: int, ranks: int, half: bool) -> float:
    """The same with what this library keeps besides: shards of half-precision gradients are float32."""
    shard = 4
    P, G, K = (2, 2, 12) if half else (4, 4, 8)
    return [P + G + K, P + G + K / ranks, P + (shard + K) / ranks, (P + shard + K) / ranks][stage]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 16, 64])
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/zero_paper.json")
    options = parser.parse_args()
    size = options.width, options.layers
    held(3, 2, *size, half=False)  # What is allocated once, such as caches, is not the model's.
    print("bytes sent a step, in units of the parameters' bytes\n")
    volumes = [
        {"stage": stage, "ranks": n, "paper": volume * (n - 1) / n, "counted": sent(stage, n, *size)}
        for stage, volume in enumerate([2, 2, 2, 3])
        for n in options.ranks
    ]
    print(table(list(volumes[0]), [list(row.values()) for row in volumes]))
    print("\nbytes a parameter on a rank\n")
    memory = [
        {
            "dtype": "float16" if half else "float32",
            "stage": stage,
            "ranks": n,
            "paper": formula(stage, n, half),
            "here": here(stage, n, half),
            "measured": held(stage, n, *size, half),
        }
        for half in (False, True)
        for stage in range(4)
        if not (half and stage == 0)
        for n in options.ranks
    ]
    print(table(list(memory[0]), [list(row.values()) for row in memory]))
    if options.save:
        print(save("zero_paper", {"width": size[0], "layers": size[1], "sent": volumes, "memory": memory}))


if __name__ == "__main__":
    main()
