"""The kernels of this process: loaded from packs that were compiled ahead, or else compiled.

What has to be compiled CuPy compiles with NVRTC and keeps on disk (CUPY_CACHE_DIR), so that only the first program ever
of a precision waits for the compiler, and the first that needs one of the rarer operations.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from qdist.backends.cuda.compiling import packs
from qdist.backends.cuda.compiling.texts import Text, source, stage_source
from qdist.backends.cuda.lowering.tile import Shape

__all__ = ["kernel", "stage_kernel", "sum_kernel"]


@cache
def stage_kernel(stored: np.dtype, shape: Shape, device: int, rare: bool, long: bool, exchanges: bool) -> Any:
    """The tile kernel for amplitudes stored in this dtype, on the current device."""
    function = _stage_module(stored, shape, device, rare, long, exchanges).get_function("run_stage")
    function.max_dynamic_shared_size_bytes = shape.shared_bytes
    return function


@cache
def sum_kernel(stored: np.dtype, shape: Shape, device: int, rare: bool, long: bool) -> Any:
    """The kernel that adds up what the blocks of the adjoint sweep have summed, on the current device."""
    return _stage_module(stored, shape, device, rare, long, False).get_function("add_partial")


@cache
def _stage_module(stored: np.dtype, shape: Shape, device: int, rare: bool, long: bool, exchanges: bool) -> Any:
    return _loaded(stage_source(stored, shape, rare, long, exchanges), device)


@cache
def kernel(module: str, name: str, dtype: np.dtype, device: int) -> Any:
    """A kernel of one of the other modules, on the current device."""
    return _module(module, dtype, device).get_function(name)


@cache
def _module(module: str, dtype: np.dtype, device: int) -> Any:
    return _loaded(source(module, dtype), device)


def _loaded(text: Text, device: int) -> Any:
    """A module on the current device, GPU number ``device``: kernels belong to the device they were loaded on."""
    import cupy

    code, options = text
    compiled = packs.cubin(code, options, int(cupy.cuda.Device(device).compute_capability))
    if compiled is not None:
        try:
            return _Module(compiled)
        except cupy.cuda.driver.CUDADriverError:
            pass  # Machine code of a toolkit that this driver is too old for: it has a compiler of its own.
    return cupy.RawModule(code=code, options=options, backend="nvrtc")


class _Module:
    """Machine code on the current device; what is used here of CuPy's RawModule, which takes files alone."""

    def __init__(self, cubin: bytes) -> None:
        from cupy.cuda.function import Module

        self._module = Module()
        self._module.load(cubin)

    def get_function(self, name: str) -> _Kernel:
        return _Kernel(self._module.get_function(name))


class _Kernel:
    """One function of such a module: what is used here of CuPy's RawKernel."""

    def __init__(self, function: Any) -> None:
        from cupy.cuda import driver

        self._function, self._driver = function, driver

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, shared_mem: int = 0) -> None:
        self._function(grid, block, args, shared_mem)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Shared memory that a launch may ask for; can be set."""
        attribute = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        return int(self._driver.funcGetAttribute(attribute, self._function.ptr))

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes: int) -> None:
        attribute = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._driver.funcSetAttribute(self._function.ptr, attribute, nbytes)
