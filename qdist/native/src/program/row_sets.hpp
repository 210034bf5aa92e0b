// Sets of rows of a tile that the blocks of one pass mix, and what blocks do to a set whose vectors are in registers.
//
// A row is a vector of the tile. Single-bit matrices and Pauli rotations above the lanes mix each row with the row that a flip
// leads to; phases mix none. Blocks of up to `max_flips` independent flips f therefore stay within sets of 2^f rows
// r ^ (sum of some flips).
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "base/simd.hpp"
#include "program/blocks.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// Which rows the sets of some blocks have. Blocks are added as long as one pass can run them.
template <class Real, int max_flips>
class RowSets {
public:
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    static constexpr int lane_bits = Simd<Real>::lane_bits, set_size = 1 << max_flips;
    static constexpr int no_flip = -1, max_blocks = 16;

    explicit RowSets(int t) : t_(t) {}

    int num_blocks() const { return int(flip_.size()); }
    // Of block k: the number of its flip, or no_flip.
    int flip(int k) const { return flip_[k]; }
    std::size_t num_sets() const { return rows_.size() / set_size; }
    // The first elements of a set's rows.
    const std::uint32_t* rows(std::size_t set) const { return &rows_[set * set_size]; }
    // Of block k, rotations: the patterns of the first row of each set, and what each row of a set adds, times the lanes.
    const std::uint32_t* patterns(int k) const { return pattern_[k].data(); }
    const std::vector<std::uint32_t>& patterns_in_set(int k) const { return pattern_of_[k]; }

    // Whether the blocks so far and this one can run in one pass, whatever its angles are; if so, it is added.
    bool add(const Block<Real>& block) {
        if (num_blocks() == max_blocks || t_ < lane_bits + max_flips || !is_known(block)) return false;
        const std::size_t flip = flip_of(block);
        const bool is_dense = std::holds_alternative<DenseBlock<Real>>(block);
        // A matrix tells its rows apart by their bit, which no other flip may change.
        const auto changes = [&](std::size_t other) { return other != flip && (other & (is_dense ? flip : flip & dense_bits_)); };
        if (std::any_of(flips_.begin(), flips_.end(), changes)) return false;
        if (is_dense) dense_bits_ |= flip;
        int number = no_flip;
        if (flip) {
            number = int(std::find(flips_.begin(), flips_.end(), flip) - flips_.begin());
            if (number == int(flips_.size())) {
                if (number == max_flips || !is_independent(flip)) return false;
                flips_.push_back(flip);
            }
        }
        flip_.push_back(number);
        return true;
    }

    // Finds the sets, and the patterns that rotations have there. block(k): number k of those that were added.
    template <class BlockAt>
    void complete(BlockAt block) {
        // More flips, of bits that none of the blocks mixes, up to the size that the kernel has.
        for (int b = lane_bits; b < t_ && int(flips_.size()) < max_flips; ++b)
            if (is_independent(std::size_t(1) << b)) flips_.push_back(std::size_t(1) << b);
        std::array<std::size_t, set_size> offset;
        for (int some = 0; some < set_size; ++some) offset[some] = sum_of(some);
        // In each set the row that is smallest comes first.
        for (std::size_t i = 0; i < std::size_t(1) << t_; i += lanes)
            if (std::all_of(offset.begin(), offset.end(), [=](std::size_t x) { return (i ^ x) >= i; }))
                for (std::size_t x : offset) rows_.push_back(std::uint32_t(i ^ x));
        for (int k = 0; k < num_blocks(); ++k) {
            pattern_.emplace_back();
            pattern_of_.emplace_back();
            if (const auto* r = std::get_if<Rotations<Real>>(&block(k))) {
                for (std::size_t n = 0; n < rows_.size(); n += set_size)
                    pattern_[k].push_back(std::uint32_t(r->near_pattern(rows_[n]) * lanes));
                for (std::size_t x : offset) pattern_of_[k].push_back(std::uint32_t(r->near_pattern(x) * lanes));
            }
        }
    }

private:
    static std::size_t flip_of(const Block<Real>& block) {
        if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) return std::size_t(1) << d->dense.shape().targets_[0];
        if (const auto* r = std::get_if<Rotations<Real>>(&block)) return r->flips();
        return 0;
    }

    static bool is_known(const Block<Real>& block) {
        if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) return !d->far.mask && d->dense.is_plain_of_one_bit();
        if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) return g->diagonal.has_plain_factors();
        const auto* r = std::get_if<Rotations<Real>>(&block);
        return r && r->mixes_rows();
    }

    bool is_independent(std::size_t flip) const {
        for (std::size_t some = 1; some < std::size_t(1) << flips_.size(); ++some)
            if (sum_of(some) == flip) return false;
        return true;
    }

    std::size_t sum_of(std::size_t some) const {
        std::size_t sum = 0;
        for (std::size_t j = 0; j < flips_.size(); ++j)
            if (some >> j & 1) sum ^= flips_[j];
        return sum;
    }

    int t_;
    std::size_t dense_bits_ = 0;
    std::vector<std::size_t> flips_;
    std::vector<int> flip_;                               // of each block
    std::vector<std::uint32_t> rows_;                     // set by set
    std::vector<std::vector<std::uint32_t>> pattern_;     // of each block
    std::vector<std::vector<std::uint32_t>> pattern_of_;  // of each block
};

// Hides that a pointer is the same as before: what it leads to is read again, which is cheaper than keeping 16 addresses.
QDIST_INLINE inline const std::uint32_t* again(const std::uint32_t* row) {
    asm("" : "+r"(row));
    return row;
}

// The vectors of a set, and what blocks do to them. p, q: rows that flip number j exchanges.
template <class Real, int max_flips>
struct RowSet {
    using V = Vec<Real>;
    static constexpr int size = 1 << max_flips;

    V re[size], im[size];

    QDIST_INLINE void load_from(Tile<Real> tile, const std::uint32_t* row) {
        unrolled<size>([&](auto p) QDIST_INLINE {
            re[p] = load(tile.re + row[p]);
            im[p] = load(tile.im + row[p]);
        });
    }
    QDIST_INLINE void store_to(Tile<Real> tile, const std::uint32_t* row) const {
        unrolled<size>([&](auto p) QDIST_INLINE {
            store<Real>(tile.re + row[p], re[p]);
            store<Real>(tile.im + row[p], im[p]);
        });
    }

    // f(p, q) for each pair that flip number j makes.
    template <int j, class F>
    QDIST_INLINE static void each_pair(F f) {
        unrolled<size / 2>([&](auto k) QDIST_INLINE {
            constexpr std::size_t p = (k >> j << (j + 1)) | (k & ((1 << j) - 1));
            f(std::integral_constant<std::size_t, p>(), std::integral_constant<std::size_t, p | 1 << j>());
        });
    }

    // A Pauli rotation of p and q. The largest product, mostly the cosine's, comes last: as part of an FMA it is not rounded.
    template <bool odd>
    QDIST_INLINE void rotate(std::size_t p, std::size_t q, V c, V s) {
        const V a = re[p], b = im[p], d = re[q], e = im[q];
        if constexpr (odd) {
            re[p] = s * d + c * a, im[p] = s * e + c * b;
            re[q] = c * d - s * a, im[q] = c * e - s * b;
        } else {
            re[p] = s * e + c * a, im[p] = c * b - s * d;
            re[q] = s * b + c * d, im[q] = c * e - s * a;
        }
    }

    // A Givens rotation without its cosine: (1, -t; t, 1), or (1, it; it, 1).
    template <int j, bool imaginary>
    QDIST_INLINE void rotate_givens(V t) {
        each_pair<j>([&](auto p, auto q) QDIST_INLINE {
            const V a = re[p], b = im[p], d = re[q], e = im[q];
            if constexpr (imaginary) {
                re[p] = a - t * e, im[p] = b + t * d;
                re[q] = d - t * b, im[q] = e + t * a;
            } else {
                re[p] = a - t * d, im[p] = b - t * e;
                re[q] = d + t * a, im[q] = e + t * b;
            }
        });
    }

    template <int j>
    QDIST_INLINE void add_and_subtract() {
        each_pair<j>([&](auto p, auto q) QDIST_INLINE {
            const V a = re[p], b = im[p], d = re[q], e = im[q];
            re[p] = a + d, im[p] = b + e;
            re[q] = a - d, im[q] = b - e;
        });
    }

    // m: real parts of a matrix, then imaginary parts.
    template <int j, bool real>
    QDIST_INLINE void multiply(const Real* m) {
        const Real* n = m + 4;
        each_pair<j>([&](auto p, auto q) QDIST_INLINE {
            const V a = re[p], b = im[p], d = re[q], e = im[q];
            if constexpr (real) {
                re[p] = m[0] * a + m[1] * d, im[p] = m[0] * b + m[1] * e;
                re[q] = m[2] * a + m[3] * d, im[q] = m[2] * b + m[3] * e;
                return;
            }
            re[p] = m[0] * a - n[0] * b + m[1] * d - n[1] * e;
            im[p] = m[0] * b + n[0] * a + m[1] * e + n[1] * d;
            re[q] = m[2] * a - n[2] * b + m[3] * d - n[3] * e;
            im[q] = m[2] * b + n[2] * a + m[3] * e + n[3] * d;
        });
    }

    // By a phase c + is.
    QDIST_INLINE void multiply_row(std::size_t p, V c, V s) {
        const V a = re[p], b = im[p];
        re[p] = c * a - s * b;
        im[p] = c * b + s * a;
    }
};

}  // namespace qdist
