// The product of a sum of Pauli strings with a state, and the strings' expectation values on the way.
#pragma once
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "expectation.hpp"
#include "pauli_tiles.hpp"

namespace qdist {

// The factors of a pass's jobs by slot and lane, with a weight for each observable. Slots are those of a tile's rows: what
// a tile adds to them (PauliJob::base_slot) is taken into account by reordering the factors for it.
template <class Real>
class PassFactors {
public:
    PassFactors(const PauliPass& pass, const double* weights) : pass_(pass), weights_(weights), start_(pass.jobs.size()) {
        std::size_t size = 0;
        for (std::size_t j = 0; j < pass.jobs.size(); ++j) {
            start_[j] = size;
            size += pass.jobs[j].slots() * lanes;
        }
        kept_.resize(size);
        of_tile_.resize(size);
        for (std::size_t j = 0; j < pass.jobs.size(); ++j)
            if (!pass.jobs[j].by_tile) fill(pass.jobs[j], 0, kept_.data() + start_[j]);
    }

    // Makes the factors those of the tile whose first amplitude has index `base`.
    void set_tile(Index base) {
        for (std::size_t j = 0; j < pass_.jobs.size(); ++j) {
            const PauliJob& job = pass_.jobs[j];
            Real* factors = of_tile_.data() + start_[j];
            if (job.by_tile) {
                fill(job, base & ~pass_.tile, factors);
                continue;
            }
            const std::uint32_t base_slot = job.base_slot(base);
            for (std::uint32_t slot = 0; slot < job.slots(); ++slot)
                std::copy_n(kept_.data() + start_[j] + (slot ^ base_slot) * lanes, lanes, factors + slot * lanes);
        }
    }

    const Real* of(std::size_t job) const { return of_tile_.data() + start_[job]; }

private:
    // `outside` as in add_terms.
    void fill(const PauliJob& job, Index outside, Real* factors) {
        const std::size_t size = job.slots() * lanes;
        sums_.assign(size, 0.0);
        for (const PauliTerm& term : job.terms) {
            const double weighted = weights_[term.observable] * term.coefficient;
            const double c = job.by_tile && parity(term.z & outside) ? -weighted : weighted;
            double* sum = sums_.data() + term.slot * lanes;
            for (Index l = 0; l < lanes; ++l) sum[l] += parity(term.z & l) ? -c : c;
        }
        transform_slots(sums_.data(), job.slots());
        std::copy(sums_.begin(), sums_.end(), factors);
    }

    const PauliPass& pass_;
    const double* weights_;
    std::vector<std::size_t> start_;
    std::vector<Real> kept_, of_tile_;
    std::vector<double> sums_;
};

// Adds what a group of jobs makes of the tile `in` to the rows of `out`: the flipped sum of the rows that each job takes
// there, times their slots' factors. With `expect`, `in` is the tile at the same place as `out`, and the real part of
// its product with what was added is returned.
template <class Real, Index flip, bool imaginary, bool expect>
double add_group(const PauliGroup& group, const PassFactors<Real>& factors, std::size_t rows, Rows<const Real> in,
                 Rows<Real> out, std::vector<const Real*>& of_job) {
    const std::size_t jobs = group.jobs.size();
    of_job.resize(jobs);
    for (std::size_t k = 0; k < jobs; ++k) of_job[k] = factors.of(group.jobs[k]);
    const Real* const* factor_of = of_job.data();
    const std::uint16_t *row_flips = group.row_flips.data(), *slots = group.slots.data();
    const auto added = [](const Split<Real>& a, const Split<Real>& b) -> Split<Real> {
        const auto re = flipped<flip>(b.re), im = flipped<flip>(b.im);
        if constexpr (imaginary)
            return {a.re - im, a.im + re};
        else
            return {a.re + re, a.im + im};
    };
    // Sums of this many rows are added up before they become doubles, because that costs more than they do.
    constexpr std::size_t together = 8;
    Lanes<double> total{};
    Lanes<Real> some{};
    // Two rows at a time, so that one sum need not wait for the other. A tile with a single row is its own neighbour.
    const std::size_t step = std::min<std::size_t>(rows, 2);
    for (std::size_t row = 0; row < rows; row += step) {
        Split<Real> first{}, second{};
        const std::uint16_t *slot = slots + row * jobs, *next = slot + (step - 1) * jobs;
        for (std::size_t k = 0; k < jobs; ++k) {
            const Index source = row ^ row_flips[k];
            const auto a = in[source], b = in[source ^ (step - 1)];
            const auto f = Lanes<Real>::load(factor_of[k] + slot[k] * lanes);
            const auto g = Lanes<Real>::load(factor_of[k] + next[k] * lanes);
            first.re = first.re + f * a.re;
            first.im = first.im + f * a.im;
            second.re = second.re + g * b.re;
            second.im = second.im + g * b.im;
        }
        for (std::size_t r = row; r < row + step; ++r) {
            const Split<Real>& sum = r == row ? first : second;
            out.set(r, added(out[r], sum));
            if constexpr (expect) {
                const auto bra = in[r];
                const auto change = added({}, sum);
                some = some + bra.re * change.re + bra.im * change.im;
                if (r % together == together - 1 || r + 1 == rows) {
                    total = total + widened(some);
                    some = {};
                }
            }
        }
    }
    double result = 0;
    if constexpr (expect) {
        double numbers[lanes];
        total.store(numbers);
        for (double number : numbers) result += number;
    }
    return result;
}

// How the expectation values are found: not at all; from the product itself, where there is one observable; or job by job.
enum class Values { none, of_product, of_jobs };

// One pass of apply_pauli_sum. `out` is added to unless it is `fresh`.
template <class Real, Values values>
void apply_pass(const PauliPlan& plan, const PauliPass& pass, const Real* shard, Index first, const double* weights,
                bool fresh, Real* out, double* results) {
    const TileGrid grid(plan.bits, pass);
    const std::size_t tiles = grid.count(), chunks = std::min<std::size_t>(tiles, 64);
    const std::size_t observables = std::size_t(plan.observables), rows = grid.size / lanes;
    std::vector<double> partial(values == Values::none ? 0 : chunks * observables);
    const PassFactors<Real> shared_factors(pass, weights);
#pragma omp parallel if (chunks > 1)
    {
        Tile<Real> in(grid.size), result(grid.size);
        PassFactors<Real> factors = shared_factors;
        std::vector<const Real*> of_job;
        PassSums sums(pass);
#pragma omp for schedule(static)
        for (std::size_t c = 0; c < chunks; ++c) {
            double* found = partial.data() + c * observables;
            for (std::size_t t = c * (tiles / chunks); t < (c + 1) * (tiles / chunks); ++t) {
                const Index base = grid.base(t), source = base ^ pass.far;
                grid.load(shard, source, in);
                if (t + 1 < tiles) grid.prefetch(shard, grid.base(t + 1) ^ pass.far);
                if (fresh)
                    result.clear();
                else
                    grid.load(out, base, result);
                factors.set_tile(first + source);
                const Rows<const Real> ket = std::as_const(in).rows();
                for (const PauliGroup& group : pass.groups)
                    specialised(group.lane_flip, group.imaginary, [&](auto flip, auto imaginary) {
                        constexpr bool expect = values == Values::of_product;
                        const double value = add_group<Real, flip, imaginary, expect>(group, factors, rows, ket,
                                                                                      result.rows(), of_job);
                        if constexpr (expect) *found += value / *weights;
                    });
                if constexpr (values == Values::of_jobs) sums.add_tile(ket, ket, first + base, found);
                grid.store(result, base, out);
            }
            if constexpr (values == Values::of_jobs) sums.finish(found);
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
    const bool one = plan.observables == 1 && std::abs(weights[0]) > 1e-6 && std::abs(weights[0]) < 1e6;
    for (const PauliPass& pass : plan.passes) {
        if (results && !pass.far && one) {
            apply_pass<Real, Values::of_product>(plan, pass, shard, first, weights, fresh, out, results);
        } else if (results && !pass.far) {
            apply_pass<Real, Values::of_jobs>(plan, pass, shard, first, weights, fresh, out, results);
        } else {
            // Tiles of which only the partners are at hand have their expectation values in a pass of their own.
            apply_pass<Real, Values::none>(plan, pass, shard, first, weights, fresh, out, nullptr);
            if (results) add_expectations(plan, pass, shard, first, results);
        }
        fresh = false;
    }
}

}  // namespace qdist
