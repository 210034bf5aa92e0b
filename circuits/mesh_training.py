"""A quantum layer on a mesh: two ranks share each state, and two pairs of them each have half of the batch.

    qdist run -n 4 circuits/mesh_training.py      # dp=2 x state=2; on one rank the same numbers

Every rank prints the same losses, whatever the mesh.
"""

from __future__ import annotations

import warnings

import numpy as np

import qdist as qd


def main(steps: int = 5) -> list[float]:
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
        layer = qd.nn.QuantumLayer(circuit, "Z0 Z1", inputs=x, weights=w, comm=mesh, dtype="complex128", seed=0)
    optimizer = qd.optim.Adam(layer.parameters(), lr=0.05)
    rows = np.random.default_rng(0).uniform(-1, 1, (8, 8))
    own = np.array_split(rows, mesh["dp"].size)[mesh["dp"].rank]
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((layer(own) - 1) ** 2).mean()
        loss.backward()
        losses.append(float(mesh["dp"].all_reduce(loss.data, "avg")))
        optimizer.step()
    if comm.rank == 0:
        print(f"{mesh!r}: losses {', '.join(f'{loss:.6f}' for loss in losses)}")
    return losses


if __name__ == "__main__":
    main()
