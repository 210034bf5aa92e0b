"""Does a divided transformer block keep and send what the papers say, and train as an undivided one does?

    python papers/megatron/measure.py [--ranks 2 4 8] [--save]

Bytes are counted, not timed: those kept from the graph of a block, those sent by a communicator that only counts. The
last table trains on real ranks.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import qdist as qd
from qdist import nn, optim
from qdist.comm import counting_communicator
from qdist.parallel import (
    ParallelTransformerBlock,
    activation_bytes,
    recompute,
    recompute_attention,
    saved_bytes,
)
from qdist.parallel.collectives import gather, scatter
from qdist.tensor import Tensor, manual_seed

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import machine_line, save, table

MODES: dict[str, dict[str, Any]] = {
    "tensor": {},
    "tensor + sequence": {"sequence_parallel": True},
    "tensor + sequence, attention recomputed": {"sequence_parallel": True, "recompute": "attention"},
    "tensor, block recomputed": {"recompute": "block"},
}
GPT3 = {"batch": 1, "sequence": 2048, "features": 12288, "heads": 96}
SMALL = {"batch": 2, "sequence": 64, "features": 64, "heads": 8}
DROPOUT, STEPS = 0.1, 5


def block(comm: Any, dtype: Any, recomputed: str | None = None, sequence_parallel: bool = False) -> nn.Module:
    sizes = SMALL["features"], SMALL["heads"]
    made = ParallelTransformerBlock(
        *sizes, comm, dropout=DROPOUT, causal=True, sequence_parallel=sequence_parallel, dtype=dtype
    )
    return {None: lambda m: m, "attention": recompute_attention, "block": recompute}[recomputed](made)


def counted(ranks: int, mode: dict[str, Any]) -> tuple[int, list[Any]]:
    """Bytes kept and messages sent by one rank for one block in float32."""
    comm = counting_communicator(ranks)
    divided = mode.get("sequence_parallel", False)
    length = SMALL["sequence"] // ranks if divided else SMALL["sequence"]
    # Computed, as what an earlier block gives.
    x = -Tensor(np.ones((SMALL["batch"], length, SMALL["features"]), np.float32), requires_grad=True)
    y = block(comm, np.float32, mode.get("recompute"), divided)(x)
    kept = saved_bytes(y)
    y.backward(np.ones(y.shape, np.float32))
    assert comm.messages is not None
    return kept, comm.messages


def memory(ranks: int) -> list[dict[str, Any]]:
    rows = []
    for name, mode in {"one rank": {}, **MODES}.items():
        alone = name == "one rank"
        large = activation_bytes(**GPT3, tensor=1 if alone else 8, **mode)
        rows.append(
            {
                "mode": name,
                "GPT-3 layer, MiB": large >> 20,
                "96 layers, GiB": 96 * large / 2**30,
                "formula": "" if alone else activation_bytes(**SMALL, tensor=ranks, width=4, **mode),
                "counted": "" if alone else counted(ranks, mode)[0],
            }
        )
    return rows


def traffic(ranks: list[int]) -> list[dict[str, Any]]:
    rows = []
    for size in ranks:
        activation = 4 * SMALL["batch"] * SMALL["sequence"] * SMALL["features"]
        for name in ("tensor", "tensor + sequence"):
            _, messages = counted(size, MODES[name])
            large = [m for m in messages if m.bytes > 4 * SMALL["features"]]
            calls = Counter(m.op for m in large)
            rows.append(
                {
                    "mode": name,
                    "ranks": size,
                    "calls": ", ".join(f"{n} {op}" for op, n in sorted(calls.items())),
                    "bytes sent": int(sum(m.wire_bytes for m in large)),
                    "of 4 all-reduces": sum(m.wire_bytes for m in large) / (8 * (size - 1) / size * activation),
                }
            )
    return rows


def train(divided: bool, sequence_parallel: bool) -> tuple[list[float], list[np.ndarray]]:
    """The losses of some steps of two blocks, and all parameters after them, whole."""
    comm = qd.comm.init() if divided else None
    manual_seed(3)
    sizes = SMALL["features"], SMALL["heads"]
    if comm is None:
        blocks = [nn.TransformerBlock(*sizes, dropout=DROPOUT, causal=True, dtype=np.float64) for _ in range(2)]
    else:
        blocks = [block(comm, np.float64, None, sequence_parallel) for _ in range(2)]
    model = nn.Sequential(*blocks)
    update = optim.AdamW(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(STEPS):
        x, goal = (Tensor(t) for t in rng.normal(size=(2, SMALL["batch"], SMALL["sequence"], SMALL["features"])))
        update.zero_grad()
        y = gather(model(scatter(x, comm, 1)), comm, 1) if comm and sequence_parallel else model(x)
        loss = ((y - goal) ** 2).mean()
        loss.backward()
        update.step()
        losses.append(loss.item())
    whole = [p.data if p.partition is None else p.partition.whole(p.data) for p in model.parameters()]
    return losses, whole


def exactness(ranks: list[int]) -> list[dict[str, Any]]:
    losses, parameters = train(False, False)
    rows = []
    for size in ranks:
        for sequence in (False, True):
            got = qd.spawn(train, size, (True, sequence), timeout=300)
            rows.append(
                {
                    "mode": "tensor + sequence" if sequence else "tensor",
                    "ranks": size,
                    "loss": losses[-1],
                    "loss differs by": max(abs(a - b) for r in got for a, b in zip(r[0], losses)),
                    "parameters differ by": max(float(abs(a - b).max()) for r in got for a, b in zip(r[1], parameters)),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/megatron_paper.json")
    options = parser.parse_args()
    print(machine_line())
    results = {
        "memory": memory(options.ranks[-1]),
        "traffic": traffic(options.ranks),
        "exactness": exactness(options.ranks),
    }
    for name, rows in results.items():
        print(f"\n{name}\n{table(list(rows[0]), [list(r.values()) for r in rows])}")
    if options.save:
        print(save("megatron_paper", {"small": SMALL, **results}))


if __name__ == "__main__":
    main()
