// The product of a sum of Pauli strings with a state, and the strings' expectation values on the way.
#pragma once
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "expectation.hpp"
#include "pauli_rows.hpp"
#include "pauli_tiles.hpp"

namespace qdist {

// The real part of <a|b>, row by row.
template <class Real>
class RealProduct {
public:
    void add(std::size_t row, const Split<Real>& a, const Split<Real>& b) {
        // Sums of this many rows are added up before they become doubles, because that costs more than they do.
        constexpr std::size_t together = 8;
        some_ = some_ + a.re * b.re + a.im * b.im;
        if (row % together < together - 1) return;
        total_ = total_ + widened(some_);
        some_ = {};
    }

    double total() const {
        double numbers[lanes], result = 0;
        (total_ + widened(some_)).store(numbers);
        for (double number : numbers) result += number;
        return result;
    }

private:
    Lanes<double> total_{};
    Lanes<Real> some_{};
};

// Rows that are summed at once: as many as leave some registers for what is read.
template <class Real>
constexpr std::size_t block_rows = Lanes<Real>::count <= 2 ? 4 : 2;

// Calls put(row, sum of the rows of the tile `in` that each job takes there, times their slots' factors) for each row. Its
// parts must not become calls: the sums would go through memory.
template <class Real, std::size_t block, class Put>
inline __attribute__((always_inline)) void sum_blocks(const RowSums& sums, const Real* factors, std::size_t rows,
                                                      Rows<const Real> in, Put put) {
    const std::uint32_t *starts = sums.starts.data(), *factors_at = sums.factors_at.data();
    const RowSums::Source* sources = sums.sources.data();
    const auto factor = [&](const RowSums::Source& source) __attribute__((always_inline)) {
        const std::uint32_t* at = factors_at + source.factors;
        auto f = Lanes<Real>::load(factors + *at);
        for (std::uint16_t k = 1; k < source.count; ++k) f = f + Lanes<Real>::load(factors + at[k]);
        return f;
    };
    const auto add = [&](Split<Real>& sum, const Lanes<Real>& f, std::size_t row) __attribute__((always_inline)) {
        const auto a = in[row];
        sum.re = sum.re + f * a.re;
        sum.im = sum.im + f * a.im;
    };
    const auto add_own = [&](Split<Real>& sum, std::size_t begin, std::size_t end) __attribute__((always_inline)) {
        for (std::size_t e = begin; e < end; ++e) add(sum, factor(sources[e]), sources[e].row);
    };
    const auto sum_block = [&]<std::size_t... j>(std::size_t first, std::index_sequence<j...>) __attribute__((always_inline)) {
        Split<Real> sum[] = {(void(j), Split<Real>{})...};
        for (std::size_t e = starts[0]; e < starts[1]; ++e) {
            const auto f = factor(sources[e]);
            (add(sum[j], f, sources[e].row + j), ...);
        }
        (add_own(sum[j], starts[j + 1], starts[j + 2]), ...);
        (put(first + j, sum[j]), ...);
    };
    for (std::size_t first = 0; first < rows; first += block, starts += block + 1)
        sum_block(first, std::make_index_sequence<block>());
}

template <class Real, class Put>
inline __attribute__((always_inline)) void sum_rows(const RowSums& sums, const Real* factors, std::size_t rows,
                                                    Rows<const Real> in, Put put) {
    if (rows < block_rows<Real>)
        sum_blocks<Real, 1>(sums, factors, rows, in, put);
    else
        sum_blocks<Real, block_rows<Real>>(sums, factors, rows, in, put);
}

// Adds the flipped sums of a group of jobs to the rows of `result`, or writes them there if they are `fresh`.
template <class Real, Index flip, bool imaginary>
void add_group(const RowSums& sums, const Real* factors, std::size_t rows, Rows<const Real> in, bool fresh,
               Rows<Real> result) {
    sum_rows<Real>(sums, factors, rows, in, [&](std::size_t row, const Split<Real>& sum) __attribute__((always_inline)) {
        const auto re = flipped<flip>(sum.re), im = flipped<flip>(sum.im);
        const auto turned = imaginary ? Split<Real>{Lanes<Real>{} - im, re} : Split<Real>{re, im};
        result.set(row, fresh ? turned : result[row] + turned);
    });
}

// Which product with the state is wanted: of what is added to `out`, or of the whole of what it then holds.
enum class Product { none, added, whole };

// Adds the sums of a group of jobs that are real and flip no lanes, and what the others gave (`more`, where there are any),
// to `out`, or writes them there if it is `fresh`. offsets: the grid's. Returns the product's real part.
template <class Real, Product kind>
double finish_rows(const RowSums& sums, const Real* factors, std::size_t rows, Rows<const Real> in, const Real* more,
                   const Index* offsets, bool fresh, Real* out) {
    RealProduct<Real> product;
    sum_rows<Real>(sums, factors, rows, in, [&](std::size_t row, Split<Real> value) __attribute__((always_inline)) {
        Real* target = out + 2 * offsets[row];
        if (more) value = value + Rows<const Real>{more}[row];
        if constexpr (kind == Product::added) product.add(row, in[row], value);
        if (!fresh) {
            // Four rows are neighbours in every tile.
            if (row % 4 == 0) prefetch<1>(out + 2 * offsets[row + TileGrid::ahead], 4);
            value = value + Split<Real>::load(target);
        }
        if constexpr (kind == Product::whole) product.add(row, in[row], value);
        value.store(target);
    });
    return product.total();
}

// One pass of apply_pauli_sum. `out` is added to unless it is `fresh`. With a product, that is added to the results; else,
// where there are any, the expectation values of all jobs are.
template <Product kind, class Real>
void apply_pass(const PauliPlan& plan, const PauliPass& pass, const Real* shard, Index first, const double* weights,
                bool fresh, Real* out, double* results) {
    const TileGrid grid(plan.bits, pass);
    const std::size_t tiles = grid.count(), chunks = std::min<std::size_t>(tiles, 64), rows = grid.rows;
    const std::size_t observables = results ? std::size_t(plan.observables) : 0;
    std::vector<double> partial(chunks * observables);
    const PassFactors<Real> shared_factors(pass, weights);
    std::vector<RowSums> row_sums;
    for (const PauliGroup& group : pass.groups)
        row_sums.emplace_back(pass, group, shared_factors, rows, rows < block_rows<Real> ? 1 : block_rows<Real>);
#pragma omp parallel if (chunks > 1)
    {
        Tile<Real> in(grid.size), others(pass.groups.size() > 1 ? grid.size : 0);
        PassFactors<Real> factors = shared_factors;
        PassSums sums(pass);
#pragma omp for schedule(static)
        for (std::size_t c = 0; c < chunks; ++c) {
            double* found = partial.data() + c * observables;
            for (std::size_t t = c * (tiles / chunks); t < (c + 1) * (tiles / chunks); ++t) {
                const Index base = grid.base(t), source = base ^ pass.far;
                grid.load(shard, source, in);
                factors.set_tile(first + source);
                const Rows<const Real> ket = std::as_const(in).rows();
                for (std::size_t g = 1; g < pass.groups.size(); ++g)
                    specialised(pass.groups[g].lane_flip, pass.groups[g].imaginary, [&](auto flip, auto imaginary) {
                        add_group<Real, flip, imaginary>(row_sums[g], factors.data(), rows, ket, g == 1, others.rows());
                    });
                const Real* more = pass.groups.size() > 1 ? others.rows().numbers : nullptr;
                const double product = finish_rows<Real, kind>(row_sums[0], factors.data(), rows, ket, more, grid.offsets(),
                                                               fresh, out + 2 * base);
                if (kind != Product::none)
                    *found += product / *weights;
                else if (results)
                    sums.add_tile(ket, ket, first + base, found);
            }
            if (kind == Product::none && results) sums.finish(found);
        }
    }
    for (std::size_t i = 0; i < partial.size(); ++i) results[i % observables] += partial[i];
}

// out = (sum of the plan's terms, times the weights of their observables) shard, added to what `out` holds unless it is
// `fresh`. The shard's first index is `first`; `out` is apart from it. Where `results` is given, the expectation values
// of the observables, without the weights, are added to it.
template <class Real>
void apply_pauli_sum(const PauliPlan& plan, const Real* shard, Index first, const double* weights, bool fresh, Real* out,
                     double* results) {
    if (plan.passes.empty() && fresh) std::fill(out, out + (std::size_t(2) << plan.bits), Real(0));
    // A value is divided by its weight again: one that is close to zero, or huge, would take its digits along.
    const bool one = results && plan.observables == 1 && std::abs(weights[0]) > 1e-6 && std::abs(weights[0]) < 1e6;
    const bool at_the_end = one && fresh && !plan.passes.empty() && !plan.passes.back().far;
    for (const PauliPass& pass : plan.passes) {
        const bool last = &pass == &plan.passes.back();
        if (at_the_end && last) {
            apply_pass<Product::whole>(plan, pass, shard, first, weights, fresh, out, results);
        } else if (at_the_end || pass.far) {
            apply_pass<Product::none, Real>(plan, pass, shard, first, weights, fresh, out, nullptr);
            // Tiles of which only the partners are at hand have their expectation values in a pass of their own.
            if (results && !at_the_end) add_expectations(plan, pass, shard, first, results);
        } else if (one) {
            apply_pass<Product::added>(plan, pass, shard, first, weights, fresh, out, results);
        } else {
            apply_pass<Product::none>(plan, pass, shard, first, weights, fresh, out, results);
        }
        fresh = false;
    }
}

}  // namespace qdist
