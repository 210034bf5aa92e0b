// Batches of circuits whose states shared memory has no room for: a block has a row after the other, the states in global
// memory. There are as many blocks as run at once, so that what they work on stays in the L2 cache.
#include "row_run.cuh"
#include "row_shared.cuh"

extern "C" __global__ void prepare_far_rows(const __grid_constant__ RowLaunch launch) { prepare(launch, launch.far_turns); }

template <bool BACK>
__device__ __forceinline__ void run_far_rows(const RowLaunch& launch) {
    const unsigned size = 1u << launch.num_bits;
    double* const room = reinterpret_cast<double*>(memory);
    Real* const qubits = reinterpret_cast<Real*>(room + ROW_ROOM);
    Real* const ket = launch.far_states + Index(blockIdx.x) * (BACK ? 5 : 3) * size;
    Real* const bra = ket + 2 * size;
    Real* const work = BACK ? bra + 2 * size : bra;
    Real* const scratch = launch.scratch ? launch.scratch + Index(blockIdx.x) * (2 * launch.num_angles + launch.num_masks) : qubits + 8 * launch.num_bits;
    for (Index number = blockIdx.x; number < launch.num_rows; number += gridDim.x) {
        const Row row = {launch, {threadIdx.x, blockDim.x}, number, ket, bra, work, scratch + 2 * launch.num_angles, qubits, reinterpret_cast<Turned*>(scratch), room};
        row.run_all<BACK>();
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(512) far_rows_forward(const __grid_constant__ RowLaunch launch) { run_far_rows<false>(launch); }
extern "C" __global__ void __launch_bounds__(512) far_rows_backward(const __grid_constant__ RowLaunch launch) { run_far_rows<true>(launch); }
