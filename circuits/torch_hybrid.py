"""A hybrid classifier in PyTorch: a linear layer, a circuit, a linear layer, compiled into one graph.

    python circuits/torch_hybrid.py
    python circuits/torch_hybrid.py --plain              # without torch.compile

Two interleaved half moons. The circuit is a torch.nn.Module; its derivatives are those of the adjoint sweep. Reaches
95% of new points. Needs torch, and for torch.compile a C++ compiler.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

import qdist as qd
from qdist.interop.torch import QuantumLayer
from qdist.training import run, whole


def moons(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of two half circles, and which of the two."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    angle = rng.uniform(0, np.pi, count)
    sign = 1 - 2 * label
    points = np.stack([np.cos(angle) * sign + label, np.sin(angle) * sign + 0.5 * label], axis=1)
    return torch.tensor(points + rng.normal(0, 0.1, points.shape), dtype=torch.float32), torch.tensor(label)


def model(qubits: int, layers: int) -> torch.nn.Module:
    """Features that turn every qubit, and layers of rotations and CNOTs between them."""
    x, w = qd.ParameterVector("x", qubits), qd.ParameterVector("w", 2 * qubits * layers)
    circuit = qd.Circuit(qubits)
    for layer in range(layers):
        for q in range(qubits):
            circuit.rx(x[q], q)
        for q in range(qubits):
            circuit.ry(w[2 * (layer * qubits + q)], q).rz(w[2 * (layer * qubits + q) + 1], q)
        for q in range(qubits):
            circuit.cx(q, (q + 1) % qubits)
    quantum = QuantumLayer(circuit, [f"Z{q}" for q in range(qubits)], inputs=x, weights=w)
    return torch.nn.Sequential(torch.nn.Linear(2, qubits), quantum, torch.nn.Linear(qubits, 2))


def main(argv: list[str] | None = None) -> float:
    """The share of new points that it finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=whole(1), default=100, help="(default: 100)")
    parser.add_argument("--qubits", type=whole(2), default=4, help="(default: 4)")
    parser.add_argument("--layers", type=whole(1), default=2, help="(default: 2)")
    parser.add_argument("--plain", action="store_true", help="without torch.compile")
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    net = model(args.qubits, args.layers)
    run = net if args.plain else torch.compile(net, fullgraph=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    points, labels = moons(64, seed=1)
    for _ in range(args.steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(run(points), labels).backward()
        optimizer.step()
    points, labels = moons(200, seed=2)
    with torch.no_grad():
        accuracy = (net(points).argmax(1) == labels).double().mean().item()
    print(f"{accuracy:.1%} of new points")
    return accuracy


if __name__ == "__main__":
    run(main)
