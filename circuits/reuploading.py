"""A classifier that uploads its data again in every layer: is a point inside of a circle?

python circuits/reuploading.py --layers 4

One qubit sees the angles w * x + b of both features in each layer (Perez-Salinas et al., Quantum 4, 226 (2020)). The
products of weights and data are written into the circuit, and gradients follow the chain rule.
"""

from __future__ import annotations

import numpy as np

import qdist as qd
from qdist import training

ROWS, BATCH = 400, 50


def circuit(layers: int) -> qd.Circuit:
    """Rotations by w * x + b, layer after layer."""
    x, w = qd.ParameterVector("x", 2), qd.ParameterVector("w", 4 * layers)
    made = qd.Circuit(1)
    for k in range(layers):
        scale, shift = w[4 * k : 4 * k + 2], w[4 * k + 2 : 4 * k + 4]
        made.ry(scale[0] * x[0] + shift[0], 0).rz(scale[1] * x[1] + shift[1], 0)
    return made.ry(w[0], 0)


def points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of a square, and +1 for those in a circle of half its area, else -1."""
    x = np.random.default_rng(seed).uniform(-1, 1, (count, 2)).astype(np.float32)
    return x, np.where((x**2).sum(axis=1) < 2 / np.pi, 1, -1).astype(np.float32)


def main(argv: list[str] | None = None) -> float:
    parser = training.parser(__doc__, steps=30 * ROWS // BATCH, lr=0.05)
    parser.add_argument("--layers", type=training.whole(1), default=4)
    args = parser.parse_args(argv)
    comm = qd.comm.init()
    layer = qd.nn.QuantumLayer(circuit(args.layers), "Z0", inputs="x", weights="w", seed=args.seed + 2)
    optimizer = qd.optim.Adam(layer.parameters(), lr=args.lr)
    data = qd.data.DataLoader(qd.data.TensorDataset(*points(ROWS, 0)), BATCH, shuffle=True, seed=args.seed)
    batches = training.Batches(data)

    def step(number: int) -> float:
        x, label = next(batches)
        return training.descend(((layer(x)[:, 0] - label) ** 2).mean(), optimizer)

    parts = {"layer": layer, "optimizer": optimizer, "batches": batches}
    losses = training.train("reuploading", step, parts, args, comm)
    x, label = points(1000, 1)
    accuracy = float((np.sign(layer(x).numpy()[:, 0]) == label).mean())
    if comm.rank == 0:
        print(f"{args.layers} layers: {accuracy:.1%} of new points are right")
        if args.plot:
            training.plot(losses, args.plot, "loss")
    return accuracy


if __name__ == "__main__":
    training.run(main)
