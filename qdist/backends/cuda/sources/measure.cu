// Kernels that read or collapse a state.
#include "states.cuh"

extern "C" __global__ void squared_norm(const Complex* a, Index size, double* sums) {
    double sum = 0;
    for (Index i = first_index(); i < size; i += stride()) sum += squared(a[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// sums: (real, imaginary) of conj(bra[i]) ket[j], where bit k of i is the bit at positions[k] of j.
extern "C" __global__ void inner(const Complex* bra, const Complex* ket, Index size, const int* positions, int bits, double* sums) {
    double re = 0, im = 0;
    for (Index i = first_index(); i < size; i += stride()) {
        const Complex a = bra[i], b = ket[bits ? moved(i, positions, bits) : i];
        re += double(a.x) * b.x + double(a.y) * b.y;
        im += double(a.x) * b.y - double(a.y) * b.x;
    }
    re = block_sum(re);
    im = block_sum(im);
    if (threadIdx.x == 0) {
        sums[2 * blockIdx.x] = re;
        sums[2 * blockIdx.x + 1] = im;
    }
}

extern "C" __global__ void permuted_copy(const Complex* source, Index size, const int* positions, int bits, Complex* out) {
    for (Index i = first_index(); i < size; i += stride()) out[i] = source[moved(i, positions, bits)];
}

// partners: the position that each position is exchanged with.
extern "C" __global__ void swap_positions(Complex* a, Index size, const int* partners, int bits) {
    for (Index i = first_index(); i < size; i += stride()) {
        const Index j = moved(i, partners, bits);
        if (i >= j) continue;
        const Complex kept = a[i];
        a[i] = a[j];
        a[j] = kept;
    }
}

extern "C" __global__ void project(Complex* a, Index size, Index first, Index mask, Index value, double scale) {
    const Real s = Real(scale);
    for (Index i = first_index(); i < size; i += stride())
        a[i] = ((first | i) & mask) == value ? Complex{s * a[i].x, s * a[i].y} : Complex{0, 0};
}

// half: how many pairs of amplitudes there are.
extern "C" __global__ void reset_bit(Complex* a, Index half, int position, int outcome, double scale) {
    const Real s = Real(scale);
    for (Index p = first_index(); p < half; p += stride()) {
        const Index zero = (p >> position << (position + 1)) | (p & ((Index(1) << position) - 1));
        const Index one = zero | Index(1) << position;
        const Complex kept = a[outcome ? one : zero];
        a[zero] = {s * kept.x, s * kept.y};
        a[one] = {0, 0};
    }
}

// Bits of a chunk that a block sums over in shared memory.
constexpr int CHUNK_BITS = 11;
constexpr int OWN = (1 << CHUNK_BITS) / THREADS;

// A block goes through the chunks of one setting of the kept high bits (blockIdx.x), or through its share of them
// (blockIdx.y), and writes to its row of out. high: positions of kept, then of other bits above a chunk. low_kept: mask of
// kept bits inside. positions: of all kept bits, in the order of out's index.
extern "C" __global__ void probabilities(const Complex* a, int bits, Index first, const int* high, int high_kept, int high_free, unsigned low_kept, const int* positions, int count, double* out) {
    __shared__ double chunk[1 << CHUNK_BITS];
    const int low = bits < CHUNK_BITS ? bits : CHUNK_BITS;
    const Index kept = moved(blockIdx.x, high, high_kept);
    const Index settings = (Index(1) << high_free) / gridDim.y;
    double own[OWN] = {};
    for (Index c = blockIdx.y * settings; c < (blockIdx.y + 1) * settings; ++c) {
        const Complex* part = a + (kept | moved(c, high + high_kept, high_free));
#pragma unroll
        for (int j = 0; j < OWN; ++j) {
            const int e = threadIdx.x + j * THREADS;
            if (e < 1 << low) own[j] += squared(part[e]);
        }
    }
#pragma unroll
    for (int j = 0; j < OWN; ++j) chunk[threadIdx.x + j * THREADS] = own[j];
    for (int b = 0; b < low; ++b) {
        if (low_kept >> b & 1) continue;
        __syncthreads();
        for (int e = threadIdx.x; e < 1 << low; e += THREADS)
            if (!(e >> b & 1)) chunk[e] += chunk[e | 1 << b];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < 1 << low; e += THREADS) {
        if (e & ~low_kept) continue;
        const Index place = first | kept | e;
        Index at = 0;
        for (int k = 0; k < count; ++k) at |= (place >> positions[k] & 1) << k;
        out[(Index(blockIdx.y) << count) + at] = chunk[e];
    }
}

// |amplitude|^2 of the indices base | bits of the leaf at positions, for each base a row of 2^depth leaves.
extern "C" __global__ void leaves(const Complex* a, Index size, Index first, const Index* bases, Index rows, const int* positions, int depth, double* out) {
    for (Index k = first_index(); k < rows << depth; k += stride()) {
        const Index place = (bases[k >> depth] | moved(k & ((Index(1) << depth) - 1), positions, depth)) - first;
        out[k] = place < size ? squared(a[place]) : 0;
    }
}

// bra[i] += weights[j] ket[i], where bit k of j is the bit at positions[k] of i.
extern "C" __global__ void add_weighted(const Complex* ket, Index size, Index first, const int* positions, int count, const double* weights, Complex* bra) {
    for (Index i = first_index(); i < size; i += stride()) {
        Index j = 0;
        for (int k = 0; k < count; ++k) j |= ((first | i) >> positions[k] & 1) << k;
        const Real w = Real(weights[j]);
        bra[i] = {fma(w, ket[i].x, bra[i].x), fma(w, ket[i].y, bra[i].y)};
    }
}
