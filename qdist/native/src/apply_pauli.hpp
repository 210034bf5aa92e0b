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

// a + b, or a + i b.
template <bool imaginary, class Real>
Split<Real> added(const Split<Real>& a, const Lanes<Real>& re, const Lanes<Real>& im) {
    if constexpr (imaginary)
        return {a.re - im, a.im + re};
    else
        return {a.re + re, a.im + im};
}

// What one job makes of a tile: the flipped rows times their slots' factors are added to the rows' partners in `out`.
// Rows and partners are in the same tile, or `in` is the tile that `out` is flipped to. With `expect`, which is for the
// first case, products of partners are added to the slots' sums as in add_products.
template <class Real, Index flip, bool imaginary, bool expect>
void add_job(const PauliJob& job, Rows<const Real> in, std::uint32_t base_slot, const Real* factors, Rows<Real> out,
             double* sums) {
    const Index row_flip = job.flip >> lane_bits;
    const std::uint16_t *rows = job.rows.data(), *starts = job.starts.data();
    const bool pairs = job.pairs;
    constexpr std::size_t together = 8;  // as in add_products
    for (std::uint32_t slot = 0; slot < job.slots(); ++slot) {
        const std::uint32_t own = slot ^ base_slot;
        // Flipping the lanes of the factors once saves flipping every product.
        const auto factor = flipped<flip>(Lanes<Real>::load(factors + own * lanes));
        const auto partner_factor = flipped<flip>(Lanes<Real>::load(factors + (own ^ job.flip_slot) * lanes));
        Lanes<double> sum{};
        if constexpr (expect) sum = Lanes<double>::load(sums + own * lanes);
        std::size_t k = starts[slot];
        const std::size_t end = starts[slot + 1];
        while (k < end) {
            Lanes<Real> first{}, second{};
            for (const std::size_t stop = std::min(k + together, end); k < stop; ++k) {
                const Index row = rows[k], partner = row ^ row_flip;
                const auto a = in[row];
                const auto ar = flipped<flip>(a.re), ai = flipped<flip>(a.im);
                if (pairs) {
                    const auto b = in[partner];
                    const auto br = flipped<flip>(b.re), bi = flipped<flip>(b.im);
                    out.set(partner, added<imaginary>(out[partner], factor * ar, factor * ai));
                    out.set(row, added<imaginary>(out[row], partner_factor * br, partner_factor * bi));
                    if constexpr (expect) {
                        first = first + (imaginary ? a.im : a.re) * br;
                        second = second + (imaginary ? a.re : a.im) * bi;
                    }
                } else {
                    out.set(partner, added<imaginary>(out[partner], factor * ar, factor * ai));
                    if constexpr (expect) {
                        first = first + (imaginary ? a.im : a.re) * ar;
                        second = second + (imaginary ? a.re : a.im) * ai;
                    }
                }
            }
            if constexpr (expect) sum = sum + widened(imaginary ? first - second : first + second);
        }
        if constexpr (expect) sum.store(sums + own * lanes);
    }
}

// One pass of apply_pauli_sum. `out` is added to unless it is `fresh`.
template <class Real, bool expect>
void apply_pass(const PauliPlan& plan, const PauliPass& pass, const Real* shard, Index first, const double* weights,
                bool fresh, Real* out, double* results) {
    const TileGrid grid(plan.bits, pass);
    const std::size_t tiles = grid.count(), chunks = std::min<std::size_t>(tiles, 64);
    const std::size_t observables = std::size_t(plan.observables);
    std::vector<double> partial(expect ? chunks * observables : 0), sums(lanes << PauliPlan::max_rank);
    const KeptSlots kept(pass);
    std::vector<std::vector<Real>> kept_factors(pass.jobs.size());
    for (std::size_t j = 0; j < pass.jobs.size(); ++j)
        if (!pass.jobs[j].by_tile) {
            kept_factors[j].resize(pass.jobs[j].slots() * lanes);
            fill_factors(pass.jobs[j], weights, 0, sums, kept_factors[j].data());
        }
#pragma omp parallel if (chunks > 1) firstprivate(sums)
    {
        Tile<Real> in(grid.size), result(grid.size);
        std::vector<Real> tile_factors(sums.size());
        std::vector<double> kept_slots(expect ? kept.size() : 0), tile_slots(expect ? sums.size() : 0);
#pragma omp for schedule(static)
        for (std::size_t c = 0; c < chunks; ++c) {
            std::fill(kept_slots.begin(), kept_slots.end(), 0.0);
            double* found = partial.data() + c * observables;
            for (std::size_t t = c * (tiles / chunks); t < (c + 1) * (tiles / chunks); ++t) {
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
                    double* slots = nullptr;
                    if constexpr (expect) {
                        slots = job.by_tile ? tile_slots.data() : kept.of(j, kept_slots);
                        if (job.by_tile) std::fill(slots, slots + job.slots() * lanes, 0.0);
                    }
                    specialised(job, [&](auto flip, auto imaginary) {
                        add_job<Real, flip, imaginary, expect>(job, std::as_const(in).rows(),
                                                               job.base_slot(first + source), factors, result.rows(),
                                                               slots);
                    });
                    if constexpr (expect)
                        if (job.by_tile) add_terms(job, outside, pair_factor(pass, job), slots, found);
                }
                grid.store(result, base, out);
            }
            if constexpr (expect) kept.add_terms_of_all(kept_slots, found);
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
    for (const PauliPass& pass : plan.passes) {
        if (results && !pass.far) {
            apply_pass<Real, true>(plan, pass, shard, first, weights, fresh, out, results);
        } else {
            // Tiles of which only the partners are at hand have their expectation values in a pass of their own.
            apply_pass<Real, false>(plan, pass, shard, first, weights, fresh, out, nullptr);
            if (results) add_expectations(plan, pass, shard, first, results);
        }
        fresh = false;
    }
}

}  // namespace qdist
