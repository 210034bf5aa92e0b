"""Handwritten digits by a quantum kernel: overlaps of the states that images are written into, and ridge regression.

    python circuits/quantum_kernel.py --progress --plot kernel.png
    mpirun -n 4 python circuits/quantum_kernel.py        # every rank computes a quarter of the states

Images become the angles of the ZZ feature map (Havlíček et al., Nature 567, 209 (2019)) on their first principal
components; the kernel of two images is the squared overlap of their states. Every step learns from 128 images more;
the loss is the share of wrong guesses on held-out images, 2% to 5% at the end.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import qdist as qd
from qdist import data, training

RIDGE = 0.1


def parser() -> argparse.ArgumentParser:
    made = training.parser(__doc__, steps=11)
    made.add_argument("--block", type=training.whole(1), default=128, help="images a step (default: 128)")
    made.add_argument(
        "--qubits", type=training.whole(1, 64), default=8, help="principal components, one a qubit (default: 8)"
    )
    made.add_argument(
        "--scale",
        type=training.number(),
        default=0.05,
        help="of the angles: wide kernels need small ones (default: 0.05)",
    )
    return made


def principal_components(x: np.ndarray, x_test: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Both sets on the first principal axes of the first, in units of the spread along each."""
    mean = x.mean(axis=0)
    _, spread, axes = np.linalg.svd(x - mean, full_matrices=False)
    unit = axes[:count].T / spread[:count] * np.sqrt(len(x))
    return (x - mean) @ unit, (x_test - mean) @ unit


class QuantumKernel:
    """Ridge regression on the overlaps of states; `learn` adds images, `guess` labels others."""

    def __init__(self, qubits: int, scale: float, comm: qd.comm.Communicator) -> None:
        self.program = qd.compile(qd.library.zz_feature_map(qubits))
        self.scale, self.comm = scale, comm
        self.states = np.zeros((0, 1 << qubits), self.program.dtype)
        self.labels = np.zeros(0, np.int64)

    def encode(self, features: np.ndarray) -> np.ndarray:
        """The states of images, shape (images, 2**qubits); each rank computes its share of them."""
        angles = qd.library.zz_feature_angles(self.scale * features)
        mine = np.array_split(angles, self.comm.size)[self.comm.rank]
        return np.concatenate(self.comm.all_gather_object(self.program.run_batch(mine)))

    def learn(self, features: np.ndarray, labels: np.ndarray) -> None:
        self.states = np.concatenate([self.states, self.encode(features)])
        self.labels = np.concatenate([self.labels, labels])

    def guess(self, states: np.ndarray) -> np.ndarray:
        kernel = np.abs(self.states @ self.states.conj().T) ** 2 + RIDGE * np.eye(len(self.states))
        weights = np.linalg.solve(kernel.astype(np.float64), np.eye(10)[self.labels])
        return (np.abs(states @ self.states.conj().T) ** 2 @ weights).argmax(axis=1)

    def state_dict(self) -> dict[str, Any]:
        return {"states": self.states, "labels": self.labels}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.states, self.labels = (np.asarray(state[name]) for name in ("states", "labels"))


def train(args: argparse.Namespace, comm: qd.comm.Communicator) -> tuple[list[float], int]:
    """The share of wrong guesses on held-out images after every block of images, and from how many in the end."""
    x, y, x_test, y_test = data.digits(seed=args.seed)
    if (args.steps - 1) * args.block >= len(x):
        raise ValueError(f"--steps {args.steps} --block {args.block}: there are {len(x)} images, fewer than they take")
    x, x_test = principal_components(x.reshape(len(x), -1), x_test.reshape(len(x_test), -1), args.qubits)
    kernel = QuantumKernel(args.qubits, args.scale, comm)
    held_out = kernel.encode(x_test)

    def step(number: int) -> float:
        block = slice(args.block * number, args.block * (number + 1))
        kernel.learn(x[block], y[block])
        return float(np.mean(kernel.guess(held_out) != y_test))

    errors = training.train("quantum_kernel", step, {"kernel": kernel}, args, comm)
    return errors, len(kernel.labels)


def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    comm = qd.comm.init()
    errors, count = train(args, comm)
    if comm.rank == 0:
        print(f"digits: test accuracy {100 * (1 - errors[-1]):.2f}% from {count} images")
        if args.plot:
            training.plot(errors, args.plot, "wrong guesses")


if __name__ == "__main__":
    training.run(main)
