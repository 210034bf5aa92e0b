"""Small arrays on a GPU: sums, differences, products and totals by kernels of our own.

The GPU has done with these before the host has begun the next, so the host's time counts: CuPy takes two to three times
as long to find out what to launch, since it takes arrays of any strides and dtypes. What is not of float32 or float64,
not contiguous or too large goes there.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from qdist.native import kernels

from ..arrays import Array, several_gpus
from .landing import NOWHERE, announce

__all__ = ["pairs", "total"]

_MOST = 1 << 16
"""Numbers of an array from which the GPU's time counts."""
_THREADS, _SUMMING = 256, 512
"""Of a block; of the only one that sums up."""

_CODE = """
#define PAIRS(name, expression) \\
    extern "C" __global__ void name(const Real* left, const Real* right, Real* out, long long size, long long step) { \\
        const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; \\
        if (i >= size) return; \\
        const Real a = left[i * step], b = right[i]; \\
        out[i] = expression; \\
    }
PAIRS(add, a + b)
PAIRS(subtract, a - b)
PAIRS(multiply, a * b)
PAIRS(twice_the_product, (a + a) * b)

// Divided by count. Sums are in double, and have the same order every time. word: on the host, for the result in
// float32 and the ticket.
typedef unsigned long long Word;
extern "C" __global__ void total(
    const Real* numbers, Real* out, long long size, long long count, Word* word, Word ticket
) {
    __shared__ double parts[32];
    double sum = 0;
    for (long long i = threadIdx.x; i < size; i += blockDim.x) sum += numbers[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 1; warp < blockDim.x / 32; ++warp) sum += parts[warp];
    *out = Real(sum / count);
    if (!word) return;
    *(volatile Word*)word = ticket << 32 | __float_as_uint(float(sum / count));
    __threadfence_system();  // Visible to the host at once, not only when the kernel has ended.
}
"""


def pairs(name: str, left: Array, right: Array) -> Array | None:
    """One number for every pair: "add", "subtract", "multiply" or "twice_the_product". left may be one number,
    expanded to the shape of right. None for what CuPy has to do."""
    kind = right.__class__
    if left.__class__ is not kind:
        return None
    shape, dtype, size, step = right.shape, right.dtype, right.size, 1
    if not 0 < size <= _MOST or dtype.char not in "fd" or not right.flags.c_contiguous:
        return None
    if left is not right:
        if left.shape != shape or left.dtype is not dtype:
            return None
        if not left.flags.c_contiguous:
            if any(left.strides):
                return None
            step = 0
    out, stream = kind(shape, dtype), sys.modules["cupy"].cuda.get_current_stream()
    numbers = [left.data.ptr, right.data.ptr, out.data.ptr, size, step]
    _launch(name, dtype.char, -(-size // _THREADS), _THREADS, stream, numbers)
    return out


def total(array: Array, count: int = 1) -> Array | None:
    """The sum of all numbers, divided by a count; a number of no dimensions. None for what CuPy has to do."""
    size, char = array.size, array.dtype.char
    if not 0 < size <= _MOST or char not in "fd" or not array.flags.c_contiguous:
        return None
    out, stream = array.__class__((), array.dtype), sys.modules["cupy"].cuda.get_current_stream()
    landing = announce(out, stream) if char == "f" else NOWHERE
    _launch("total", char, 1, _SUMMING, stream, [array.data.ptr, out.data.ptr, size, count, *landing])
    return out


def _launch(name: str, char: str, blocks: int, threads: int, stream: Any, numbers: list[int]) -> None:
    """numbers: addresses and counts, as the kernel takes them."""
    kernel, function = _kernel(name, char)
    # A function belongs to one GPU. In a thread that has not chosen it yet the driver refuses, and CuPy chooses.
    if several_gpus() or kernels.launch(function, blocks, threads, stream.ptr, numbers):
        kernel((blocks,), (threads,), tuple(numbers))


@cache
def _kernel(name: str, char: str) -> tuple[Any, int]:
    """As CuPy calls it, and as the driver does."""
    found = _module(char).get_function(name)
    return found, found.kernel.ptr


@cache
def _module(char: str) -> Any:
    return sys.modules["cupy"].RawModule(code=_CODE, options=("-DReal=float" if char == "f" else "-DReal=double",))
