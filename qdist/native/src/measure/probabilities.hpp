// Probabilities of the values of some of a shard's bits, in one pass over the shard.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "base/pool.hpp"
#include "base/simd.hpp"

namespace qdist {

// Adds |amplitude|^2 of a shard of 2^bits amplitudes, the first of which has index `first`, to
// out[gathered(index, kept)]: kept[j] is the position of the result's bit j.
//
// A tile holds the lowest bits of the shard and of the result, so that both are read and written in whole cache lines.
// Tiles that go to different parts of the result are tasks of their own. Where there are too few of those, tiles that
// are summed are split into a fixed number of chunks with results of their own, which are added in order: the sums do
// not depend on the number of threads.
template <class Real>
void add_probabilities(const Real* shard, int bits, Index first, std::span<const int> kept, double* out) {
    constexpr int tile_low = 6, wanted_tasks = 64;
    const auto mask_of = [](std::span<const int> positions) { return scattered(~Index(0), positions); };
    const Index local = low_bits(bits), kept_mask = mask_of(kept) & local;
    const Index lowest = mask_of(kept.first(std::min<std::size_t>(kept.size(), tile_low)));
    const Index tile = (low_bits(std::min(bits, tile_low)) | lowest) & local;
    const Index row_mask = tile & ~low_bits(lane_bits), kept_rows = row_mask & kept_mask;
    const Index outer_kept = local & ~tile & kept_mask, outer_summed = local & ~tile & ~kept_mask;

    const std::size_t rows = std::size_t(1) << std::popcount(row_mask);
    const std::size_t slots = std::size_t(1) << std::popcount(kept_rows);
    const std::vector<Index> row_offset = all_scattered(positions_of(row_mask));
    const std::vector<int> slot_bits = positions_of(kept_rows);
    std::vector<Index> row_slot(rows), slot_out = all_scattered(slot_bits);
    for (std::size_t r = 0; r < rows; ++r) row_slot[r] = gathered(row_offset[r], slot_bits) * 2 * lanes;
    for (Index& index : slot_out) index = gathered(index, kept);
    Index lane_out[lanes];
    for (Index l = 0; l < lanes; ++l) lane_out[l] = gathered(l, kept);
    const Index far_out = gathered(first & ~local, kept);

    const std::size_t parts = std::size_t(1) << std::popcount(outer_kept);
    const std::size_t sums = std::size_t(1) << std::popcount(outer_summed);
    const std::size_t chunks = parts >= wanted_tasks ? 1 : std::min<std::size_t>(sums, wanted_tasks / parts);
    const std::size_t sums_per_chunk = sums / chunks;
    const std::size_t out_size = std::size_t(1) << kept.size();
    std::vector<double> partial(chunks > 1 ? chunks * out_size : 0);

    const auto run = [&](std::size_t task) {
        const std::size_t part = task % parts, chunk = task / parts;
        const Index part_base = deposit(part, outer_kept);
        // Squares of real and imaginary parts side by side, as they lie in memory.
        std::vector<double> sum(slots * 2 * lanes);
        Index summed = deposit(chunk * sums_per_chunk, outer_summed);
        for (std::size_t k = 0; k < sums_per_chunk; ++k, summed = next_within(summed, outer_summed)) {
            const Real* base = shard + 2 * (part_base | summed);
            for (std::size_t r = 0; r < rows; ++r) {
                const Real* a = base + 2 * row_offset[r];
                double* s = sum.data() + row_slot[r];
                for (Index half = 0; half < 2 * lanes; half += lanes) {
                    const auto v = widened(Lanes<Real>::load(a + half));
                    (Lanes<double>::load(s + half) + v * v).store(s + half);
                }
            }
        }
        double* result = (chunks > 1 ? partial.data() + chunk * out_size : out) + (far_out | gathered(part_base, kept));
        for (std::size_t s = 0; s < slots; ++s)
            for (Index l = 0; l < lanes; ++l) {
                const double* square = sum.data() + 2 * (s * lanes + l);
                result[slot_out[s] | lane_out[l]] += square[0] + square[1];
            }
    };
    if (bits > 14)
        each_on_threads(
            parts * chunks, [] { return 0; }, [&](int, std::size_t task) { run(task); });
    else
        for (std::size_t task = 0; task < parts * chunks; ++task) run(task);
    for (std::size_t i = 0; i < partial.size(); ++i) out[i % out_size] += partial[i];
}

// bra_i += w ket_i, where w is the weight at gathered(index, positions): the bra of a weighted sum of probabilities. A shard of
// `size` amplitudes, the first of which has index `first`.
template <class Complex>
void add_weighted(const Complex* ket, std::size_t size, Index first, std::span<const int> positions, const double* weights,
                  Complex* bra) {
    using Real = typename Complex::value_type;
    // What a run of neighbours adds to the place in `weights`, looked up instead of gathered bit by bit.
    const std::size_t run = std::min<std::size_t>(size, 256);
    std::vector<Index> inside(run);
    for (std::size_t i = 0; i < run; ++i) inside[i] = gathered(i, positions);
    ranges_on_threads(size, 8192, [&](std::size_t begin, std::size_t end) {
        for (std::size_t start = begin; start < end; start += run) {
            const Index outside = gathered(first + start, positions);
            for (std::size_t i = 0; i < run; ++i) bra[start + i] += Real(weights[outside | inside[i]]) * ket[start + i];
        }
    });
}

}  // namespace qdist
