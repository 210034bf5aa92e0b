"""Classical parallelism: each module a small file, a client of the communicator and the tensor core."""

from . import collectives
from .activation_memory import activation_bytes, saved_bytes
from .context import RingAttention, ring_attention, shard_sequence, unshard_sequence
from .partition import Partition, load_whole_state_dict, whole_state_dict
from .recompute import checkpoint, recompute, recompute_attention
from .sequence import SequenceDropout, SequenceLayerNorm
from .tensor import ColumnParallelLinear, ParallelMLP, RowParallelLinear
from .transformer import ParallelAttention, ParallelTransformerBlock, divide_block
from .vocabulary import VocabParallelEmbedding, vocab_parallel_cross_entropy

__all__ = [
    "ColumnParallelLinear",
    "ParallelAttention",
    "ParallelMLP",
    "ParallelTransformerBlock",
    "Partition",
    "RingAttention",
    "RowParallelLinear",
    "SequenceDropout",
    "SequenceLayerNorm",
    "VocabParallelEmbedding",
    "activation_bytes",
    "checkpoint",
    "collectives",
    "divide_block",
    "load_whole_state_dict",
    "recompute",
    "recompute_attention",
    "ring_attention",
    "saved_bytes",
    "shard_sequence",
    "unshard_sequence",
    "vocab_parallel_cross_entropy",
    "whole_state_dict",
]
