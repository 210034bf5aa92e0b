// Blocks of a stage that follow each other and run in one pass over a tile, its vectors held in registers between them.
//
// A pass of one block is bound by loads, stores and index arithmetic, not by its few multiplications. Single-bit matrices and
// Pauli rotations above the lanes mix each row, which is a vector of the tile, with the row that a flip leads to; phases mix
// none. Blocks of up to `max_flips` independent flips f therefore stay within sets of 2^f rows r ^ (sum of some flips).
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "program/blocks.hpp"
#include "tile/tiles.hpp"

namespace qdist {

template <class Real>
class FusedBlocks {
public:
    // Whether it is faster than a pass for each block. Trotter steps, 20 qubits, one thread, fused and not: 38.8 and 49.9 ms with
    // AVX-512, but 127 and 100 on Neoverse-N1, where every circuit that was tried lost by 4 to 37 %.
#if defined(__aarch64__)
    static constexpr bool pays = false;
#else
    static constexpr bool pays = true;
#endif
    // Real and imaginary parts of a set fill half of the registers, 32 with AVX-512.
#if defined(__AVX512F__)
    static constexpr int max_flips = 3;
#else
    static constexpr int max_flips = 2;
#endif
    static constexpr int max_blocks = 16;

    // The blocks from number `first` of a stage with tiles of 2^t elements on; empty where fewer than two can be fused.
    static std::optional<FusedBlocks> find(int t, const std::vector<Block<Real>>& blocks, std::size_t first) {
        if constexpr (!pays) return {};
        FusedBlocks fused(t);
        for (std::size_t k = first; k < blocks.size() && fused.add(blocks[k]); ++k) continue;
        if (fused.num_blocks() < 2 || !fused.is_worth_it_) return {};
        fused.complete(blocks, first);
        return fused;
    }

    std::size_t num_blocks() const { return flip_.size(); }

    // Runs the blocks from number `first` on; false, and nothing done, if their angles leave too many rows alone.
    bool apply(const std::vector<Block<Real>>& blocks, std::size_t first, Tile<Real> tile, std::size_t base) const {
        if constexpr (!pays) return false;
        std::array<Step, max_blocks> steps;
        for (std::size_t k = 0; k < num_blocks(); ++k)
            if (!make_step(blocks[first + k], k, base, steps[k])) return false;
        run(tile, steps.data());
        return true;
    }

private:
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    static constexpr int lane_bits = Simd<Real>::lane_bits, set_size = 1 << max_flips;
    static constexpr int no_flip = -1;

    enum class Kind { even_rotation, odd_rotation, real_givens, imaginary_givens, hadamard, matrix, real_matrix, phases, row_phases };

    // A block as the kernel reads it.
    struct Step {
        int what;  // its kind and flip
        // Rotations: cosines and sines of all patterns. Phases: their parts.
        const Real *re, *im;
        const std::uint32_t* pattern;             // of the first row of each set, times the lanes
        std::uint32_t pattern_of[set_size];       // what each row adds
        Real matrix[8];                           // a tangent, or a matrix: real parts and imaginary parts
        int columns;                              // phases of rows of 2^columns elements
    };

    explicit FusedBlocks(int t) : t_(t) {}

    static std::size_t flip_of(const Block<Real>& block) {
        if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) return std::size_t(1) << d->dense.shape().targets_[0];
        if (const auto* r = std::get_if<Rotations<Real>>(&block)) return r->flips();
        return 0;
    }

    // Whether the kernel below knows the block, whatever its angles are.
    static bool is_known(const Block<Real>& block) {
        if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) return !d->far.mask && d->dense.is_plain_of_one_bit();
        if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) return g->diagonal.has_plain_factors();
        const auto* r = std::get_if<Rotations<Real>>(&block);
        return r && r->mixes_rows();
    }

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
        // Rotations of single bits alone have a kernel of their own.
        is_worth_it_ = is_worth_it_ || !is_dense;
        return true;
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

    // Finds the sets of rows, and the patterns that rotations have there.
    void complete(const std::vector<Block<Real>>& blocks, std::size_t first) {
        // More flips, of bits that none of the blocks mixes, up to the size that the kernel has.
        for (int b = lane_bits; b < t_ && int(flips_.size()) < max_flips; ++b)
            if (is_independent(std::size_t(1) << b)) flips_.push_back(std::size_t(1) << b);
        for (int some = 0; some < set_size; ++some) offset_[some] = sum_of(some);
        // In each set the row that is smallest comes first.
        for (std::size_t i = 0; i < std::size_t(1) << t_; i += lanes)
            if (std::all_of(offset_.begin(), offset_.end(), [=](std::size_t x) { return (i ^ x) >= i; }))
                for (std::size_t x : offset_) rows_.push_back(std::uint32_t(i ^ x));
        for (std::size_t k = 0; k < num_blocks(); ++k) {
            pattern_.emplace_back();
            pattern_of_.emplace_back();
            if (const auto* r = std::get_if<Rotations<Real>>(&blocks[first + k])) {
                for (std::size_t n = 0; n < rows_.size(); n += set_size)
                    pattern_[k].push_back(std::uint32_t(r->near_pattern(rows_[n]) * lanes));
                for (std::size_t x : offset_) pattern_of_[k].push_back(std::uint32_t(r->near_pattern(x) * lanes));
            }
        }
    }

    bool make_step(const Block<Real>& block, std::size_t k, std::size_t base, Step& step) const {
        Kind kind = Kind::phases;
        if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) {
            if (const Givens* givens = d->dense.givens()) {
                kind = givens->form == GivensForm::hadamard ? Kind::hadamard
                       : givens->is_imaginary()             ? Kind::imaginary_givens
                                                            : Kind::real_givens;
                step.matrix[0] = Real(givens->tangent);
            } else {
                kind = d->dense.is_real() ? Kind::real_matrix : Kind::matrix;
                d->dense.copy_matrix(step.matrix);
            }
        } else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) {
            std::tie(step.re, step.im) = g->diagonal.factors();
            step.columns = g->diagonal.columns();
            if (g->diagonal.rows_only()) kind = Kind::row_phases;
        } else {
            const auto& r = std::get<Rotations<Real>>(block);
            if (!r.moves_much()) return false;
            kind = r.is_odd() ? Kind::odd_rotation : Kind::even_rotation;
            std::tie(step.re, step.im) = r.cosines_and_sines();
            const std::uint32_t far = std::uint32_t(r.far_pattern(base) * lanes);
            step.pattern = pattern_[k].data();
            for (int p = 0; p < set_size; ++p) step.pattern_of[p] = pattern_of_[k][p] ^ far;
        }
        step.what = int(kind) * max_flips + std::max(flip_[k], 0);
        return true;
    }

    // The rows of a set.
    struct Set {
        V re[set_size], im[set_size];
    };

    // f(p, q): the rows p and q, which flip number j exchanges.
    template <int j, class F>
    QDIST_INLINE static void each_pair(F f) {
        unrolled<set_size / 2>([&](auto k) QDIST_INLINE {
            constexpr std::size_t p = (k >> j << (j + 1)) | (k & ((1 << j) - 1));
            f(std::integral_constant<std::size_t, p>(), std::integral_constant<std::size_t, p | 1 << j>());
        });
    }

    // set: the number of the set. The largest product, mostly the cosine's, comes last: as part of an FMA it is not rounded.
    template <int j, bool odd>
    QDIST_INLINE static void rotate(Set& x, const Step& step, std::size_t set) {
        const std::uint32_t first = step.pattern[set];
        each_pair<j>([&](auto p, auto q) QDIST_INLINE {
            const std::size_t at = first ^ step.pattern_of[p];
            const V c = load(step.re + at), s = load(step.im + at);
            const V a = x.re[p], b = x.im[p], d = x.re[q], e = x.im[q];
            if constexpr (odd) {
                x.re[p] = s * d + c * a, x.im[p] = s * e + c * b;
                x.re[q] = c * d - s * a, x.im[q] = c * e - s * b;
            } else {
                x.re[p] = s * e + c * a, x.im[p] = c * b - s * d;
                x.re[q] = s * b + c * d, x.im[q] = c * e - s * a;
            }
        });
    }

    template <int j, bool imaginary>
    QDIST_INLINE static void rotate_givens(Set& x, const Step& step) {
        const V t = splat(step.matrix[0]);
        each_pair<j>([&](auto p, auto q) QDIST_INLINE {
            const V a = x.re[p], b = x.im[p], d = x.re[q], e = x.im[q];
            if constexpr (imaginary) {
                // (1, it; it, 1)
                x.re[p] = a - t * e, x.im[p] = b + t * d;
                x.re[q] = d - t * b, x.im[q] = e + t * a;
            } else {
                x.re[p] = a - t * d, x.im[p] = b - t * e;
                x.re[q] = d + t * a, x.im[q] = e + t * b;
            }
        });
    }

    template <int j>
    QDIST_INLINE static void add_and_subtract(Set& x) {
        each_pair<j>([&](auto p, auto q) QDIST_INLINE {
            const V a = x.re[p], b = x.im[p], d = x.re[q], e = x.im[q];
            x.re[p] = a + d, x.im[p] = b + e;
            x.re[q] = a - d, x.im[q] = b - e;
        });
    }

    template <int j, bool real>
    QDIST_INLINE static void multiply(Set& x, const Step& step) {
        const Real *m = step.matrix, *n = m + 4;
        each_pair<j>([&](auto p, auto q) QDIST_INLINE {
            const V a = x.re[p], b = x.im[p], d = x.re[q], e = x.im[q];
            if constexpr (real) {
                x.re[p] = m[0] * a + m[1] * d, x.im[p] = m[0] * b + m[1] * e;
                x.re[q] = m[2] * a + m[3] * d, x.im[q] = m[2] * b + m[3] * e;
                return;
            }
            x.re[p] = m[0] * a - n[0] * b + m[1] * d - n[1] * e;
            x.im[p] = m[0] * b + n[0] * a + m[1] * e + n[1] * d;
            x.re[q] = m[2] * a - n[2] * b + m[3] * d - n[3] * e;
            x.im[q] = m[2] * b + n[2] * a + m[3] * e + n[3] * d;
        });
    }

    QDIST_INLINE static void multiply_row(Set& x, std::size_t p, V c, V s) {
        const V a = x.re[p], b = x.im[p];
        x.re[p] = c * a - s * b;
        x.im[p] = c * b + s * a;
    }

    void run(Tile<Real> tile, const Step* steps) const {
        const std::size_t num_sets = rows_.size() / set_size;
        const Step* const end = steps + num_blocks();
        for (std::size_t set = 0; set < num_sets; ++set) {
            const std::uint32_t* const row = &rows_[set * set_size];
            Set x;
            unrolled<set_size>([&](auto p) QDIST_INLINE {
                x.re[p] = load(tile.re + row[p]);
                x.im[p] = load(tile.im + row[p]);
            });
            for (const Step* step = steps; step != end; ++step) apply_step(x, *step, set, row);
            const std::uint32_t* const same = again(row);
            unrolled<set_size>([&](auto p) QDIST_INLINE {
                store<Real>(tile.re + same[p], x.re[p]);
                store<Real>(tile.im + same[p], x.im[p]);
            });
        }
    }

    // Hides that a pointer is the same as before: what it leads to is read again, which is cheaper than keeping 16 addresses.
    QDIST_INLINE static const std::uint32_t* again(const std::uint32_t* row) {
        asm("" : "+r"(row));
        return row;
    }

    QDIST_INLINE static void apply_step(Set& x, const Step& step, std::size_t set, const std::uint32_t* row) {
        row = again(row);
        constexpr int phases = int(Kind::phases) * max_flips;
        if (step.what == phases)
            unrolled<set_size>(
                [&](auto p) QDIST_INLINE { multiply_row(x, p, load(step.re + row[p]), load(step.im + row[p])); });
        else if (step.what > phases)
            unrolled<set_size>([&](auto p) QDIST_INLINE {
                const std::size_t at = row[p] >> step.columns;
                multiply_row(x, p, step.re[at] - V{}, step.im[at] - V{});
            });
        else
            with_constant<phases>(step.what, [&](auto what) QDIST_INLINE {
                constexpr Kind kind = Kind(what / max_flips);
                constexpr int j = what % max_flips;
                if constexpr (kind == Kind::even_rotation || kind == Kind::odd_rotation)
                    rotate<j, kind == Kind::odd_rotation>(x, step, set);
                else if constexpr (kind == Kind::hadamard)
                    add_and_subtract<j>(x);
                else if constexpr (kind == Kind::matrix || kind == Kind::real_matrix)
                    multiply<j, kind == Kind::real_matrix>(x, step);
                else
                    rotate_givens<j, kind == Kind::imaginary_givens>(x, step);
            });
    }

    int t_;
    bool is_worth_it_ = false;
    std::size_t dense_bits_ = 0;
    std::vector<std::size_t> flips_;
    std::vector<int> flip_;                            // of each block, or no_flip
    std::array<std::size_t, set_size> offset_{};       // from a set's first row to each of its rows, by exclusive or
    std::vector<std::uint32_t> rows_;                    // first elements, set by set
    std::vector<std::vector<std::uint32_t>> pattern_;    // of each rotation at the first row of each set, times the lanes
    std::vector<std::vector<std::uint32_t>> pattern_of_;  // of each rotation at offset_, times the lanes
};

}  // namespace qdist
