"""Kernels from their sources: what they are compiled with, and the compiled ones of this process.

CuPy compiles with NVRTC and keeps what it compiled on disk (CUPY_CACHE_DIR), so that only the first program ever of a
precision waits for the compiler.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from qdist.cuda.tile import FOURS_BYTES, Shape

__all__ = [
    "measure_kernels",
    "measure_source",
    "move_kernels",
    "move_source",
    "stage_kernel",
    "stage_source",
    "sum_kernel",
]

_FOLDER = Path(__file__).parent


def stage_source(dtype: np.dtype, shape: Shape) -> tuple[str, tuple[str, ...]]:
    """The tile kernel's source and the compiler's options. For two states it is that of the adjoint sweep."""
    forward, backward = ("records", "ops", "kernel", "forward"), ("records", "ops", "sums", "kernel", "backward")
    names = forward if shape.states == 1 else backward
    sizes = (f"-DREGISTER_BITS={shape.registers}", f"-DSTATES={shape.states}", f"-DFOURS_BYTES={FOURS_BYTES}")
    return _joined(*names), (*_options(dtype), *sizes, f"--maxrregcount={shape.registers_per_thread}")


def measure_source(dtype: np.dtype) -> tuple[str, tuple[str, ...]]:
    """The source of the kernels that read or collapse a state, and the compiler's options."""
    return _joined("measure", "pauli", "pauli_tiles"), _options(dtype)


def _joined(*names: str) -> str:
    return "\n".join((_FOLDER / f"{name}.cu").read_text() for name in names)


def move_source(dtype: np.dtype) -> tuple[str, tuple[str, ...]]:
    """The source of the kernels that take parts of a shard out and put them back, and the compiler's options."""
    return (_FOLDER / "moves.cu").read_text(), _options(dtype)


def _options(dtype: np.dtype) -> tuple[str, ...]:
    real, turn = ("float", "unsigned") if dtype == np.complex64 else ("double", "unsigned long long")
    return "-std=c++17", f"-DReal={real}", f"-DPair={real}2", f"-DTurn={turn}"


@cache
def stage_kernel(dtype: np.dtype, shape: Shape, device: int) -> Any:
    """The tile kernel for this precision on the current device."""
    kernel = _stage_module(dtype, shape, device).get_function("run_stage")
    kernel.max_dynamic_shared_size_bytes = shape.shared_bytes
    return kernel


@cache
def sum_kernel(dtype: np.dtype, shape: Shape, device: int) -> Any:
    """The kernel that adds up what the blocks of the adjoint sweep have summed, on the current device."""
    return _stage_module(dtype, shape, device).get_function("add_partial")


@cache
def _stage_module(dtype: np.dtype, shape: Shape, device: int) -> Any:
    del device  # A kernel belongs to the device it was loaded on, so each has its own.
    import cupy

    source, options = stage_source(dtype, shape)
    return cupy.RawModule(code=source, options=options, backend="nvrtc")


@cache
def measure_kernels(dtype: np.dtype, device: int) -> Any:
    """The module of kernels that read or collapse a state, on the current device."""
    del device
    import cupy

    source, options = measure_source(dtype)
    return cupy.RawModule(code=source, options=options, backend="nvrtc")


@cache
def move_kernels(dtype: np.dtype, device: int) -> Any:
    """The module of kernels that take parts of a shard out and put them back, on the current device."""
    del device
    import cupy

    source, options = move_source(dtype)
    return cupy.RawModule(code=source, options=options, backend="nvrtc")
