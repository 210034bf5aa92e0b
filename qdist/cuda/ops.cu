// What threads do to amplitudes in their registers, and where these are in memory. records.cu stands before this source.

// A result takes the register of the amplitude it replaces: everything else is summed up first, and its own term is the
// last to be added. Otherwise every operation would end with a move of every register.
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

// exp(2 pi i turn): the turn is signed, in fixed point, so that half a turn is the end of the range.
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

// all[k]: `first` and the columns of k's bits, joined by XOR.
template <class T>
__device__ __forceinline__ void span(T first, const T* columns, T* all) {
    all[0] = first;
#pragma unroll
    for (int k = 1; k < N; ++k) all[k] = all[k & (k - 1)] ^ columns[lowest(k)];
}

// The addresses, in bytes of shared memory, of a thread's amplitudes.
__device__ __forceinline__ void addresses(unsigned first, const int* columns, unsigned* all) {
    unsigned column[R];
#pragma unroll
    for (int b = 0; b < R; ++b) column[b] = unsigned(columns[b]) * PLACE_BYTES;
    span<unsigned>(first * PLACE_BYTES, column, all);
}

extern __shared__ __align__(16) unsigned char memory[];

__device__ __forceinline__ Complex& shared_at(unsigned address) { return *reinterpret_cast<Complex*>(memory + address); }

// A tile is read and written once a stage: it should not drive the tables out of the cache.
__device__ __forceinline__ Complex streamed(const Complex* from) {
    const auto v = __ldcs(reinterpret_cast<const Pair*>(from));
    return {v.x, v.y};
}
__device__ __forceinline__ void stream(Complex* to, Complex a) {
    Pair v;
    v.x = a.x;
    v.y = a.y;
    __stcs(reinterpret_cast<Pair*>(to), v);
}

struct __align__(16) Four {
    Real a, b, c, d;
};

template <int B>
__device__ __forceinline__ void real1(States& states, const Four* matrices) {
    const auto [m00, m01, m10, m11] = matrices[B];
#pragma unroll
    for (Complex* a : states)
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (!(k >> B & 1)) {
                Complex &p = a[k], &q = a[k | 1 << B];
                const Complex u = {m10 * p.x, m10 * p.y}, v = {m01 * q.x, m01 * q.y};
                p = {fma(m00, p.x, v.x), fma(m00, p.y, v.y)};
                q = {fma(m11, q.x, u.x), fma(m11, q.y, u.y)};
            }
}

// word: a bit for each of the thread's amplitudes, whether it takes part.
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

// The entries of a 4 by 4 matrix: in registers where they find room, else read anew each time (which the compiler must be
// kept from doing once and for all).
struct Entries {
    Complex kept[sizeof(Real) == 4 ? 16 : 1];
    const Four* matrix;

    __device__ __forceinline__ explicit Entries(const Four* matrix) : matrix(matrix) {
        if (sizeof(Real) == 4)
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const Four two = matrix[j];
                kept[2 * j] = {two.a, two.b};
                kept[2 * j + 1] = {two.c, two.d};
            }
    }
    __device__ __forceinline__ Complex operator()(int row, int column) const {
        if (sizeof(Real) == 4) return kept[4 * row + column];
        double x, y;
        const Complex* entry = reinterpret_cast<const Complex*>(matrix) + 4 * row + column;
#if STATES == 2
        asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "r"(unsigned(__cvta_generic_to_shared(entry))));
#else
        asm volatile("ld.global.nc.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "l"(entry));
#endif
        return {Real(x), Real(y)};
    }
};

// On register bits 2 P and 2 P + 1.
template <int P, bool Controlled>
__device__ __forceinline__ void dense2(States& states, const Four* matrix, unsigned word) {
    if constexpr (2 * P + 1 < R) {
        constexpr int low = 1 << 2 * P;
        const Entries m(matrix);
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

// The phase of a diagonal gate that is given as a table.
__device__ __forceinline__ void look_up(States& states, const int* list, const Real* reals, unsigned thread, unsigned word, Index where) {
    const Complex* table = reinterpret_cast<const Complex*>(reals + list[0]);
    const int* own = list + 1;
    list += 1 + N;
    int at = 0;
    const int lanes = *list++;
#pragma unroll 1
    for (int j = 0; j < lanes; ++j, list += 2) at |= (thread >> list[0] & 1) << list[1];
    const int outside = *list++;
#pragma unroll 1
    for (int j = 0; j < outside; ++j, list += 2) at |= int(where >> list[0] & 1) << list[1];
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (word >> k & 1) {
            const Complex factor = table[at | own[k]];
#pragma unroll
            for (Complex* a : states) multiply(factor, a[k]);
        }
}

