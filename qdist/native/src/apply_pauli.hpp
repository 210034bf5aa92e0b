// The product of a sum of Pauli strings with a state, and the strings' expectation values on the way.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "expectation.hpp"
#include "pauli_tiles.hpp"

namespace qdist {

// The factors of a job by slot and lane, with a weight for each observable. `outside` as in add_terms.
template <class Real>
void fill_factors(const PauliJob& job, const double* weights, Index outside, std::vector<double>& sums, Real* factors) {
    const std::size_t size = job.slots() * lanes;
    std::fill(sums.begin(), sums.begin() + std::ptrdiff_t(size), 0.0);
    for (const PauliTerm& term : job.terms) {
        const double weighted = weights[term.observable] * term.coefficient;
        const double c = job.by_tile && parity(term.z & outside) ? -weighted : weighted;
        double* sum = sums.data() + term.slot * lanes;
        for (Index l = 0; l < lanes; ++l) sum[l] += parity(term.z & l) ? -c : c;
    }
    transform_slots(sums.data(), job.slots());
    std::copy(sums.begin(), sums.begin() + std::ptrdiff_t(size), factors);
}

// Adds what a job's rows, flipped by `from`, give to the rows flipped by `to`. `base_slot`: what the tile and the flip by
// `from` add to the rows' slots. One direction at a time: with both, rows and factors do not fit the registers.
template <class Real, Index flip, bool imaginary>
void add_flipped(const PauliJob& job, Rows<const Real> in, Index from, Index to, std::uint32_t base_slot,
                 const Real* factors, Rows<Real> out) {
    const std::uint16_t *rows = job.rows.data(), *starts = job.starts.data();
    for (std::uint32_t slot = 0; slot < std::uint32_t(job.slots()); ++slot) {
        const Real* own = factors + (slot ^ base_slot) * lanes;
        // X X + Y Y, for one, does nothing to equal bits.
        if (std::all_of(own, own + lanes, [](Real x) { return x == 0; })) continue;
        const auto factor = Lanes<Real>::load(own);
        for (std::size_t k = starts[slot], end = starts[slot + 1]; k < end; ++k) {
            const Index target = rows[k] ^ to;
            const auto a = in[rows[k] ^ from], b = out[target];
            const auto x = flipped<flip>(factor * a.re), y = flipped<flip>(factor * a.im);
            if constexpr (imaginary)
                out.set(target, {b.re - y, b.im + x});
            else
                out.set(target, {b.re + x, b.im + y});
        }
    }
}

// One pass of apply_pauli_sum. `out` is added to unless it is `fresh`.
template <class Real>
void apply_pass(const PauliPlan& plan, const PauliPass& pass, const Real* shard, Index first, const double* weights,
                bool fresh, Real* out) {
    const TileGrid grid(plan.bits, pass);
    const std::size_t tiles = grid.count();
    std::vector<double> sums(lanes << PauliPlan::max_rank);
    std::vector<std::vector<Real>> kept_factors(pass.jobs.size());
    for (std::size_t j = 0; j < pass.jobs.size(); ++j)
        if (!pass.jobs[j].by_tile) {
            kept_factors[j].resize(pass.jobs[j].slots() * lanes);
            fill_factors(pass.jobs[j], weights, 0, sums, kept_factors[j].data());
        }
#pragma omp parallel if (tiles > 1) firstprivate(sums)
    {
        Tile<Real> in(grid.size), result(grid.size);
        std::vector<Real> tile_factors(sums.size());
#pragma omp for schedule(static)
        for (std::size_t t = 0; t < tiles; ++t) {
            const Index base = grid.base(t), source = base ^ pass.far, outside = (first + source) & ~pass.tile;
            grid.load(shard, source, in);
            if (t + 1 < tiles) grid.prefetch(shard, grid.base(t + 1) ^ pass.far);
            if (fresh)
                result.clear();
            else
                grid.load(out, base, result);
            for (std::size_t j = 0; j < pass.jobs.size(); ++j) {
                const PauliJob& job = pass.jobs[j];
                if (job.by_tile) fill_factors(job, weights, outside, sums, tile_factors.data());
                const Real* factors = job.by_tile ? tile_factors.data() : kept_factors[j].data();
                const std::uint32_t slot = job.base_slot(first + source);
                const Index row_flip = job.flip >> lane_bits;
                const Rows<const Real> ket = std::as_const(in).rows();
                specialised(job, [&](auto flip, auto imaginary) {
                    add_flipped<Real, flip, imaginary>(job, ket, 0, row_flip, slot, factors, result.rows());
                    if (job.pairs)
                        add_flipped<Real, flip, imaginary>(job, ket, row_flip, 0, slot ^ job.flip_slot, factors,
                                                           result.rows());
                });
            }
            grid.store(result, base, out);
        }
    }
}

// out = (sum of the plan's terms, times the weights of their observables) shard, added to what `out` holds unless it is
// `fresh`. The shard's first index is `first`; `out` is apart from it. Where `results` is given, the expectation values
// of the observables, without the weights, are added to it.
template <class Real>
void apply_pauli_sum(const PauliPlan& plan, const Real* shard, Index first, const double* weights, bool fresh, Real* out,
                     double* results) {
    if (plan.passes.empty() && fresh) std::fill(out, out + (std::size_t(2) << plan.bits), Real(0));
    for (const PauliPass& pass : plan.passes) {
        apply_pass(plan, pass, shard, first, weights, fresh, out);
        // In the same loop it would take longer than alone.
        if (results) add_expectations(plan, pass, shard, first, results);
        fresh = false;
    }
}

}  // namespace qdist
