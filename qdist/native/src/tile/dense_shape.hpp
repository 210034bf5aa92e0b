// How a small matrix on some bits of a tile, under controls, is laid over the tile's vectors.
//
// A tile is re[0..2^t) and im[0..2^t), aligned. Bits below `lane_bits` are inside a vector: there a matrix is a sum over
// lane permutations with one coefficient a lane, and controls are a matter of those coefficients; controls above it are
// bits that the loops do not run over.
#pragma once
#include <algorithm>
#include <vector>

#include "base/simd.hpp"

namespace qdist {

// The indices at which a block works: all fixed bits removed and put back with given values.
class Runs {
public:
    // fixed: the bits (at or above `floor`) that the loop must not run over; value: what they are set to.
    Runs(int t, std::vector<int> fixed, std::size_t value, int floor) : fixed_(std::move(fixed)), value_(value) {
        std::sort(fixed_.begin(), fixed_.end());
        length_ = std::size_t(1) << (fixed_.empty() ? t : std::max(fixed_.front(), floor));
        count_ = std::size_t(1) << t >> fixed_.size();
    }
    // f(first, length): elements first .. first + length of the tile, `length` a multiple of the vector.
    template <class F>
    void each(F&& f) const {
        for (std::size_t r = 0; r < count_; r += length_) {
            std::size_t i = r;
            for (int b : fixed_) i = insert_zero(i, b);
            f(i | value_, std::min(length_, count_));
        }
    }

    // Leaves out what is not zero in so many of the highest bits, none of which is fixed.
    void narrow(int highest) { count_ >>= highest; }

private:
    std::vector<int> fixed_;
    std::size_t value_, length_, count_;
};

// The vectors that a matrix on `targets` mixes where the bits of `control_mask` have the values `control_value`.
template <class Real>
struct DenseShape {
    static constexpr int lane_bits = Simd<Real>::lane_bits;
    static constexpr int lanes = Simd<Real>::lanes;

    DenseShape(int t, std::vector<int> targets, std::size_t control_mask, std::size_t control_value)
        : t_(t), targets_(std::move(targets)), control_mask_(control_mask), control_value_(control_value) {
        std::vector<int> fixed;
        const std::size_t in_lane = lanes - 1;
        for (int b = lane_bits; b < t; ++b)
            if (control_mask >> b & 1) fixed.push_back(b);
        for (std::size_t j = 0; j < targets_.size(); ++j) {
            if (targets_[j] < lane_bits)
                lane_targets_.push_back(int(j));
            else {
                fixed.push_back(targets_[j]);
                row_targets_.push_back(int(j));
            }
        }
        rows_ = 1 << row_targets_.size();
        offset_.resize(rows_);
        for (int p = 0; p < rows_; ++p)
            for (std::size_t j = 0; j < row_targets_.size(); ++j)
                if (p >> j & 1) offset_[p] |= std::size_t(1) << targets_[row_targets_[j]];
        // Lane permutations: one for every set of targets inside the vector.
        for (int q = 0; q < 1 << lane_targets_.size(); ++q) {
            int x = 0;
            for (std::size_t j = 0; j < lane_targets_.size(); ++j)
                if (q >> j & 1) x |= 1 << targets_[lane_targets_[j]];
            permutations_.push_back(x);
        }
        plain_ = lane_targets_.empty() && !(control_mask & in_lane);
        runs_ = Runs(t, fixed, control_value & ~in_lane, lane_bits);
    }

    // The matrix index that row p and a lane stand for.
    std::size_t index(int p, int lane) const {
        std::size_t k = 0;
        for (std::size_t j = 0; j < row_targets_.size(); ++j)
            if (p >> j & 1) k |= std::size_t(1) << row_targets_[j];
        for (int j : lane_targets_)
            if (lane >> targets_[j] & 1) k |= std::size_t(1) << j;
        return k;
    }

    // Whether the controls inside a vector hold in a lane.
    bool holds(int lane) const {
        const std::size_t mask = control_mask_ & (lanes - 1);
        return (lane & mask) == (control_value_ & mask);
    }

    // The same for the part of a tile that is zero above its lowest bits, those of the shape among them.
    void narrow(int bits) {
        runs_.narrow(t_ - bits);
        t_ = bits;
    }

    int t_;
    std::vector<int> targets_;
    std::size_t control_mask_, control_value_;
    std::vector<int> row_targets_, lane_targets_;  // positions in targets_
    std::vector<int> permutations_;
    int rows_ = 1;
    std::vector<std::size_t> offset_;  // of each row's vector
    bool plain_ = true;                // nothing of it is inside a vector
    Runs runs_{0, {}, 0, 0};
};

}  // namespace qdist
