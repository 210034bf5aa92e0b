"""Maximum cut of a graph with weights by QAOA: train the angles, then read the best cut from shots.

python circuits/qaoa_weighted.py --layers 3
"""

from __future__ import annotations

import itertools

import numpy as np

import qdist as qd
from qdist import training

EDGES = {(0, 1): 1.5, (0, 2): 0.7, (1, 2): 1.1, (1, 3): 2.0, (2, 4): 0.4, (3, 4): 1.3, (3, 5): 0.9, (4, 5): 1.7}


def weight(cut: int) -> float:
    """Of the edges between the vertices whose bit is 0 and those whose bit is 1."""
    return sum(w for (a, b), w in EDGES.items() if (cut >> a ^ cut >> b) & 1)


def main(argv: list[str] | None = None) -> tuple[float, float]:
    parser = training.parser(__doc__, steps=150, lr=0.05)
    parser.add_argument("--layers", type=training.whole(1), default=3)
    parser.add_argument("--shots", type=training.whole(1), default=200)
    args = parser.parse_args(argv)
    circuit = qd.library.qaoa_maxcut(EDGES, args.layers)
    cost = qd.library.maxcut(EDGES)
    comm = qd.comm.init()
    layer = qd.nn.QuantumLayer(circuit, cost, weights=circuit.parameters, dtype="complex128", seed=args.seed + 1)
    optimizer = qd.optim.Adam(layer.parameters(), lr=args.lr)

    def step(number: int) -> float:
        return training.descend(layer().sum(), optimizer)

    energies = training.train("qaoa_weighted", step, {"layer": layer, "optimizer": optimizer}, args, comm)
    cuts = qd.compile(circuit).sample(args.shots, layer.weights.data, seed=args.seed)
    best = max(map(weight, set(cuts.tolist())))
    exact = max(weight(sum(bit << k for k, bit in enumerate(bits))) for bits in itertools.product((0, 1), repeat=6))
    mean = np.mean([weight(cut) for cut in cuts.tolist()])
    if comm.rank == 0:
        print(f"mean cut {mean:.2f}, best of {args.shots} {best:.2f}, exact {exact:.2f}")
        if args.plot:
            training.plot(energies, args.plot, "energy")
    return best, exact


if __name__ == "__main__":
    training.run(main)
