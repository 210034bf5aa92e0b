"""Classical parallelism: each module a small file, a client of the communicator and the tensor core."""

from . import collectives
from .activation_memory import activation_bytes, saved_bytes
from .context import RingAttention, ring_attention, shard_sequence, unshard_sequence
from .partition import Partition, load_whole_state_dict, whole_state_dict
from .pipeline import Pipeline
from .pipeline_config import PipelineTraining
from .pipeline_picture import save_schedule_picture, schedule_picture
from .recompute import checkpoint, recompute, recompute_attention
from .schedules import Action, Schedule, ScheduleError, make_schedule
from .sequence import SequenceDropout, SequenceLayerNorm
from .stages import cut_into_stages
from .tensor import ColumnParallelLinear, ParallelMLP, RowParallelLinear
from .transformer import ParallelAttention, ParallelTransformerBlock, divide_block
from .vocabulary import VocabParallelEmbedding, vocab_parallel_cross_entropy

__all__ = [
    "Action",
    "ColumnParallelLinear",
    "ParallelAttention",
    "ParallelMLP",
    "ParallelTransformerBlock",
    "Partition",
    "Pipeline",
    "PipelineTraining",
    "RingAttention",
    "RowParallelLinear",
    "Schedule",
    "ScheduleError",
    "SequenceDropout",
    "SequenceLayerNorm",
    "VocabParallelEmbedding",
    "activation_bytes",
    "checkpoint",
    "collectives",
    "cut_into_stages",
    "divide_block",
    "load_whole_state_dict",
    "make_schedule",
    "recompute",
    "recompute_attention",
    "ring_attention",
    "save_schedule_picture",
    "saved_bytes",
    "schedule_picture",
    "shard_sequence",
    "unshard_sequence",
    "vocab_parallel_cross_entropy",
    "whole_state_dict",
]
