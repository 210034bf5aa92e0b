// Derivatives of <bra|ket> by the phases of a diagonal block.
//
// A phase on an element i of the ket changes Re <bra|ket> by w_i = Re(i conj(bra_i) ket_i), so the derivative by a term of
// the block's polynomial is the sum of w over the elements where the term's bits are 1. All single bits of a tile are
// summed by halving: the upper half's sum, then the halves added. Bits outside the tile are conditions on the tile. For pairs
// of a tile's bits its rows are added up, and for each row bit with a partner among the columns those rows that have it
// (tile/pair_sums.hpp).
#pragma once
#include <algorithm>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "gates/angles.hpp"
#include "tile/diagonal.hpp"
#include "tile/pair_sums.hpp"

namespace qdist {

template <class Real>
class DiagonalSums {
public:
    // trainable: the angles whose derivatives are wanted.
    DiagonalSums(int t, const Diagonal<Real>& diagonal, const Slots& trainable) {
        // The bits of a row that w has only one vector of are not there.
        const int folded = diagonal.rows_only() ? diagonal.columns() - Simd<Real>::lane_bits : 0;
        t_ = t - folded;
        rows_ = diagonal.rows_only();
        pairs_ = PairSums<Real>(t_);
        using Term = typename Diagonal<Real>::Term;
        const std::vector<Term>& terms = diagonal.terms();
        for (std::size_t k = 0; k < terms.size(); ++k) {
            if (!terms[k].angle.reads(trainable)) continue;
            const int a = terms[k].first, b = terms[k].second;
            Sum sum{terms[k].angle, {}, a >= 0 && a < t ? a - folded : -1, -1};
            if (a >= t) sum.far.mask |= std::size_t(1) << (a - t);
            if (b >= t) sum.far.mask |= std::size_t(1) << (b - t);
            sum.far.value = sum.far.mask;
            rows_ = rows_ && !sum.far.mask;
            if (b < t && b != a) {
                sum.second = b - folded;
                pairs_.add(int(sums_.size()), sum.first, sum.second);
            }
            sums_.push_back(std::move(sum));
        }
        for (const auto& wide : diagonal.wide())
            if (wide.angle.reads(trainable)) wide_.push_back(wide);
    }

    bool empty() const { return sums_.empty() && wide_.empty(); }

    // Of how many numbers the w of rows is that tiles may add to before `add` sums it up: in rows_only() where no derivative
    // depends on bits outside the tile. Zero elsewhere.
    std::size_t numbers_of_rows() const { return rows_ && !empty() ? std::size_t(1) << t_ : 0; }

    std::size_t num_sums() const { return sums_.size() + wide_.size(); }

    // Adds a tile's part, given its w, which is used up.
    void add(Real* w, std::size_t base, double* sums) const {
        for (std::size_t k = 0; k < wide_.size(); ++k)
            if (wide_[k].far.holds(base)) sums[sums_.size() + k] += sum_where(wide_[k].near, w);
        if (sums_.empty()) return;
        pairs_.add_tile(w, sums);
        double bit[max_tile_bits], all;
        halve(w, bit, all);
        for (std::size_t k = 0; k < sums_.size(); ++k) {
            const Sum& sum = sums_[k];
            if (sum.second < 0 && sum.far.holds(base)) sums[k] += sum.first < 0 ? all : bit[sum.first];
        }
    }

    // Adds 2 Re <bra|d ket> to the derivatives by the program's angles.
    void finish(const double* results, double* gradient) const {
        for (std::size_t k = 0; k < num_sums(); ++k) {
            const Affine& angle = k < sums_.size() ? sums_[k].angle : wide_[k - sums_.size()].angle;
            for (const auto& [slot, coefficient] : angle.terms) gradient[slot] += 2 * coefficient * results[k];
        }
    }

private:
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    static constexpr int max_tile_bits = 62;

    // A term of the polynomial: bits of the tile (-1 where there is none), and a condition on the others.
    struct Sum {
        Affine angle;
        Bits far;
        int first, second;
    };

    double sum_where(Bits condition, const Real* w) const {
        double sum = 0;
        runs_where(condition, t_, [&](std::size_t first, std::size_t length) {
            if (length < lanes) {
                for (std::size_t i = first; i < first + length; ++i) sum += w[i];
                return;
            }
            const std::size_t block = std::min<std::size_t>(length, 16 * lanes);
            for (std::size_t start = first; start < first + length; start += block) {
                V part{};
                for (std::size_t i = start; i < start + block; i += lanes) part += load(w + i);
                sum += lane_sum(part);
            }
        });
        return sum;
    }

    // The sums of w over the elements with each bit, and over all. Uses w up.
    void halve(Real* w, double* bit, double& all) const {
        int b = t_;
        for (; b >= Simd<Real>::lane_bits + 2; b -= 2) fold_two(w, b - 2, bit);
        if (b > Simd<Real>::lane_bits) {
            --b;
            const V upper = load(w + lanes);
            bit[b] = lane_sum(upper);
            store<Real>(w, load(w) + upper);
        }
        all = 0;
        std::fill(bit, bit + b, 0.0);
        for (std::size_t i = 0; i < std::size_t(1) << b; ++i) {
            all += w[i];
            for (int a = 0; a < b; ++a)
                if (i >> a & 1) bit[a] += w[i];
        }
    }

    // Sums over the two highest bits, b + 1 and b, of w, which has 2^(b + 2) numbers and then 2^b: those added up.
    static void fold_two(Real* w, int b, double* bit) {
        const std::size_t quarter = std::size_t(1) << b, block = std::min<std::size_t>(quarter, 16 * lanes);
        bit[b] = bit[b + 1] = 0;
        for (std::size_t start = 0; start < quarter; start += block) {
            V low{}, high{};
            for (std::size_t i = start; i < start + block; i += lanes) {
                const V one = load(w + quarter + i), two = load(w + 2 * quarter + i), three = load(w + 3 * quarter + i);
                const V upper = two + three;
                low += one + three;
                high += upper;
                store<Real>(w + i, load(w + i) + one + upper);
            }
            // So few are added before they become doubles.
            bit[b] += lane_sum(low);
            bit[b + 1] += lane_sum(high);
        }
    }

    int t_;
    bool rows_;
    std::vector<Sum> sums_;
    std::vector<typename Diagonal<Real>::Wide> wide_;
    PairSums<Real> pairs_;
};

}  // namespace qdist
