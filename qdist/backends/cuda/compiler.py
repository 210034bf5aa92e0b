"""Kernels from their sources: what they are compiled with, and the compiled ones of this process.

CuPy compiles with NVRTC and keeps what it compiled on disk (CUPY_CACHE_DIR), so that only the first program ever of a
precision waits for the compiler, and the first that needs one of the rarer operations.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from qdist.backends.cuda.lowering.records import HEADER, header
from qdist.backends.cuda.lowering.tile import Shape

__all__ = ["MODULES", "expanded", "kernel", "source", "stage_kernel", "stage_source", "sum_kernel"]

MODULES = ("measure", "pauli", "pauli_tiles", "moves", "rows")
"""Sources that are compiled beside the tile kernel's."""

_FOLDER = Path(__file__).parent / "sources"


def stage_source(stored: np.dtype, shape: Shape, rare: bool, long: bool) -> tuple[str, tuple[str, ...]]:
    """The tile kernel's source and the compiler's options. For two states it is that of the adjoint sweep. stored: of
    the amplitudes in memory. rare: with what few circuits need (tables.py says what that is). long: with norms that are
    kept (norm.cuh)."""
    name = "forward" if shape.states == 1 else "backward"
    defined = {"REGISTER_BITS": shape.registers, "STATES": shape.states, "RARE": int(rare), "KEEP_NORM": int(long)}
    defined["WIDENED"] = int(stored != shape.dtype)
    sizes = (f"-D{name}={value}" for name, value in defined.items())
    return expanded(f"{name}.cu"), (*_options(shape.dtype), *sizes, f"--maxrregcount={shape.registers_per_thread}")


def source(module: str, dtype: np.dtype) -> tuple[str, tuple[str, ...]]:
    """The source of one of the other modules, which are compiled when a kernel of theirs is first asked for, and the
    compiler's options."""
    return expanded(f"{module}.cu"), _options(dtype)


def expanded(name: str) -> str:
    """A source with everything that it includes from its folder, each file once. The compiler's messages name the
    files.

    One text, and no -I: CuPy's cache knows a kernel by its text, and would not notice that an included file changed.
    Raises RuntimeError where records.cuh is not what records.py describes.
    """
    if HEADER.read_text() != header():
        raise RuntimeError(f"{HEADER} is out of date: run python -m {header.__module__}")
    return _expanded(name, set())


def _expanded(name: str, seen: set[str]) -> str:
    seen.add(name)
    lines = [f'#line 1 "{name}"']
    for number, line in enumerate((_FOLDER / name).read_text().splitlines(), 1):
        if include := re.fullmatch(r'#include "(.+)"', line):
            if include[1] not in seen:
                lines.append(_expanded(include[1], seen))
            lines.append(f'#line {number + 1} "{name}"')
        else:
            lines.append("" if line == "#pragma once" else line)
    return "\n".join(lines)


def _options(dtype: np.dtype) -> tuple[str, ...]:
    real, turn = ("float", "unsigned") if dtype == np.complex64 else ("double", "unsigned long long")
    return "-std=c++17", f"-DReal={real}", f"-DPair={real}2", f"-DTurn={turn}"


@cache
def stage_kernel(stored: np.dtype, shape: Shape, device: int, rare: bool, long: bool) -> Any:
    """The tile kernel for amplitudes stored in this dtype, on the current device."""
    function = _stage_module(stored, shape, device, rare, long).get_function("run_stage")
    function.max_dynamic_shared_size_bytes = shape.shared_bytes
    return function


@cache
def sum_kernel(stored: np.dtype, shape: Shape, device: int, rare: bool, long: bool) -> Any:
    """The kernel that adds up what the blocks of the adjoint sweep have summed, on the current device."""
    return _stage_module(stored, shape, device, rare, long).get_function("add_partial")


@cache
def _stage_module(stored: np.dtype, shape: Shape, device: int, rare: bool, long: bool) -> Any:
    del device  # A kernel belongs to the device it was loaded on, so each has its own.
    import cupy

    code, options = stage_source(stored, shape, rare, long)
    return cupy.RawModule(code=code, options=options, backend="nvrtc")


@cache
def kernel(module: str, name: str, dtype: np.dtype, device: int) -> Any:
    """A kernel of one of the other modules, on the current device."""
    return _module(module, dtype, device).get_function(name)


@cache
def _module(module: str, dtype: np.dtype, device: int) -> Any:
    del device
    import cupy

    code, options = source(module, dtype)
    return cupy.RawModule(code=code, options=options, backend="nvrtc")
