// Groups of up to three Pauli rotations of a row, forward and back.
#pragma once

#include "row.cuh"

// Which of the 2^K numbers that a group mixes belong to pair r of rotation j: the first, without bit j.
__device__ __forceinline__ constexpr int first_of(int r, int j) { return (r >> j) << (j + 1) | (r & ((1 << j) - 1)); }

// Whether pair r of rotation j turns the other way.
__device__ __forceinline__ bool is_negative(const RowOp& op, int j, int r) { return op.signs >> (4 * j + r) & 1; }

// Number o of a group, with the other sign if flips say so; only numbers that two or more rotations reach can have it.
__device__ __forceinline__ Real in_sign(Real value, unsigned flips, int o) { return (o & (o - 1)) ? negated(value, flips << (31 - o)) : value; }

// A group of rotations. EVEN: they commute, so that with other signs of some numbers all pairs of a rotation turn the same way.
template <int K, bool BACK, bool EVEN>
__device__ __forceinline__ void Row::rotate(const RowOp& op, int parity) const {
    constexpr int SIZE = 1 << K, PAIRS = SIZE / 2, SINES = EVEN ? 1 : PAIRS;
    unsigned offset[SIZE];
    Real cosine[K], sine[K][SINES], sum[K];
    offset[0] = 0;
#pragma unroll
    for (int j = 0; j < K; ++j) {
#pragma unroll
        for (int o = 0; o < 1 << j; ++o) offset[o | 1 << j] = offset[o] ^ op.direction[j];
        const Turned t = turns[op.angle[j]];
        cosine[j] = t.cosine;
        sum[j] = 0;
#pragma unroll
        for (int r = 0; r < SINES; ++r) sine[j][r] = is_negative(op, j, r) != BACK ? -t.sine : t.sine;
    }
    const auto turn = [&](Real* x, int j) {
#pragma unroll
        for (int r = 0; r < PAIRS; ++r) {
            const int first = first_of(r, j), second = first | 1 << j;
            const Real u = x[first], v = x[second], s = sine[j][EVEN ? 0 : r];
            x[first] = cosine[j] * u - s * v;
            x[second] = cosine[j] * v + s * u;
        }
    };
    const auto load = [&](Real* x, const Real* from, unsigned place) {
#pragma unroll
        for (int o = 0; o < SIZE; ++o) x[o] = EVEN ? in_sign(from[place ^ offset[o]], op.flips, o) : from[place ^ offset[o]];
    };
    const auto store = [&](const Real* x, Real* to, unsigned place) {
#pragma unroll
        for (int o = 0; o < SIZE; ++o) to[place ^ offset[o]] = EVEN ? in_sign(x[o], op.flips, o) : x[o];
    };
    walk(op, [&](unsigned place) {
        Real x[SIZE];
        load(x, ket, place);
        if constexpr (BACK) {
            Real y[SIZE];
            load(y, bra, place);
#pragma unroll
            for (int j = K - 1; j >= 0; --j) {
#pragma unroll
                for (int r = 0; r < PAIRS; ++r) {
                    const int first = first_of(r, j), second = first | 1 << j;
                    const Real part = y[second] * x[first] - y[first] * x[second];
                    sum[j] += !EVEN && is_negative(op, j, r) ? -part : part;
                }
                turn(x, j);
                turn(y, j);
            }
            store(y, bra, place);
        } else {
#pragma unroll
            for (int j = 0; j < K; ++j) turn(x, j);
        }
        store(x, ket, place);
    });
    if constexpr (BACK) {
        constexpr int SUMS = K == 3 ? 4 : K;
        Real each[SUMS] = {};
#pragma unroll
        for (int j = 0; j < K; ++j) each[j] = EVEN && is_negative(op, j, 0) ? -sum[j] : sum[j];
        const Real own = warp_sums<SUMS>(each);
        note_sums<SUMS>(op, K, own, parity);
    } else {
        team.sync();
    }
}

// The derivatives by the angles of a group, whose sums over a warp its lanes have: lane l that of angle l % SUMS. With a barrier.
template <int SUMS>
__device__ __forceinline__ void Row::note_sums(const RowOp& op, int count, Real own, int parity) const {
    const unsigned warp = team.thread / 32, lane = team.thread % 32;
    double* const sums = room + parity * ROW_ROOM / 2;
    if (team.threads > 32 && lane < SUMS) sums[warp * SUMS + lane] = own;
    team.sync();
    if (warp > 0) return;
    double total = own;
    if (team.threads > 32) {
        total = 0;
        for (unsigned k = lane; k < SUMS * team.warps(); k += 32) total += sums[k];
#pragma unroll
        for (int step = SUMS; step < 32; step *= 2) total += __shfl_xor_sync(ALL, total, step);
    }
    if (lane < count) note(lane == 0 ? op.angle[0] : lane == 1 ? op.angle[1] : op.angle[2], total);
}

template <bool BACK>
__device__ __forceinline__ void Row::rotate_group(const RowOp& op, int parity) const {
    switch (op.count) {
        case 1: return rotate<1, BACK, true>(op, parity);
        case 2: return op.flips == ROW_UNEVEN ? rotate<2, BACK, false>(op, parity) : rotate<2, BACK, true>(op, parity);
        default: return op.flips == ROW_UNEVEN ? rotate<3, BACK, false>(op, parity) : rotate<3, BACK, true>(op, parity);
    }
}
