"""A quantum layer on a mesh: two ranks share each state, and two pairs of them each have half of the batch.

    qdist run -n 4 circuits/mesh_training.py      # dp=2 x state=2; on one rank the same numbers
    qdist run -n 4 --restarts 3 circuits/mesh_training.py --steps 100 --save run1

The losses are the same whatever the mesh, also when a run on one goes on on another (--save).
"""

from __future__ import annotations

import warnings

import numpy as np

import qdist as qd
from qdist import training


def main(argv: list[str] | None = None) -> list[float]:
    args = training.parser(__doc__, steps=5, lr=0.05).parse_args(argv)
    comm = qd.comm.init()
    state = 2 if comm.size % 2 == 0 else 1
    mesh = qd.comm.Mesh(comm, dp=-1, state=state)
    x, w = qd.ParameterVector("x", 8), qd.ParameterVector("w", 16)
    circuit = qd.Circuit(8)
    for k in range(8):
        circuit.ry(x[k], k).ry(w[k], k)
    for k in range(8):
        circuit.cx(k, (k + 1) % 8).rz(w[8 + k], (k + 1) % 8).rx(0.3, (k + 1) % 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Eight qubits are few to be shared; 30 are not.
        layer = qd.nn.QuantumLayer(circuit, "Z0 Z1", inputs=x, weights=w, comm=mesh, dtype="complex128", seed=args.seed)
    optimizer = qd.optim.Adam(layer.parameters(), lr=args.lr)
    rows = np.random.default_rng(args.seed).uniform(-1, 1, (8, 8))
    own = np.array_split(rows, mesh["dp"].size)[mesh["dp"].rank]
    # Ranks may have different numbers of rows: the mean of these sums over them is the mean over all rows.
    share = mesh["dp"].size / len(rows)

    def step(number: int) -> float:
        return training.descend(((layer(own) - 1) ** 2).sum() * share, optimizer, mesh["dp"])

    losses = training.train("mesh_training", step, {"layer": layer, "optimizer": optimizer}, args, comm)
    if comm.rank == 0:
        print(f"{mesh!r}: losses {', '.join(f'{loss:.6f}' for loss in losses)}")
        if args.plot:
            training.plot(losses, args.plot, "loss")
    return losses


if __name__ == "__main__":
    training.run(main)
