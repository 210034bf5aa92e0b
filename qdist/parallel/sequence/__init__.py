"""Sequence and context parallelism: the positions of a sequence divided over the ranks."""

from qdist.parallel.sequence.context import RingAttention, ring_attention, shard_sequence, unshard_sequence
from qdist.parallel.sequence.norm_and_dropout import SequenceDropout, SequenceLayerNorm

__all__ = [
    "RingAttention",
    "SequenceDropout",
    "SequenceLayerNorm",
    "ring_attention",
    "shard_sequence",
    "unshard_sequence",
]
