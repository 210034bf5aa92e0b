"""Tensor parallelism: weights, heads and vocabularies divided over the ranks (Megatron-LM)."""

from qdist.parallel.tensor.column_dropout import ColumnParallelDropout
from qdist.parallel.tensor.parallel_linear import ColumnParallelLinear, ParallelMLP, RowParallelLinear
from qdist.parallel.tensor.parallel_transformer import ParallelAttention, ParallelTransformerBlock, divide_block
from qdist.parallel.tensor.vocabulary import (
    VocabParallelCrossEntropyLoss,
    VocabParallelEmbedding,
    vocab_parallel_cross_entropy,
)

__all__ = [
    "ColumnParallelDropout",
    "ColumnParallelLinear",
    "ParallelAttention",
    "ParallelMLP",
    "ParallelTransformerBlock",
    "RowParallelLinear",
    "VocabParallelCrossEntropyLoss",
    "VocabParallelEmbedding",
    "divide_block",
    "vocab_parallel_cross_entropy",
]
