// A row from its start to what is asked for: its operations, its outputs, and the way back.
#pragma once

#include "row_start.cuh"
#include "row_operations.cuh"
#include "row_outputs.cuh"

// From the start to what is asked for.
template <bool BACK>
__device__ __forceinline__ void Row::run_all() const {
    bind();
    start_qubits();
    Real* const kept = launch.kets ? launch.kets + (number << (launch.num_bits + 1)) : nullptr;
    if (BACK && kept) {
        for (unsigned i = team.thread; i < 2 * size(); i += team.threads) ket[i] = kept[i];
        team.sync();
    } else {
        start();
        run<false>(0);
    }
    if (!BACK && kept)
        for (unsigned i = team.thread; i < 2 * size(); i += team.threads) kept[i] = ket[i];
    if (launch.values && !launch.known && !(BACK && is_one_sum())) outputs();
    if constexpr (BACK) {
        pull_back();
        run<true>(launch.first_op);
        if (launch.undo_start) {
            team.sync();
            undo_start();
        }
    }
    if (launch.states) write_state();
}
