"""Maximum cut of a graph with weights by QAOA: train the angles, then read the best cut from shots.

python circuits/qaoa_weighted.py --layers 3
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

import qdist as qd

EDGES = {(0, 1): 1.5, (0, 2): 0.7, (1, 2): 1.1, (1, 3): 2.0, (2, 4): 0.4, (3, 4): 1.3, (3, 5): 0.9, (4, 5): 1.7}


def weight(cut: int) -> float:
    """Of the edges between the vertices whose bit is 0 and those whose bit is 1."""
    return sum(w for (a, b), w in EDGES.items() if (cut >> a ^ cut >> b) & 1)


def main(argv: list[str] | None = None) -> tuple[float, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--shots", type=int, default=200)
    args = parser.parse_args(argv)
    circuit = qd.library.qaoa_maxcut(EDGES, args.layers)
    cost = qd.library.maxcut(EDGES)
    layer = qd.nn.QuantumLayer(circuit, cost, weights=circuit.parameters, dtype="complex128", seed=1)
    optimizer = qd.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(args.steps):
        optimizer.zero_grad()
        layer().sum().backward()
        optimizer.step()
    cuts = qd.compile(circuit).sample(args.shots, layer.weights.data, seed=0)
    best = max(map(weight, set(cuts.tolist())))
    exact = max(weight(sum(bit << k for k, bit in enumerate(bits))) for bits in itertools.product((0, 1), repeat=6))
    mean = np.mean([weight(cut) for cut in cuts.tolist()])
    print(f"mean cut {mean:.2f}, best of {args.shots} {best:.2f}, exact {exact:.2f}")
    return best, exact


if __name__ == "__main__":
    main()
