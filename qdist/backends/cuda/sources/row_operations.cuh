// The operations of a row one after the other, forward and back: groups of rotations, diagonals, and constant matrices on up to four
// qubits.
#pragma once

#include "row_rotations.cuh"
#include "row_phases.cuh"

template <int BITS, bool BACK>
__device__ __forceinline__ void Row::multiply(const RowOp& op, Real* state) const {
    constexpr int SIZE = 1 << BITS;
    unsigned target[BITS], offset[SIZE];
#pragma unroll
    for (int j = 0; j < BITS; ++j) target[j] = launch.targets[op.first + j];
#pragma unroll
    for (int o = 0; o < SIZE; ++o) {
        offset[o] = 0;
#pragma unroll
        for (int j = 0; j < BITS; ++j) offset[o] ^= o >> j & 1 ? target[j] : 0;
    }
    const Table<Complex> matrix = launch.matrices + op.matrix;
    walk(op, [&](unsigned place) {
        Complex x[SIZE];
#pragma unroll
        for (int o = 0; o < SIZE; ++o) x[o] = {state[place ^ offset[o]], state[place ^ offset[o] ^ plane()]};
#pragma unroll 1
        for (int row = 0; row < SIZE; ++row) {
            Complex sum = {0, 0};
#pragma unroll
            for (int o = 0; o < SIZE; ++o) {
                Complex m = matrix[BACK ? o * SIZE + row : row * SIZE + o];
                if (BACK) m.y = -m.y;
                sum.x += m.x * x[o].x - m.y * x[o].y;
                sum.y += m.x * x[o].y + m.y * x[o].x;
            }
            unsigned to = place;
#pragma unroll
            for (int j = 0; j < BITS; ++j) to ^= row >> j & 1 ? target[j] : 0;
            state[to] = sum.x;
            state[to ^ plane()] = sum.y;
        }
    });
}

template <bool BACK>
__device__ __forceinline__ void Row::multiply_matrix(const RowOp& op) const {
#pragma unroll 1
    for (int s = 0; s < 1 + BACK; ++s) {
        Real* const state = s == 0 ? ket : bra;
        switch (op.count) {
            case 1: multiply<1, BACK>(op, state); break;
            case 2: multiply<2, BACK>(op, state); break;
            case 3: multiply<3, BACK>(op, state); break;
            default: multiply<4, BACK>(op, state);
        }
    }
    team.sync();
}

// In four accesses.
__device__ __forceinline__ RowOp Row::op_of(int k) const {
    static_assert(sizeof(RowOp) == 4 * sizeof(uint4), "as many numbers as are read");
    const uint4* const from = reinterpret_cast<const uint4*>(launch.ops.first + k);
    const uint4 a = __ldg(from), b = __ldg(from + 1), c = __ldg(from + 2), d = __ldg(from + 3);
    return {int(a.x), int(a.y), int(a.z), int(a.w), int(b.x), int(b.y), int(b.z), int(b.w), c.x, {c.y, c.z, c.w}, {int(d.x), int(d.y), int(d.z)}, d.w};
}

template <bool BACK>
__device__ __forceinline__ void Row::run(int first) const {
    for (int k = 0; k < launch.num_ops - first; ++k) {
        const RowOp op = op_of(BACK ? launch.num_ops - 1 - k : k);
        if (op.kind == ROW_ROTATIONS)
            rotate_group<BACK>(op, k & 1);
        else if (op.kind == ROW_PHASES)
            multiply_phases<BACK>(op);
        else
            multiply_matrix<BACK>(op);
    }
}
