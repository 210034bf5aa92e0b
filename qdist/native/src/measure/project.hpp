// Projections of a shard onto values of its bits, in place.
#pragma once
#include <algorithm>

#include "base/bits.hpp"
#include "base/pool.hpp"
#include "base/simd.hpp"

namespace qdist {

// Amplitudes that are worth a thread.
inline constexpr Index grain = 8192;

// Multiplies the amplitudes whose index has the bits `value` under `mask` by scale, and sets the others to zero. The
// shard has 2^bits amplitudes, the first of which has index `first`.
template <class Real>
void project(Real* shard, int bits, Index first, Index mask, Index value, Real scale) {
    const Index size = Index(1) << bits, row = std::min(size, lanes);
    const Index lane_mask = mask & (row - 1), row_mask = mask & ~(row - 1), row_value = value & ~(row - 1);
    Real factor[2 * lanes];
    for (Index l = 0; l < row; ++l) factor[2 * l] = factor[2 * l + 1] = (l & lane_mask) == (value & (row - 1)) ? scale : Real(0);
    ranges_on_threads(size, grain, [&](std::size_t start, std::size_t end) {
        for (Index r = start; r < end; r += row) {
            Real* a = shard + 2 * r;
            if (((first + r) & row_mask) != row_value)
                std::fill(a, a + 2 * row, Real(0));
            else if (row == lanes)
                for (Index l = 0; l < 2 * lanes; ++l) a[l] = a[l] * factor[l] + Real(0);  // + 0 turns -0 into 0
            else
                for (Index l = 0; l < 2 * row; ++l) a[l] = a[l] * factor[l] + Real(0);
        }
    });
}

// reset_bit for a bit inside a row of lanes: `flip` is its distance in real numbers.
template <Index flip, class Real>
void reset_lanes(Real* shard, int bits, bool outcome, Real scale) {
    Real factors[lanes];
    for (Index l = 0; l < lanes; ++l) factors[l] = l & flip ? Real(0) : scale;
    const auto factor = Lanes<Real>::load(factors);
    const Index size = Index(2) << bits;
    ranges_on_threads(size, 2 * grain, [&](std::size_t start, std::size_t end) {
        for (Index i = start; i < end; i += lanes) {
            const auto a = Lanes<Real>::load(shard + i);
            (factor * (outcome ? flipped<flip>(a) : a)).store(shard + i);
        }
    });
}

// Moves the half of the shard where the bit at `position` is `outcome` to where it is 0, multiplied by scale; the other
// half becomes zero.
template <class Real>
void reset_bit(Real* shard, int bits, int position, bool outcome, Real scale) {
    if (bits >= lane_bits && position == 0) return reset_lanes<2>(shard, bits, outcome, scale);
    if (bits >= lane_bits && position == 1) return reset_lanes<4>(shard, bits, outcome, scale);
    const Index half = Index(1) << position, pairs = Index(1) << (bits - 1), from = outcome ? half : 0;
    // Runs of neighbours with the bit 0, cut so that there is work for every thread at any position.
    const Index run = std::min<Index>(half, 4096);
    ranges_on_threads(pairs, std::max(run, grain / 2), [&](std::size_t first, std::size_t last) {
        for (Index p = first; p < last; p += run) {
            const Index start = (p & ~(half - 1)) << 1 | (p & (half - 1));
            Real* zero = shard + 2 * start;
            Real* one = zero + 2 * half;
            const Real* source = zero + 2 * from;
            for (Index k = 0; k < 2 * run; ++k) zero[k] = source[k] * scale;
            for (Index k = 0; k < 2 * run; ++k) one[k] = Real(0);
        }
    });
}

}  // namespace qdist
