// Sums of Pauli strings on states of a GPU. |i> becomes factor (-1)^parity(i & z) |i ^ x>; `first` is the index of a shard's
// first amplitude, by bit position, in the whole state.
#include "states.cuh"

// out[i] (+)= sum over terms of factor (-1)^parity((i ^ x) & z) a[i ^ x]
extern "C" __global__ void apply_paulis(const Complex* a, Index size, Index first, const Index* x, const Index* z, const double* factors, int count, int add, Complex* out) {
    for (Index i = first_index(); i < size; i += stride()) {
        double re = add ? out[i].x : 0, im = add ? out[i].y : 0;
        for (int k = 0; k < count; ++k) {
            const Index j = i ^ x[k];
            const Complex v = a[j];
            const bool odd = __popcll((first | j) & z[k]) & 1;
            const double c = odd ? -factors[2 * k] : factors[2 * k], s = odd ? -factors[2 * k + 1] : factors[2 * k + 1];
            re += c * v.x - s * v.y;
            im += c * v.y + s * v.x;
        }
        out[i] = {Real(re), Real(im)};
    }
}

// For each row (blockIdx.y) of a batch: out = sum over terms of weights[row][observable] factor (-1)^... a, as above.
extern "C" __global__ void apply_rows(const Complex* a, Index size, const Index* x, const Index* z, const double* factors, const int* observable, int count, const double* weights, int observables, Complex* out) {
    a += Index(blockIdx.y) * size;
    out += Index(blockIdx.y) * size;
    weights += Index(blockIdx.y) * observables;
    for (Index i = first_index(); i < size; i += stride()) {
        double re = 0, im = 0;
        for (int k = 0; k < count; ++k) {
            const Index j = i ^ x[k];
            const Complex v = a[j];
            const double weight = __popcll(j & z[k]) & 1 ? -weights[observable[k]] : weights[observable[k]];
            const double c = weight * factors[2 * k], s = weight * factors[2 * k + 1];
            re += c * v.x - s * v.y;
            im += c * v.y + s * v.x;
        }
        out[i] = {Real(re), Real(im)};
    }
}

// values[row][k]: Re <a|term k|a> of each row (blockIdx.y) and term (blockIdx.x).
extern "C" __global__ void term_values(const Complex* a, Index size, const Index* x, const Index* z, const double* factors, double* values) {
    a += Index(blockIdx.y) * size;
    const int k = blockIdx.x;
    const double c = factors[2 * k], s = factors[2 * k + 1];
    double sum = 0;
    for (Index i = threadIdx.x; i < size; i += THREADS) {
        const Index j = i ^ x[k];
        const Complex u = a[i], v = a[j];
        const double re = double(u.x) * v.x + double(u.y) * v.y, im = double(u.x) * v.y - double(u.y) * v.x;
        const double value = c * re - s * im;
        sum += __popcll(j & z[k]) & 1 ? -value : value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) values[Index(blockIdx.y) * gridDim.x + k] = sum;
}

// Sums over pairs of amplitudes (i, i ^ x), i without x's highest bit at position `top`, of conj(a[i ^ x]) a[i] with the
// sign of the parity of i & z[k]: its real part, or the imaginary one where bit k of `odd` is set. For x = 0 of |a[i]|^2.
template <int TERMS>
__device__ __forceinline__ void pauli_values(const Complex* a, Index half, Index first, Index x, int top, const Index* z, unsigned odd, int count, double* sums) {
    double own[TERMS] = {};
    Index mask[TERMS];
#pragma unroll
    for (int k = 0; k < TERMS; ++k) mask[k] = k < count ? z[k] : 0;
#pragma unroll 4
    for (Index p = first_index(); p < half; p += stride()) {
        const Index i = x ? (p >> top << (top + 1)) | (p & ((Index(1) << top) - 1)) : p;
        const Complex u = a[i], v = a[i ^ x];
        const double re = double(v.x) * u.x + double(v.y) * u.y, im = double(v.x) * u.y - double(v.y) * u.x;
#pragma unroll
        for (int k = 0; k < TERMS; ++k) {
            const double value = odd >> k & 1 ? im : re;
            own[k] += __popcll((first | i) & mask[k]) & 1 ? -value : value;
        }
    }
#pragma unroll
    for (int k = 0; k < TERMS; ++k) {
        const double sum = block_sum(own[k]);
        if (threadIdx.x == 0) sums[blockIdx.x * TERMS + k] = sum;
    }
}

// Few terms leave room for more threads.
#define PAULI_VALUES(TERMS)                                                                                              \
    extern "C" __global__ void pauli_values_##TERMS(const Complex* a, Index half, Index first, Index x, int top,           \
                                                    const Index* z, unsigned odd, int count, double* sums) {            \
        pauli_values<TERMS>(a, half, first, x, top, z, odd, count, sums);                                                 \
    }
PAULI_VALUES(2)
PAULI_VALUES(4)
PAULI_VALUES(16)
