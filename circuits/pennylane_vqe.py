"""The ground energy of a Heisenberg chain of 20 qubits, written in PennyLane.

    python circuits/pennylane_vqe.py
    python circuits/pennylane_vqe.py --device lightning.qubit        # the same, to compare
    mpirun -n 4 python circuits/pennylane_vqe.py                     # the state split over four ranks

One line differs from a program for another device of PennyLane: qml.device("qdist.qubit", wires=...). H is the sum of
X_i X_(i+1) + Y_i Y_(i+1) + Z_i Z_(i+1) over an open chain; the circuit starts from singlets on every other bond and
alternates rotations about the bonds. Prints the energy per spin, which tends to 1 - 4 ln 2 = -1.7726 for long chains.
"""

from __future__ import annotations

import argparse

import numpy as np
import pennylane as qml

from qdist.training import number, run, whole


def energy_of(device: qml.devices.Device, spins: int, layers: int) -> qml.QNode:
    """The energy as a function of angles of shape (layers, spins - 1)."""
    bonds = [(i, i + 1) for i in range(spins - 1)]
    letters = (qml.X, qml.Y, qml.Z)
    hamiltonian = qml.Hamiltonian([1.0] * (3 * len(bonds)), [P(i) @ P(j) for i, j in bonds for P in letters])

    @qml.qnode(device)
    def energy(angles):
        for i in range(0, spins - 1, 2):
            qml.X(i)
            qml.X(i + 1)
            qml.Hadamard(i)
            qml.CNOT([i, i + 1])
        for layer in range(layers):
            for start in (1, 0):
                for i in range(start, spins - 1, 2):
                    for rotation in (qml.IsingXX, qml.IsingYY, qml.IsingZZ):
                        rotation(angles[layer, i], wires=[i, i + 1])
        return qml.expval(hamiltonian)

    return energy


def main(argv: list[str] | None = None) -> list[float]:
    """Returns the energy per spin before every step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="qdist.qubit", help="a device of PennyLane (default: qdist.qubit)")
    parser.add_argument("--spins", type=whole(2, even=True), default=20, help="an even number (default: 20)")
    parser.add_argument("--layers", type=whole(1), default=4)
    parser.add_argument("--steps", type=whole(1), default=30)
    parser.add_argument("--lr", type=number(least=0), default=0.05)
    parser.add_argument("--seed", type=whole(0), default=1)
    args = parser.parse_args(argv)

    try:
        device = qml.device(args.device, wires=args.spins)  # The one line: any other device of PennyLane would do.
    except qml.exceptions.DeviceError as error:
        parser.error(f"--device {args.device}: {error}")
    energy = energy_of(device, args.spins, args.layers)
    shape = (args.layers, args.spins - 1)
    angles = qml.numpy.array(np.random.default_rng(args.seed).normal(0.1, 0.05, shape), requires_grad=True)
    optimizer = qml.AdamOptimizer(args.lr)
    first = getattr(getattr(device, "comm", None), "rank", 0) == 0
    energies = []
    for step in range(args.steps):
        angles, value = optimizer.step_and_cost(energy, angles)
        energies.append(float(value) / args.spins)
        if first:
            print(f"step {step}: {energies[-1]:.6f}", flush=True)
    return energies


if __name__ == "__main__":
    run(main)
