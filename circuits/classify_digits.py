"""A hybrid net on scikit-learn's handwritten digits: a linear layer, a circuit, a linear layer.

    python circuits/classify_digits.py --progress --plot digits.png
    mpirun -n 4 python circuits/classify_digits.py               # every rank takes a quarter of each batch
    mpirun -n 4 python circuits/classify_digits.py --state 2     # pairs of ranks share each state

64 pixels become 8 angles; layers of rotations on 8 qubits, between which the angles are written again (Pérez-Salinas et
al., Quantum 4, 226 (2020)), give 8 expectation values, and these 10 scores. Labels 95% of held-out images right.
The same seed gives the same losses, on any number of ranks up to rounding.
"""

from __future__ import annotations

import argparse
import math
import os

# Nets this small only lose by sharing each product among cores. BLAS reads this when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import qdist as qd
from qdist import data, nn, optim, tensor, training
from qdist.parallel import DataParallel
from qdist.tensor import functional

BATCH = 64


def parser() -> argparse.ArgumentParser:
    made = training.parser(__doc__, steps=500, lr=0.02)
    made.add_argument("--qubits", type=training.whole(2), default=8, help="of the circuit (default: 8)")
    made.add_argument("--layers", type=training.whole(1), default=2, help="of the circuit (default: 2)")
    made.add_argument(
        "--state", type=training.whole(1), default=1, help="ranks that share a state; the others share the batch"
    )
    return made


def circuit(qubits: int, layers: int) -> tuple[qd.Circuit, qd.ParameterVector, qd.ParameterVector]:
    """The circuit, its inputs and its weights."""
    x, w = qd.ParameterVector("x", qubits), qd.ParameterVector("w", 2 * qubits * layers)
    made, free = qd.Circuit(qubits), iter(w)
    for _ in range(layers):
        for q in range(qubits):
            made.rx(x[q], q).ry(next(free), q).rz(next(free), q)
        for q in range(qubits):
            made.cz(q, (q + 1) % qubits)
    for q in range(qubits):
        made.h(q)
    return made, x, w


class HybridNet(nn.Module):
    """(n, 64) pixels to (n, 10) scores."""

    def __init__(self, qubits: int, layers: int, comm: qd.comm.Communicator) -> None:
        super().__init__()
        made, x, w = circuit(qubits, layers)
        self.encode = nn.Linear(64, qubits)
        self.quantum = nn.QuantumLayer(made, [f"Z{q}" for q in range(qubits)], inputs=x, weights=w, comm=comm)
        self.decode = nn.Linear(qubits, 10)

    def forward(self, pixels: tensor.Tensor) -> tensor.Tensor:
        return self.decode(self.quantum(math.pi / 2 * self.encode(pixels).tanh()))


def images(seed: int) -> tuple[np.ndarray, ...]:
    """Pixels and labels to learn from, pixels and labels held out."""
    x, y, x_test, y_test = data.digits(seed=seed)
    return x.reshape(-1, 64), y, x_test.reshape(-1, 64), y_test


def train(args: argparse.Namespace, comm: qd.comm.Communicator) -> tuple[list[float], nn.Module]:
    """The loss of every step's batch, and the net after the last."""
    mesh = qd.comm.Mesh(comm, dp=-1, state=args.state)
    rows = mesh["dp"]
    if BATCH % rows.size:
        raise ValueError(f"batches of {BATCH} images cannot be shared equally by {rows.size} ranks")
    x, y, _, _ = images(args.seed)
    tensor.manual_seed(args.seed)
    # Ranks along "state" share each circuit's amplitudes; those along "dp" share the batch.
    model = DataParallel(HybridNet(args.qubits, args.layers, mesh["state"]), rows)
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    schedule = optim.CosineLR(optimizer, args.steps)
    share = BATCH // rows.size

    def step(number: int) -> float:
        # The order depends on the pass alone, so that a resumed run sees the same batches.
        epoch, place = divmod(number, len(x) // BATCH)
        order = tensor.Generator(args.seed, epoch).permutation(len(x))
        mine = order[place * BATCH + rows.rank * share :][:share]
        loss = functional.cross_entropy(model(tensor.Tensor(x[mine])), tensor.Tensor(y[mine]))
        value = training.descend(loss, optimizer, rows)
        schedule.step()
        return value

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    return training.train("classify_digits", step, parts, args, comm), model


def accuracy(model: nn.Module, seed: int) -> float:
    """The share of held-out images that get the right label."""
    _, _, x, y = images(seed)
    with tensor.no_grad():
        return float(np.mean(model(tensor.Tensor(x)).argmax(1).numpy() == y))


def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    comm = qd.comm.init()
    losses, model = train(args, comm)
    share = accuracy(model, args.seed)
    if comm.rank == 0:
        print(f"digits: loss {losses[-1]:.6f}, test accuracy {100 * share:.2f}%")
        if args.plot:
            training.plot(losses, args.plot, "training loss")


if __name__ == "__main__":
    training.run(main)
