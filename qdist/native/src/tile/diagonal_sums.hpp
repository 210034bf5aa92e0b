// Derivatives of <bra|ket> by the phases of a diagonal block.
//
// A phase on an element i of the ket changes Re <bra|ket> by w_i = Re(i conj(bra_i) ket_i), so the derivative by a term of
// the block's polynomial is the sum of w over the elements where the term's bits are 1. Bits outside the tile are conditions on
// the tile. The tile is rows, numbered by its highest bits, which are added up two bits at a time, with the rows that have a bit
// on the way: what is left are a few vectors for each term. Sums stay vectors, lane by lane, until all tiles are done: conditions
// on bits inside a vector are a matter of which lanes count then.
#pragma once
#include <algorithm>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "gates/angles.hpp"
#include "tile/diagonal.hpp"

namespace qdist {

template <class Real>
class DiagonalSums {
public:
    // trainable: the angles whose derivatives are wanted.
    DiagonalSums(int t, const Diagonal<Real>& diagonal, const Slots& trainable) {
        // The bits of a row that w has only one vector of are not there.
        const int folded = diagonal.rows_only() ? diagonal.columns() - Simd<Real>::lane_bits : 0;
        t_ = t - folded;
        columns_ = std::max(t_ - max_row_bits, Simd<Real>::lane_bits);
        adds_up_ = diagonal.rows_only();
        for (const auto& term : diagonal.terms()) {
            if (!term.angle.reads(trainable)) continue;
            std::size_t near = 0, far = 0;
            for (int b : {term.first, term.second})
                if (b >= 0) (b < t ? near : far) |= std::size_t(1) << (b < t ? b - folded : b - t);
            add_term(term.angle, {near, near}, {far, far});
        }
        for (const auto& wide : diagonal.wide())
            if (wide.angle.reads(trainable)) add_term(wide.angle, wide.near, wide.far);
    }

    bool empty() const { return terms_.empty(); }

    // Of how many numbers the w of rows is that tiles may add to before `add` sums it up: in rows_only() where no derivative
    // depends on bits outside the tile. Zero elsewhere.
    std::size_t numbers_of_rows() const { return adds_up_ && !empty() ? std::size_t(1) << t_ : 0; }

    // Of sums, and of the results that they are collected to.
    std::size_t num_sums() const { return terms_.size() * lanes; }
    std::size_t num_results() const { return terms_.size(); }

    // Adds a tile's part, given its w, which is used up.
    void add(Real* w, std::size_t base, double* sums) const {
        const std::size_t width = std::size_t(1) << columns_, height = std::size_t(1) << (t_ - columns_);
        const auto each = [&](Of of, auto f) {
            for (std::size_t k = 0; k < terms_.size(); ++k)
                if (terms_[k].of == of && terms_[k].far.holds(base)) f(terms_[k], sums + k * lanes);
        };
        each(Of::tile, [&](const Term& term, double* sum) { add_where(w, width * height, term.near, sum); });
        thread_local AlignedVector<Real> room;
        const std::size_t needed = width * (t_ - columns_) + height * lanes;
        if (room.size() < needed) room.resize(needed);
        Real *const with = room.data(), *const rows = with + width * (t_ - columns_);
        if (has_row_pairs_) {
            add_up_rows(w, rows);
            const int shift = columns_ - Simd<Real>::lane_bits;
            each(Of::row_pair, [&](const Term& term, double* sum) {
                add_where(rows, height * lanes, {term.near.mask >> shift, term.near.value >> shift}, sum);
            });
        }
        fold(w, with);
        each(Of::columns, [&](const Term& term, double* sum) { add_where(w, width, term.near, sum); });
        each(Of::row, [&](const Term& term, double* sum) { add_where(with + term.row * width, width, term.near, sum); });
    }

    void collect(const double* sums, double* results) const {
        for (std::size_t k = 0; k < terms_.size(); ++k)
            for (std::size_t lane = 0; lane < lanes; ++lane)
                if (!((lane ^ terms_[k].near.value) & terms_[k].near.mask & (lanes - 1))) results[k] += sums[k * lanes + lane];
    }

    // Adds 2 Re <bra|d ket> to the derivatives by the program's angles.
    void finish(const double* results, double* gradient) const {
        for (std::size_t k = 0; k < terms_.size(); ++k)
            for (const auto& [slot, coefficient] : terms_[k].angle.terms) gradient[slot] += 2 * coefficient * results[k];
    }

private:
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    static constexpr int max_row_bits = 6;

    // What a term is summed from: all rows added up, those with one bit, each row's sum, or the tile.
    enum class Of { columns, row, row_pair, tile };

    struct Term {
        Affine angle;
        Bits near, far;  // conditions on bits of the tile and on others
        Of of;
        int row;  // of Of::row, which bit of a row's number
    };

    void add_term(const Affine& angle, Bits near, Bits far) {
        adds_up_ = adds_up_ && !far.mask;
        const std::size_t row_bits = near.mask >> columns_, column_bits = near.mask & low_bits(columns_);
        const bool are_ones = near.value >> columns_ == row_bits;
        Of of = Of::tile;
        if (!row_bits)
            of = Of::columns;
        else if (are_ones && std::popcount(row_bits) == 1)
            of = Of::row;
        else if (are_ones && std::popcount(row_bits) == 2 && !column_bits)
            of = Of::row_pair;
        has_row_pairs_ = has_row_pairs_ || of == Of::row_pair;
        terms_.push_back({angle, near, far, of, std::countr_zero(row_bits)});
    }

    // Adds the vectors of `size` numbers where a condition on bits above the lanes holds. It may be on bits beyond them, too.
    static void add_where(const Real* numbers, std::size_t size, Bits condition, double* sum) {
        const std::size_t above = (size - 1) & ~(lanes - 1), mask = condition.mask & above, value = condition.value & mask;
        // So few are added before they become doubles.
        constexpr int together = 16;
        V some{};
        int pending = 0;
        // With ones at the condition's bits a carry goes through them.
        for (std::size_t free = 0; free < size; free = ((free | mask) + lanes) & ~mask) {
            some += load(numbers + (free | value));
            if (++pending < together) continue;
            add_lanes<Real>(some, sum);
            some = V{}, pending = 0;
        }
        if (pending) add_lanes<Real>(some, sum);
    }

    // A vector for each row of w.
    void add_up_rows(const Real* w, Real* rows) const {
        const std::size_t width = std::size_t(1) << columns_;
        for (std::size_t r = 0; r < std::size_t(1) << (t_ - columns_); ++r) {
            V sum{};
            for (std::size_t i = 0; i < width; i += lanes) sum += load(w + r * width + i);
            store<Real>(rows + r * lanes, sum);
        }
    }

    // Adds all rows of w up to the first; with: those that have each bit of a row's number.
    void fold(Real* w, Real* with) const {
        const std::size_t width = std::size_t(1) << columns_;
        int b = t_ - columns_;
        for (; b >= 2; b -= 2) {
            const std::size_t quarter = width << (b - 2);
            for (std::size_t i = 0; i < width; i += lanes) {
                V low{}, high{};
                for (Real* p = w + i; p < w + quarter; p += width) {
                    const V one = load(p + quarter), two = load(p + 2 * quarter), three = load(p + 3 * quarter);
                    const V upper = two + three;
                    low += one + three;
                    high += upper;
                    store<Real>(p, load(p) + one + upper);
                }
                store<Real>(with + (b - 2) * width + i, low);
                store<Real>(with + (b - 1) * width + i, high);
            }
        }
        if (b == 0) return;
        for (std::size_t i = 0; i < width; i += lanes) {
            const V upper = load(w + width + i);
            store<Real>(with + i, upper);
            store<Real>(w + i, load(w + i) + upper);
        }
    }

    int t_, columns_;
    bool adds_up_, has_row_pairs_ = false;
    std::vector<Term> terms_;
};

}  // namespace qdist
