// The product of a sum of Pauli strings with a state, and the strings' expectation values on the way.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/ordered_sum.hpp"
#include "base/simd.hpp"
#include "pauli/block_sums.hpp"
#include "pauli/expectation.hpp"
#include "pauli/plan.hpp"
#include "pauli/product_tables.hpp"
#include "pauli/rows.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// Which product with the state is wanted: of what is added to `out`, or of the whole of what it then holds.
enum class Product { none, added, whole };

// What happens to the sums of a pass: added to `out`, or written there if it is `fresh`; and multiplied by `scale`, together
// with what `out` held where the product of the whole is wanted, and else alone.
template <class Real>
struct Target {
    Product product;
    bool fresh;
    Real scale;
    Real* out;
};

// Puts the sums of one tile into its place. offsets: the pass's. Returns the product's real part.
template <class Real>
double put_rows(const RowSums& sums, const Real* factors, const Real* in, const Index* offsets, const Target<Real>& target) {
    RealProduct<Real> product;
    const auto scale = Amplitudes<Real>::all(target.scale);
    const bool whole = target.product == Product::whole;
    sum_blocks(sums, factors, in, [&](std::size_t row, Amplitudes<Real> value) QDIST_INLINE {
        Real* place = target.out + 2 * offsets[row];
        if (target.product == Product::added) product.add(row, Amplitudes<Real>::load(in + 2 * lanes * row), value);
        if (!whole) value = value * scale;
        if (!target.fresh) {
            // Four rows are neighbours in every tile.
            if (row % 4 == 0) prefetch<1>(target.out + 2 * offsets[row + rows_ahead], 4 * 2 * lanes);
            value = value + Amplitudes<Real>::load(place);
        }
        if (whole) {
            product.add(row, Amplitudes<Real>::load(in + 2 * lanes * row), value);
            value = value * scale;
        }
        value.store(place);
    });
    return product.total();
}

// One pass of apply_pauli_sum. With a product, that is added to the results; else, where there are any, the expectation
// values of all jobs are.
template <class Real>
void apply_pass(const PauliPlan& plan, const PauliPass& pass, const typename ProductTables<Real>::Pass& tables, const Real* shard,
                Index first, const Target<Real>& target, double* results) {
    const TileGrid& grid = tables.grid;
    const bool values = results && target.product == Product::none;
    const std::size_t numbers = results ? std::size_t(plan.observables) : 0, size = grid.elements<Real>();
    const auto make = [&] { return std::pair(tables.factors.numbers(), values ? std::optional<PassSums>(pass) : std::nullopt); };
    ordered_sum(grid.count(), numbers, results, make, [&](auto& own, std::size_t t, std::size_t last, double* found) {
        auto& [factors, sums] = own;
        Real* const room = tile_room<Real>(4 * size);
        const Tile<Real> tile{room + 2 * size, room + 3 * size};
        for (; t < last; ++t) {
            const Index base = grid.base(t), source = base ^ pass.far;
            const Real* in = grid.interleaved(shard + 2 * source, room);
            tables.factors.set_tile(first + source, factors);
            const Target<Real> place{target.product, target.fresh, target.scale, target.out + 2 * base};
            const double product = put_rows(tables.sums, factors.data(), in, tables.offsets.data(), place);
            if (target.product != Product::none) *found += product;
            if (!values) continue;
            grid.load(shard + 2 * base, tile);
            sums->add_tile(tile, tile, first + base, found);
        }
        if (values) sums->finish(found);
    });
}

// out = (sum of the plan's terms, times the weights of their observables) shard, added to what `out` holds unless it is
// `fresh`. The shard's first index is `first`; `out` is apart from it. Where `results` is given, the expectation values
// of the observables, without the weights, are added to it.
template <class Real>
void apply_pauli_sum(const PauliPlan& plan, const Real* shard, Index first, const double* weights, bool fresh, Real* out,
                     double* results) {
    if (plan.passes.empty() && fresh) std::fill(out, out + (std::size_t(2) << plan.bits), Real(0));
    // Of one observable the tables serve all weights, and the products with the state are its value.
    const bool one = plan.observables == 1;
    const double unit = 1;
    const auto tables = ProductTables<Real>::of(plan, one ? &unit : weights, Purpose::product);
    const Real scale = one ? Real(weights[0]) : Real(1);
    const bool at_the_end = one && results && fresh && !plan.passes.empty() && !plan.passes.back().far;
    for (std::size_t k = 0; k < plan.passes.size(); ++k) {
        const PauliPass& pass = plan.passes[k];
        const bool last = k + 1 == plan.passes.size();
        Target<Real> target{Product::none, fresh, scale, out};
        if (at_the_end) {
            if (last)
                target.product = Product::whole;
            else
                target.scale = 1;
        } else if (one && results && !pass.far)
            target.product = Product::added;
        const bool separate = results && pass.far && !at_the_end;
        apply_pass(plan, pass, tables->passes[k], shard, first, target, (at_the_end && !last) || separate ? nullptr : results);
        // Tiles of which only the partners are at hand have their expectation values in a pass of their own.
        if (separate) add_expectations(plan, pass, shard, first, results);
        fresh = false;
    }
}

// Adds the value that the strings of one pass have in a shard, from the tables for that, to *result.
template <class Real>
void add_value_of_pass(const PauliPass& pass, const typename ProductTables<Real>::Pass& tables, const Real* shard, Index first,
                       double* result) {
    const TileGrid& grid = tables.grid;
    // Products of a tile with its partner and of the partner with the tile are conjugates.
    const double pairs = pass.far ? 2 : 1;
    const auto make = [&] { return tables.factors.numbers(); };
    ordered_sum(grid.count(), 1, result, make, [&](std::vector<Real>& factors, std::size_t t, std::size_t last, double* found) {
        Real* const room = tile_room<Real>(4 * grid.size);
        for (; t < last; ++t) {
            const Index base = grid.base(t), source = base ^ pass.far;
            const Real* in = grid.interleaved(shard + 2 * source, room);
            const Real* own = pass.far ? grid.interleaved(shard + 2 * base, room + 2 * grid.size) : in;
            tables.factors.set_tile(first + source, factors);
            RealProduct<Real> product;
            BlockSums<Real>(tables.sums, factors.data(), in).add_products(own, product);
            *found += pairs * product.total();
        }
    });
}

// Adds the observables' values in a shard, whose first index is `first`, to results.
template <class Real>
void add_values(const PauliPlan& plan, const Real* shard, Index first, double* results) {
    const double unit = 1;
    std::shared_ptr<const ProductTables<Real>> tables;
    if (plan.as_product) tables = ProductTables<Real>::of(plan, &unit, Purpose::value);
    for (std::size_t k = 0; k < plan.passes.size(); ++k) {
        if (tables && tables->passes[k].sums.rows >= block_rows<Real>)
            add_value_of_pass(plan.passes[k], tables->passes[k], shard, first, results);
        else
            add_expectations(plan, plan.passes[k], shard, first, results);
    }
}

}  // namespace qdist
