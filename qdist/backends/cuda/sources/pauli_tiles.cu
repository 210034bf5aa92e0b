// Passes of Pauli strings over tiles of a state: products, and expectation values. Strings whose flips lie within a tile's
// bits share a pass (pauli_tiles.py).
#include "pauli_records.cuh"
#include "states.cuh"

// Amplitudes of a thread; the lowest bits of a tile's index are the thread's number.
constexpr int HELD = 16;
constexpr int TILE_THREADS = 256;
// Blocks that should be resident on a multiprocessor.
constexpr int TILES = sizeof(Real) == 4 ? 4 : 2;

extern __shared__ __align__(16) unsigned char tile_memory[];

// Where a tile is: the index of its first amplitude, and the places of this thread's amplitudes. runs: (shift in the tile's
// number, width, shift in the index), by which a tile's number becomes its base. places: columns of the four highest bits of
// a tile's index, then the offset of each thread.
struct Where {
    Index base, own, column[4];

    __device__ __forceinline__ Where(const int* runs, int num_runs, const Index* places) : base(0) {
        for (int r = 0; r < num_runs; ++r) base |= (Index(blockIdx.x) >> runs[3 * r] & ((Index(1) << runs[3 * r + 1]) - 1)) << runs[3 * r + 2];
        own = base | places[4 + threadIdx.x];
#pragma unroll
        for (int b = 0; b < 4; ++b) column[b] = places[b];
    }
    __device__ __forceinline__ Index operator()(int j) const {
        Index at = own;
#pragma unroll
        for (int b = 0; b < 4; ++b)
            if (j >> b & 1) at |= column[b];
        return at;
    }
};

// The first groups and strings of a pass, which are copied to shared memory: from global memory each read would have its full latency.
constexpr int FEW = 128;
struct Few {
    Group groups[FEW];
    String strings[FEW];
};

template <class T>
__device__ __forceinline__ void copy_first(T* to, const T* from, int count) {
    for (int k = threadIdx.x; k < min(count, FEW); k += TILE_THREADS) to[k] = from[k];
}

// What the strings of a group make of this thread's amplitudes: the factors of those outside its register mask and of those in it.
template <class Number>
struct GroupFactors {
    Number outside, inside;

    // s: the number of the group's first string, then of the next group's.
    __device__ __forceinline__ GroupFactors(const Group& group, const Few& few, const String* strings, Index where, int& s) {
        const Number same = signed_sum(few, strings, where, s, group.middle), other = signed_sum(few, strings, where, s, group.end);
        outside = same + other;
        inside = same - other;
    }
    // As those of a chain's XX and YY do for half of the threads.
    __device__ __forceinline__ bool vanish() const { return outside == 0 && inside == 0; }

    static __device__ __forceinline__ Number signed_sum(const Few& few, const String* strings, Index where, int& s, int end) {
        Number sum = 0;
#pragma unroll 1
        for (; s < end; ++s) {
            const String string = s < FEW ? few.strings[s] : strings[s];
            const int odd = __popcll(where & string.far) + __popc(threadIdx.x & string.near);
            sum += Number(odd & 1 ? -string.factor : string.factor);
        }
        return sum;
    }
};

// What a thread's amplitude number j meets in a group: v, or i v.
template <bool IMAGINARY>
__device__ __forceinline__ Complex met(const Complex* tile, const Group& group, int j) {
    const Complex v = tile[threadIdx.x ^ group.x ^ j * TILE_THREADS];
    return IMAGINARY ? Complex{-v.y, v.x} : v;
}

template <bool IMAGINARY>
__device__ __forceinline__ void add_products(const Complex* tile, const Group& group, const GroupFactors<Real>& factors, Complex* sum) {
    const auto add = [&](int j, Real c) {
        const Complex v = met<IMAGINARY>(tile, group, j);
        sum[j] = {fma(c, v.x, sum[j].x), fma(c, v.y, sum[j].y)};
    };
    if (group.word == 0) {
#pragma unroll
        for (int j = 0; j < HELD; ++j) add(j, factors.outside);
    } else {
#pragma unroll
        for (int j = 0; j < HELD; ++j) add(j, group.word >> j & 1 ? factors.inside : factors.outside);
    }
}

// out (+)= what the groups make of a; the last `diagonal` of them flip nothing and have real factors: where a state is mostly one
// amplitude, that is the largest part of its product, and sums that it is no part of yet are rounded less. values, where it is
// given: the real part of <a|out> in each tile.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILES) apply_tiles(const Complex* __restrict__ a, Index first, const int* __restrict__ runs, int num_runs, const Index* __restrict__ places, const Group* __restrict__ groups, int num_groups,
          const String* __restrict__ strings, int num_strings, int diagonal, int add, Complex* __restrict__ out, double* __restrict__ values) {
    __shared__ Few few;
    Complex* tile = reinterpret_cast<Complex*>(tile_memory);
    const unsigned thread = threadIdx.x;
    const Where place(runs, num_runs, places);
    const Index where = first | place.base;
    Complex sum[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        tile[thread + j * TILE_THREADS] = a[place(j)];
        sum[j] = add ? out[place(j)] : Complex{0, 0};
    }
    copy_first(few.groups, groups, num_groups);
    copy_first(few.strings, strings, num_strings);
    __syncthreads();
    int s = 0, g = 0;
#pragma unroll 1
    for (; g < num_groups - diagonal; ++g) {
        const Group group = g < FEW ? few.groups[g] : groups[g];
        const GroupFactors<Real> factors(group, few, strings, where, s);
        if (factors.vanish()) continue;
        if (group.imaginary)
            add_products<true>(tile, group, factors, sum);
        else
            add_products<false>(tile, group, factors, sum);
    }
    if (diagonal) {
        Real own[HELD] = {};
#pragma unroll 1
        for (; g < num_groups; ++g) {
            const Group group = g < FEW ? few.groups[g] : groups[g];
            const GroupFactors<Real> factors(group, few, strings, where, s);
#pragma unroll
            for (int j = 0; j < HELD; ++j) own[j] += group.word >> j & 1 ? factors.inside : factors.outside;
        }
#pragma unroll
        for (int j = 0; j < HELD; ++j) {
            const Complex v = tile[thread + j * TILE_THREADS];
            sum[j] = {fma(own[j], v.x, sum[j].x), fma(own[j], v.y, sum[j].y)};
        }
    }
#pragma unroll
    for (int j = 0; j < HELD; ++j) out[place(j)] = sum[j];
    if (values == nullptr) return;
    double value = 0;
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        const Complex v = tile[thread + j * TILE_THREADS];
        value += double(v.x) * sum[j].x + double(v.y) * sum[j].y;
    }
    value = block_sum(value);
    if (thread == 0) values[blockIdx.x] = value;
}

// The real part of <own|what a group makes of the tile>. The products of a thread's amplitudes are added up before they
// become doubles and meet the factors.
template <bool IMAGINARY>
__device__ __forceinline__ double group_value(const Complex* own, const Complex* tile, const Group& group, const GroupFactors<double>& factors) {
    Real all = 0, inside = 0;
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        const Complex v = met<IMAGINARY>(tile, group, j);
        const Real product = fma(own[j].x, v.x, own[j].y * v.y);
        all += product;
        if (group.word >> j & 1) inside += product;
    }
    return factors.outside * (double(all) - inside) + factors.inside * inside;
}

// values: the real part of <a|what the groups make of a> in each tile.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILES) tile_values(const Complex* __restrict__ a, Index first, const int* __restrict__ runs, int num_runs, const Index* __restrict__ places, const Group* __restrict__ groups, int num_groups,
          const String* __restrict__ strings, int num_strings, double* __restrict__ values) {
    __shared__ Few few;
    Complex* tile = reinterpret_cast<Complex*>(tile_memory);
    const Where place(runs, num_runs, places);
    Complex own[HELD];
#pragma unroll
    for (int j = 0; j < HELD; ++j) {
        own[j] = a[place(j)];
        tile[threadIdx.x + j * TILE_THREADS] = own[j];
    }
    copy_first(few.groups, groups, num_groups);
    copy_first(few.strings, strings, num_strings);
    __syncthreads();
    int s = 0;
    double value = 0;
#pragma unroll 1
    for (int g = 0; g < num_groups; ++g) {
        const Group group = g < FEW ? few.groups[g] : groups[g];
        const GroupFactors<double> factors(group, few, strings, first | place.base, s);
        if (factors.vanish()) continue;
        value += group.imaginary ? group_value<true>(own, tile, group, factors) : group_value<false>(own, tile, group, factors);
    }
    value = block_sum(value);
    if (threadIdx.x == 0) values[blockIdx.x] = value;
}
