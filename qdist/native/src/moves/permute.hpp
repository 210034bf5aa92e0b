// Shards whose bits stand in different orders, side by side: permuted copies and inner products.
#pragma once
#include <algorithm>
#include <complex>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "base/ordered_sum.hpp"
#include "base/pool.hpp"

namespace qdist {

// The pairs (i, source(i)) of indices, where bit j of i is the bit at positions[j] of source(i), tile by tile: a tile
// holds the lowest bits of both, so that whole cache lines are used on either side.
class PermutedTiles {
public:
    explicit PermutedTiles(std::span<const int> positions) : map_(positions.begin(), positions.end()) {
        constexpr int tile_low = 5;
        const int bits = int(map_.size());
        Index tile = low_bits(std::min(bits, tile_low));
        for (int j = 0; j < bits; ++j)
            if (map_[j] < tile_low) tile |= Index(1) << j;
        outer_ = low_bits(bits) & ~tile;
        to = all_scattered(positions_of(tile));
        for (Index index : to) from.push_back(source(index));
    }

    std::size_t count() const { return std::size_t(1) << std::popcount(outer_); }
    Index base(std::size_t tile) const { return deposit(tile, outer_); }
    Index source(Index index) const { return scattered(index, map_); }

    // Tiles that are worth a thread.
    std::size_t grain() const { return std::max<std::size_t>(1, 8192 / to.size()); }

    // Offsets of a tile's elements on both sides.
    std::vector<Index> to, from;

private:
    std::vector<int> map_;
    Index outer_;
};

template <class Complex>
void permuted_copy(const Complex* in, std::span<const int> positions, Complex* out) {
    const PermutedTiles tiles(positions);
    const std::size_t count = tiles.count(), size = tiles.to.size();
    ranges_on_threads(count, tiles.grain(), [&](std::size_t first, std::size_t last) {
        for (std::size_t t = first; t < last; ++t) {
            const Index base = tiles.base(t);
            const Complex* source = in + tiles.source(base);
            for (std::size_t e = 0; e < size; ++e) out[base + tiles.to[e]] = source[tiles.from[e]];
        }
    });
}

// x[i] and x[source(i)] change places, where positions are exchanged in pairs: partner[partner[j]] == j. A tile's partner
// is a tile again, because the bits of both sides' lowest positions are in it.
template <class Complex>
void swap_positions(Complex* x, std::span<const int> partner) {
    const PermutedTiles tiles(partner);
    const std::size_t count = tiles.count(), size = tiles.to.size();
    ranges_on_threads(count, tiles.grain(), [&](std::size_t first, std::size_t last) {
        for (std::size_t t = first; t < last; ++t) {
            const Index base = tiles.base(t), other = tiles.source(base);
            if (base > other) continue;
            for (std::size_t e = 0; e < size; ++e)
                if (base != other || tiles.to[e] < tiles.from[e]) std::swap(x[base + tiles.to[e]], x[other + tiles.from[e]]);
        }
    });
}

// sum_i conj(bra[i]) ket[source(i)].
template <class Real>
std::complex<double> permuted_inner(const Real* bra, const Real* ket, std::span<const int> positions) {
    const PermutedTiles tiles(positions);
    double sums[2] = {};
    const auto nothing = [] { return 0; };
    ordered_sum(tiles.count(), 2, sums, nothing, [&](int, std::size_t t, std::size_t last, double* found) {
        double re = 0, im = 0;
        for (; t < last; ++t) {
            const Index base = tiles.base(t), source = tiles.source(base);
            for (std::size_t e = 0; e < tiles.to.size(); ++e) {
                const Real* a = bra + 2 * (base + tiles.to[e]);
                const Real* b = ket + 2 * (source + tiles.from[e]);
                re += double(a[0]) * b[0] + double(a[1]) * b[1];
                im += double(a[0]) * b[1] - double(a[1]) * b[0];
            }
        }
        found[0] = re, found[1] = im;
    });
    return {sums[0], sums[1]};
}

}  // namespace qdist
