"""Transformer blocks divided over ranks: heads and hidden units, and with them the sequence.

A divided block is the block of `nn.transformer` with other layers in it: the same formula, the same parameter names.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

import numpy as np

from qdist.comm import Communicator
from qdist.nn import MultiHeadAttention, TransformerBlock
from qdist.parallel.collectives import copy, scatter
from qdist.parallel.partition import check_divides
from qdist.parallel.sequence.context import RingAttention, refuse_mask, ring_attention
from qdist.parallel.sequence.norm_and_dropout import SequenceDropout, SequenceLayerNorm
from qdist.parallel.tensor.parallel_linear import ColumnParallelLinear, RowParallelLinear
from qdist.tensor import Tensor, functional
from qdist.tensor.functional import as_tensor
from qdist.tensor.random import Span

__all__ = ["ParallelAttention", "ParallelTransformerBlock", "divide_block"]

B = TypeVar("B", bound=TransformerBlock)


class ParallelAttention(MultiHeadAttention):
    """Self-attention with the heads divided over ranks: (batch, sequence, features) to the same shape.

    Args:
        features, heads, dropout, bias: of the whole layer, as for MultiHeadAttention; the group's size divides heads.
        comm: the ranks that share the layer. All give the same x.
        sequence_parallel: x and the result are this rank's slice of the sequence instead.
        context: the ranks, of another axis of the mesh, that the sequence is divided over for ring attention.
        whole: take weights, biases and dtype from this layer, of the same sizes, instead of drawing them.

    For the same seed the weights, and the mask of dropped attention, are those of `nn.MultiHeadAttention`.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        comm: Communicator,
        dropout: float = 0.0,
        bias: bool = True,
        sequence_parallel: bool = False,
        context: Communicator | None = None,
        dtype: Any = np.float32,
        *,
        whole: MultiHeadAttention | None = None,
    ) -> None:
        check_divides("ParallelAttention: heads", heads, comm.size)
        whole = MultiHeadAttention(features, heads, dropout, bias, dtype) if whole is None else whole
        if (whole.features, whole.heads) != (features, heads):
            raise ValueError(f"{whole!r} cannot be the whole of attention with {features} features and {heads} heads")
        super(MultiHeadAttention, self).__init__()  # MultiHeadAttention's own would draw weights once more.
        self.features, self.heads, self.dropout = features, heads, dropout
        self.comm, self.context = comm, context
        self.qkv: Any = ColumnParallelLinear.from_linear(
            whole.qkv, comm, gather_output=False, sequence_parallel=sequence_parallel, blocks=3
        )
        self.out: Any = RowParallelLinear.from_linear(
            whole.out, comm, input_is_parallel=True, sequence_parallel=sequence_parallel
        )

    @classmethod
    def from_attention(cls, layer: MultiHeadAttention, comm: Communicator, **options: Any) -> Self:
        """The parallel form of a layer, with a copy of its weights; options as in the constructor."""
        return cls(layer.features, layer.heads, comm, layer.dropout, whole=layer, **options)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        own = self.heads // self.comm.size
        heads = Span(1, self.heads, ((self.comm.rank * own, (self.comm.rank + 1) * own),))
        if self.context is not None:
            refuse_mask(mask)
            return ring_attention(q, k, v, self.context, causal=causal, dropout=dropout, spans=[heads])
        if mask is not None:
            mask = as_tensor(mask)
            by_head = mask.ndim >= 3 and mask.shape[-3] == self.heads > 1
            mask = scatter(mask, self.comm, -3) if by_head else copy(mask, self.comm)
        return functional.attention(q, k, v, mask, causal=causal, dropout=dropout, spans=[heads])


class ParallelTransformerBlock(TransformerBlock):
    """nn.TransformerBlock divided over ranks: the same names, and for the same seed the same weights and masks.

    Args:
        features, heads, hidden, dropout, causal: of the whole block, as for TransformerBlock.
        comm, sequence_parallel, context: as for divide_block.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        comm: Communicator | None,
        hidden: int | None = None,
        dropout: float = 0.0,
        causal: bool = False,
        sequence_parallel: bool = False,
        context: Communicator | None = None,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__(features, heads, hidden, dropout, causal, dtype)
        divide_block(self, comm, sequence_parallel, context)


def divide_block(
    block: B, comm: Communicator | None, sequence_parallel: bool = False, context: Communicator | None = None
) -> B:
    """Divide a block over ranks, in place; returns it. Every rank keeps its part of the weights.

    Args:
        block: equal on all ranks.
        comm: the ranks that share heads and hidden units, or None.
        sequence_parallel: x and the result are this rank's slice of the sequence, divided over `comm`.
        context: the ranks that the sequence is divided over for ring attention, as `shard_sequence` does, or None.
            Parameters are whole along this axis, and each rank has its positions' share of their gradients.

    Raises ValueError, before anything is changed, where the heads or hidden units cannot be divided.
    """
    if comm is None:
        if sequence_parallel:
            raise ValueError("sequence_parallel needs comm: the ranks that share the heads divide the sequence too")
        if context is not None:
            block.attention = RingAttention.from_attention(block.attention, context)
            block.dropout = SequenceDropout(block.dropout.p, None, context)
        return block
    check_divides("divide_block: hidden units", block.expand.out_features, comm.size)
    options = {"sequence_parallel": sequence_parallel}
    block.attention = ParallelAttention.from_attention(block.attention, comm, context=context, **options)
    divided: Any = block
    divided.expand = ColumnParallelLinear.from_linear(block.expand, comm, gather_output=False, **options)
    divided.shrink = RowParallelLinear.from_linear(block.shrink, comm, input_is_parallel=True, **options)
    if sequence_parallel:
        block.norm1 = SequenceLayerNorm.from_layer_norm(block.norm1, comm)
        block.norm2 = SequenceLayerNorm.from_layer_norm(block.norm2, comm)
    if sequence_parallel or context is not None:
        block.dropout = SequenceDropout(block.dropout.p, comm if sequence_parallel else None, context)
    return block
