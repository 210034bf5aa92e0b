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
// a tile adds to them (PauliJob::base_slot) is taken into account by reordering the factors for it. Where a job's signs
// depend on bits of the tile alone, that is nothing: its factors are the same for all tiles.
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
        for (std::size_t j = 0; j < pass.jobs.size(); ++j)
            if (!pass.jobs[j].by_tile) fill(pass.jobs[j], 0, kept_.data() + start_[j]);
        of_tile_ = kept_;
    }

    // Makes the factors those of the tile whose first amplitude has index `base`.
    void set_tile(Index base) {
        for (std::size_t j = 0; j < pass_.jobs.size(); ++j) {
            const PauliJob& job = pass_.jobs[j];
            if (is_same_for_all_tiles(job)) continue;
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

    const Real* data() const { return of_tile_.data(); }
    std::size_t at(std::size_t job, std::size_t slot) const { return start_[job] + slot * lanes; }

    // Whether a slot's factors are zero in all tiles.
    bool is_zero(std::size_t job, std::size_t slot) const {
        const auto first = kept_.begin() + std::ptrdiff_t(at(job, slot));
        return is_same_for_all_tiles(pass_.jobs[job]) && std::all_of(first, first + lanes, [](Real f) { return f == 0; });
    }

private:
    bool is_same_for_all_tiles(const PauliJob& job) const {
        return !job.by_tile && std::ranges::all_of(job.basis, [&](Index mask) { return (mask & ~pass_.tile) == 0; });
    }

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

// What a group of jobs adds to each row of a tile: rows to read, and where their factors are. Those that are zero in all
// tiles are left out: half of them where a chain's XX and YY have the same coefficient.
struct RowSums {
    template <class Real>
    RowSums(const PauliGroup& group, const PassFactors<Real>& factors, std::size_t rows) {
        starts.reserve(rows + 1);
        const std::size_t jobs = group.jobs.size();
        for (std::size_t row = 0; row < rows; ++row) {
            starts.push_back(std::uint32_t(sources.size()));
            for (std::size_t k = 0; k < jobs; ++k) {
                const std::size_t job = group.jobs[k], slot = group.slots[row * jobs + k];
                if (factors.is_zero(job, slot)) continue;
                sources.push_back(std::uint16_t(row ^ group.row_flips[k]));
                factors_at.push_back(std::uint32_t(factors.at(job, slot)));
            }
        }
        starts.push_back(std::uint32_t(sources.size()));
    }

    std::vector<std::uint32_t> starts, factors_at;
    std::vector<std::uint16_t> sources;
};

// Adds what a group of jobs makes of the tile `in` to the rows of `out`, or writes it there if they are `fresh`: the
// flipped sum of the rows that each job takes there, times their slots' factors.
template <class Real, Index flip, bool imaginary>
void add_group(const RowSums& sums, const Real* factors, std::size_t rows, Rows<const Real> in, bool fresh, Rows<Real> out) {
    const std::uint32_t *starts = sums.starts.data(), *factors_at = sums.factors_at.data();
    const std::uint16_t* sources = sums.sources.data();
    const auto added = [](const Split<Real>& a, const Lanes<Real>& re, const Lanes<Real>& im) -> Split<Real> {
        if constexpr (imaginary)
            return {a.re - im, a.im + re};
        else
            return {a.re + re, a.im + im};
    };
    for (std::size_t row = 0; row < rows; ++row) {
        Lanes<Real> re{}, im{};
        for (std::size_t e = starts[row]; e < starts[row + 1]; ++e) {
            const auto a = in[sources[e]];
            const auto f = Lanes<Real>::load(factors + factors_at[e]);
            re = re + f * a.re;
            im = im + f * a.im;
        }
        if (fresh)
            out.set(row, added({}, flipped<flip>(re), flipped<flip>(im)));
        else
            out.set(row, added(out[row], flipped<flip>(re), flipped<flip>(im)));
    }
}

// The real part of <a|b>.
template <class Real>
double real_product(std::size_t rows, Rows<const Real> a, Rows<const Real> b) {
    // Sums of this many rows are added up before they become doubles, because that costs more than they do.
    constexpr std::size_t together = 8;
    Lanes<double> total{};
    Lanes<Real> some{};
    for (std::size_t row = 0; row < rows; ++row) {
        const auto bra = a[row], ket = b[row];
        some = some + bra.re * ket.re + bra.im * ket.im;
        if (row % together == together - 1 || row + 1 == rows) {
            total = total + widened(some);
            some = {};
        }
    }
    double numbers[lanes], result = 0;
    total.store(numbers);
    for (double number : numbers) result += number;
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
    std::vector<RowSums> row_sums;
    for (const PauliGroup& group : pass.groups) row_sums.emplace_back(group, shared_factors, rows);
#pragma omp parallel if (chunks > 1)
    {
        Tile<Real> in(grid.size), result(grid.size);
        PassFactors<Real> factors = shared_factors;
        PassSums sums(pass);
#pragma omp for schedule(static)
        for (std::size_t c = 0; c < chunks; ++c) {
            double* found = partial.data() + c * observables;
            for (std::size_t t = c * (tiles / chunks); t < (c + 1) * (tiles / chunks); ++t) {
                const Index base = grid.base(t), source = base ^ pass.far;
                grid.load(shard, source, in);
                if (t + 1 < tiles) grid.prefetch(shard, grid.base(t + 1) ^ pass.far);
                factors.set_tile(first + source);
                const Rows<const Real> ket = std::as_const(in).rows();
                for (std::size_t g = 0; g < pass.groups.size(); ++g)
                    specialised(pass.groups[g].lane_flip, pass.groups[g].imaginary, [&](auto flip, auto imaginary) {
                        add_group<Real, flip, imaginary>(row_sums[g], factors.data(), rows, ket, g == 0, result.rows());
                    });
                if constexpr (values == Values::of_product)
                    *found += real_product(rows, ket, std::as_const(result).rows()) / *weights;
                if constexpr (values == Values::of_jobs) sums.add_tile(ket, ket, first + base, found);
                if (fresh)
                    grid.store(result, base, out);
                else
                    grid.add(result, base, out);
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
