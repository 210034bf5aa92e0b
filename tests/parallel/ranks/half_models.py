"""Language models for mixed precision: built, spread over a mesh, trained, and trained by one process alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from meshes import by_itself, share_of
from models import from_first

import qdist as qd
from qdist import nn, optim
from qdist.comm import Communicator, Mesh
from qdist.parallel import ParallelModel, Plan, parallelize
from qdist.tensor import Tensor, random

PADDING, TOKENS, LENGTH, ROWS, STEPS = 0, 16, 16, 9, 4
BLOCKS = {"0.tokens": "vocabulary", "[12]": "block", "4": "column-gather"}
LLAMA = {"*.[qkv]": "column", "*.o": "row", "*.gate": "column", "*.up": "column", "*.down": "row"}

# Losses beside one process in the same precision, and beside float32: one unit of rounding of half precision, relative.
SAME = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
NEAR = {"bfloat16": 2.0**-7, "float16": 2.0**-10}


class Input(nn.Module):
    def __init__(self, placed: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, 16)
        self.wpe = nn.Embedding(LENGTH, 16) if placed else None

    def forward(self, tokens: Any) -> Tensor:
        x = self.tokens(tokens)
        return x if self.wpe is None else x + self.wpe.weight


class Output(nn.Module):
    """Scores by the table of tokens itself."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.transpose(1, 0)


class Means(nn.Module):
    """A circuit between layers; scores of one token a row."""

    def __init__(self) -> None:
        super().__init__()
        x, w = qd.ParameterVector("x", 2), qd.ParameterVector("w", 2)
        circuit = qd.Circuit(2).rx(x[0], 0).rx(x[1], 1).ry(w[0], 0).cx(0, 1).ry(w[1], 1)
        self.to, self.circuit = nn.Linear(16, 2), nn.QuantumLayer(circuit, ["Z0", "Z1"], x, w, seed=1)
        self.back = nn.Linear(2, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.back(self.circuit(self.to(x.mean(1)))).reshape(-1, 1, 16)


def build(kind: str) -> nn.Sequential:
    random.manual_seed(0)
    first = Input(kind != "llama")
    if kind == "llama":
        middle: list[nn.Module] = [nn.LlamaBlock(16, 8, 8, 32) for _ in range(2)]
    else:
        middle = [nn.TransformerBlock(16, 8, 32, 0.1, True) for _ in range(2)]
    if kind == "hybrid":
        middle[1] = Means()
    norm = nn.RMSNorm(16) if kind == "llama" else nn.LayerNorm(16)
    head = Output(first.tokens.weight) if kind == "tied" else nn.Linear(16, TOKENS)
    return nn.Sequential(first, *middle, norm, head)


def batches(mesh: Mesh) -> list[tuple[np.ndarray, np.ndarray]]:
    """This rank's rows, of very different lengths."""
    made = []
    for step in range(STEPS):
        tokens = np.random.default_rng([7, step]).integers(1, TOKENS, (ROWS, LENGTH + 1))
        lengths = np.linspace(LENGTH, 1, ROWS).astype(int)
        goals = np.where(np.arange(LENGTH) < lengths[:, None], tokens[:, 1:], PADDING)
        made.append(share_of(mesh, tokens[:, :-1], goals))
    return made


def spread(kind: str, mesh: Mesh, precision: str | None, **options: Any) -> ParallelModel:
    if "layers" not in options and mesh.shape.get("tp", 1) > 1:
        options["layers"] = LLAMA if kind == "llama" else BLOCKS
    positions = [] if kind == "llama" else ["0.wpe.weight"]
    if precision == "float16":
        options.setdefault("loss_scale", 2.0**10)  # No gradient here overflows.
    plan = Plan(positions=positions, precision=precision, seed=3, **options)
    loss = nn.CrossEntropyLoss(ignore_index=PADDING)
    return parallelize(build(kind), mesh, plan, optimizer=lambda ps: optim.AdamW(ps, lr=3e-3), loss=loss)


def train(model: ParallelModel) -> list[float]:
    return [model.train_batch(x, y, max_norm=1.0) for x, y in batches(model.mesh)]


@cache
def alone(comm: Communicator, kind: str, precision: str | None) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses and parameters of one process alone."""
    mesh = by_itself(comm)

    def trained() -> tuple[list[float], dict[str, np.ndarray]]:
        model = spread(kind, mesh, precision)
        losses = train(model)
        return losses, {name: value.numpy() for name, value in model.state_dict().items()}

    return from_first(trained, comm)
