"""cuStateVec, through cuquantum-python, where it is installed: products with wide matrices.

Samples are not drawn by it: those of a seed are the same on every device, number of ranks and layout, and its own are
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np

__all__ = ["apply_matrix", "is_installed"]


# A handle has one stream and one workspace at a time: threads take turns.
_lock = Lock()


@cache
def is_installed() -> bool:
    """Whether cuquantum-python is there. Imports nothing."""
    return find_spec("cuquantum") is not None and find_spec("cuquantum.bindings") is not None


def apply_matrix(
    shard: Any, num_bits: int, matrix: Any, targets: Sequence[int], controls: Sequence[tuple[int, int]]
) -> None:
    """Multiplies a shard of 2**num_bits amplitudes, in place, with a matrix on some of its bits.

    shard, matrix: CuPy arrays of one dtype, the matrix square and row by row, targets[0] the lowest bit of its index.
    controls: (bit, value it must have).
    """
    import cupy
    from cuquantum import ComputeType, cudaDataType
    from cuquantum.bindings import custatevec as cusv

    single = shard.dtype == np.complex64
    data_type = cudaDataType.CUDA_C_32F if single else cudaDataType.CUDA_C_64F
    compute_type = ComputeType.COMPUTE_32F if single else ComputeType.COMPUTE_64F
    bits, values = [bit for bit, _ in controls], [value for _, value in controls]
    with _lock, shard.device:
        handle = _handle(shard.device.id)
        cusv.set_stream(handle, cupy.cuda.get_current_stream().ptr)
        about = (matrix.data.ptr, data_type, cusv.MatrixLayout.ROW, 0)
        needed = cusv.apply_matrix_get_workspace_size(
            handle, data_type, num_bits, *about, len(targets), len(bits), compute_type
        )
        workspace = cupy.cuda.alloc(needed) if needed else None
        cusv.apply_matrix(
            handle,
            shard.data.ptr,
            data_type,
            num_bits,
            *about,
            list(targets),
            len(targets),
            bits,
            values,
            len(bits),
            compute_type,
            workspace.ptr if workspace is not None else 0,
            needed,
        )


@cache
def _handle(device: int) -> int:
    """cuStateVec's handle for the current device; it lives as long as the process."""
    del device
    from cuquantum.bindings import custatevec as cusv

    return cusv.create()
