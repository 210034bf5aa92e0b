// The norm of a tile, which no block changes where all are unitary: they are so on every tile by itself.
//
// In single precision their rounding errors change it. They do not always cancel: where a large amplitude should shrink by
// less than half its last place, it stays, while the small ones that it feeds grow. So it is measured before some blocks and
// brought back after them, where that costs little beside the blocks themselves.
#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/simd.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// The sum of |amplitude|^2 of a tile or of its first elements; size: at least a vector's.
template <class Real>
double tile_norm(Tile<Real> tile, std::size_t size) {
    constexpr std::size_t lanes = Simd<Real>::lanes, together = 2 * lanes;
    double total[lanes] = {};
    const auto add = [&](Vec<Real> squares) {
        for (std::size_t l = 0; l < lanes; ++l) total[l] += squares[l];
    };
    std::size_t i = 0;
    for (; i + together <= size; i += together) {
        const Vec<Real> a = load(tile.re + i), b = load(tile.im + i), c = load(tile.re + i + lanes),
                        d = load(tile.im + i + lanes);
        add(a * a + b * b + (c * c + d * d));
    }
    for (; i < size; i += lanes) {
        const Vec<Real> a = load(tile.re + i), b = load(tile.im + i);
        add(a * a + b * b);
    }
    double sum = 0;
    for (double t : total) sum += t;
    return sum;
}

// Brings a tile back to the norm that it had.
template <class Real>
class KeptNorm {
public:
    // Measuring a tile and multiplying it cost about as much as one to three blocks. After so many of them it is worth it.
    static constexpr int worth_it = 64;
    static constexpr bool rounds = std::is_same_v<Real, float>;

    // lacking: the factor that the tile's numbers lack.
    void note(Tile<Real> tile, std::size_t size, double lacking) { noted_ = tile_norm(tile, size) * lacking * lacking; }

    void restore(Tile<Real> tile, std::size_t size, double lacking) const {
        // Squares of smaller amplitudes are lost in single precision.
        if (!(noted_ > 1e-25)) return;
        const double change = std::sqrt(noted_ / tile_norm(tile, size)) / std::abs(lacking) - 1;
        // Less than this rounds to nothing; more does not come from rounding errors.
        if (!(std::abs(change) > 0x1p-26 && std::abs(change) < 0x1p-8)) return;
        const Real factor = Real(change);
        for (Real* x : {tile.re, tile.im})
            for (std::size_t i = 0; i < size; i += Simd<Real>::lanes) {
                const Vec<Real> v = load(x + i);
                qdist::store<Real>(x + i, v + factor * v);
            }
    }

private:
    double noted_ = 0;
};

}  // namespace qdist
