// Batches of small circuits. A row's state is in shared memory from its start to its outputs, and a ket and a bra from there back;
// angles, derivatives and sums over rows stay on the device.
//
// What the records mean is in qdist/plan/rows/records.py, the same for every device; how they are laid out for these kernels, in
// rows/tables.py. A state is 2^(n + 1) real numbers: real parts, then imaginary parts. Number i is at place swizzled(i), and all
// places of tables are swizzled already.
#include "row_run.cuh"
#include "row_shared.cuh"

extern "C" __global__ void prepare_rows(const __grid_constant__ RowLaunch launch) { prepare(launch, nullptr); }

// A team a row: a warp each, or a whole block.
template <bool BACK>
__device__ __forceinline__ void run_rows(const RowLaunch& launch) {
    const Index number = Index(blockIdx.x) * blockDim.y + threadIdx.y;
    if (number >= launch.num_rows) return;
    unsigned char* const own = memory + threadIdx.y * launch.row_bytes;
    const unsigned size = 1u << launch.num_bits;
    // Doubles first, for their alignment.
    double* const room = reinterpret_cast<double*>(own);
    Real* const ket = reinterpret_cast<Real*>(room + ROW_ROOM);
    Real* const bra = ket + 2 * size;
    Real* const work = BACK ? bra + 2 * size : bra;
    Real* const qubits = work + size;
    Real* const scratch = launch.scratch ? launch.scratch + number * (2 * launch.num_angles + launch.num_masks) : qubits + 8 * launch.num_bits;
    const Row row = {launch, {threadIdx.x, blockDim.x}, number, ket, bra, work, scratch + 2 * launch.num_angles, qubits, reinterpret_cast<Turned*>(scratch), room};
    row.run_all<BACK>();
}

extern "C" __global__ void __launch_bounds__(512) rows_forward(const __grid_constant__ RowLaunch launch) { run_rows<false>(launch); }
extern "C" __global__ void __launch_bounds__(512) rows_backward(const __grid_constant__ RowLaunch launch) { run_rows<true>(launch); }

__device__ __forceinline__ void put(void* numbers, bool single, Index i, double value) {
    if (single)
        static_cast<float*>(numbers)[i] = float(value);
    else
        static_cast<double*>(numbers)[i] = value;
}

// Derivatives by the parameters of rows: a thread for each row and parameter.
extern "C" __global__ void row_gradients(const __grid_constant__ RowLaunch launch, void* gradients) {
    const Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x, row = i % launch.num_rows;
    const int parameter = int(i / launch.num_rows);
    if (parameter >= launch.per_row) return;
    double sum = 0;
    for (int e = launch.row_uses[parameter]; e < launch.row_uses[parameter + 1]; ++e)
        sum += launch.row_users.at(e, &RowEntry::coefficient) * launch.by_angle[Index(launch.row_users.at(e, &RowEntry::other)) * launch.num_rows + row];
    put(gradients, launch.singles & GRADIENTS_SINGLE, row * launch.per_row + parameter, sum);
}

// Derivatives by the shared parameters, summed over rows: a block each. As many threads as there are rows share a use of the
// parameter, and of few rows several uses are read at a time.
extern "C" __global__ void shared_gradients(const __grid_constant__ RowLaunch launch, void* gradients) {
    __shared__ double room[32];
    const Team team = {threadIdx.x, blockDim.x};
    unsigned width = 1;
    while (width < launch.num_rows && width < team.threads) width *= 2;
    double sum = 0;
    for (int e = launch.shared_uses[blockIdx.x] + team.thread / width; e < launch.shared_uses[blockIdx.x + 1]; e += team.threads / width) {
        const double coefficient = launch.shared_users.at(e, &RowEntry::coefficient);
        const double* const own = launch.by_angle + Index(launch.shared_users.at(e, &RowEntry::other)) * launch.num_rows;
        for (Index row = team.thread % width; row < launch.num_rows; row += width) sum += coefficient * own[row];
    }
    sum = team_sum(team, sum, room);
    if (team.thread == 0) put(gradients, launch.singles & GRADIENTS_SINGLE, blockIdx.x, sum);
}
