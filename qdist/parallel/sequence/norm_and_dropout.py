"""Sequence parallelism: layer norm and dropout where each rank has some positions (arXiv 2205.05198).

Tensor parallelism divides attention and perceptron but repeats what lies between them on every rank. Those parts treat
each position by itself, so the sequence can be divided there. The conjugate pair of collectives at the borders, g and
g-bar, is in `collectives.all_gather` and `collectives.reduce_scatter`; the linear layers of `tensor` run it when given
`sequence_parallel`. Together they send as many bytes as the two all-reduces that they replace.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from qdist.comm import Communicator
from qdist.nn import Dropout, LayerNorm
from qdist.parallel.collectives import copy
from qdist.parallel.partition import copied
from qdist.parallel.sequence.positions import sequence_span
from qdist.tensor import Tensor, functional

__all__ = ["SequenceDropout", "SequenceLayerNorm"]


class SequenceLayerNorm(LayerNorm):
    """Layer norm on this rank's positions; weight and bias are equal on all ranks, their gradients added up."""

    def __init__(
        self, shape: int | tuple[int, ...], comm: Communicator, eps: float = 1e-5, dtype: Any = np.float32
    ) -> None:
        super().__init__(shape, eps, dtype)
        self.comm = comm

    @classmethod
    def from_layer_norm(cls, layer: LayerNorm, comm: Communicator) -> Self:
        """The sequence-parallel form of a layer, with a copy of its weights."""
        made = cls(layer.shape, comm, layer.eps, layer.weight.dtype)
        made.weight, made.bias = copied(layer.weight), copied(layer.bias)
        return made

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = copy(self.weight, self.comm), copy(self.bias, self.comm)
        return functional.layer_norm(x, self.shape, weight, bias, self.eps)


class SequenceDropout(Dropout):
    """Dropout on this rank's positions of (batch, sequence, ...), with the mask that one process would draw.

    Args:
        p: probability of dropping.
        tensor: the ranks that divide the sequence in slices, or None.
        context: the ranks that divide it for ring attention, or None.

    The ranks' default generators must be in the same state: the same `manual_seed`, the same draws since.
    """

    def __init__(self, p: float, tensor: Communicator | None, context: Communicator | None = None) -> None:
        super().__init__(p)
        self.tensor, self.context = tensor, context

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2:
            raise ValueError(f"SequenceDropout takes (batch, sequence, ...), got shape {x.shape}")
        span = sequence_span(1, x.shape[1], self.tensor, self.context)
        return functional.dropout(x, self.p, self.training, [span])
