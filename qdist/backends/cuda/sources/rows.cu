// Batches of small circuits. A row's state is in shared memory from its start to its outputs, and a ket and a bra from there back;
// angles, derivatives and sums over rows stay on the device.
//
// What the records mean is in qdist/plan/rows/records.py, the same for every device; how they are laid out for these kernels, in
// rows/tables.py. A state is 2^(n + 1) real numbers: real parts, then imaginary parts. Number i is at place swizzled(i), and all
// places of tables are swizzled already.
#include "row.cuh"

// What all rows share: block 0 has their angles, each of the others the phases of a diagonal.
extern "C" __global__ void prepare_rows(const __grid_constant__ RowLaunch launch) {
    const Team team = {threadIdx.x, blockDim.x};
    const auto slot_of = [&](int slot) {
        return sum_of(reduced(launch.slot_constants[slot]), launch.shared_begins[slot], launch.shared_begins[slot + 1], launch.shared_entries, [&](int p) { return launch.shared_values[p]; });
    };
    if (blockIdx.x == 0) {
        for (int s = team.thread; s < launch.num_slots; s += team.threads) launch.shared_slots[s] = slot_of(s);
        team.sync();
        for (int a = team.thread; a < launch.num_angles; a += team.threads) {
            const Turned t = turned(angle_of(launch, a, [&](int s) { return launch.shared_slots[s]; }));
            launch.turned[a] = {t.cosine, t.sine};
        }
        return;
    }
    const unsigned size = 1u << launch.num_bits;
    Turn* const turns = reinterpret_cast<Turn*>(memory);
    const int diagonal = blockIdx.x - 1;
    for (unsigned s = team.thread; s < size; s += team.threads) turns[s] = 0;
    team.sync();
    for (int t = launch.diagonals[2 * diagonal] + team.thread; t < launch.diagonals[2 * diagonal + 1]; t += team.threads) {
        // Half the angle, as a fraction of 2 pi in fixed point.
        const double fraction = angle_of(launch, launch.terms.at(t, &RowTerm::angle), slot_of) * 0x1.45f306dc9c883p-4;
        turns[launch.terms.at(t, &RowTerm::place)] = static_cast<Turn>(__double2ll_rn((fraction - rint(fraction)) * (sizeof(Turn) == 4 ? 0x1p32 : 0x1p63))) << (sizeof(Turn) == 4 ? 0 : 1);
    }
    team.sync();
    walsh(team, turns, launch.num_bits);
    for (unsigned s = team.thread; s < size; s += team.threads) {
        const Turn turn = turns[swizzled(s)];
        double sine, cosine;
        if (sizeof(Turn) == 4)
            sincospi(double(int(turn)) * 0x1p-31, &sine, &cosine);
        else
            sincospi(double((long long)turn) * 0x1p-63, &sine, &cosine);
        launch.phases[(Index(diagonal) << launch.num_bits) + s] = {Real(cosine), Real(-sine)};
    }
}

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
    row.bind();
    row.start();
    row.run<false>(0);
    if (launch.values) row.outputs();
    if constexpr (BACK) {
        row.pull_back();
        row.run<true>(launch.first_op);
        if (launch.undo_start) {
            row.team.sync();
            row.undo_start();
        }
    }
    if (launch.states) row.write_state();
}

extern "C" __global__ void __launch_bounds__(512) rows_forward(const __grid_constant__ RowLaunch launch) { run_rows<false>(launch); }
extern "C" __global__ void __launch_bounds__(512) rows_backward(const __grid_constant__ RowLaunch launch) { run_rows<true>(launch); }

// Derivatives by the parameters of rows: a thread for each row and parameter.
extern "C" __global__ void row_gradients(const __grid_constant__ RowLaunch launch, double* gradients) {
    const Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x, row = i % launch.num_rows;
    const int parameter = int(i / launch.num_rows);
    if (parameter >= launch.per_row) return;
    double sum = 0;
    for (int e = launch.row_uses[parameter]; e < launch.row_uses[parameter + 1]; ++e)
        sum += launch.row_users.at(e, &RowEntry::coefficient) * launch.by_angle[Index(launch.row_users.at(e, &RowEntry::other)) * launch.num_rows + row];
    gradients[row * launch.per_row + parameter] = sum;
}

// Derivatives by the shared parameters, summed over rows: a block each.
extern "C" __global__ void shared_gradients(const __grid_constant__ RowLaunch launch, double* gradients) {
    __shared__ double room[32];
    const Team team = {threadIdx.x, blockDim.x};
    double sum = 0;
    for (int e = launch.shared_uses[blockIdx.x]; e < launch.shared_uses[blockIdx.x + 1]; ++e) {
        const double coefficient = launch.shared_users.at(e, &RowEntry::coefficient);
        const double* const own = launch.by_angle + Index(launch.shared_users.at(e, &RowEntry::other)) * launch.num_rows;
        for (Index row = team.thread; row < launch.num_rows; row += team.threads) sum += coefficient * own[row];
    }
    sum = team_sum(team, sum, room);
    if (team.thread == 0) gradients[blockIdx.x] = sum;
}
