"""VQNet's `distributed`: the controller of the ranks, ZeRO, tensor-parallel layers and the pipeline."""

from . import configs, pp, tensor_parallel
from .controller import (
    CommController,
    get_host_name,
    get_local_rank,
    get_rank,
    init_group,
    split_data,
)
from .pp import PipelineParallelTrainingWrapper
from .tensor_parallel import ColumnParallelLinear, RowParallelLinear
from .zero import ZeroModelInitial

__all__ = [
    "ColumnParallelLinear",
    "CommController",
    "PipelineParallelTrainingWrapper",
    "RowParallelLinear",
    "ZeroModelInitial",
    "configs",
    "get_host_name",
    "get_local_rank",
    "get_rank",
    "init_group",
    "pp",
    "split_data",
    "tensor_parallel",
]
