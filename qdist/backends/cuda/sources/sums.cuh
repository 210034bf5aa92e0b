// What the adjoint sweep sums over a ket's and a bra's tile, so that the derivatives by a block's angles follow.
//
// A warp reduces what its threads have by shuffles, in the program's precision, and adds the result to doubles of its own: no
// contention, and a fixed order of additions. Blocks have whole warps, threads at most 4 register bits.
#pragma once

#include "tile.cuh"
#include "warps.cuh"

#if STATES == 2

static_assert(REGISTER_BITS <= 4, "more register bits than there are sums for");

// No contention; atomicAdd only because it compiles to a fire-and-forget `red`.
__device__ __forceinline__ void add(double* to, Real value) { atomicAdd(to, double(value)); }

// The same, added to the doubles from `sums` on.
template <int COUNT>
__device__ __forceinline__ void add_warp_sums(Real* v, double* sums) {
    const Real sum = warp_sums<COUNT>(v);
    const unsigned lane = threadIdx.x & 31;
    if (lane < COUNT) add(sums + lane, sum);
}

// sum += sign conj(bra) ket
__device__ __forceinline__ void add_product(Complex& sum, Complex bra, Complex ket, Real sign) {
    sum.x = fma(sign, bra.x * ket.x + bra.y * ket.y, sum.x);
    sum.y = fma(sign, bra.x * ket.y - bra.y * ket.x, sum.y);
}

// Im <bra|P|ket> of a Pauli string with num_y Y, each of which is a factor i that `overlap` lacks.
__device__ __forceinline__ void add_overlap(Complex overlap, int num_y, double* sums) {
    Real own[1] = {num_y & 1 ? overlap.x : overlap.y};
    if (num_y & 2) own[0] = -own[0];
    add_warp_sums<1>(own, sums);
}

// The sum of bra1 ket0 - bra0 ket1 for real and imaginary parts: all that a real rotation of register bit B needs. Imag: the same of
// what S^-1 = diag(1, -i) makes of ket and bra, for a turn about X.
template <int B, bool Imag>
__device__ __forceinline__ Real turned(const States& a) {
    // Four accumulators, so that an addition does not wait for the one before it.
    Real sum[4] = {};
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (!(k >> B & 1)) {
            const Complex p = a[0][k], u = a[1][k];
            Complex q = a[0][k | 1 << B], v = a[1][k | 1 << B];
            if (Imag) q = {q.y, -q.x}, v = {v.y, -v.x};
            sum[0] = fma(v.x, p.x, sum[0]);
            sum[1] = fma(v.y, p.y, sum[1]);
            sum[2] = fma(u.x, q.x, sum[2]);
            sum[3] = fma(u.y, q.y, sum[3]);
        }
    return (sum[0] + sum[1]) - (sum[2] + sum[3]);
}

// For the register bits in `bits`; that of bit b goes to sums[b].
template <bool Imag>
__device__ __forceinline__ void add_turns(const States& a, unsigned bits, double* sums) {
    Real own[4] = {};
    if (bits & 1) own[0] = turned<0, Imag>(a);
    if (bits & 2) own[1] = turned<1, Imag>(a);
    if (bits & 4) own[2] = turned<2, Imag>(a);
    if (R > 3 && bits & 8) own[3] = turned<FOURTH, Imag>(a);
    add_warp_sums<4>(own, sums);
}

// Row q of the transition matrix T_qp = sum of ket_q conj(bra_p) on the register bits of `low`, whose settings are those of
// SIZE multiples of it: real and imaginary parts in turn. word: the register mask.
template <int SIZE, int LOW>
__device__ __forceinline__ void add_row(const States& a, int q, unsigned word, double* sums) {
    Real own[2 * SIZE] = {};
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (!(k & (SIZE - 1) * LOW) && word >> k & 1) {
            const Complex ket = a[0][k | q * LOW];
#pragma unroll
            for (int p = 0; p < SIZE; ++p) {
                const Complex bra = a[1][k | p * LOW];
                own[2 * p] = fma(ket.x, bra.x, fma(ket.y, bra.y, own[2 * p]));
                own[2 * p + 1] = fma(ket.y, bra.x, fma(-ket.x, bra.y, own[2 * p + 1]));
            }
        }
    add_warp_sums<2 * SIZE>(own, sums + 2 * SIZE * q);
}

template <int B>
__device__ __forceinline__ void add_transition1(const States& a, unsigned word, double* sums) {
#pragma unroll
    for (int q = 0; q < 2; ++q) add_row<2, 1 << B>(a, q, word, sums);
}

// On register bits 2 P and 2 P + 1.
template <int P>
__device__ __forceinline__ void add_transition2(const States& a, unsigned word, double* sums) {
    if constexpr (2 * P + 1 < R) {
#pragma unroll
        for (int q = 0; q < 4; ++q) add_row<4, 1 << 2 * P>(a, q, word, sums);
    }
}

// What a unitary matrix on the settings FIRST and SECOND of some register bits needs of T, of whose derivatives only the
// anti-Hermitian part counts: Im T_00 and Im T_11, and T_10 - conj(T_01), real and imaginary part.
template <int FIRST, int SECOND>
__device__ __forceinline__ void mixed(const States& a, Real* own) {
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (!(k & (FIRST | SECOND))) {
            const Complex p = a[0][k | FIRST], q = a[0][k | SECOND], u = a[1][k | FIRST], v = a[1][k | SECOND];
            own[0] = fma(p.y, u.x, fma(-p.x, u.y, own[0]));
            own[1] = fma(q.y, v.x, fma(-q.x, v.y, own[1]));
            own[2] = fma(q.x, u.x, fma(q.y, u.y, fma(-p.x, v.x, fma(-p.y, v.y, own[2]))));
            own[3] = fma(q.y, u.x, fma(-q.x, u.y, fma(p.y, v.x, fma(-p.x, v.y, own[3]))));
        }
}

// Number `which` of these alone: products first, so that few additions wait for one another.
template <int FIRST, int SECOND>
__device__ __forceinline__ Real mixed_one(const States& a, int which) {
    Real sum = 0;
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (!(k & (FIRST | SECOND))) {
            const Complex p = a[0][k | FIRST], q = a[0][k | SECOND], u = a[1][k | FIRST], v = a[1][k | SECOND];
            if (which == 0)
                sum += fma(p.y, u.x, -p.x * u.y);
            else if (which == 1)
                sum += fma(q.y, v.x, -q.x * v.y);
            else if (which == 2)
                sum += fma(q.x, u.x, q.y * u.y) - fma(p.x, v.x, p.y * v.y);
            else
                sum += fma(q.y, u.x, -q.x * u.y) + fma(p.y, v.x, -p.x * v.y);
        }
    return sum;
}
template <int FIRST, int SECOND>
__device__ __forceinline__ Real mixed_some(const States& a, unsigned needed) {
    if (needed & 8) return mixed_one<FIRST, SECOND>(a, 3);
    if (needed & 2) return mixed_one<FIRST, SECOND>(a, 1);
    if (needed & 1) return mixed_one<FIRST, SECOND>(a, 0);
    if (needed & 4) return mixed_one<FIRST, SECOND>(a, 2);
    return 0;
}

// Those on register bits I < J that a matrix needs whose derivatives keep parities: of 00 and 11, then of 01 and 10. needed: a bit for
// each of the eight, and TWO_SUMS where at most one of each four is.
struct CoreTransition {
    const States& a;
    unsigned needed;
    double* sums;

    template <int I, int J>
    __device__ __forceinline__ void operator()(Two<I, J>) const {
        if (needed & TWO_SUMS) {
            Real own[2] = {mixed_some<0, 1 << I | 1 << J>(a, needed), mixed_some<1 << I, 1 << J>(a, needed >> 4)};
            add_warp_sums<2>(own, sums);
        } else {
            Real own[8] = {};
            mixed<0, 1 << I | 1 << J>(a, own);
            mixed<1 << I, 1 << J>(a, own + 4);
            add_warp_sums<8>(own, sums);
        }
    }
};

// Whether a thread's number and the far bits have an odd number of ones under a parity's masks.
__device__ __forceinline__ unsigned is_odd(const Parity& parity, unsigned thread, Index where) {
    const Index far = where & parity.far;
    return __popc(thread & parity.threads ^ unsigned(far) ^ unsigned(far >> 32)) & 1;
}

__device__ __forceinline__ void add_parity(const Parity& parity, Real sum, unsigned thread, Index where, double* sums) {
    if (parity.result >= 0) add(sums + parity.result, signed_by(is_odd(parity, thread & ~31, where), 0, sum));
}

// Adds sums with the parities from `first` to `end`, which have the same register bits: v is summed with these on the
// thread's own amplitudes. After the transform lane l has the sum over the warp with the parity of l's bits.
__device__ __forceinline__ void add_parities(Real v, const Parity* parities, int first, int end, unsigned thread, Index where, double* sums) {
    const unsigned lane = thread & 31;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const Real other = __shfl_xor_sync(ALL, v, step);
        v = lane & step ? other - v : v + other;
    }
#pragma unroll 1
    for (; first < end; first += 32) {
        const int t = first + lane;
        const Parity parity = parities[t < end ? t : first];
        const Real sum = __shfl_sync(ALL, v, parity.threads & 31);
        if (t < end) add_parity(parity, sum, thread, where, sums);
    }
}

// The sum of a thread's numbers with the signs of a parity of register bits.
template <int MASK>
__device__ __forceinline__ Real with_signs(const Real* each) {
    Real sum[2] = {};
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const bool odd = (k & MASK & 1) ^ (k & MASK) >> 1 & 1 ^ (k & MASK) >> 2 & 1 ^ (k & MASK) >> 3 & 1;
        sum[k & 1] += odd ? -each[k] : each[k];
    }
    return sum[0] + sum[1];
}
__device__ __forceinline__ Real with_signs(const Real* each, int mask) {
    switch (mask) {
        case 1: return with_signs<1>(each);
        case 2: return with_signs<2>(each);
        case 3: return with_signs<3>(each);
        case 4: return with_signs<4>(each);
        case 5: return with_signs<5>(each);
        case 6: return with_signs<6>(each);
        case 7: return with_signs<7>(each);
        case 8: return with_signs<8>(each);
        case 9: return with_signs<9>(each);
        case 10: return with_signs<10>(each);
        case 11: return with_signs<11>(each);
        case 12: return with_signs<12>(each);
        case 13: return with_signs<13>(each);
        case 14: return with_signs<14>(each);
        case 15: return with_signs<15>(each);
    }
    return with_signs<0>(each);
}

__device__ __forceinline__ float from_bits(Index bits, float) { return __uint_as_float(unsigned(bits)); }
__device__ __forceinline__ double from_bits(Index bits, double) { return __longlong_as_double((long long)bits); }

// Sums over all amplitudes, each with the signs of several parities that have a factor each. A parity has a second record: its
// register bits with GROUP_ENDS and SUM_ENDS, and the bits of its factor.
__device__ __forceinline__ void add_factored(const Real* each, const Parity* parities, int first, int end, unsigned thread, Index where, double* sums) {
    Real total[1] = {0}, factor = 0;
#pragma unroll 1
    for (; first < end; first += 2) {
        const Parity parity = parities[first], more = parities[first + 1];
        factor += signed_by(is_odd(parity, thread, where), 0, from_bits(more.far, Real()));
        if (!(more.threads & GROUP_ENDS)) continue;
        total[0] = fma(factor, with_signs(each, more.threads % 16), total[0]);
        factor = 0;
        if (!(more.threads & SUM_ENDS)) continue;
        add_warp_sums<1>(total, sums + parity.result);
        total[0] = 0;
    }
}

// Sums of w = Re(i conj(bra) ket), which is what a phase of an amplitude changes <bra|ket> by: over amplitudes that meet a
// condition, and over all with the sign of a parity. The list: conditions; the first of four parities, each of one register bit
// alone and of no lanes, or -1; parities without register bits; and parities with factors (add_factored).
__device__ __forceinline__ void weigh(const States& a, int conditions, const int* list, const Parity* parities, unsigned thread, Index where, double* sums) {
    const auto w = [&](int k) { return a[1][k].y * a[0][k].x - a[1][k].x * a[0][k].y; };
#pragma unroll 1
    for (int c = 0; c < conditions; ++c, list += 7) {
        if ((where & joined(list + 2)) != joined(list + 4)) continue;
        const unsigned word = holds(thread, list[0]) ? list[1] : 0;
        Real own[1] = {0};
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (word >> k & 1) own[0] += w(k);
        add_warp_sums<1>(own, sums + list[6]);
    }
    const int single = list[0], first = list[1], end = list[2], first_weighted = list[3], end_weighted = list[4];
    if (single >= 0 || first < end) {
        // Tree reduction: sums over pairs replace the pairs. Those of their first members, where a register bit is 0, are what a
        // sum with the sign of that bit needs beside the sum of all.
        Real sum[N / 2], odd[4] = {};
#pragma unroll
        for (int k = 0; k < N / 2; ++k) {
            const Real zero = w(2 * k);
            const Complex ket = a[0][2 * k + 1], bra = a[1][2 * k + 1];
            odd[0] += zero;
            sum[k] = fma(bra.y, ket.x, fma(-bra.x, ket.y, zero));
        }
#pragma unroll
        for (int b = 1; b < R; ++b)
#pragma unroll
            for (int k = 0; k < N >> (b + 1); ++k) {
                odd[b] += sum[2 * k];
                sum[k] = sum[2 * k] + sum[2 * k + 1];
            }
        if (single >= 0) {
#pragma unroll
            for (int b = 0; b < R; ++b) odd[b] = fma(Real(2), odd[b], -sum[0]);
            const Parity parity = parities[single + (thread & 3)];
            const Real total = warp_sums<4>(odd);
            if ((thread & 31) < 4) add_parity(parity, total, thread, where, sums);
        }
        if (first < end) add_parities(sum[0], parities, first, end, thread, where, sums);
    }
    if (first_weighted < end_weighted) {
        Real each[N];
#pragma unroll
        for (int k = 0; k < N; ++k) each[k] = w(k);
        add_factored(each, parities, first_weighted, end_weighted, thread, where, sums);
    }
}

#endif
