// Pauli rotations whose flips are a register bit, or the last one beside another (lowering/directions.py).
#pragma once

#include "ops.cuh"
#include "sums.cuh"

// What a rotation is for each of a thread's amplitudes: the cosine, and the factor of the amplitude that it is mixed with, which is
// real if the number of Ys is ODD and imaginary else; and what counts of a product for the derivative.

// One rotation. numbers: the cosine, then the real and the imaginary part of the factor. signs: a bit for each amplitude, whether
// its factor has the opposite sign.
struct OneString {
    const Real* numbers;
    unsigned signs;

    template <bool ODD>
    __device__ __forceinline__ Complex factor(int k) const { return {numbers[0], signed_by(signs, k, numbers[ODD ? 1 : 2])}; }
    __device__ __forceinline__ Real counted(int k, Real product) const { return signed_by(signs, k, product); }
};

// Several with the same flips. table: for each pattern the same numbers, and what the angle changes by. patterns: of each
// amplitude, in bytes of the table (lowering/patterns.py).
struct Strings {
    const Four* table;
    unsigned patterns[N];

    template <bool ODD>
    __device__ __forceinline__ Complex factor(int k) const { return {of(k).a, ODD ? of(k).b : of(k).c}; }
    __device__ __forceinline__ Real counted(int k, Real product) const { return of(k).d * product; }
    __device__ __forceinline__ const Four& of(int k) const { return *reinterpret_cast<const Four*>(reinterpret_cast<const unsigned char*>(table) + patterns[k]); }
};

// FLIP: what is flipped, as a mask of register bits. Without flips each amplitude gets a phase.
template <int FLIP, bool ODD, class Rotation>
__device__ __forceinline__ void turn_pairs(States& states, const Rotation& rotation) {
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (FLIP == 0 || k < (k ^ FLIP)) {
            const Complex factor = rotation.template factor<ODD>(k);
#pragma unroll
            for (Complex* a : states) {
                Complex &p = a[k], &q = a[k ^ FLIP];
                if constexpr (FLIP == 0)
                    multiply(factor, p);
                else if constexpr (ODD)
                    mix({factor.x, factor.y, -factor.y, factor.x}, p, q);
                else
                    mix_imag({factor.x, -factor.y, factor.y, factor.x}, p, q);
            }
        }
}

#if STATES == 2
// conj(bra) ket: the real part if ODD, else the imaginary one.
template <bool ODD>
__device__ __forceinline__ Real overlap_of(Complex bra, Complex ket) { return ODD ? fma(bra.x, ket.x, bra.y * ket.y) : fma(bra.x, ket.y, -bra.y * ket.x); }

// The sum over amplitudes of conj(bra) ket, the ket's flipped, with what the rotation counts. The two of a pair have opposite signs
// if ODD.
template <int FLIP, bool ODD, class Rotation>
__device__ __forceinline__ Real overlap(const States& a, const Rotation& rotation) {
    Real total[2] = {};
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (FLIP == 0 || k < (k ^ FLIP)) {
            Real product = overlap_of<ODD>(a[1][k], a[0][k ^ FLIP]);
            if constexpr (FLIP != 0) {
                const Real other = overlap_of<ODD>(a[1][k ^ FLIP], a[0][k]);
                product = ODD ? product - other : product + other;
            }
            total[k & 1] += rotation.counted(k, product);
        }
    return total[0] + total[1];
}
#endif

// sum: the number of the sum for the angle's derivative, and 1; 0 if none is wanted. only: nothing but the sum.
template <int FLIP, bool ODD, class Rotation>
__device__ __forceinline__ void turn_by(States& a, const Rotation& rotation, int sum, bool only, double* sums) {
#if STATES == 2
    if (sum) {
        Real own[1] = {overlap<FLIP, ODD>(a, rotation)};
        add_warp_sums<1>(own, sums + (sum - 1));
    }
    if (only) return;
#endif
    turn_pairs<FLIP, ODD>(a, rotation);
}

// The flip that has a number: none, one register bit, or one beside the last.
__device__ constexpr int flip_of(int number) { return number == 0 ? 0 : number <= R ? 1 << (number - 1) : number < 2 * R && SIDE > 1 ? 1 << (number - R - 1) | 1 << (R - 1) : N; }

template <int NUMBER, class Rotation>
__device__ __forceinline__ void turn_either(States& a, bool odd, const Rotation& rotation, int sum, bool only, double* sums) {
    if constexpr (flip_of(NUMBER) < N) {
        if (odd && NUMBER)
            turn_by<flip_of(NUMBER), true>(a, rotation, sum, only, sums);
        else
            turn_by<flip_of(NUMBER), false>(a, rotation, sum, only, sums);
    }
}

template <class Rotation>
__device__ __forceinline__ void turn_all(States& a, int what, const Rotation& rotation, bool only, double* sums) {
    const bool odd = what & 1;
    const int sum = what >> 8;
    switch (what >> 1 & 127) {
        case 0: turn_either<0>(a, odd, rotation, sum, only, sums); break;
        case 1: turn_either<1>(a, odd, rotation, sum, only, sums); break;
        case 2: turn_either<2>(a, odd, rotation, sum, only, sums); break;
        case 3: turn_either<3>(a, odd, rotation, sum, only, sums); break;
        case 4: turn_either<4>(a, odd, rotation, sum, only, sums); break;
        case 5: turn_either<5>(a, odd, rotation, sum, only, sums); break;
        case 6: turn_either<6>(a, odd, rotation, sum, only, sums); break;
        case 7: turn_either<7>(a, odd, rotation, sum, only, sums); break;
        case 8: turn_either<8>(a, odd, rotation, sum, only, sums); break;
        case 9: turn_either<9>(a, odd, rotation, sum, only, sums); break;
    }
}

__device__ __forceinline__ void turned(States& a, const Op& op, const Real* numbers, Index where, double* sums) {
    const unsigned odd_here = __popc(threadIdx.x & op.threads) + __popcll(where & op.far_mask) & 1;
    turn_all(a, int(op.far_value), OneString{numbers, odd_here ? ~op.word : op.word}, false, sums);
}

// list: the pattern of the first amplitude of thread 0, the number of parities, and of each its masks of the thread's number and of
// far bits.
__device__ __forceinline__ void patterned(States& a, const Op& op, const Four* table, Table<int> list, Index where, double* sums) {
    unsigned first = list[0], column[R];
    const int parities = list[1];
#pragma unroll 1
    for (int j = 0; j < parities; ++j) {
        list = list + (j ? 3 : 2);
        first ^= (__popc(threadIdx.x & list[0]) + __popcll(where & joined(list + 1)) & 1) << j;
    }
#pragma unroll
    for (int b = 0; b < R; ++b) column[b] = (op.word >> COLUMN_BITS * b & ((1 << COLUMN_BITS) - 1)) * unsigned(sizeof(Four));
    Strings strings = {table};
    span<unsigned>(first * unsigned(sizeof(Four)), column, strings.patterns);
    turn_all(a, int(op.far_value), strings, op.kind != PATTERNED, sums);
}
