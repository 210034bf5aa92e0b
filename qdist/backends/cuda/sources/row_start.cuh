// The start of a row: its angles, the first rotations of each qubit, the product state that they lead to, and the way back.
#pragma once

#include "row.cuh"

__device__ __forceinline__ void Row::bind() const {
    for (int a = team.thread; a < launch.num_angles; a += team.threads) {
        if (!(launch.traits[a] & OF_ROW)) {
            const Complex both = launch.turned[a];
            turns[a] = {both.x, both.y};
            continue;
        }
        turns[a] = turned(angle_of(launch, a, [&](int s) {
            return sum_of(launch.shared_slots[s], launch.row_begins[s], launch.row_begins[s + 1], launch.row_entries, [&](int p) { return given(launch.row_values, launch.singles & ROWS_SINGLE, number * launch.per_row + p); });
        }));
    }
    team.sync();
}

// The first rotations of each qubit: its amplitudes of |0> and |1>, four numbers.
__device__ __forceinline__ void turn_qubit(Real* q, int axis, Real c, Real s) {
    const Real a = q[0], b = q[1], d = q[2], e = q[3];
    if (axis == 0)
        q[0] = c * a + s * e, q[1] = c * b - s * d, q[2] = c * d + s * b, q[3] = c * e - s * a;
    else if (axis == 1)
        q[0] = c * a - s * d, q[1] = c * b - s * e, q[2] = c * d + s * a, q[3] = c * e + s * b;
    else
        q[0] = c * a + s * b, q[1] = c * b - s * a, q[2] = c * d - s * e, q[3] = c * e + s * d;
}

__device__ __forceinline__ void Row::start_qubits() const {
    for (int q = team.thread; q < launch.num_bits; q += team.threads) {
        Real* const own = qubits + 4 * q;
        own[0] = 1, own[1] = own[2] = own[3] = 0;
        for (int f = launch.start_begins[q]; f < launch.start_begins[q + 1]; ++f) {
            const Turned t = turns[launch.factors[2 * f + 1]];
            turn_qubit(own, launch.factors[2 * f], t.cosine, t.sine);
        }
    }
    team.sync();
}

__device__ __forceinline__ void Row::start() const {
    // The lowest bits of all amplitudes of a thread are those of its number.
    const int low = min(launch.num_bits, 31 - __clz(team.threads));
    const Complex first = product({1, 0}, team.thread, 0, low);
    for (unsigned s = team.thread; s < size(); s += team.threads) {
        const Complex a = product(first, s, low, launch.num_bits);
        ket[swizzled(s)] = a.x;
        ket[swizzled(s) ^ plane()] = a.y;
    }
    team.sync();
}

// Times the amplitudes of qubits begin ... end - 1 at index s.
__device__ __forceinline__ Complex Row::product(Complex a, unsigned s, int begin, int end) const {
    for (int q = begin; q < end; ++q) {
        const Real* const own = qubits + 4 * q + 2 * (s >> q & 1);
        a = {a.x * own[0] - a.y * own[1], a.x * own[1] + a.y * own[0]};
    }
    return a;
}

// Derivatives by the angles of the start, of a bra that is pulled back to it. bra is overwritten.
__device__ __forceinline__ void Row::undo_start() const {
    Real* const bras = qubits + 4 * launch.num_bits;
    for (int q = launch.num_bits - 1; q >= 0; --q) {
        const unsigned half = 1u << q;
        const Real* const own = qubits + 4 * q;
        Real sum[4] = {0, 0, 0, 0};
        for (unsigned l = team.thread; l < half; l += team.threads) {
            const unsigned zero = swizzled(l), one = swizzled(l | half);
            const Real a = bra[zero], b = bra[zero ^ plane()], c = bra[one], d = bra[one ^ plane()];
            const Complex p = product({1, 0}, l, 0, q);
            sum[0] += a * p.x + b * p.y;
            sum[1] += b * p.x - a * p.y;
            sum[2] += c * p.x + d * p.y;
            sum[3] += d * p.x - c * p.y;
            bra[zero] = a * own[0] + b * own[1] + c * own[2] + d * own[3];
            bra[zero ^ plane()] = b * own[0] - a * own[1] + d * own[2] - c * own[3];
        }
        // Each warp's sums; rooms take turns, so that one barrier a qubit is enough.
        double* const sums = room + (q & 1) * 3 * 32;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            sum[k] = warp_sum(sum[k]);
            if (team.thread % 32 == 0) sums[team.thread / 32 * 4 + k] = sum[k];
        }
        team.sync();
        if (team.thread < 4) {
            double total = 0;
            for (unsigned w = 0; w < team.warps(); ++w) total += sums[4 * w + team.thread];
            bras[4 * q + team.thread] = Real(total);
        }
    }
    team.sync();
    for (int q = team.thread; q < launch.num_bits; q += team.threads) {
        Real *const k = qubits + 4 * q, *const b = bras + 4 * q;
        for (int f = launch.start_begins[q + 1] - 1; f >= launch.start_begins[q]; --f) {
            const int axis = launch.factors[2 * f], angle = launch.factors[2 * f + 1];
            if (axis == 0)
                note(angle, b[0] * k[3] - b[1] * k[2] + b[2] * k[1] - b[3] * k[0]);
            else if (axis == 1)
                note(angle, b[2] * k[0] - b[0] * k[2] + b[3] * k[1] - b[1] * k[3]);
            else
                note(angle, b[0] * k[1] - b[1] * k[0] - b[2] * k[3] + b[3] * k[2]);
            const Turned t = turns[angle];
            turn_qubit(k, axis, t.cosine, -t.sine);
            turn_qubit(b, axis, t.cosine, -t.sine);
        }
    }
}
