// The sums that a pass of a PauliPlan puts into the rows of a tile, block by block.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/simd.hpp"
#include "pauli/expectation.hpp"
#include "pauli/product_tables.hpp"
#include "pauli/rows.hpp"

namespace qdist {

// The real part of <a|b>, row by row.
template <class Real>
class RealProduct {
public:
    // Sums of this many rows are added up before they become doubles, because that costs more than they do.
    static constexpr std::size_t together = 8;

    QDIST_INLINE void add(std::size_t row, const Amplitudes<Real>& a, const Amplitudes<Real>& b) {
        some_ = some_ + a * b;
        if (row % together == together - 1) widen();
    }

    double total() const { return (total_ + widened(some_)).sum(); }

private:
    QDIST_INLINE void widen() {
        total_ = total_ + widened(some_);
        some_ = {};
    }

    Lanes<double, 2 * lanes> total_{};
    Amplitudes<Real> some_{};
};

// Sums up blocks of neighbouring rows, some of them at a time. What is done with the sums is left to the caller, so that the
// loops below, one for each way in which rows are flipped, are compiled once. Only products with other rows are made here: sums
// need not be stored for them.
template <class Real>
class BlockSums {
public:
    BlockSums(const RowSums& sums, const Real* factors, const Real* in)
        : kinds_(sums.kinds), factors_(factors), in_(in), counts_(sums.counts.data()), shared_(sums.shared.data()),
          own_(sums.own.data()), is_single_(sums.rows < block_rows<Real>), left_(sums.rows) {}

    // The rows that the next sums are of; none at the end.
    std::size_t next() {
        const std::size_t rows = std::min(left_, is_single_ ? 1 : most_rows);
        left_ -= rows;
        if (is_single_ && rows)
            add_single();
        else if (rows)
            add_blocks(rows, nullptr, nullptr, std::make_index_sequence<block_rows<Real>>());
        return rows;
    }
    // Adds the products of all sums with the rows of a tile. For tiles that are no smaller than a block.
    void add_products(const Real* own, RealProduct<Real>& product) {
        add_blocks(left_, own, &product, std::make_index_sequence<block_rows<Real>>());
        left_ = 0;
    }
    Amplitudes<Real> row(std::size_t j) const { return Amplitudes<Real>::load(sums_ + 2 * lanes * j); }

private:
    // To call what is below takes as long as a row or two.
    static constexpr std::size_t most_rows = 8 * block_rows<Real>;

    // Stores the sums, or adds their products with `own_rows`. Its parts must not become calls: the sums would go through
    // memory with each addition.
    template <std::size_t... j>
    [[gnu::noinline]] void add_blocks(std::size_t rows, const Real* own_rows, RealProduct<Real>* product,
                                      std::index_sequence<j...>) {
        constexpr std::size_t block = sizeof...(j);
        // Copies: storing a sum could change the members, as far as the compiler knows.
        const RowSums::Source *shared = shared_, *own = own_;
        const std::uint16_t* counts = counts_;
        const Real *const factors = factors_, *const in = in_;
        const std::span<const PauliKind> kinds = kinds_;
        RealProduct<Real> products = product ? *product : RealProduct<Real>();
        for (std::size_t first = 0; first < rows; first += block) {
            Amplitudes<Real> sum[] = {(void(j), Amplitudes<Real>{})...};
            for (const PauliKind& kind : kinds) {
                const auto add_all = [&](auto flip, auto imaginary, auto by_lane) QDIST_INLINE {
                    const auto factor = [&](const RowSums::Source& source) QDIST_INLINE {
                        if constexpr (by_lane)
                            return doubled<imaginary>(Lanes<Real>::load(factors + source.factor));
                        else
                            return Amplitudes<Real>::all(factors[source.factor]);
                    };
                    const auto row = [&](std::size_t start)
                                         QDIST_INLINE { return flipped<2 * flip + imaginary>(Amplitudes<Real>::load(in + start)); };
                    for (const auto* end = shared + counts[0]; shared != end; ++shared) {
                        const auto f = factor(*shared);
                        ((sum[j] = sum[j] + f * row(shared->row + 2 * lanes * j)), ...);
                    }
                    for (const auto* end = own + block * counts[1]; own != end; own += block)
                        ((sum[j] = sum[j] + factor(own[j]) * row(own[j].row)), ...);
                };
                specialised(kind.lane_flip, kind.imaginary, [&](auto flip, auto imaginary) QDIST_INLINE {
                    if constexpr (imaginary)
                        add_all(flip, imaginary, std::true_type());
                    else if (kind.by_lane)
                        add_all(flip, imaginary, std::true_type());
                    else
                        add_all(flip, imaginary, std::false_type());
                });
                counts += 2;
            }
            if (own_rows)
                (products.add(first + j, Amplitudes<Real>::load(own_rows + 2 * lanes * (first + j)), sum[j]), ...);
            else
                (sum[j].store(sums_ + 2 * lanes * (first + j)), ...);
        }
        if (product) *product = products;
        shared_ = shared;
        own_ = own;
        counts_ = counts;
    }

    // The same for one row, of a state too small for a block.
    void add_single() {
        std::fill_n(sums_, 2 * lanes, Real(0));
        for (const PauliKind& kind : kinds_) {
            const std::size_t flip = 2 * kind.lane_flip + kind.imaginary;
            const auto add = [&](const RowSums::Source& source) {
                for (std::size_t l = 0; l < 2 * lanes; ++l) {
                    const Real factor = factors_[source.factor + (kind.by_lane ? l / 2 : 0)];
                    sums_[l] += (kind.imaginary && l % 2 == 0 ? -factor : factor) * in_[source.row + (l ^ flip)];
                }
            };
            for (const auto* end = shared_ + counts_[0]; shared_ != end; ++shared_) add(*shared_);
            for (const auto* end = own_ + counts_[1]; own_ != end; ++own_) add(*own_);
            counts_ += 2;
        }
    }

    const std::vector<PauliKind>& kinds_;
    const Real *factors_, *in_;
    const std::uint16_t* counts_;
    const RowSums::Source *shared_, *own_;
    bool is_single_;
    std::size_t left_;  // rows
    alignas(64) Real sums_[2 * lanes * most_rows];
};

// Calls put(row, sum) for each row with the sum of the rows of the tile `in` that it takes, times their factors.
template <class Real, class Put>
QDIST_INLINE inline void sum_blocks(const RowSums& sums, const Real* factors, const Real* in, Put put) {
    BlockSums<Real> blocks(sums, factors, in);
    std::size_t row = 0;
    while (const std::size_t rows = blocks.next())
        for (std::size_t j = 0; j < rows; ++j) put(row++, blocks.row(j));
}

}  // namespace qdist
