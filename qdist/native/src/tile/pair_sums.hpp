// Sums of a tile's numbers over the elements where both of two bits are 1, for some pairs of its bits.
//
// The tile is rows, numbered by its highest bits. All rows added up serve pairs of column bits; the sum of each row serves pairs
// of row bits; and for a row bit and a column bit it is the rows that have the bit, added up. So the tile is read once, however
// many pairs there are.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"

namespace qdist {

template <class Real>
class PairSums {
public:
    PairSums() = default;
    // Of tiles of 2^t numbers, at least a vector.
    explicit PairSums(int t) : columns_(std::max(t - max_row_bits, Simd<Real>::lane_bits)), rows_(t - columns_) {}

    // The sum over bits first < second of the tile becomes number `at` of the sums.
    void add(int at, int first, int second) {
        if (second < columns_)
            of_columns_.push_back({at, first, second});
        else if (first >= columns_)
            of_rows_.push_back({at, first - columns_, second - columns_});
        else {
            crossing_.push_back({at, first, second - columns_});
            row_bits_ |= std::size_t(1) << (second - columns_);
        }
    }

    // Adds a tile's sums.
    void add_tile(const Real* w, double* sums) const {
        if (of_columns_.empty() && of_rows_.empty() && crossing_.empty()) return;
        const std::size_t width = std::size_t(1) << columns_, height = std::size_t(1) << rows_;
        // All rows, then those with each row bit; then a vector for each row.
        thread_local AlignedVector<Real> room;
        room.assign(width * (1 + rows_) + height * lanes, 0);
        Real *const all = room.data(), *const with = all + width, *const row = with + width * rows_;
        for (std::size_t r = 0; r < height; ++r) {
            const Real* from = w + r * width;
            if (!of_columns_.empty()) add_row(from, width, all);
            each_bit(r & row_bits_, [&](int b) { add_row(from, width, with + b * width); });
            if (of_rows_.empty()) continue;
            V sum{};
            for (std::size_t i = 0; i < width; i += lanes) sum += load(from + i);
            store<Real>(row + r * lanes, sum);
        }
        for (const Pair& p : of_columns_) sums[p.at] += sum_where(all, width, std::size_t(1) << p.first | std::size_t(1) << p.second);
        for (const Pair& p : crossing_) sums[p.at] += sum_where(with + p.second * width, width, std::size_t(1) << p.first);
        for (const Pair& p : of_rows_) {
            const std::size_t both = std::size_t(1) << p.first | std::size_t(1) << p.second;
            V sum{};
            for (std::size_t r = both; r < height; r = (r + 1) | both) sum += load(row + r * lanes);
            sums[p.at] += lane_sum(sum);
        }
    }

private:
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    // So many rows are added before a sum becomes a double.
    static constexpr int max_row_bits = 6;

    struct Pair {
        int at, first, second;  // bits of a row's number, or of a column's
    };

    static void add_row(const Real* from, std::size_t width, Real* to) {
        for (std::size_t i = 0; i < width; i += lanes) store<Real>(to + i, load(to + i) + load(from + i));
    }

    // The sum over the elements that have all bits of a mask.
    static double sum_where(const Real* numbers, std::size_t size, std::size_t mask) {
        double sum = 0;
        for (std::size_t i = mask; i < size; i = (i + 1) | mask) sum += numbers[i];
        return sum;
    }

    int columns_ = 0, rows_ = 0;
    std::vector<Pair> of_columns_, of_rows_, crossing_;  // the latter: a column bit and a row bit
    std::size_t row_bits_ = 0;                           // of those
};

}  // namespace qdist
