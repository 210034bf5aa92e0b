"""MaxCut of a random 3-regular graph by the quantum approximate optimisation algorithm.

    python circuits/qaoa_maxcut.py --progress --plot maxcut.png
    mpirun -n 4 python circuits/qaoa_maxcut.py           # the state split over four ranks

Trains the angles of QAOA (Farhi et al., arXiv 1411.4028) to raise the mean cut, then draws samples and takes the best.
The same seed gives the same graph and the same numbers, on any number of ranks up to rounding.
"""

from __future__ import annotations

import argparse

import numpy as np

import qdist as qd
from qdist import training

SHOTS = 1000


def parser() -> argparse.ArgumentParser:
    made = training.parser(__doc__, steps=100, lr=0.02)
    made.add_argument(
        "--nodes", type=training.whole(4, even=True), default=12, help="an even number of at least 4 (default: 12)"
    )
    made.add_argument("--layers", type=training.whole(1), default=6, help="of the circuit (default: 6)")
    return made


def regular_graph(nodes: int, seed: int) -> list[tuple[int, int]]:
    """A random graph with three edges at every node: a random pairing of all edge ends, drawn until it is simple."""
    rng = np.random.default_rng(seed)
    while True:
        pairs = np.sort(rng.permutation(np.repeat(np.arange(nodes), 3)).reshape(-1, 2), axis=1)
        edges = {(int(a), int(b)) for a, b in pairs if a != b}
        if len(edges) == len(pairs):
            return sorted(edges)


def cut_sizes(edges: list[tuple[int, int]], states: np.ndarray) -> np.ndarray:
    """How many edges lie between the zeros and the ones of each basis state."""
    return sum(((states >> a ^ states >> b) & 1 for a, b in edges), np.zeros_like(states))


def train(args: argparse.Namespace, comm: qd.comm.Communicator) -> tuple[list[float], np.ndarray]:
    """Minus the mean cut before every step, and samples of the state after the last."""
    edges = regular_graph(args.nodes, args.seed)
    circuit = qd.library.qaoa_maxcut(edges, args.layers)
    # A ramp from the mixer to the cost, as in annealing; the seed decides the graph alone.
    ramp = (np.arange(args.layers) + 0.5) / args.layers
    layer = qd.nn.QuantumLayer(
        circuit,
        qd.library.maxcut(edges),
        weights=circuit.parameters,
        comm=comm,
        dtype="complex128",
        initial=np.concatenate([0.6 * ramp, -0.6 * (1 - ramp)]),
    )
    optimizer = qd.optim.Adam(layer.parameters(), lr=args.lr)

    def step(number: int) -> float:
        return training.descend(layer().sum(), optimizer)

    losses = training.train("qaoa_maxcut", step, {"layer": layer, "optimizer": optimizer}, args, comm)
    return losses, layer.program.run(layer.weights.numpy()).sample(SHOTS, seed=args.seed)


def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    comm = qd.comm.init()
    losses, samples = train(args, comm)
    if comm.rank == 0:
        edges = regular_graph(args.nodes, args.seed)
        best = int(cut_sizes(edges, samples).max())
        largest = int(cut_sizes(edges, np.arange(1 << args.nodes)).max())
        print(
            f"{args.nodes} nodes, {len(edges)} edges: mean cut {-losses[-1]:.4f}, best of {SHOTS} samples {best}, "
            f"largest cut {largest}"
        )
        if args.plot:
            training.plot(losses, args.plot, "minus the mean cut", -largest)


if __name__ == "__main__":
    training.run(main)
