"""Classical parallelism: each module a small file, a client of the communicator and the tensor core."""

from . import auto, collectives
from .activation_memory import activation_bytes, saved_bytes
from .clip import clip_grad_norm_, grad_norm
from .context import RingAttention, ring_attention, shard_sequence, unshard_sequence
from .data import DataParallel, average_gradients, check_replicas
from .local import on_local_devices, share_rows
from .loss_scale import LossScale
from .parallelize import ParallelModel, parallelize
from .partition import Partition, load_whole_state_dict, whole_state_dict
from .pipeline import Pipeline
from .pipeline_config import PipelineTraining
from .pipeline_picture import save_schedule_picture, schedule_picture
from .plan import Plan
from .recompute import checkpoint, recompute, recompute_attention
from .schedules import Action, Schedule, ScheduleError, make_schedule
from .seeds import mesh_generator, seed_mesh
from .sequence import SequenceDropout, SequenceLayerNorm
from .stages import cut_into_stages
from .tensor import ColumnParallelLinear, ParallelMLP, RowParallelLinear
from .transformer import ParallelAttention, ParallelTransformerBlock, divide_block
from .vocabulary import VocabParallelEmbedding, vocab_parallel_cross_entropy
from .zero import Zero

__all__ = [
    "Action",
    "ColumnParallelLinear",
    "DataParallel",
    "LossScale",
    "ParallelAttention",
    "ParallelMLP",
    "ParallelModel",
    "ParallelTransformerBlock",
    "Partition",
    "Pipeline",
    "PipelineTraining",
    "Plan",
    "RingAttention",
    "RowParallelLinear",
    "Schedule",
    "ScheduleError",
    "SequenceDropout",
    "SequenceLayerNorm",
    "VocabParallelEmbedding",
    "Zero",
    "activation_bytes",
    "auto",
    "average_gradients",
    "check_replicas",
    "checkpoint",
    "clip_grad_norm_",
    "collectives",
    "cut_into_stages",
    "divide_block",
    "grad_norm",
    "load_whole_state_dict",
    "make_schedule",
    "mesh_generator",
    "on_local_devices",
    "parallelize",
    "recompute",
    "recompute_attention",
    "ring_attention",
    "save_schedule_picture",
    "saved_bytes",
    "schedule_picture",
    "seed_mesh",
    "shard_sequence",
    "share_rows",
    "unshard_sequence",
    "vocab_parallel_cross_entropy",
    "whole_state_dict",
]
