// What all rows of a batch share, computed once before them.
#pragma once

#include "row_team.cuh"

// What all rows share: block 0 has their angles, each of the others the phases of a diagonal.
// far: room for the phases of all diagonals in global memory, where shared memory has none.
__device__ __forceinline__ void prepare(const RowLaunch& launch, Turn* far) {
    const Team team = {threadIdx.x, blockDim.x};
    const auto slot_of = [&](int slot) {
        return sum_of(reduced(launch.slot_constants[slot]), launch.shared_begins[slot], launch.shared_begins[slot + 1], launch.shared_entries, [&](int p) { return given(launch.shared_values, launch.singles & SHARED_SINGLE, p); });
    };
    if (blockIdx.x == 0) {
        for (int s = team.thread; s < launch.num_slots; s += team.threads) launch.shared_slots[s] = slot_of(s);
        team.sync();
        // Angles are numbered in the order of the circuit.
        double excess = 0;
        for (int first = team.thread / 32 * 32; first < launch.num_angles; first += team.threads) {
            const int a = first + team.thread % 32;
            const bool is_one = a < launch.num_angles;
            double cosine = 1, sine = 0;
            if (is_one) half_turn(angle_of(launch, a, [&](int s) { return launch.shared_slots[s]; }), cosine, sine);
            const Turned t = evened(cosine, sine, is_one && launch.traits[a] & EVERYWHERE, excess);
            if (is_one) launch.turned[a] = {t.cosine, t.sine};
        }
        return;
    }
    const unsigned size = 1u << launch.num_bits;
    const int diagonal = blockIdx.x - 1;
    Turn* const turns = far ? far + (Index(diagonal) << launch.num_bits) : reinterpret_cast<Turn*>(memory);
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
