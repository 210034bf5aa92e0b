"""A classifier of two moons: an EstimatorQNN of qiskit-machine-learning between two layers of torch.

    python circuits/qiskit_qnn.py
    python circuits/qiskit_qnn.py --default        # the same on Qiskit's estimator with parameter shifts, to compare

Two objects differ from a program that runs on Qiskit's own simulator: the estimator and the gradient. All rows of a
batch and all observables go through the circuit in one call, forward and backward. Prints the loss of every epoch, and
the accuracy.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from qiskit.circuit import ParameterVector, QuantumCircuit
from qiskit.circuit.library import real_amplitudes
from qiskit.primitives import StatevectorEstimator
from qiskit.quantum_info import SparsePauliOp
from qiskit_machine_learning.connectors import TorchConnector
from qiskit_machine_learning.neural_networks import EstimatorQNN

from qdist.interop.qiskit import Estimator
from qdist.interop.qiskit.machine_learning import AdjointEstimatorGradient
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


def classifier(qubits: int, layers: int, default: bool) -> torch.nn.Module:
    """2 features in, 2 logits out."""
    inputs, weights = ParameterVector("x", qubits), real_amplitudes(qubits, reps=layers)
    circuit = QuantumCircuit(qubits)
    for qubit in range(qubits):
        circuit.rx(inputs[qubit], qubit)
    circuit.compose(weights, inplace=True)
    estimator = StatevectorEstimator() if default else Estimator()
    network = EstimatorQNN(
        circuit=circuit,
        estimator=estimator,
        observables=[SparsePauliOp.from_sparse_list([("Z", [q], 1.0)], num_qubits=qubits) for q in range(qubits)],
        input_params=inputs,
        weight_params=weights.parameters,
        input_gradients=True,
        gradient=None if default else AdjointEstimatorGradient(estimator),
        default_precision=0.0,
    )
    return torch.nn.Sequential(torch.nn.Linear(2, qubits), TorchConnector(network), torch.nn.Linear(qubits, 2))


def main(argv: list[str] | None = None) -> tuple[list[float], float]:
    """Returns the mean loss of every epoch, and the accuracy on points that were not trained on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--default", action="store_true", help="Qiskit's own estimator and gradient")
    parser.add_argument("--qubits", type=whole(1), default=6)
    parser.add_argument("--layers", type=whole(1), default=2)
    parser.add_argument("--points", type=whole(1), default=512)
    parser.add_argument("--batch", type=whole(1), default=128)
    parser.add_argument("--epochs", type=whole(1), default=15)
    parser.add_argument("--lr", type=number(least=0), default=0.05)
    parser.add_argument("--seed", type=whole(0), default=1)
    args = parser.parse_args(argv)

    torch.manual_seed(args.seed)
    model = classifier(args.qubits, args.layers, args.default)
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
