// Samples from probabilities: every shot walks down a binary tree of sums with fresh random numbers at every level.
//
// A shot's number at a level depends on the key, the shot and the level alone, and is compared with the share of the
// left branch alone. So samples do not depend on threads, blocks or ranks, and a rounding error in an amplitude can only
// change a shot that would have passed it, unlike in a running sum, where it shifts everything that follows.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "base/pool.hpp"

namespace qdist {

// SplitMix64, read at any place of its stream: uniform in [0, 1).
inline double uniform(std::uint64_t key, std::uint64_t place) {
    return double(splitmix(key + place * splitmix_step) >> 11) * 0x1p-53;
}

// trees: for each row 2^(depth + 1) numbers, of which the second half holds the row's probabilities. Fills in the sums:
// entry v is the sum of entries 2 v and 2 v + 1.
inline void sum_trees(double* trees, std::size_t rows, int depth) {
    const std::size_t leaves = std::size_t(1) << depth;
    ranges_on_threads(rows, std::max<std::size_t>(1, 16384 / leaves), [&](std::size_t first, std::size_t last) {
        for (std::size_t row = first; row < last; ++row) {
            double* tree = trees + row * 2 * leaves;
            for (std::size_t v = leaves - 1; v > 0; --v) tree[v] = tree[2 * v] + tree[2 * v + 1];
        }
    });
}

// Walks shot[k] down the tree of row[k]; out[k] is the leaf where it ends. The tree's root stands at `level`.
inline void descend(const double* trees, int depth, std::span<const std::int64_t> row, std::span<const std::int64_t> shot,
                    std::uint64_t key, int level, std::int64_t* out) {
    const std::size_t leaves = std::size_t(1) << depth;
    ranges_on_threads(row.size(), 1024, [&](std::size_t first, std::size_t last) {
        for (std::size_t k = first; k < last; ++k) {
            const double* tree = trees + std::size_t(row[k]) * 2 * leaves;
            const std::uint64_t place = std::uint64_t(shot[k]) * 64 + std::uint64_t(level);
            std::size_t v = 1;
            for (int d = 0; d < depth; ++d) {
                const double left = tree[2 * v], right = tree[2 * v + 1];
                const bool go_right = (uniform(key, place + std::uint64_t(d)) * (left + right) >= left) & (right > 0);
                v = 2 * v + go_right;
            }
            out[k] = std::int64_t(v - leaves);
        }
    });
}

// Adds |amplitude|^2 of the indices base | offset to the second half of each base's tree of 2^(depth + 1) numbers, for
// the amplitudes of the shard, whose first index is `first`. Bit j of a leaf is the bit at leaf_positions[j].
template <class Real>
void add_leaves(const Real* shard, int bits, Index first, std::span<const std::int64_t> bases,
                std::span<const int> leaf_positions, double* trees) {
    const std::size_t leaves = std::size_t(1) << leaf_positions.size();
    const std::vector<Index> offset = all_scattered(leaf_positions);
    const Index local = low_bits(bits);
    ranges_on_threads(bases.size(), std::max<std::size_t>(1, 8192 / leaves), [&](std::size_t start, std::size_t end) {
        for (std::size_t b = start; b < end; ++b) {
            double* leaf = trees + (2 * b + 1) * leaves;
            for (std::size_t v = 0; v < leaves; ++v) {
                const Index index = Index(bases[b]) | offset[v];
                if ((index ^ first) & ~local) continue;
                const Real* a = shard + 2 * (index & local);
                leaf[v] += double(a[0]) * a[0] + double(a[1]) * a[1];
            }
        }
    });
}

}  // namespace qdist
