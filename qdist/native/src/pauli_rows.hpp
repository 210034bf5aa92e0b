// Which rows of a tile a pass of a PauliPlan sums up, and with which factors, where its product with a state is wanted.
#pragma once
#include <algorithm>
#include <vector>

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

// What a group of jobs adds to the rows of a tile, a block of neighbouring rows at a time: rows to read, and where their
// factors are. Those that are zero in all tiles are left out: half of them where a chain's XX and YY have the same
// coefficient.
class RowSums {
public:
    // A row to read (the first one, where it is for a whole block), and its factors, which are to be added up.
    struct Source {
        std::uint16_t row, count;
        std::uint32_t factors;
    };

    template <class Real>
    RowSums(const PauliPass& pass, const PauliGroup& group, const PassFactors<Real>& factors, std::size_t rows,
            std::size_t block) {
        const std::size_t jobs = group.jobs.size();
        std::vector<std::vector<bool>> zero(jobs);
        std::vector<bool> is_shared(jobs);
        for (std::size_t k = 0; k < jobs; ++k) {
            const std::size_t job = group.jobs[k];
            for (std::size_t slot = 0; slot < pass.jobs[job].slots(); ++slot) zero[k].push_back(factors.is_zero(job, slot));
            // Slots are sums of what the bits of a row's number give: rows of a block differ by the same in all blocks.
            is_shared[k] = group.row_flips[k] % block == 0;
            for (std::size_t j = 1; j < block; ++j)
                is_shared[k] = is_shared[k] && group.slots[j * jobs + k] == group.slots[k];
        }
        const auto add = [&](std::size_t row, bool shared) {
            starts.push_back(std::uint32_t(sources.size()));
            for (std::size_t k = 0; k < jobs; ++k) {
                const std::size_t slot = group.slots[row * jobs + k];
                if (is_shared[k] == shared && !zero[k][slot])
                    add_source(row ^ group.row_flips[k], factors.at(group.jobs[k], slot));
            }
        };
        for (std::size_t first = 0; first < rows; first += block) {
            add(first, true);
            for (std::size_t j = 0; j < block; ++j) add(first + j, false);
        }
        starts.push_back(std::uint32_t(sources.size()));
    }

    std::vector<Source> sources;
    // Of each block: where the sources begin that are shared by its rows, then those of each row.
    std::vector<std::uint32_t> starts, factors_at;

private:
    void add_source(std::size_t row, std::size_t factors) {
        if (sources.size() == starts.back() || sources.back().row != row)
            sources.push_back({std::uint16_t(row), 0, std::uint32_t(factors_at.size())});
        ++sources.back().count;
        factors_at.push_back(std::uint32_t(factors));
    }
};

}  // namespace qdist
