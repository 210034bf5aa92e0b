// The norm of a tile, which no operation of a stage of gates changes: each is unitary on every tile by itself.
//
// In single precision the rounding errors of many operations change it, and they do not always cancel
// (native/src/tile_norm.hpp). For long stages the kernels are compiled with KEEP_NORM: a tile's norm is measured when it is in
// registers for the first time, and the tile is multiplied back to it after every PHASES_A_NORM phases and at the end.
#pragma once

#include "tile.cuh"

#if KEEP_NORM
constexpr int PHASES_A_NORM = 32;

class KeptNorm {
public:
    // Shared memory for 2 STATES doubles a warp: the norms to keep, then those of now.
    __device__ __forceinline__ explicit KeptNorm(double* of_warps) : of_warps_(of_warps) {}

    __device__ __forceinline__ void note(const States& states) const { measure(states, of_warps_); }

    // All threads of the block call it.
    __device__ __forceinline__ void restore(States& states) const {
        measure(states, of_warps_ + STATES * warps());
        __syncthreads();
        float changes[STATES];
#pragma unroll
        for (int s = 0; s < STATES; ++s) {
            const double *kept = of_warps_ + s * warps(), *now = kept + STATES * warps();
            double before = 0, after = 0;
#pragma unroll 1
            for (int w = 0; w < warps(); ++w) {
                before += kept[w];
                after += now[w];
            }
            // Squares of smaller amplitudes are lost in single precision; less of a change rounds to nothing, and more does not
            // come from rounding errors.
            const double change = before > 1e-25 ? sqrt(before / after) - 1 : 0;
            changes[s] = fabs(change) > 0x1p-26 && fabs(change) < 0x1p-8 ? float(change) : 0.0f;
        }
        // Barrier: all threads have read the norms, so that those of the next tile may be written.
        __syncthreads();
#pragma unroll
        for (int s = 0; s < STATES; ++s)
#pragma unroll
            for (int k = 0; k < N; ++k) {
                Complex& a = states[s][k];
                a = {fmaf(changes[s], a.x, a.x), fmaf(changes[s], a.y, a.y)};
            }
    }

private:
    double* of_warps_;

    __device__ __forceinline__ static int warps() { return (blockDim.x + 31) / 32; }

    __device__ __forceinline__ static void measure(const States& states, double* of_warps) {
        // A block may be less than a warp.
        const unsigned lanes = blockDim.x < 32 ? blockDim.x : 32, active = lanes < 32 ? (1u << lanes) - 1 : ~0u;
#pragma unroll
        for (int s = 0; s < STATES; ++s) {
            double sum = 0;
#pragma unroll
            for (int k = 0; k < N; ++k) sum += states[s][k].x * states[s][k].x + states[s][k].y * states[s][k].y;
            for (unsigned step = lanes / 2; step > 0; step /= 2) sum += __shfl_down_sync(active, sum, step);
            if (threadIdx.x % 32 == 0) of_warps[s * warps() + threadIdx.x / 32] = sum;
        }
    }
};
#endif
