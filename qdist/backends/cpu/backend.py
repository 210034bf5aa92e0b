"""The CPU as a backend."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import memory, reuse
from qdist.backends.backend import Backend
from qdist.backends.cpu.executor import CpuExecutor
from qdist.backends.cpu.observable import CpuObservable
from qdist.backends.cpu.rows import CpuRows
from qdist.circuit import AffineMap
from qdist.comm import Communicator
from qdist.native import kernels
from qdist.plan.observables.strings import Strings
from qdist.plan.plan import Plan, Segment
from qdist.plan.rows import RowRecords
from qdist.plan.stages.cpu_target import cpu_target
from qdist.plan.stages.target import Target

__all__ = ["CpuBackend"]


class CpuBackend(Backend):
    device = "cpu"
    is_host = True
    pools_memory = False
    largest_piece = 1 << 22
    kernels = kernels

    def zeros(self, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return memory.aligned_zeros(size, dtype)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        return reuse.empty(shape, dtype)

    def moved(self, array: NDArray[Any]) -> NDArray[Any]:
        return array

    def free_memory(self, comm: Communicator | None = None) -> int:
        if comm is None or comm.size == 1:
            return memory.free_memory()
        return int(comm.all_reduce(np.array(memory.free_memory() // comm.local_size), "min"))

    def target(self, dtype: np.dtype[Any]) -> Target:
        return cpu_target(dtype)

    def lower(self, plan: Plan, segment: Segment, affine: AffineMap) -> CpuExecutor:
        return CpuExecutor(plan.shard_bits, plan.dtype, segment.stages, affine, plan.in_double)

    def observable(self, strings: Strings, num_bits: int, dtype: np.dtype[Any], products: bool) -> CpuObservable:
        return CpuObservable(strings, num_bits, dtype, products)

    def rows(self, records: RowRecords, in_double: bool) -> CpuRows:
        return CpuRows(records, in_double)
