// What the kernels that read or collapse a state on a GPU share: the siblings of those in native/src, with the same results.
//
// A shard has 2^bits amplitudes, and `first` is the index of its first one, by bit position, in the whole state. Sums are
// accumulated in double, by a fixed number of blocks in a fixed order, so that they are the same from run to run.
//
// Blocks have 256 threads.
#pragma once

#include "types.cuh"

constexpr int THREADS = 256;

__device__ __forceinline__ double squared(Complex a) { return double(a.x) * a.x + double(a.y) * a.y; }

// Bit j of the result is where bit j of i goes: to positions[j].
__device__ __forceinline__ Index moved(Index i, const int* positions, int bits) {
    Index result = 0;
    for (int j = 0; j < bits; ++j) result |= (i >> j & 1) << positions[j];
    return result;
}

// The sum of the values of all threads of a block, in thread 0.
__device__ double block_sum(double value) {
    __shared__ double warps[THREADS / 32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffff, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += warps[w];
    return sum;
}

__device__ __forceinline__ Index first_index() { return Index(blockIdx.x) * THREADS + threadIdx.x; }
__device__ __forceinline__ Index stride() { return Index(gridDim.x) * THREADS; }
