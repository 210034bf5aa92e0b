// What threads do to amplitudes in their registers, and where these are in memory.
#pragma once

#include "tile.cuh"

// In place: an amplitude's own term is added last, so that the result is allocated to the amplitude's register. Otherwise every
// operation would end with a move of every register.
__device__ __forceinline__ Complex times(Complex a, Complex b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }
__device__ __forceinline__ Complex times_plus(Complex a, Complex b, Complex sum) {
    sum.x = fma(-a.y, b.y, sum.x);
    sum.y = fma(a.y, b.x, sum.y);
    return {fma(a.x, b.x, sum.x), fma(a.x, b.y, sum.y)};
}
__device__ __forceinline__ void multiply(Complex factor, Complex& a) {
    const Real u = factor.y * a.y, v = factor.y * a.x;
    a = {fma(factor.x, a.x, -u), fma(factor.x, a.y, v)};
}

// exp(2 pi i turn): the phase angle is a signed fraction in fixed point, so that pi is the end of the range.
__device__ __forceinline__ Complex cis(unsigned turn) {
    float s, c;
    sincospif(float(int(turn)) * 0x1p-31f, &s, &c);
    return {Real(c), Real(s)};
}
__device__ __forceinline__ Complex cis(Index turn) {
    double s, c;
    sincospi(double((long long)turn) * 0x1p-63, &s, &c);
    return {Real(c), Real(s)};
}

__device__ __forceinline__ constexpr int lowest(int k) { return k & 1 ? 0 : k & 2 ? 1 : k & 4 ? 2 : k & 8 ? 3 : 4; }

// Gray code: gray(k) differs from gray(k - 1) in bit lowest(k).
__device__ __forceinline__ constexpr int gray(int k) { return k ^ k >> 1; }

// all[k] = first ^ the columns of k's bits: a linear map over GF(2).
template <class T, int Count = N>
__device__ __forceinline__ void span(T first, const T* columns, T* all) {
    all[0] = first;
#pragma unroll
    for (int k = 1; k < Count; ++k) all[k] = all[k & (k - 1)] ^ columns[lowest(k)];
}

// The addresses, in bytes of shared memory, of a thread's amplitudes.
__device__ __forceinline__ void addresses(unsigned first, Table<int> columns, unsigned* all) {
    unsigned column[R];
#pragma unroll
    for (int b = 0; b < R; ++b) column[b] = unsigned(columns[b]) * PLACE_BYTES;
    span<unsigned>(first * PLACE_BYTES, column, all);
}

extern __shared__ __align__(16) unsigned char memory[];

__device__ __forceinline__ unsigned shared_address(unsigned place) { return unsigned(__cvta_generic_to_shared(memory)) + place; }
__device__ __forceinline__ Complex& shared_at(unsigned address) { return *reinterpret_cast<Complex*>(memory + address); }

// Streaming (evict-first) accesses: a tile is read and written once a stage and should not evict the tables.
__device__ __forceinline__ Complex streamed(const Stored* from) {
    const StoredPair v = __ldcs(reinterpret_cast<const StoredPair*>(from));
    return {v.x, v.y};
}
__device__ __forceinline__ void stream(Stored* to, Complex a) {
    StoredPair v;
    v.x = a.x;
    v.y = a.y;
    __stcs(reinterpret_cast<StoredPair*>(to), v);
}

// Writes the adjacent amplitudes of registers k and k + N / SIDE by one access.
__device__ __forceinline__ void write_streamed(Stored* to, const Complex* a, int k) {
    if constexpr (SIDE == 1) {
        stream(to, a[k]);
    } else {
        const Complex first = a[k], second = a[k + N / SIDE];
        __stcs(reinterpret_cast<float4*>(to), make_float4(first.x, first.y, second.x, second.y));
    }
}

struct __align__(16) Four {
    Real a, b, c, d;
};

// (a, b; c, d).
__device__ __forceinline__ void mix(Four m, Complex& p, Complex& q) {
    const Complex u = {m.c * p.x, m.c * p.y}, v = {m.b * q.x, m.b * q.y};
    p = {fma(m.a, p.x, v.x), fma(m.a, p.y, v.y)};
    q = {fma(m.d, q.x, u.x), fma(m.d, q.y, u.y)};
}

// S (a, b; c, d) S^-1 with S = diag(1, i): a matrix that is imaginary off the diagonal.
__device__ __forceinline__ void mix_imag(Four m, Complex& p, Complex& q) {
    const Complex u = {-m.c * p.y, m.c * p.x}, v = {m.b * q.y, -m.b * q.x};
    p = {fma(m.a, p.x, v.x), fma(m.a, p.y, v.y)};
    q = {fma(m.d, q.x, u.x), fma(m.d, q.y, u.y)};
}

// word: the register mask, a bit for each of the thread's amplitudes: whether it takes part.
template <int B, bool Controlled>
__device__ __forceinline__ void dense1(States& states, const Four* m, unsigned word) {
    const Four top = m[0], bottom = m[1];
    const Complex m00 = {top.a, top.b}, m01 = {top.c, top.d}, m10 = {bottom.a, bottom.b}, m11 = {bottom.c, bottom.d};
#pragma unroll
    for (Complex* a : states)
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (!(k >> B & 1)) {
                if (Controlled && !(word >> k & 1)) continue;
                Complex &p = a[k], &q = a[k | 1 << B];
                const Complex u = times(m10, p), v = times(m01, q);
                p = times_plus(m00, p, v);
                q = times_plus(m11, q, u);
            }
}

// Whether the entries of a 4x4 matrix fit into registers beside a thread's amplitudes.
constexpr bool KEPT = sizeof(Real) == 4;

// A volatile load from shared memory, which the compiler does not hoist.
__device__ __forceinline__ float2 read_anew(const float2* from) { return *from; }
__device__ __forceinline__ double2 read_anew(const double2* from) {
    double2 v;
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(v.x), "=d"(v.y) : "r"(unsigned(__cvta_generic_to_shared(from))));
    return v;
}

// The entries of a 4x4 matrix: in registers where they fit, else loaded from shared memory for each use.
struct Entries {
    Complex kept[KEPT ? 16 : 1];
    const Four* matrix;

    __device__ __forceinline__ explicit Entries(const Four* matrix) : matrix(matrix) {
        if (KEPT)
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const Four two = matrix[j];
                kept[2 * j] = {two.a, two.b};
                kept[2 * j + 1] = {two.c, two.d};
            }
    }
    __device__ __forceinline__ Complex operator()(int row, int column) const {
        if (KEPT) return kept[4 * row + column];
        const Pair v = read_anew(reinterpret_cast<const Pair*>(matrix) + 4 * row + column);
        return {v.x, v.y};
    }
};

// The same where they are kernel arguments: operands in the constant bank, which take no registers.
struct Operands {
    const Complex* entries;

    __device__ __forceinline__ Complex operator()(int row, int column) const { return entries[4 * row + column]; }
};

// The first register bit of pair number P: 0 and 1, 2 and 3, or the last two.
__device__ constexpr int first_of(int P) { return P < 2 ? 2 * P : R - 2; }
__device__ constexpr bool is_pair(int P) { return P < 2 ? 2 * P + 1 < R : SIDE > 1; }

template <int P, bool Controlled, class Matrix>
__device__ __forceinline__ void dense2(States& states, const Matrix& m, unsigned word) {
    if constexpr (is_pair(P)) {
        constexpr int low = 1 << first_of(P);
#pragma unroll
        for (Complex* a : states)
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (!(k & 3 * low)) {
                    if (Controlled && !(word >> k & 1)) continue;
                    Complex others[4];
#pragma unroll
                    for (int p = 0; p < 4; ++p) {
                        others[p] = times(m(p, p ^ 1), a[k | (p ^ 1) * low]);
                        others[p] = times_plus(m(p, p ^ 2), a[k | (p ^ 2) * low], others[p]);
                        others[p] = times_plus(m(p, p ^ 3), a[k | (p ^ 3) * low], others[p]);
                    }
#pragma unroll
                    for (int p = 0; p < 4; ++p) a[k | p * low] = times_plus(m(p, p), a[k | p * low], others[p]);
                }
    }
}

// (1, -t; t, 1): a real rotation without its cosine, which is multiplied into the real matrices (backends/pairs.py).
__device__ __forceinline__ void lean(Real t, Complex& p, Complex& q) {
    const Complex before = p;
    p = {fma(-t, q.x, p.x), fma(-t, q.y, p.y)};
    q = {fma(t, before.x, q.x), fma(t, before.y, q.y)};
}

// 1 + i t: a phase without its cosine, the same.
__device__ __forceinline__ void tilt(Real t, Complex& a) {
    const Real x = a.x;
    a.x = fma(-t, a.y, a.x);
    a.y = fma(t, x, a.y);
}

// A complex matrix on two amplitudes, its rows one after the other.
__device__ __forceinline__ void mix_complex(Four top, Four bottom, Complex& p, Complex& q) {
    const Complex u = times({bottom.a, bottom.b}, p), v = times({top.c, top.d}, q);
    p = times_plus({top.a, top.b}, p, v);
    q = times_plus({bottom.c, bottom.d}, q, u);
}

// A 4x4 matrix that keeps parities, on register bits I < J: one that mixes 00 with 11, and one that mixes 01 with 10.
struct Core {
    States& states;
    const Four* m;

    template <int I, int J>
    __device__ __forceinline__ void operator()(Two<I, J>) const {
        constexpr int low = 1 << I, high = 1 << J;
        const Four even[2] = {m[0], m[1]}, odd[2] = {m[2], m[3]};
#pragma unroll
        for (Complex* a : states)
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (!(k & (low | high))) {
                    mix_complex(even[0], even[1], a[k], a[k | low | high]);
                    mix_complex(odd[0], odd[1], a[k | low], a[k | high]);
                }
    }
};

// One that is turns about XX and YY, then phases (native/src/program/lean_numbers.hpp). In the adjoint sweep it is the transpose of
// what the numbers say: phases, then turns.
struct Lean {
    States& states;
    const Four* m;

    template <int I, int J>
    __device__ __forceinline__ void operator()(Two<I, J>) const {
        constexpr int low = 1 << I, high = 1 << J;
        const Four even = m[0], odd = m[1], tangents = m[2];
#pragma unroll
        for (Complex* a : states)
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (!(k & (low | high))) {
                    Complex* b = a + k;
                    if (STATES == 1) turn(even, odd, b[0], b[low], b[high], b[low | high]);
                    tilt(tangents.b, b[low | high]);
                    tilt(tangents.c, b[low]);
                    tilt(tangents.d, b[high]);
                    if (STATES == 2) turn(transposed(even), transposed(odd), b[0], b[low], b[high], b[low | high]);
                }
    }

    static __device__ __forceinline__ void turn(Four even, Four odd, Complex& b00, Complex& b01, Complex& b10, Complex& b11) {
        mix_imag(even, b00, b11);
        mix_imag(odd, b01, b10);
    }
    // Of S m S^-1, as which the matrices act: off the diagonal it has the factors i and -i.
    static __device__ __forceinline__ Four transposed(Four m) { return {m.a, -m.c, -m.b, m.d}; }
};

// What is left of a 4x4 matrix (backends/pairs.py) on pair number P: a real rotation of each bit, then, between phases, a
// real matrix that mixes 00 with 11 and one that mixes 01 with 10.
template <int P>
__device__ __forceinline__ void pair(States& states, Four first, Four even, Four odd, Four last) {
    if constexpr (is_pair(P)) {
        constexpr int low = 1 << first_of(P), high = 2 * low;
#pragma unroll
        for (Complex* a : states)
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (!(k & (low | high))) {
                    Complex *b = a + k;
                    lean(first.a, b[0], b[low]);
                    lean(first.a, b[high], b[high + low]);
                    lean(first.b, b[0], b[high]);
                    lean(first.b, b[low], b[high + low]);
                    tilt(first.c, b[high + low]);
                    tilt(first.d, b[high]);
                    mix(even, b[0], b[high + low]);
                    mix(odd, b[low], b[high]);
                    tilt(last.a, b[high + low]);
                    tilt(last.b, b[low]);
                    tilt(last.c, b[high]);
                }
    }
}

template <int P>
__device__ __forceinline__ void pair(States& states, const Complex* n) {
    const auto four = [=](int k) { return Four{n[2 * k].x, n[2 * k].y, n[2 * k + 1].x, n[2 * k + 1].y}; };
    if constexpr (is_pair(P)) pair<P>(states, four(0), four(1), four(2), four(3));
}

// A real rotation of each bit, then 01 and 10 change places, each amplitude with a factor (backends/pairs.py).
template <int P>
__device__ __forceinline__ void exchange(States& states, const Complex* n) {
    if constexpr (is_pair(P)) {
        constexpr int low = 1 << first_of(P), high = 2 * low;
        const Complex tangents = n[0];
        const Real scale = n[1].x;
#pragma unroll
        for (Complex* a : states)
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (!(k & (low | high))) {
                    Complex *b = a + k;
                    lean(tangents.x, b[0], b[low]);
                    lean(tangents.x, b[high], b[high + low]);
                    lean(tangents.y, b[0], b[high]);
                    lean(tangents.y, b[low], b[high + low]);
                    b[0] = {scale * b[0].x, scale * b[0].y};
                    const Complex other = times(n[2], b[high]);
                    b[high] = times(n[3], b[low]);
                    b[low] = other;
                    multiply(n[4], b[high + low]);
                }
    }
}

// Multiplies the amplitudes whose register bit B is 1.
template <int B>
__device__ __forceinline__ void turn1(States& states, Complex factor) {
#pragma unroll
    for (Complex* a : states)
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (k >> B & 1) multiply(factor, a[k]);
}

// Multiplies each of a thread's amplitudes by what `changed` makes of its entry of a table.
template <class Change>
__device__ __forceinline__ void multiply_by_table(States& states, const Four* table, Change changed) {
#pragma unroll
    for (int k = 0; k < N; k += 2) {
        const Four two = table[k / 2];
        const Complex even = changed(Complex{two.a, two.b}), odd = changed(Complex{two.c, two.d});
#pragma unroll
        for (Complex* a : states) {
            multiply(even, a[k]);
            multiply(odd, a[k + 1]);
        }
    }
}

__device__ __forceinline__ Table<Complex> complex(Table<Real> reals) { return {reinterpret_cast<const Complex*>(reals.first)}; }

// The phase of a diagonal gate that is given as a table.
__device__ __forceinline__ void look_up(States& states, Table<int> list, Table<Real> reals, unsigned thread, unsigned word, Index where) {
    const Table<Complex> table = complex(reals + list[0]);
    const Table<int> own = list + 1;
    list = list + 1 + N;
    int at = 0;
    const int lanes = list[0];
    list = list + 1;
#pragma unroll 1
    for (int j = 0; j < lanes; ++j, list = list + 2) at |= (thread >> list[0] & 1) << list[1];
    const int outside = list[0];
    list = list + 1;
#pragma unroll 1
    for (int j = 0; j < outside; ++j, list = list + 2) at |= int(where >> list[0] & 1) << list[1];
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (word >> k & 1) {
            const Complex factor = table[at | own[k]];
#pragma unroll
            for (Complex* a : states) multiply(factor, a[k]);
        }
}

