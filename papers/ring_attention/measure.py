"""Is ring attention exact, with memory and messages that grow with the slice and work that is shared equally?

    python papers/ring_attention/measure.py [--length 512] [--ranks 2 4 8] [--save]

Work, bytes kept and bytes sent are counted on one process; the last table runs on real ranks.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import qdist as qd
from qdist.comm import counting_communicator
from qdist.parallel import ring_attention, saved_bytes, shard_sequence, unshard_sequence
from qdist.parallel.sequence.context import visible_blocks
from qdist.tensor import Tensor, functional

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import machine_line, save, table

BATCH, HEADS, WIDTH = 1, 4, 16


def pairs(rank: int, ranks: int, length: int, balanced: bool) -> int:
    """Pairs of a query and a key that a rank computes under a causal mask."""
    total = 0
    for owner in range(ranks):
        for block in visible_blocks(rank, owner, ranks, length // ranks, True, balanced):
            size = (block.rows.stop - block.rows.start) * (block.columns.stop - block.columns.start)
            total += size // 2 if block.diagonal else size
    return total


def work(length: int, ranks: list[int]) -> list[dict[str, Any]]:
    rows = []
    for size in ranks:
        shares = {kind: [pairs(r, size, length, kind) for r in range(size)] for kind in (True, False)}
        rows.append(
            {
                "ranks": size,
                "pairs a rank": sum(shares[True]) // size,
                "busiest over mean, zig-zag": max(shares[True]) * size / sum(shares[True]),
                "busiest over mean, slices": max(shares[False]) * size / sum(shares[False]),
            }
        )
    return rows


def costs(length: int, ranks: list[int]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    whole = [Tensor(t, requires_grad=True) for t in rng.normal(size=(3, BATCH, HEADS, length, WIDTH))]
    plain = saved_bytes(functional.attention(*whole, causal=True))
    rows = [{"ranks": 1, "bytes kept": plain, "sent forward": 0, "sent backward": 0, "formula": 0}]
    for size in ranks:
        comm = counting_communicator(size)
        parts = [Tensor(t.data[:, :, : length // size].copy(), requires_grad=True) for t in whole]
        out = ring_attention(*parts, comm, causal=True)
        assert comm.messages is not None
        forward = sum(m.wire_bytes for m in comm.messages)
        kept = saved_bytes(out)
        out.backward(np.ones(out.shape))
        both = sum(m.wire_bytes for m in comm.messages)
        formula = 3 * (size - 1) * 2 * parts[0].nbytes
        rows.append(
            {
                "ranks": size,
                "bytes kept": kept,
                "sent forward": int(forward),
                "sent backward": int(both - forward),
                "formula": formula,
            }
        )
    return rows


def run(arrays: np.ndarray, causal: bool) -> list[np.ndarray]:
    """The attention of whole q, k, v and its derivatives for a cotangent, computed on all ranks."""
    comm = qd.comm.init()
    q, k, v, g = arrays
    inputs = [Tensor(t, requires_grad=True) for t in (q, k, v)]
    own = ring_attention(*(shard_sequence(t, comm, 2) for t in inputs), comm, causal=causal)
    out = unshard_sequence(own, comm, 2)
    out.backward(g)
    return [out.numpy(), *(t.grad.numpy() for t in inputs if t.grad is not None)]


def exactness(length: int, ranks: list[int]) -> list[dict[str, Any]]:
    arrays = np.random.default_rng(1).normal(size=(4, BATCH, HEADS, length, WIDTH))
    rows = []
    for size in ranks:
        for causal in (False, True):
            inputs = [Tensor(t, requires_grad=True) for t in arrays[:3]]
            out = functional.attention(*inputs, causal=causal)
            out.backward(arrays[3])
            want = [out.numpy(), *(t.grad.numpy() for t in inputs if t.grad is not None)]
            got = qd.spawn(run, size, (arrays, causal), timeout=300)
            errors = [max(float(abs(r[i] - want[i]).max()) for r in got) for i in range(4)]
            rows.append({"ranks": size, "causal": causal, **dict(zip(("output", "dq", "dk", "dv"), errors))})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/ring_attention_paper.json")
    options = parser.parse_args()
    print(machine_line())
    results = {
        "work": work(options.length, options.ranks),
        "costs": costs(options.length, options.ranks),
        "largest differences from attention on one process": exactness(options.length, options.ranks),
    }
    for name, rows in results.items():
        print(f"\n{name}\n{table(list(rows[0]), [list(r.values()) for r in rows])}")
    if options.save:
        print(save("ring_attention_paper", {"length": options.length, **results}))


if __name__ == "__main__":
    main()
