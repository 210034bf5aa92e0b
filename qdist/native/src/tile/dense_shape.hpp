// How a small matrix on some bits of a tile, under controls, is laid over the tile's vectors.
//
// A tile is re[0..2^t) and im[0..2^t), aligned. Bits below `lane_bits` are inside a vector: there a matrix is a sum over
// lane permutations with one coefficient a lane, and controls are a matter of those coefficients; controls above it are
// bits that the loops do not run over.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// The vectors that a matrix on `targets` mixes where the bits of `control_mask` have the values `control_value`.
template <class Real>
struct DenseShape {
    static constexpr int lane_bits = Simd<Real>::lane_bits;
    static constexpr int lanes = Simd<Real>::lanes;

    DenseShape(int t, std::vector<int> targets, std::size_t control_mask, std::size_t control_value)
        : t_(t), targets_(std::move(targets)), control_mask_(control_mask), control_value_(control_value) {
        const std::size_t in_lane = lanes - 1;
        std::vector<int> rows, fixed = positions_of(control_mask & ~in_lane);
        for (std::size_t j = 0; j < targets_.size(); ++j)
            (targets_[j] < lane_bits ? lane_targets_ : row_targets_).push_back(int(j));
        // In order, whatever order the matrix has them in: half as many cases for `specialised`.
        std::ranges::sort(lane_targets_, {}, [&](int j) { return targets_[j]; });
        for (int j : lane_targets_) lane_bits_.push_back(targets_[j]);
        for (int j : row_targets_) rows.push_back(targets_[j]);
        fixed.insert(fixed.end(), rows.begin(), rows.end());
        offset_ = all_scattered(rows);
        // Lane permutations: one for every set of targets inside the vector.
        permutations_ = all_scattered(lane_bits_);
        plain_ = lane_targets_.empty() && !(control_mask & in_lane);
        for (std::size_t p = 0; p < offset_.size(); ++p)
            for (std::size_t lane = 0; lane < lanes; ++lane)
                indices_.push_back(
                    std::uint32_t(scattered(p, row_targets_) | scattered(gathered(lane, lane_bits_), lane_targets_)));
        runs_ = Runs(t, fixed, control_value & ~in_lane, lane_bits);
    }

    // The matrix index that row p and a lane stand for.
    std::size_t index(std::size_t p, std::size_t lane) const { return indices_[p * lanes + lane]; }

    // Whether the controls inside a vector hold in a lane.
    bool holds(std::size_t lane) const { return !((lane ^ control_value_) & control_mask_ & (lanes - 1)); }

    // The same for the part of a tile that is zero above its lowest bits, those of the shape among them.
    void narrow(int bits) {
        runs_.narrow(t_ - bits);
        t_ = bits;
    }

    // Calls f with constants: the numbers of rows and of lane permutations, and the first two of these that change anything. For
    // up to two targets.
    template <class F>
    void specialised(F f) const {
        const auto with = [&]<int rows, int perms>(std::integer_sequence<int, rows, perms>) {
            // Each of the two flips one bit, the second a higher one: far fewer cases to compile than permutations of lanes.
            with_constant<perms == 1 ? 1 : perms == 2 ? lane_bits : lane_bits - 1>(perms == 1 ? 0 : lane_bits_[0], [&](auto b1) {
                constexpr int above = b1 + 1;
                with_constant<perms == 4 ? lane_bits - above : 1>(perms == 4 ? lane_bits_[1] - above : 0, [&](auto b2) {
                    f.template operator()<rows, perms, perms == 1 ? 0 : 1 << b1, perms == 4 ? 1 << (above + b2) : 0>();
                });
            });
        };
        const std::size_t rows = offset_.size(), perms = permutations_.size();
        if (rows == 4) return with(std::integer_sequence<int, 4, 1>());
        if (rows == 2) return perms == 1 ? with(std::integer_sequence<int, 2, 1>()) : with(std::integer_sequence<int, 2, 2>());
        if (perms == 1) return with(std::integer_sequence<int, 1, 1>());
        return perms == 2 ? with(std::integer_sequence<int, 1, 2>()) : with(std::integer_sequence<int, 1, 4>());
    }

    int t_;
    std::vector<int> targets_;
    std::size_t control_mask_, control_value_;
    std::vector<int> row_targets_, lane_targets_,
        lane_bits_;                             // places in targets_ of those above the lanes and inside; the latter's bits
    std::vector<Index> offset_, permutations_;  // of each row's vector; of lanes, as what is xored
    std::vector<std::uint32_t> indices_;        // of each row's lanes
    bool plain_ = true;                         // nothing of it is inside a vector
    Runs runs_{0, {}, 0, 0};
};

}  // namespace qdist
