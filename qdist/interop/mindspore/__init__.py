"""MindSpore's names over this engine: its quick start in distributed training runs with its imports changed.

mindspore                                 here
import mindspore as ms                    from qdist.interop import mindspore as ms
mindspore.nn, ops, dataset, train         the same below qdist.interop.mindspore
mindspore.communication                   qdist.interop.mindspore.communication
mindspore.common.initializer              qdist.interop.mindspore.initializer
"""

from . import communication, dataset, nn, ops, train
from .context import (
    GRAPH_MODE,
    PYNATIVE_MODE,
    ParallelMode,
    get_auto_parallel_context,
    reset_auto_parallel_context,
    set_auto_parallel_context,
    set_context,
)
from .nn import Parameter, Tensor, initializer
from .train import LossMonitor, Model, ModelCheckpoint

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "LossMonitor",
    "Model",
    "ModelCheckpoint",
    "ParallelMode",
    "Parameter",
    "Tensor",
    "communication",
    "dataset",
    "get_auto_parallel_context",
    "initializer",
    "nn",
    "ops",
    "reset_auto_parallel_context",
    "set_auto_parallel_context",
    "set_context",
    "train",
]
