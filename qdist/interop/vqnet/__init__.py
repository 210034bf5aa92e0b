"""VQNet's distributed surface over this engine: a program written for pyvqnet runs with its import lines changed.

Names and call forms are pyvqnet's (its documentation, "VQNet's distributed computing module"); where they differ from
this library's, these modules translate and compute nothing themselves:

    pyvqnet                                  here
    pyvqnet.distributed                      qdist.interop.vqnet.distributed
    pyvqnet.distributed.qubits_reorder       qdist.interop.vqnet.qubits_reorder
    pyvqnet.qnn.vqc                          qdist.interop.vqnet.vqc
    pyvqnet.data, nn, optim, tensor, utils   the same below qdist.interop.vqnet

Circuits run on the CPU, so `.toGPU(...)` is left out. Whole programs are circuits/vqnet_example.py (a circuit over
ranks), vqnet_zero.py, vqnet_tensor_parallel.py and vqnet_pipeline.py.
"""

from . import data, distributed, nn, optim, qubits_reorder, tensor, utils, vqc
from .devices import DEV_CPU, DEV_GPU_0
from .distributed import (
    CommController,
    get_host_name,
    get_local_rank,
    get_rank,
    init_group,
    split_data,
)
from .dtypes import (
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
)
from .qubits_reorder import DistQuantumLayerAdjoint, DistributeQMachine
from .tensor import QTensor
from .vqc import MeasureAll

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
    "qubits_reorder",
    "split_data",
    "tensor",
    "utils",
    "vqc",
]
