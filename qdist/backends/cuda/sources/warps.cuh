// Sums over the lanes of a warp, by shuffles.
#pragma once

#include "types.cuh"

constexpr unsigned ALL = 0xffffffff;

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

// The sums over a warp of COUNT numbers, a power of two, which are overwritten; a lane gets that of number lane % COUNT.
template <int COUNT>
__device__ __forceinline__ Real warp_sums(Real* v) {
    const unsigned lane = threadIdx.x & 31;
#pragma unroll
    for (int half = COUNT / 2; half > 0; half /= 2) {
        const bool upper = lane & half;
#pragma unroll
        for (int j = 0; j < half; ++j) {
            const Real given = upper ? v[j] : v[j + half], kept = upper ? v[j + half] : v[j];
            v[j] = kept + __shfl_xor_sync(ALL, given, half);
        }
    }
#pragma unroll
    for (int step = COUNT; step < 32; step *= 2) v[0] += __shfl_xor_sync(ALL, v[0], step);
    return v[0];
}
