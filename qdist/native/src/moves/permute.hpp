// Two shards whose bits stand in different orders, side by side: permuted copies and inner products.
#pragma once
#include <algorithm>
#include <complex>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "base/lanes.hpp"

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
        const std::size_t size = std::size_t(1) << std::popcount(tile);
        to.resize(size);
        from.resize(size);
        for (std::size_t e = 0; e < size; ++e) {
            to[e] = deposit(e, tile);
            from[e] = source(to[e]);
        }
    }

    std::size_t count() const { return std::size_t(1) << std::popcount(outer_); }
    Index base(std::size_t tile) const { return deposit(tile, outer_); }
    Index source(Index index) const {
        Index result = 0;
        for (std::size_t j = 0; j < map_.size(); ++j) result |= (index >> j & 1) << map_[j];
        return result;
    }

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
#pragma omp parallel for schedule(static) if (count * size > 16384)
    for (std::size_t t = 0; t < count; ++t) {
        const Index base = tiles.base(t);
        const Complex* source = in + tiles.source(base);
        for (std::size_t e = 0; e < size; ++e) out[base + tiles.to[e]] = source[tiles.from[e]];
    }
}

// x[i] and x[source(i)] change places, where positions are exchanged in pairs: partner[partner[j]] == j. A tile's partner
// is a tile again, because the bits of both sides' lowest positions are in it.
template <class Complex>
void swap_positions(Complex* x, std::span<const int> partner) {
    const PermutedTiles tiles(partner);
    const std::size_t count = tiles.count(), size = tiles.to.size();
#pragma omp parallel for schedule(static) if (count * size > 16384)
    for (std::size_t t = 0; t < count; ++t) {
        const Index base = tiles.base(t), other = tiles.source(base);
        if (base > other) continue;
        for (std::size_t e = 0; e < size; ++e)
            if (base != other || tiles.to[e] < tiles.from[e]) std::swap(x[base + tiles.to[e]], x[other + tiles.from[e]]);
    }
}

// sum_i conj(bra[i]) ket[source(i)]. Tiles are summed in a fixed number of chunks, added in order.
template <class Real>
std::complex<double> permuted_inner(const Real* bra, const Real* ket, std::span<const int> positions) {
    const PermutedTiles tiles(positions);
    const std::size_t count = tiles.count(), size = tiles.to.size(), chunks = std::min<std::size_t>(count, 256);
    std::vector<std::complex<double>> sums(chunks);
#pragma omp parallel for schedule(static) if (count * size > 16384)
    for (std::size_t c = 0; c < chunks; ++c) {
        double re = 0, im = 0;
        for (std::size_t t = c * (count / chunks); t < (c + 1) * (count / chunks); ++t) {
            const Index base = tiles.base(t), source = tiles.source(base);
            for (std::size_t e = 0; e < size; ++e) {
                const Real* a = bra + 2 * (base + tiles.to[e]);
                const Real* b = ket + 2 * (source + tiles.from[e]);
                re += double(a[0]) * b[0] + double(a[1]) * b[1];
                im += double(a[0]) * b[1] - double(a[1]) * b[0];
            }
        }
        sums[c] = {re, im};
    }
    std::complex<double> total = 0;
    for (auto s : sums) total += s;
    return total;
}

// conj(x) y of n amplitudes. Products of real and imaginary parts are summed side by side, as they lie in memory.
template <class Real>
std::complex<double> block_inner(const Real* x, const Real* y, std::size_t n) {
    Lanes<double> same{}, crossed{};
    std::size_t i = 0;
    for (; i + lanes <= 2 * n; i += lanes) {
        const auto a = widened(Lanes<Real>::load(x + i)), b = widened(Lanes<Real>::load(y + i));
        same = same + a * b;
        crossed = crossed + a * flipped<1>(b);
    }
    double s[lanes], c[lanes], re = 0, im = 0;
    same.store(s);
    crossed.store(c);
    for (Index l = 0; l < lanes; l += 2) {
        re += s[l] + s[l + 1];
        im += c[l] - c[l + 1];
    }
    for (; i < 2 * n; i += 2) {
        re += double(x[i]) * y[i] + double(x[i + 1]) * y[i + 1];
        im += double(x[i]) * y[i + 1] - double(x[i + 1]) * y[i];
    }
    return {re, im};
}

// sum_i conj(bra[i]) ket[i] of shards in the same order; n amplitudes each. Fixed blocks, added in order.
template <class Real>
std::complex<double> inner(const Real* bra, const Real* ket, std::size_t n) {
    constexpr std::size_t block = std::size_t(1) << 14;
    const std::size_t blocks = (n + block - 1) / block;
    std::vector<std::complex<double>> sums(blocks);
#pragma omp parallel for schedule(static) if (blocks > 1)
    for (std::size_t b = 0; b < blocks; ++b)
        sums[b] = block_inner(bra + 2 * b * block, ket + 2 * b * block, std::min(block, n - b * block));
    std::complex<double> total = 0;
    for (auto s : sums) total += s;
    return total;
}

}  // namespace qdist
