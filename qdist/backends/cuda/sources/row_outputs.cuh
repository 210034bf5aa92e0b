// The outputs of a row, Pauli sums and probabilities, and the bra that they pull back.
#pragma once

#include "row.cuh"

// Of amplitude a, without the lowest of the flipped bits; and the amplitude without that bit that has this number.
__device__ __forceinline__ unsigned packed(const RowFlip& flip, unsigned a) { return a >> (flip.pivot + 1) << flip.pivot | (a & ((1u << flip.pivot) - 1)); }
__device__ __forceinline__ unsigned unpacked(const RowFlip& flip, unsigned i) { return i >> flip.pivot << (flip.pivot + 1) | (i & ((1u << flip.pivot) - 1)); }

// What strings that flip the same bits sum up with their signs: the real or the imaginary part of conj(b) a.
__device__ __forceinline__ Real Row::overlap(const RowFlip& flip, unsigned a, unsigned b) const {
    const Real ar = ket[a], ai = ket[a ^ plane()], br = ket[b], bi = ket[b ^ plane()];
    return flip.imaginary ? br * ai - bi * ar : br * ar + bi * ai;
}

__device__ __forceinline__ Real Row::probability(unsigned place) const {
    const Real x = ket[place], y = ket[place ^ plane()];
    return x * x + y * y;
}

// Strings that flip the same bits: for each amplitude a without the lowest of these bits, and b = a ^ flip.
template <class Pair>
__device__ __forceinline__ void Row::flipped(const RowFlip& flip, Pair pair) const {
    for (unsigned i = team.thread; i < size() / 2; i += team.threads) {
        const unsigned a = unpacked(flip, i);
        pair(swizzled(i), swizzled(a), swizzled(a ^ flip.bits));
    }
    team.sync();
}

__device__ __forceinline__ double Row::cotangent(int output) const { return given(launch.cotangents, launch.singles & COTANGENTS_SINGLE, number * launch.num_outputs + output); }
__device__ __forceinline__ void Row::put_value(int output, double value) const {
    launch.values[number * launch.num_outputs + output] = value;
    if (launch.single_values) launch.single_values[number * launch.num_outputs + output] = float(value);
}

__device__ __forceinline__ bool has_few(const RowFlip& flip) { return flip.bits != 0 && flip.end - flip.first <= Row::FEW; }

// Places are their own inverses: the mask of string m.
__device__ __forceinline__ unsigned Row::mask_of(int m) const { return swizzled(launch.masks[m]); }

// A warp sums over all pairs of a flip.
__device__ __forceinline__ void Row::sum_few(const RowFlip& flip) const {
    double sum[FEW] = {};
    unsigned mask[FEW];
#pragma unroll
    for (int k = 0; k < FEW; ++k) mask[k] = flip.first + k < flip.end ? mask_of(flip.first + k) : 0;
#pragma unroll 4
    for (unsigned i = team.thread % 32; i < size() / 2; i += 32) {
        const unsigned first = unpacked(flip, i);
        const double value = overlap(flip, swizzled(first), swizzled(first ^ flip.bits));
#pragma unroll
        for (int k = 0; k < FEW; ++k)
            if (flip.first + k < flip.end) sum[k] += __popc(i & mask[k]) & 1 ? -value : value;
    }
#pragma unroll
    for (int k = 0; k < FEW; ++k) {
        if (flip.first + k >= flip.end) break;
        const double total = warp_sum(sum[k]);
        if (team.thread % 32 == 0) leaves[flip.first + k] = Real(total);
    }
}

__device__ __forceinline__ void Row::outputs() const {
    for (int f = 0; f < launch.num_flips; ++f) {
        const RowFlip flip = launch.flips.first[f];
        if (has_few(flip)) continue;
        if (flip.bits == 0) {
            for (unsigned s = team.thread; s < size(); s += team.threads) work[swizzled(s)] = probability(swizzled(s));
            team.sync();
        } else {
            flipped(flip, [&](unsigned to, unsigned a, unsigned b) { work[to] = overlap(flip, a, b); });
        }
        walsh(team, work, launch.num_bits - (flip.bits != 0));
        for (int m = flip.first + team.thread; m < flip.end; m += team.threads) leaves[m] = work[launch.masks[m]];
        team.sync();
    }
    for (int f = team.thread / 32; f < launch.num_flips; f += team.warps()) {
        const RowFlip flip = launch.flips.first[f];
        if (has_few(flip)) sum_few(flip);
    }
    team.sync();
    for (int k = team.thread; k < launch.num_sums; k += team.threads) {
        double sum = 0;
        for (int e = launch.sum_begins[k]; e < launch.sum_begins[k + 1]; ++e) sum += launch.sum_entries.at(e, &RowEntry::coefficient) * leaves[launch.sum_entries.at(e, &RowEntry::other)];
        put_value(launch.sum_outputs[k], sum);
    }
    for (int m = 0; m < launch.num_marginals; ++m) {
        const int *const marginal = launch.marginals + m * (launch.num_bits + 3), count = marginal[1], inside = launch.num_bits - count;
        for (unsigned k = team.thread / 32; k < 1u << count; k += team.warps()) {
            double sum = 0;
            for (unsigned g = team.thread % 32; g < 1u << inside; g += 32) sum += probability(marginal_place(marginal, k << inside | g));
            sum = warp_sum(sum);
            if (team.thread % 32 == 0) put_value(marginal[0] + k, sum);
        }
    }
    team.sync();
}

__device__ __forceinline__ unsigned Row::marginal_place(const int* marginal, unsigned step) const {
    unsigned place = marginal[2];
    for (int b = 0; b < launch.num_bits; ++b) place ^= step >> b & 1 ? marginal[3 + b] : 0;
    return place;
}

// Adds the flips of few strings to the bra, with the weights that leaves hold. A thread has the same amplitudes of the bra for
// every flip, COUNT of them in registers.
template <unsigned COUNT>
__device__ __forceinline__ void Row::add_few() const {
    for (unsigned base = team.thread; base < size(); base += COUNT * team.threads) {
        Real x[COUNT], y[COUNT];
#pragma unroll
        for (unsigned j = 0; j < COUNT; ++j) {
            const unsigned here = swizzled(base + j * team.threads);
            x[j] = bra[here], y[j] = bra[here ^ plane()];
        }
#pragma unroll 1
        for (int f = 0; f < launch.num_flips; ++f) {
            const RowFlip flip = launch.flips.first[f];
            if (!has_few(flip)) continue;
            Real weight[COUNT] = {};
#pragma unroll 1
            for (int m = flip.first; m < flip.end; ++m) {
                const unsigned mask = mask_of(m);
                const Real leaf = leaves[m] / 2;
#pragma unroll
                for (unsigned j = 0; j < COUNT; ++j) {
                    const unsigned s = base + j * team.threads, lower = s >> flip.pivot & 1 ? s ^ flip.bits : s;
                    weight[j] += __popc(packed(flip, lower) & mask) & 1 ? -leaf : leaf;
                }
            }
#pragma unroll
            for (unsigned j = 0; j < COUNT; ++j) {
                const unsigned s = base + j * team.threads, other = swizzled(s ^ flip.bits);
                const Real re = ket[other], im = ket[other ^ plane()];
                const Real turned = s >> flip.pivot & 1 ? -weight[j] : weight[j];
                x[j] += flip.imaginary ? -turned * im : weight[j] * re;
                y[j] += flip.imaginary ? turned * re : weight[j] * im;
            }
        }
#pragma unroll
        for (unsigned j = 0; j < COUNT; ++j) {
            const unsigned here = swizzled(base + j * team.threads);
            bra[here] = x[j], bra[here ^ plane()] = y[j];
        }
    }
    team.sync();
}

// Whether there is one output, a Pauli sum O whose value is not known: it is then <ket|bra> of the bra O ket.
__device__ __forceinline__ bool Row::is_one_sum() const { return launch.num_outputs == 1 && launch.num_sums == 1 && !launch.known; }

// bra = sum of cotangents O ket, less a multiple of the ket, which changes no derivative. Of one sum, its value too.
__device__ __forceinline__ void Row::pull_back() const {
    const bool one = is_one_sum();
    const double* const values = launch.values + number * launch.num_outputs;
    double shift = 0;
    if (!one) {
        for (int k = team.thread; k < launch.num_outputs; k += team.threads) shift += cotangent(k) * values[k];
        shift = team_sum(team, shift, room);
    }
    for (int m = team.thread; m < launch.num_masks; m += team.threads) {
        double sum = m == launch.identity ? -shift : 0;
        for (int e = launch.mask_begins[m]; e < launch.mask_begins[m + 1]; ++e) sum += launch.mask_entries.at(e, &RowEntry::coefficient) * (one ? 1 : cotangent(launch.mask_entries.at(e, &RowEntry::other)));
        leaves[m] = Real(sum);
    }
    team.sync();
    for (int f = 0; f < launch.num_flips; ++f) {
        const RowFlip flip = launch.flips.first[f];
        if (has_few(flip)) continue;
        const int bits = launch.num_bits - (flip.bits != 0);
        for (unsigned s = team.thread; s < 1u << bits; s += team.threads) work[s] = 0;
        team.sync();
        for (int m = flip.first + team.thread; m < flip.end; m += team.threads) work[launch.masks[m]] = flip.bits ? leaves[m] / 2 : leaves[m];
        team.sync();
        walsh(team, work, bits);
        if (flip.bits == 0) {
            // The first of all: it sets the bra, the others add to it.
            for (unsigned s = team.thread; s < size(); s += team.threads) {
                const unsigned re = swizzled(s), im = re ^ plane();
                bra[re] = work[re] * ket[re];
                bra[im] = work[re] * ket[im];
            }
            team.sync();
        } else {
            flipped(flip, [&](unsigned from, unsigned a, unsigned b) {
                const Real w = work[from], ar = ket[a], ai = ket[a ^ plane()], br = ket[b], bi = ket[b ^ plane()];
                bra[a] += w * (flip.imaginary ? -bi : br);
                bra[a ^ plane()] += w * (flip.imaginary ? br : bi);
                bra[b] += w * (flip.imaginary ? ai : ar);
                bra[b ^ plane()] += w * (flip.imaginary ? -ar : ai);
            });
        }
    }
    size() >= 4 * team.threads ? add_few<4>() : add_few<1>();
    if (one) return scale_bra();
    for (int m = 0; m < launch.num_marginals; ++m) {
        const int *const marginal = launch.marginals + m * (launch.num_bits + 3), inside = launch.num_bits - marginal[1];
        for (unsigned g = team.thread; g < size(); g += team.threads) {
            const unsigned place = marginal_place(marginal, g);
            const Real weight = Real(cotangent(marginal[0] + (g >> inside)));
            bra[place] += weight * ket[place];
            bra[place ^ plane()] += weight * ket[place ^ plane()];
        }
        team.sync();
    }
}

// The value of the only output, O, and from O ket the bra.
__device__ __forceinline__ void Row::scale_bra() const {
    double value = 0;
    for (unsigned i = team.thread; i < 2 * size(); i += team.threads) value += double(ket[i]) * bra[i];
    value = team_sum(team, value, room);
    if (team.thread == 0) put_value(0, value);
    const Real weight = Real(cotangent(0)), shift = Real(value);
    for (unsigned i = team.thread; i < 2 * size(); i += team.threads) bra[i] = weight * (bra[i] - shift * ket[i]);
    team.sync();
}

// The whole state, in logical order.
__device__ __forceinline__ void Row::write_state() const {
    Turned phase = {1, 0};
    if (launch.phase >= 0) phase = turns[launch.phase];
    Complex* const to = launch.states + (number << launch.num_bits);
    for (unsigned s = team.thread; s < size(); s += team.threads) {
        unsigned place = launch.logical[0];
        for (int q = 0; q < launch.num_bits; ++q) place ^= s >> q & 1 ? launch.logical[1 + q] : 0;
        const Real re = ket[place], im = ket[place ^ plane()];
        to[s] = {re * phase.cosine + im * phase.sine, im * phase.cosine - re * phase.sine};
    }
}
