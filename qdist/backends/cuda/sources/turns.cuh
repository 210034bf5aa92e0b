// Pauli rotations whose flips are a register bit, or the last one beside another (lowering/directions.py).
#pragma once

#include "ops.cuh"
#include "sums.cuh"

// x with the opposite sign if bit k of `signs` is set.
__device__ __forceinline__ float signed_by(unsigned signs, int k, float x) { return __uint_as_float(__float_as_uint(x) ^ (signs << (31 - k) & 0x80000000)); }
__device__ __forceinline__ double signed_by(unsigned signs, int k, double x) { return __hiloint2double(__double2hiint(x) ^ (signs << (31 - k) & 0x80000000), __double2loint(x)); }

// FLIP: what is flipped, as a mask of register bits. ODD: whether the number of Ys is odd, so that the factor of the other amplitude
// is real; else it is imaginary. signs: a bit for each of the thread's amplitudes, whether that factor has the opposite sign.
template <int FLIP, bool ODD>
__device__ __forceinline__ void turn_pairs(States& states, Real cosine, Real sine, unsigned signs) {
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (k < (k ^ FLIP)) {
            const Real s = signed_by(signs, k, sine);
#pragma unroll
            for (Complex* a : states) {
                Complex &p = a[k], &q = a[k ^ FLIP];
                if constexpr (ODD)
                    mix({cosine, s, -s, cosine}, p, q);
                else
                    mix_imag({cosine, -s, s, cosine}, p, q);
            }
        }
}

// The same of Z alone: each amplitude gets a phase.
__device__ __forceinline__ void turn_alone(States& states, Real cosine, Real sine, unsigned signs) {
#pragma unroll
    for (int k = 0; k < N; ++k)
#pragma unroll
        for (Complex* a : states) multiply({cosine, signed_by(signs, k, sine)}, a[k]);
}

#if STATES == 2
// The sum over amplitudes of sign conj(bra) ket, the ket's flipped: its real part if ODD, else the imaginary one.
template <int FLIP, bool ODD>
__device__ __forceinline__ Real overlap_of(const States& a, unsigned signs) {
    Real total[2] = {};
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const Complex bra = a[1][k], ket = a[0][k ^ FLIP];
        total[k & 1] += signed_by(signs, k, ODD ? fma(bra.x, ket.x, bra.y * ket.y) : fma(bra.x, ket.y, -bra.y * ket.x));
    }
    return total[0] + total[1];
}
#endif

// sum: the number of the sum for the angle's derivative, and 1; 0 if none is wanted.
template <int FLIP, bool ODD>
__device__ __forceinline__ void turn_by(States& a, const Real* numbers, unsigned signs, int sum, double* sums) {
    if constexpr (FLIP < N) {
#if STATES == 2
        if (sum) {
            Real own[1] = {overlap_of<FLIP, ODD>(a, signs)};
            add_warp_sums<1>(own, sums + (sum - 1));
        }
#endif
        // numbers: the cosine, then the real and the imaginary part of the factor.
        if constexpr (FLIP == 0)
            turn_alone(a, numbers[0], numbers[2], signs);
        else
            turn_pairs<FLIP, ODD>(a, numbers[0], numbers[ODD ? 1 : 2], signs);
    }
}

// The flip that has a number: none, one register bit, or one beside the last.
__device__ constexpr int flip_of(int number) { return number == 0 ? 0 : number <= R ? 1 << (number - 1) : number < 2 * R && SIDE > 1 ? 1 << (number - R - 1) | 1 << (R - 1) : N; }

template <int NUMBER>
__device__ __forceinline__ void turn_either(States& a, bool odd, const Real* numbers, unsigned signs, int sum, double* sums) {
    if constexpr (flip_of(NUMBER) < N) {
        if (odd && NUMBER)
            turn_by<flip_of(NUMBER), true>(a, numbers, signs, sum, sums);
        else
            turn_by<flip_of(NUMBER), false>(a, numbers, signs, sum, sums);
    }
}

__device__ __forceinline__ void turned(States& a, const Op& op, const Real* numbers, Index where, double* sums) {
    const unsigned odd_here = __popc(threadIdx.x & op.threads) + __popcll(where & op.far_mask) & 1;
    const unsigned signs = odd_here ? ~op.word : op.word;
    const int what = int(op.far_value), sum = what >> 8;
    const bool odd = what & 1;
    switch (what >> 1 & 127) {
        case 0: turn_either<0>(a, odd, numbers, signs, sum, sums); break;
        case 1: turn_either<1>(a, odd, numbers, signs, sum, sums); break;
        case 2: turn_either<2>(a, odd, numbers, signs, sum, sums); break;
        case 3: turn_either<3>(a, odd, numbers, signs, sum, sums); break;
        case 4: turn_either<4>(a, odd, numbers, signs, sum, sums); break;
        case 5: turn_either<5>(a, odd, numbers, signs, sum, sums); break;
        case 6: turn_either<6>(a, odd, numbers, signs, sum, sums); break;
        case 7: turn_either<7>(a, odd, numbers, signs, sum, sums); break;
        case 8: turn_either<8>(a, odd, numbers, signs, sum, sums); break;
        case 9: turn_either<9>(a, odd, numbers, signs, sum, sums); break;
    }
}
