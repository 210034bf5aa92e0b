"""A small language model, plain or divided: over ranks that share heads and vocabulary, and over ranks that share the
sequence. Its sizes are multiples of a unit, the sequence in twice as many chunks: 24, which 2, 3, 4 and 8 ranks divide,
unless told otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from models import Trained, assert_same, gradients_of, parameters_of

from qdist import nn, optim
from qdist.comm import Communicator
from qdist.parallel import (
    ColumnParallelLinear,
    ParallelTransformerBlock,
    SequenceDropout,
    SequenceLayerNorm,
    VocabParallelEmbedding,
    average_gradients,
    shard_sequence,
    vocab_parallel_cross_entropy,
)
from qdist.parallel.collectives import scatter
from qdist.parallel.sequence.positions import positions_of
from qdist.tensor import Tensor, functional, manual_seed

BATCH, UNIT = 2, 24
LENGTH = FEATURES = 2 * UNIT
DROPOUT, STEPS = 0.2, 3
F64 = np.float64


class Language(nn.Module):
    """Tokens (batch, 2 * unit) in, the mean cross-entropy of the next ones out.

    tensor, context: the ranks that share heads and vocabulary, and those that share the sequence; None is undivided.
    """

    def __init__(
        self,
        tensor: Communicator | None = None,
        context: Communicator | None = None,
        sequence: bool = False,
        unit: int = UNIT,
    ) -> None:
        super().__init__()
        self.tensor, self.context, self.sequence = tensor, context, sequence
        features = hidden = 2 * unit
        sizes = features, unit
        if tensor is None:
            self.table: nn.Module = nn.Embedding(unit, features, dtype=F64)
        else:
            self.table = VocabParallelEmbedding(unit, features, tensor, sequence, dtype=F64)
        self.places = nn.Parameter(np.zeros((2 * unit, features)))
        nn.init.normal_(self.places, std=0.1)
        if tensor is None and context is None:
            blocks = [nn.TransformerBlock(*sizes, hidden, DROPOUT, causal=True, dtype=F64) for _ in range(2)]
        else:
            blocks = [
                ParallelTransformerBlock(
                    *sizes, tensor, hidden, DROPOUT, True, sequence_parallel=sequence, context=context, dtype=F64
                )
                for _ in range(2)
            ]
        self.blocks = nn.Sequential(*blocks)
        self.norm = SequenceLayerNorm(features, tensor, dtype=F64) if sequence else nn.LayerNorm(features, dtype=F64)
        if tensor is None:
            self.head: nn.Module = nn.Linear(features, unit, dtype=F64)
        else:
            self.head = ColumnParallelLinear(features, unit, tensor, True, False, sequence, dtype=F64)
        self.dropout = SequenceDropout(DROPOUT, tensor if sequence else None, context)

    def forward(self, tokens: np.ndarray, targets: np.ndarray) -> Tensor:
        places: Tensor = self.places
        if self.context is not None:
            tokens, targets = (shard_sequence(t, self.context).numpy() for t in (tokens, targets))
            places = places[positions_of(self.context.rank, self.context.size, len(places))]
        if self.sequence:
            places = scatter(places, self.tensor, 0)
        logits = self.head(self.norm(self.blocks(self.dropout(self.table(tokens) + places))))
        if self.tensor is None:
            return functional.cross_entropy(logits, Tensor(targets))
        return vocab_parallel_cross_entropy(logits, targets, self.tensor)


def train(model: nn.Module, batches: list[tuple[Any, Any]], context: Communicator | None = None) -> Trained:
    """A few steps; what this rank has after them. Over `context` losses and gradients are averaged."""
    manual_seed(5)  # Of the dropout masks.
    update = optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for batch in batches:
        update.zero_grad()
        loss = model(*batch)
        loss.backward()
        if context is not None:
            average_gradients(model, context)
        update.step()
        losses.append(loss.item() if context is None else float(context.all_reduce(np.array(loss.item()), "avg")))
    return Trained(losses, gradients_of(model), parameters_of(model))


def part(parameter: nn.Parameter, values: np.ndarray) -> np.ndarray:
    """A rank's part of what belongs to the whole parameter."""
    return values if parameter.partition is None else parameter.partition.part(values)


def assert_trained(model: nn.Module, got: Trained, want: Trained) -> None:
    """Losses are those of the whole model, gradients and parameters this rank's part of its."""
    np.testing.assert_allclose(got.losses, want.losses, rtol=1e-10)
    parameters = dict(model.named_parameters())
    assert_same(got.gradients, {name: part(parameters[name], value) for name, value in want.gradients.items()})
    assert_same(got.parameters, {name: part(parameters[name], value) for name, value in want.parameters.items()})


def batches(unit: int = UNIT) -> list[tuple[np.ndarray, np.ndarray]]:
    tokens = np.random.default_rng(3).integers(0, unit, (STEPS, BATCH, 2 * unit + 1))
    return [(t[:, :-1], t[:, 1:]) for t in tokens]


def language(seed: int = 1, **divided: Any) -> Language:
    manual_seed(seed)
    return Language(**divided)
