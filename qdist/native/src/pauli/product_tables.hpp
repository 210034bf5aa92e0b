// What the product of a PauliPlan with a state needs for given weights, made once and kept.
#pragma once
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "base/simd.hpp"
#include "pauli/plan.hpp"
#include "pauli/rows.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// Rows that are summed at once: as many as leave some registers for what is read.
template <class Real>
constexpr std::size_t block_rows = [] {
#if defined(__aarch64__) || defined(__AVX512F__)
    constexpr std::size_t registers = 16;
#else
    constexpr std::size_t registers = 8;
#endif
    return std::clamp<std::size_t>(registers / Amplitudes<Real>::count, 1, 4);
}();

// How far ahead of a row that is written others are prefetched.
inline constexpr std::size_t rows_ahead = 32;

// Whether the product with a state is wanted, or its product with the state alone: then partners are summed up once.
enum class Purpose { product, value };

template <class Real>
struct ProductTables {
    struct Pass {
        Pass(const PauliPlan& plan, const PauliPass& pass, const double* weights, Purpose purpose)
            : grid(positions_of(pass.tile), low_bits(plan.bits) & ~pass.tile & ~once(pass, purpose)),
              factors(pass, weights, plan.observables, purpose == Purpose::value && !pass.far ? block_rows<Real> : 0),
              sums(factors, factors.rows() < block_rows<Real> ? 1 : block_rows<Real>),
              offsets(all_scattered(positions_of(pass.tile >> lane_bits << lane_bits))) {
            offsets.resize(offsets.size() + rows_ahead);
        }

        // Of a pair of tiles a value takes one: the bit that is 0 in it.
        static Index once(const PauliPass& pass, Purpose purpose) {
            return purpose == Purpose::value && pass.far ? std::bit_floor(pass.far) : 0;
        }

        TileGrid grid;
        PassFactors<Real> factors;
        RowSums sums;
        std::vector<Index> offsets;  // of rows, from a tile's first amplitude; `rows_ahead` more than there are
    };

    ProductTables(const PauliPlan& plan, const double* w, Purpose purpose) : weights(w, w + plan.observables) {
        for (const PauliPass& pass : plan.passes) passes.emplace_back(plan, pass, w, purpose);
    }

    // The plan's tables for these weights: those of the last call where they are the same.
    static std::shared_ptr<const ProductTables> of(const PauliPlan& plan, const double* weights, Purpose purpose) {
        std::shared_ptr<const void>& kept = plan.product_tables.kept[sizeof(Real) == sizeof(double)][int(purpose)];
        {
            const std::lock_guard<std::mutex> lock(plan.product_tables.mutex);
            const auto tables = std::static_pointer_cast<const ProductTables>(kept);
            if (tables && std::equal(tables->weights.begin(), tables->weights.end(), weights)) return tables;
        }
        const auto tables = std::make_shared<const ProductTables>(plan, weights, purpose);
        const std::lock_guard<std::mutex> lock(plan.product_tables.mutex);
        kept = tables;
        return tables;
    }

    std::vector<double> weights;
    std::vector<Pass> passes;
};

}  // namespace qdist
