"""A classifier of two moons: a quantum layer of PennyLane between two layers of torch.

    python circuits/pennylane_qnn.py
    python circuits/pennylane_qnn.py --device default.qubit           # the same, to compare

One line differs from a program for another device of PennyLane: qml.device("qdist.qubit", wires=...). A whole batch of
rows goes through the circuit in one call, forward and backward. Prints the loss of every epoch, and the accuracy.
"""

from __future__ import annotations

import argparse

import numpy as np
import pennylane as qml
import torch

from qdist.training import number, run, whole


def moons(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on two half circles that reach into each other, and which of the two each is on."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    angle = rng.uniform(0, np.pi, count)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points[labels == 1] = [1.0, 0.5] - points[labels == 1]
    points += rng.normal(0, 0.1, points.shape)
    return torch.tensor(points, dtype=torch.float32), torch.tensor(labels)


def classifier(device: qml.devices.Device, qubits: int, layers: int) -> torch.nn.Module:
    """2 features in, 2 logits out."""

    @qml.qnode(device, interface="torch")
    def circuit(inputs, weights):
        qml.AngleEmbedding(inputs, wires=range(qubits))
        qml.StronglyEntanglingLayers(weights, wires=range(qubits))
        return [qml.expval(qml.Z(wire)) for wire in range(qubits)]

    quantum = qml.qnn.TorchLayer(circuit, {"weights": (layers, qubits, 3)})
    return torch.nn.Sequential(torch.nn.Linear(2, qubits), quantum, torch.nn.Linear(qubits, 2))


def main(argv: list[str] | None = None) -> tuple[list[float], float]:
    """Returns the mean loss of every epoch, and the accuracy on points that were not trained on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="qdist.qubit", help="a device of PennyLane (default: qdist.qubit)")
    parser.add_argument("--qubits", type=whole(2), default=8)
    parser.add_argument("--layers", type=whole(1), default=2)
    parser.add_argument("--points", type=whole(1), default=1024)
    parser.add_argument("--batch", type=whole(1), default=256)
    parser.add_argument("--epochs", type=whole(1), default=15)
    parser.add_argument("--lr", type=number(least=0), default=0.03)
    parser.add_argument("--seed", type=whole(0), default=1)
    args = parser.parse_args(argv)

    torch.manual_seed(args.seed)
    try:
        device = qml.device(args.device, wires=args.qubits)  # The one line: any other device of PennyLane would do.
    except qml.exceptions.DeviceError as error:
        parser.error(f"--device {args.device}: {error}")
    model = classifier(device, args.qubits, args.layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    points, labels = moons(args.points, args.seed)
    losses = []
    for epoch in range(args.epochs):
        total = 0.0
        for rows in torch.randperm(args.points).split(args.batch):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(points[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        losses.append(total / args.points)
        print(f"epoch {epoch}: loss {losses[-1]:.4f}", flush=True)
    others, truth = moons(args.points, args.seed + 1)
    with torch.no_grad():
        accuracy = float((model(others).argmax(dim=1) == truth).double().mean())
    print(f"accuracy {accuracy:.3f}")
    return losses, accuracy


if __name__ == "__main__":
    run(main)
