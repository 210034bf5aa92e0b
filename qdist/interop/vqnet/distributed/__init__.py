"""VQNet's `distributed`: the controller of the ranks, ZeRO, tensor-parallel layers and the pipeline."""

import numpy as np

from .. import tensor
from . import ControlComm, configs, datasplit, pp, qubits_reorder, tensor_parallel
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

# VQNet's programs take `tensor` and `np` from `from pyvqnet.distributed import *`.
__all__ = [
    "ColumnParallelLinear",
    "CommController",
    "ControlComm",
    "PipelineParallelTrainingWrapper",
    "RowParallelLinear",
    "ZeroModelInitial",
    "configs",
    "datasplit",
    "get_host_name",
    "get_local_rank",
    "get_rank",
    "init_group",
    "np",
    "pp",
    "qubits_reorder",
    "split_data",
    "tensor",
    "tensor_parallel",
]
