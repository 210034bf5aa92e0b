"""A GPU as a backend: CuPy's arrays, and kernels that are compiled at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.backend import Backend
from qdist.backends.cuda import kernels
from qdist.backends.cuda.executor import CudaExecutor
from qdist.backends.cuda.measuring import set_first
from qdist.backends.cuda.pauli import PauliPlan
from qdist.backends.cuda.rows import CudaRows
from qdist.backends.cuda.target import CudaTarget, cuda_target
from qdist.circuit import AffineMap
from qdist.comm import Communicator
from qdist.comm.gpu_windows import share_gpus
from qdist.plan.observables.strings import Strings
from qdist.plan.plan import Plan, Segment
from qdist.plan.rows import RowRecords

__all__ = ["CudaBackend"]

_LARGEST_BUFFERS = 1 << 28
"""Bytes that exchanges take at most on a GPU: four pieces and a window (comm/gpu_windows.py)."""

_NCCL_BUFFERS = 1 << 30
"""Bytes set aside for what NCCL takes when ranks first meet. By its documentation a channel to a peer has a buffer of
4 MiB (NCCL_BUFFSIZE); this is room for 16 channels, both ways, to 8 peers."""


class CudaBackend(Backend):
    """GPU number ``number``."""

    is_host = False
    pools_memory = True
    largest_piece = 1 << 25
    kernels = kernels

    def __init__(self, number: int) -> None:
        self.number, self.device = number, f"cuda:{number}"

    def tangent_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        # In complex64 phase angles are fixed point of 32 bits, which leaves few of them to a tiny angle.
        return np.result_type(dtype, np.complex128)

    def zeros(self, size: int, dtype: np.dtype[Any]) -> Any:
        import cupy

        with cupy.cuda.Device(self.number):
            return cupy.zeros(size, dtype)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        import cupy

        with cupy.cuda.Device(self.number):
            return cupy.empty(shape, dtype)

    def set_first(self, shard: Any, value: complex) -> None:
        import cupy

        with cupy.cuda.Device(self.number):
            set_first(shard, value)

    def moved(self, array: NDArray[Any]) -> Any:
        import cupy

        with cupy.cuda.Device(self.number):
            return cupy.asarray(array)

    def free_memory(self, comm: Communicator | None = None) -> int:
        """What CuPy's pool holds for nobody counts as free, and ranks on one GPU share what is left of it."""
        import cupy

        with cupy.cuda.Device(self.number):
            left, pooled = int(cupy.cuda.runtime.memGetInfo()[0]), cupy.get_default_memory_pool().free_bytes()
        if comm is None or comm.size == 1:
            return left + pooled
        own = (comm.node, cupy.cuda.runtime.deviceGetPCIBusId(self.number))
        # Everybody has looked before anybody takes.
        places, left_over = zip(*comm.all_gather_object((own, (left, pooled))))
        buffers = _LARGEST_BUFFERS + (_NCCL_BUFFERS if comm.backend == "nccl" else 0)
        return min(free // places.count(place) + in_pool - buffers for place, (free, in_pool) in zip(places, left_over))

    def share(self, comm: Communicator) -> None:
        share_gpus(comm)

    def target(self, dtype: np.dtype[Any]) -> CudaTarget:
        return cuda_target(dtype)

    def lower(self, plan: Plan, segment: Segment, affine: AffineMap) -> CudaExecutor:
        assert isinstance(plan.target, CudaTarget), "planned for another kind of device"
        return CudaExecutor(plan.shard_bits, plan.target, segment.stages, affine, self.number)

    def observable(self, strings: Strings, num_bits: int, dtype: np.dtype[Any], products: bool) -> PauliPlan:
        return PauliPlan(num_bits, *strings)

    def rows(self, records: RowRecords, in_double: bool) -> CudaRows:
        return CudaRows(records, in_double, self.number)
