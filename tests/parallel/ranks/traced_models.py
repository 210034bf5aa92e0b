"""Models that are no list of layers, as people write them: what a pipeline has to trace and cut."""

from __future__ import annotations

from typing import Any

import numpy as np
from models import F64

from qdist import nn
from qdist.tensor import Tensor, functional, manual_seed

UNIT = 8


class GPT(nn.Module):
    """Embeddings, a loop over blocks, a skip from the first stage to the last, and a head that is the table of tokens.

    Args:
        placed: "table" reads rows of a table of positions, "call" looks up nn.positions().
        tied: "read" multiplies with the table's weight, "head" has a Linear that shares it.
        drops: "function" drops at the end by a function, "module" by a module, which knows of divided sequences.
    """

    def __init__(
        self,
        unit: int = UNIT,
        placed: str = "table",
        tied: str = "read",
        drops: str = "function",
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        width = 2 * unit
        self.placed = placed
        self.wte, self.wpe = nn.Embedding(3 * unit, width, dtype=F64), nn.Embedding(width + 3, width, dtype=F64)
        self.gain = nn.Parameter(np.linspace(0.5, 1.5, width))
        self.register_buffer("shift", np.linspace(-0.1, 0.1, width))
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            [nn.TransformerBlock(width, unit, width, dropout, True, dtype=F64) for _ in range(4)]
        )
        self.ln_f = nn.LayerNorm(width, dtype=F64)
        self.last_drop = nn.Dropout(dropout / 2) if drops == "module" else None
        self.head = nn.Linear(width, 3 * unit, bias=False, dtype=F64) if tied == "head" else None
        if self.head is not None:
            self.head.weight = self.wte.weight

    def forward(self, tokens: Any) -> Tensor:
        length = tokens.shape[1]
        places = self.wpe.weight[:length] if self.placed == "table" else self.wpe(Tensor(nn.positions(length)))
        x = first = self.drop(self.wte(tokens) + places)
        for block in self.blocks:
            x = block(x)
        x = self.ln_f(x + first * self.gain + self.shift)
        if self.last_drop is None:
            x = functional.dropout(x, 0.1, self.training)
        else:
            x = self.last_drop(x)
        return x @ self.wte.weight.T if self.head is None else self.head(x)


class Encoder(nn.Module):
    """A part of a model with a list of its own, which gives a dictionary."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width, dtype=F64) for _ in range(3)])

    def forward(self, x: Tensor, *, keep: bool) -> dict[str, Any]:
        kept = []
        for layer in self.layers:
            x = layer(x).tanh()
            kept.append(x)
        return {"last": x, "all": kept if keep else None, "depth": len(kept)}


class Pair(nn.Module):
    """Two tensors in, two out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(width, width, dtype=F64), nn.Linear(width, width, dtype=F64)

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self.one(a) + b, self.two(b) * a


class UNet(nn.Module):
    """Several tensors cross every cut, some of them two; a module is called twice."""

    def __init__(self, unit: int = UNIT) -> None:
        super().__init__()
        width = 2 * unit
        self.encoder = Encoder(width)
        self.middle = Pair(width)
        self.up = nn.ModuleList([nn.Linear(width, width, dtype=F64) for _ in range(3)])
        self.again = nn.Linear(width, width, dtype=F64)
        self.last = nn.Linear(width, 5, dtype=F64)

    def forward(self, x: Tensor) -> Tensor:
        made = self.encoder(self.again(x), keep=True)
        a, b = self.middle(made["last"], x)
        y = a
        for up, skip in zip(self.up, reversed(made["all"]), strict=True):
            y = up(y + skip).tanh() + b
        return self.last(self.again(y) + x * made["depth"])


def build(kind: str, unit: int = UNIT) -> nn.Module:
    manual_seed(3)
    if kind == "unet":
        return UNet(unit)
    return GPT(unit, *kind.split("-")[1:]) if "-" in kind else GPT(unit)


def batches(kind: str, rows: int, unit: int = UNIT) -> list[tuple[np.ndarray, np.ndarray]]:
    made = []
    for step in range(2):
        rng = np.random.default_rng([7, step])
        if kind == "unet":
            made.append((rng.normal(size=(rows, 2 * unit)), rng.integers(0, 5, rows)))
            continue
        tokens = rng.integers(1, 3 * unit, (rows, 2 * unit + 1))
        lengths = np.linspace(2 * unit, 1, rows).astype(int)
        made.append((tokens[:, :-1], np.where(np.arange(2 * unit) < lengths[:, None], tokens[:, 1:], 0)))
    return made


def loss_of(kind: str) -> nn.CrossEntropyLoss:
    return nn.CrossEntropyLoss() if kind == "unet" else nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
