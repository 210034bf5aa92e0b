// Diagonals of a row, as tables of phases: forward, and back with the derivatives by their angles.
#pragma once

#include "row.cuh"

// The phases of COUNT of a thread's amplitudes, all on their way at once. A table of many qubits is read without driving the
// other tables out of the cache.
template <int COUNT>
__device__ __forceinline__ void Row::fetch_phases(const RowOp& op, unsigned first, Complex* phase) const {
    const Complex* const table = launch.phases + (Index(op.first) << launch.num_bits);
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
        const unsigned s = first + j * team.threads;
        phase[j] = launch.num_bits < STREAMED_BITS ? read_only(table + s) : streamed(table + s);
    }
}

template <int COUNT>
__device__ __forceinline__ void Row::phases(const RowOp& op) const {
    for (unsigned first = team.thread; first < size(); first += COUNT * team.threads) {
        Complex phase[COUNT];
        fetch_phases<COUNT>(op, first, phase);
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const unsigned re = swizzled(first + j * team.threads), im = re ^ plane();
            const Complex p = phase[j];
            const Real a = ket[re], b = ket[im];
            ket[re] = p.x * a - p.y * b;
            ket[im] = p.x * b + p.y * a;
        }
    }
    team.sync();
}

// Back through a table of phases. The derivative by the angle of mask m is the sum of (-1)^(s & m) Im <bra_s|ket_s>. The
// amplitudes that a thread has at a time differ in BITS bits, over which it transforms these parts before it writes them to work.
template <int BITS>
__device__ __forceinline__ void Row::undo_phases(const RowOp& op) const {
    constexpr int COUNT = 1 << BITS;
    const int begin = launch.diagonals[2 * op.first], end = launch.diagonals[2 * op.first + 1];
    // What follows the last use of work needs no barrier, unless it is another table.
    team.sync();
    for (unsigned first = team.thread; first < size(); first += COUNT * team.threads) {
        Complex phase[COUNT];
        Real part[COUNT];
        fetch_phases<COUNT>(op, first, phase);
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const unsigned re = swizzled(first + j * team.threads), im = re ^ plane();
            const Complex p = phase[j];
            const Real a = ket[re], b = ket[im], c = bra[re], d = bra[im];
            ket[re] = p.x * a + p.y * b;
            ket[im] = p.x * b - p.y * a;
            bra[re] = p.x * c + p.y * d;
            bra[im] = p.x * d - p.y * c;
            part[j] = c * b - d * a;
        }
        if (!op.wanted) continue;
        butterflies<COUNT>(part);
#pragma unroll
        for (int j = 0; j < COUNT; ++j) work[swizzled(first + j * team.threads)] = part[j];
    }
    team.sync();
    if (!op.wanted) return;
    // The bits that threads have transformed over.
    const int low = BITS == 0 ? 0 : 31 - __clz(team.threads), high = low + BITS;
    if (end - begin <= 2 * int(team.warps())) return sum_terms(begin, end, low, high);
    walsh_between(team, work, 0, low, launch.num_bits);
    walsh_between(team, work, high, launch.num_bits, launch.num_bits);
    for (int t = begin + team.thread; t < end; t += team.threads) note(launch.terms.at(t, &RowTerm::angle), work[launch.terms.at(t, &RowTerm::place)]);
}

// As many amplitudes at a time as a thread has, up to eight.
template <bool BACK>
__device__ __forceinline__ void Row::multiply_phases(const RowOp& op) const {
    if (size() >= 8 * team.threads)
        BACK ? undo_phases<3>(op) : phases<8>(op);
    else if (size() >= 4 * team.threads)
        BACK ? undo_phases<2>(op) : phases<4>(op);
    else
        BACK ? undo_phases<0>(op) : phases<1>(op);
}

// Few terms: a warp sums up what belongs to each. Bits low ... high - 1 are transformed already.
__device__ __forceinline__ void Row::sum_terms(int begin, int end, int low, int high) const {
    const unsigned below = (1u << low) - 1, inside = (1u << high) - 1 & ~below, lane = team.thread % 32;
    for (int t = begin + team.thread / 32; t < end; t += team.warps()) {
        const unsigned mask = swizzled(launch.terms.at(t, &RowTerm::place)), signs = mask & ~inside;
        const int angle = launch.terms.at(t, &RowTerm::angle);
        Real sum = 0;
#pragma unroll 8
        for (unsigned i = lane; i < size() >> (high - low); i += 32) {
            const unsigned s = (i & below) | (i & ~below) << (high - low);
            sum += negated(work[swizzled(s | (mask & inside))], __popc(s & signs) << 31);
        }
        const double total = warp_sum(double(sum));
        if (lane == 0) note(angle, total);
    }
}
