// Real rotations as shears: (c, -s; s, c) = (1, -u; 0, 1) (1, 0; s, 1) (1, -u; 0, 1) with u = s / (1 + c), the tangent of half the
// angle: three multiplications with an addition in place where the matrix takes four, and fewer roundings. As |u| <= 1
// only where c >= 0, beyond that it is -1 times a rotation by less than a right angle.
#pragma once

#include "ops.cuh"

// Finds rotations among the real matrices of REAL1 in a block's own tables: for a rotation u and s take the place of
// (a, b; c, d), and bit 8 + b of the operation's word tells of register bit b. Two factors -1 cancel; where one is left, a
// matrix that has it stays as it is. So does one that is not unitary, of which bit 16 + b tells: it may be a multiple of a rotation.
__device__ __forceinline__ void find_shears(Op* ops, int num_ops, Real* numbers) {
#pragma unroll 1
    for (int o = threadIdx.x; o < num_ops; o += blockDim.x) {
        if (ops[o].kind != REAL1) continue;
        Four* const matrices = reinterpret_cast<Four*>(numbers + ops[o].data);
        unsigned found = 0, negative = 0;
#pragma unroll 1
        for (int b = 0; b < R; ++b) {
            if (!(ops[o].word >> b & 1) || ops[o].word >> (16 + b) & 1) continue;
            const Four m = matrices[b];
            if (m.a != m.d || m.b != -m.c) continue;
            found |= 1 << b;
            if (m.a < 0) negative |= 1 << b;
        }
        if (__popc(negative) & 1) found &= ~(negative & -negative);
#pragma unroll 1
        for (int b = 0; b < R; ++b) {
            if (!(found >> b & 1)) continue;
            const double c = fabs(double(matrices[b].a)), s = negative >> b & 1 ? -matrices[b].c : matrices[b].c;
            matrices[b].a = Real(s / (1 + c));
            matrices[b].b = Real(s);
        }
        ops[o].word |= found << 8;
    }
}

// p -= t q
__device__ __forceinline__ void shear(Real t, Complex& p, Complex q) { p = {fma(-t, q.x, p.x), fma(-t, q.y, p.y)}; }

// Calls change(p, q) for all amplitudes that differ in register bit B.
template <int B, class Change>
__device__ __forceinline__ void on_pairs(States& states, const Change& change) {
#pragma unroll
    for (Complex* a : states)
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (!(k >> B & 1)) change(a[k], a[k | 1 << B]);
}

// Matrix number B: those that are rotations as shears, others by `mix`, or imaginary ones by `mix_imag`.
template <int B, bool Imag>
__device__ __forceinline__ void real1(States& states, bool is_rotation, const Four* matrices) {
    const Four m = matrices[B];
    if constexpr (Imag) {
        on_pairs<B>(states, [&](Complex& p, Complex& q) { mix_imag(m, p, q); });
    } else if (is_rotation) {
        on_pairs<B>(states, [&](Complex& p, Complex& q) {
            shear(m.a, p, q);
            shear(-m.b, q, p);
            shear(m.a, p, q);
        });
    } else {
        on_pairs<B>(states, [&](Complex& p, Complex& q) { mix(m, p, q); });
    }
}

// On the register bits in `word`, those in its second byte rotations.
template <bool Imag>
__device__ __forceinline__ void real1_each(States& states, unsigned word, const Four* matrices) {
    if (word & 1) real1<0, Imag>(states, word & 1 << 8, matrices);
    if (word & 2) real1<1, Imag>(states, word & 2 << 8, matrices);
    if (word & 4) real1<2, Imag>(states, word & 4 << 8, matrices);
    if (R > 3 && word & 8) real1<FOURTH, Imag>(states, word & 8 << 8, matrices);
    if (R > 4 && word & 16) real1<R - 1, Imag>(states, word & 16 << 8, matrices);
}
