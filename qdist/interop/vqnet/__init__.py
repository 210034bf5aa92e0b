"""VQNet's distributed surface over this engine: a program written for pyvqnet runs with its import lines changed.

Names and call forms are pyvqnet's (its documentation, "VQNet's distributed computing module"); where they differ from
this library's, these modules translate and compute nothing themselves:

    pyvqnet                                                     here
    pyvqnet                                                     qdist.interop.vqnet
    pyvqnet.data, distributed, nn, optim, qnn, tensor, utils    the same below it
    vqnetrun                                                    vqnetrun, or qdist run

`.to(device)` and `.toGPU(device)` of tensors, parameters and modules, machines included, take VQNet's numbers; where
there is no such GPU they raise RuntimeError. Whole programs are circuits/vqnet_example.py (a circuit over ranks),
vqnet_zero.py, vqnet_tensor_parallel.py and vqnet_pipeline.py; papers/source_documents.md lists every name.
"""

from . import data, distributed, nn, optim, qnn, tensor, utils
from .devices import DEV_CPU, DEV_GPU_0
from .distributed import (
    CommController,
    get_host_name,
    get_local_rank,
    get_rank,
    init_group,
    split_data,
)
from .distributed.qubits_reorder import DistQuantumLayerAdjoint, DistributeQMachine
from .dtypes import (
    get_default_dtype,
    kbool,
    kcomplex64,
    kcomplex128,
    kfloat32,
    kfloat64,
    kint8,
    kint16,
    kint32,
    kint64,
    kuint8,
    set_default_dtype,
)
from .qnn.vqc import MeasureAll
from .tensor import QTensor

__all__ = [
    "DEV_CPU",
    "DEV_GPU_0",
    "CommController",
    "DistQuantumLayerAdjoint",
    "DistributeQMachine",
    "MeasureAll",
    "QTensor",
    "data",
    "distributed",
    "get_default_dtype",
    "get_host_name",
    "get_local_rank",
    "get_rank",
    "init_group",
    "kbool",
    "kcomplex64",
    "kcomplex128",
    "kfloat32",
    "kfloat64",
    "kint8",
    "kint16",
    "kint32",
    "kint64",
    "kuint8",
    "nn",
    "optim",
    "qnn",
    "set_default_dtype",
    "split_data",
    "tensor",
    "utils",
]
