"""Small models, their data and a training loop in one process: what every parallel module has to reproduce.

All are float64 and start from a seed, so that a distributed run can be held against ``train_alone`` to 1e-10. Widths,
heads, vocabulary and sequence are multiples of a unit, 8 unless told otherwise, so that as many ranks divide them; the
number of classes divides by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

import qdist as qd
from qdist import nn, optim
from qdist.nn.module import Parameter
from qdist.tensor import Tensor, functional, manual_seed

ROWS, CLASSES = 24, 5
UNIT = 8
FEATURES, HEADS, VOCABULARY, LENGTH = 2 * UNIT, UNIT, 3 * UNIT, 2 * UNIT
QUBITS = 4
F64 = np.float64

Result = TypeVar("Result")
MakeOptimizer = Callable[[Iterable[Any]], optim.Optimizer]


def sgd(parameters: Iterable[Any]) -> optim.Optimizer:
    return optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-3)


def adam(parameters: Iterable[Any]) -> optim.Optimizer:
    return optim.AdamW(parameters, lr=1e-2)


class Tokens(nn.Module):
    """(batch, length) token numbers to (batch, length, features): what they are and where they stand."""

    def __init__(self, unit: int = UNIT) -> None:
        super().__init__()
        self.table = nn.Embedding(3 * unit, 2 * unit, dtype=F64)
        self.places = Parameter(np.zeros((2 * unit, 2 * unit)))
        nn.init.normal_(self.places, std=0.1)

    def forward(self, tokens: Any) -> Tensor:
        return self.table(tokens) + self.places


class Scores(nn.Module):
    """What the table of token vectors says of each position: the weights of the first layer once more."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.table = table

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.table.weight.swapaxes(0, 1)


def mlp(comm: Any = None, unit: int = UNIT) -> nn.Sequential:
    """Five linear layers with tanh between: nine layers in all."""
    widths = [12, 4 * unit, 4 * unit, 2 * unit, 2 * unit]
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, dtype=F64), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], CLASSES, dtype=F64))


def cnn(comm: Any = None, unit: int = UNIT) -> nn.Sequential:
    """Two convolutions with pooling on (n, 1, 8, 8) images; no batch norm, whose statistics are each rank's own."""
    return nn.Sequential(
        nn.Conv2d(1, unit, 3, padding=1, dtype=F64),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(unit, 2 * unit, 3, padding=1, dtype=F64),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * unit, CLASSES, dtype=F64),
    )


def transformer(comm: Any = None, unit: int = UNIT) -> nn.Sequential:
    """Two causal blocks that guess the next token."""
    features = 2 * unit
    blocks = [nn.TransformerBlock(features, unit, 4 * unit, causal=True, dtype=F64) for _ in range(2)]
    norm, head = nn.LayerNorm(features, dtype=F64), nn.Linear(features, 3 * unit, dtype=F64)
    return nn.Sequential(Tokens(unit), *blocks, norm, head)


def hybrid(comm: Any = None, qubits: int = QUBITS) -> nn.Sequential:
    """A circuit between linear layers. comm: what the quantum layer takes, for its amplitudes."""
    x, w = qd.ParameterVector("x", qubits), qd.ParameterVector("w", 2 * qubits)
    circuit = qd.Circuit(qubits)
    for q in range(qubits):
        circuit.rx(x[q], q).ry(w[q], q)
    for q in range(qubits):
        circuit.cx(q, (q + 1) % qubits).rz(w[qubits + q], q).rx(x[q], q)
    observables = [f"Z{q}" for q in range(qubits)]
    return nn.Sequential(
        nn.Linear(12, qubits, dtype=F64),
        nn.Tanh(),
        nn.QuantumLayer(circuit, observables, x, w, comm=comm, dtype="complex128"),
        nn.Linear(qubits, CLASSES, dtype=F64),
    )


MODELS = {"mlp": mlp, "cnn": cnn, "transformer": transformer, "hybrid": hybrid}


def build(name: str, seed: int = 0, comm: Any = None) -> nn.Module:
    """A model with the weights of this seed, whatever was drawn before."""
    manual_seed(seed)
    return MODELS[name](comm)


def batch(name: str, step: int, rows: int = ROWS, unit: int = UNIT) -> tuple[np.ndarray, np.ndarray]:
    """The whole batch of a step, inputs and targets: the same for everybody who asks."""
    rng = np.random.default_rng([step, rows])
    if name == "transformer":
        tokens = rng.integers(0, 3 * unit, (rows, 2 * unit + 1))
        return tokens[:, :-1], tokens[:, 1:]
    shape = (rows, 1, 8, 8) if name == "cnn" else (rows, 12)
    return rng.normal(size=shape), rng.integers(0, CLASSES, rows)


def share(array: np.ndarray, rank: int, size: int) -> np.ndarray:
    """One rank's rows; the first ranks have one more where they do not divide."""
    return np.array_split(array, size)[rank]


def loss_of(model: Callable[[Any], Any], x: np.ndarray, y: np.ndarray) -> Tensor:
    """The mean cross-entropy over the rows."""
    return functional.cross_entropy(model(Tensor(x)), Tensor(y))


@dataclass
class Trained:
    """What a run leaves: the loss of every step, the last step's gradients, the parameters after it.

    A parameter that several layers share has one gradient, under its first name, and its values under all names.
    """

    losses: list[float]
    gradients: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]


def gradients_of(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters() if p.grad is not None}


def parameters_of(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: p.numpy().copy() for name, p in model.named_parameters()}


def state_of(model: Any) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}


def train_plainly(
    model: nn.Module, batches: Iterable[tuple[np.ndarray, np.ndarray]], optimizer: MakeOptimizer
) -> Trained:
    """Train a model on whole batches in this process."""
    update = optimizer(model.parameters())
    losses = []
    for x, y in batches:
        update.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        update.step()
        losses.append(loss.item())
    return Trained(losses, gradients_of(model), state_of(model))


def train_alone(name: str, steps: int = 3, rows: int = ROWS, optimizer: MakeOptimizer = sgd, seed: int = 0) -> Trained:
    """The same for a model of this file and its batches."""
    return train_plainly(build(name, seed), [batch(name, step, rows) for step in range(steps)], optimizer)


def from_first(compute: Callable[[], Result], comm: qd.comm.Communicator | None = None) -> Result:
    """What the first rank of comm, or else of the job, computes; all of them call this together. Those that wait leave
    their cores to others."""
    comm = qd.comm.init(timeout=120) if comm is None else comm
    return comm.broadcast_object(compute() if comm.rank == 0 else None)


def assert_same(got: dict[str, np.ndarray], want: dict[str, np.ndarray], tolerance: float = 1e-10) -> None:
    """The same names with the same values."""
    assert got.keys() == want.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=tolerance, atol=tolerance, err_msg=name)
