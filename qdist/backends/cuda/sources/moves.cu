// Kernels that take parts out of a shard and put them back: what exchanges and wide gates need.
//
// A part is the amplitudes at base | spread(i): the bits of i go, in runs of neighbours, to places of the shard's index.
//
// Blocks have 256 threads.
#include "types.cuh"

// runs: (shift in i, width, shift in the shard's index).
__device__ __forceinline__ Index spread(Index i, const int* runs, int num_runs) {
    Index result = 0;
    for (int r = 0; r < num_runs; ++r) result |= (i >> runs[3 * r] & ((Index(1) << runs[3 * r + 1]) - 1)) << runs[3 * r + 2];
    return result;
}

__device__ __forceinline__ Index first_index() { return Index(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ Index stride() { return Index(gridDim.x) * blockDim.x; }

extern "C" __global__ void take_part(const Complex* shard, Index base, const int* __restrict__ runs, int num_runs, Index size, Complex* out) {
    for (Index i = first_index(); i < size; i += stride()) out[i] = shard[base | spread(i, runs, num_runs)];
}

extern "C" __global__ void put_part(const Complex* part, Complex* shard, Index base, const int* __restrict__ runs, int num_runs, Index size) {
    for (Index i = first_index(); i < size; i += stride()) shard[base | spread(i, runs, num_runs)] = part[i];
}

extern "C" __global__ void swap_parts(Complex* a, Index a_base, Complex* b, Index b_base, const int* __restrict__ runs, int num_runs, Index size) {
    for (Index i = first_index(); i < size; i += stride()) {
        const Index at = spread(i, runs, num_runs);
        const Complex kept = a[a_base | at];
        a[a_base | at] = b[b_base | at];
        b[b_base | at] = kept;
    }
}

extern "C" __global__ void set_first(Complex* shard, Real x, Real y) { shard[0] = {x, y}; }

// The sum over a block of 256 threads, for the first of them.
__device__ double total(double sum) {
    __shared__ double parts[8];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int warp = 0; warp < 8; ++warp) sum += parts[warp];
    return sum;
}

__device__ void put(void* out, unsigned place, int single, double number) {
    if (single)
        static_cast<float*>(out)[place] = float(number);
    else
        static_cast<double*>(out)[place] = number;
}

// Linear combinations of numbers, in either precision: a block has one of them, constants[k] + the sum of
// coefficients[e] * numbers[places[e]] over its entries.
extern "C" __global__ void combine(const double* numbers, const int* __restrict__ begins, const int* __restrict__ places, const double* __restrict__ coefficients, const double* __restrict__ constants, void* out, int single) {
    double sum = 0;
    for (int e = begins[blockIdx.x] + threadIdx.x; e < begins[blockIdx.x + 1]; e += blockDim.x) sum += coefficients[e] * numbers[places[e]];
    sum = total(sum);
    if (threadIdx.x == 0) put(out, blockIdx.x, single, constants[blockIdx.x] + sum);
}

// out = the sum of `count` numbers, by one block; value, if there is one, is that plus a constant, in either precision.
extern "C" __global__ void add_up(const double* __restrict__ numbers, int count, double* out, double constant, void* value, int single) {
    double sum = 0;
#pragma unroll 8
    for (int k = threadIdx.x; k < count; k += blockDim.x) sum += numbers[k];
    sum = total(sum);
    if (threadIdx.x != 0) return;
    *out = sum;
    if (value) put(value, 0, single, constant + sum);
}
