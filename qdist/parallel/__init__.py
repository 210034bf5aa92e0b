"""Classical parallelism: each module a small file, a client of the communicator and the tensor core."""

from . import collectives
from .activation_memory import activation_bytes, saved_bytes
from .context import RingAttention, ring_attention, shard_sequence, unshard_sequence
from .data import DataParallel, average_gradients
from .local import on_local_devices, share_rows
from .loss_scale import LossScale
from .partition import Partition, load_whole_state_dict, whole_state_dict
from .recompute import checkpoint, recompute, recompute_attention
from .sequence import SequenceDropout, SequenceLayerNorm
from .tensor import ColumnParallelLinear, ParallelMLP, RowParallelLinear
from .transformer import ParallelAttention, ParallelTransformerBlock, divide_block
from .vocabulary import VocabParallelEmbedding, vocab_parallel_cross_entropy
from .zero import Zero

__all__ = [
    "ColumnParallelLinear",
    "DataParallel",
    "LossScale",
    "ParallelAttention",
    "ParallelMLP",
    "ParallelTransformerBlock",
    "Partition",
    "RingAttention",
    "RowParallelLinear",
    "SequenceDropout",
    "SequenceLayerNorm",
    "VocabParallelEmbedding",
    "Zero",
    "activation_bytes",
    "average_gradients",
    "checkpoint",
    "collectives",
    "divide_block",
    "load_whole_state_dict",
    "on_local_devices",
    "recompute",
    "recompute_attention",
    "ring_attention",
    "saved_bytes",
    "shard_sequence",
    "share_rows",
    "unshard_sequence",
    "vocab_parallel_cross_entropy",
    "whole_state_dict",
]
