"""Classical parallelism, a folder a kind: clients of the communicator and the tensor core."""

import importlib
from typing import TYPE_CHECKING, Any

from qdist.parallel import collectives
from qdist.parallel.activation_memory import activation_bytes, saved_bytes
from qdist.parallel.gradient_norm import clip_grad_norm_, grad_norm
from qdist.parallel.loss_scale import LossScale
from qdist.parallel.mesh import (
    ParallelModel,
    Plan,
    Saved,
    forecast_memory,
    load_plain,
    mesh_generator,
    parallelize,
    seed_mesh,
)
from qdist.parallel.partition import Partition, load_whole_state_dict, whole_state_dict
from qdist.parallel.pipeline import (
    Action,
    LayerDesc,
    Pipeline,
    PipelineTraining,
    Schedule,
    ScheduleError,
    SharedLayerDesc,
    cut_into_stages,
    make_schedule,
    save_schedule_picture,
    schedule_picture,
)
from qdist.parallel.recompute import checkpoint, recompute, recompute_attention
from qdist.parallel.replica import (
    DataParallel,
    SyncBatchNorm,
    average_gradients,
    check_replicas,
    on_local_devices,
    share_rows,
)
from qdist.parallel.sequence import (
    RingAttention,
    SequenceDropout,
    SequenceLayerNorm,
    ring_attention,
    shard_sequence,
    unshard_sequence,
)
from qdist.parallel.tensor import (
    ColumnParallelDropout,
    ColumnParallelLinear,
    ParallelAttention,
    ParallelMLP,
    ParallelTransformerBlock,
    RowParallelLinear,
    VocabParallelCrossEntropyLoss,
    VocabParallelEmbedding,
    divide_block,
    vocab_parallel_cross_entropy,
)
from qdist.parallel.zero import Zero

if TYPE_CHECKING:
    from qdist.parallel import auto

__all__ = [
    "Action",
    "ColumnParallelDropout",
    "ColumnParallelLinear",
    "DataParallel",
    "LayerDesc",
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
    "Saved",
    "Schedule",
    "ScheduleError",
    "SequenceDropout",
    "SequenceLayerNorm",
    "SharedLayerDesc",
    "SyncBatchNorm",
    "VocabParallelCrossEntropyLoss",
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
    "forecast_memory",
    "grad_norm",
    "load_plain",
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


def __getattr__(name: str) -> Any:
    # Who divides a model by hand does not import the search for its placements: a seventh of the time.
    if name != "auto":
        raise AttributeError(f"module 'qdist.parallel' has no attribute {name!r}")
    return importlib.import_module("qdist.parallel.auto")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
