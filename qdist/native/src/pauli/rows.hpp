// Which rows of a tile a pass of a PauliPlan sums up where its product with a state is wanted, and with which factors.
//
// Factors are looked up by slot: rows with equal signs of all strings share one. Most do not depend on the lane, and most
// not on the tile.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bits.hpp"
#include "pauli/expectation.hpp"
#include "pauli/plan.hpp"

namespace qdist {

// How a lookup's factors meet the amplitudes of a row.
struct PauliKind {
    Index lane_flip;
    bool imaginary;  // they are multiplied by i
    bool by_lane;    // there is one for each lane; else one for all of them

    bool operator==(const PauliKind&) const = default;
    std::size_t stride() const { return by_lane ? lanes : 1; }
};

// Factors of one job, or of several with the same flips.
struct Lookup {
    PauliKind kind;
    Index row_flip;
    std::size_t start;                   // of its numbers among those of the pass
    std::vector<std::uint16_t> slots;    // of each row, before it is flipped
    std::vector<bool> is_zero;           // slots whose factors are zero in all tiles
    bool once = false;                   // of two rows that are each other's partners only one is summed up, twice
    const PauliJob* changing = nullptr;  // the job, where its factors depend on the tile

    std::size_t at(std::size_t slot) const { return start + slot * kind.stride(); }
};

// Where the factors of a pass are.
class PassLookups {
public:
    const std::vector<Lookup>& lookups() const { return lookups_; }
    std::size_t rows() const { return rows_; }

protected:
    std::size_t rows_;
    std::vector<Lookup> lookups_;
};

// The factors of a pass, with a weight for each observable.
template <class Real>
class PassFactors : public PassLookups {
public:
    // once_from: partners that differ in row bits of so much or more are summed up once; 0: all are.
    PassFactors(const PauliPass& pass, const double* weights, int observables, std::size_t once_from)
        : pass_(pass), weights_(weights, weights + observables) {
        const Index row_bits = pass.tile & ~low_bits(lane_bits);
        rows_ = std::size_t(1) << std::popcount(row_bits);
        for (const PauliJob& job : pass.jobs) {
            const bool by_lane = job.imaginary || std::ranges::any_of(job.terms, [](const PauliTerm& t) { return t.z % lanes; });
            Lookup found{{job.flip % lanes, job.imaginary, by_lane}, job.flip >> lane_bits, numbers_.size(), {}, {}};
            found.once = once_from && found.row_flip >= once_from;
            found.slots = job.row_slots(row_bits);
            numbers_.resize(numbers_.size() + job.slots() * found.kind.stride());
            if (job.by_tile || std::ranges::any_of(job.basis, [&](Index mask) { return mask & ~pass.tile; }))
                add_changing(job, std::move(found));
            else
                add_fixed(job, std::move(found));
        }
    }

    const std::vector<Real>& numbers() const { return numbers_; }

    // Makes `numbers`, a copy of those here, the factors of the tile whose first amplitude has index `base`.
    void set_tile(Index base, std::vector<Real>& numbers) const {
        for (const Lookup& lookup : lookups_) {
            const PauliJob* job = lookup.changing;
            if (!job) continue;
            if (job->by_tile) {
                fill(*job, lookup, base & ~pass_.tile, numbers.data() + lookup.start);
                continue;
            }
            const std::uint32_t base_slot = job->base_slot(base);
            for (std::uint32_t slot = 0; slot < job->slots(); ++slot)
                std::copy_n(&numbers_[lookup.at(slot ^ base_slot)], lookup.kind.stride(), &numbers[lookup.at(slot)]);
        }
    }

private:
    void add_changing(const PauliJob& job, Lookup&& found) {
        if (job.by_tile) {
            found.is_zero = zeros_by_tile(job, found);
        } else {
            fill(job, found, 0, numbers_.data() + found.start);
            set_zeros(found, job.slots());
            found.is_zero = zeros_of_all(job, found.is_zero);
        }
        found.changing = &job;
        lookups_.push_back(std::move(found));
    }

    // Slots whose factors are zero in all tiles, where a tile permutes the slots: bits outside of it add to their numbers.
    std::vector<bool> zeros_of_all(const PauliJob& job, const std::vector<bool>& is_zero) const {
        Index outside = 0;
        for (Index mask : job.basis) outside |= mask & ~pass_.tile;
        std::vector<std::uint32_t> added{0};
        each_bit(outside, [&](int p) {
            const std::uint32_t more = job.slot_of(Index(1) << p);
            if (std::ranges::find(added, more) != added.end()) return;
            for (std::size_t k = 0, size = added.size(); k < size; ++k) added.push_back(added[k] ^ more);
        });
        std::vector<bool> result(is_zero.size());
        for (std::uint32_t slot = 0; slot < result.size(); ++slot)
            result[slot] = std::ranges::all_of(added, [&](std::uint32_t more) { return bool(is_zero[slot ^ more]); });
        return result;
    }

    // The same where strings have signs by the tile: each set of strings with one such sign must add up to zero.
    std::vector<bool> zeros_by_tile(const PauliJob& job, Lookup& lookup) {
        constexpr std::size_t max_sets = 32;
        PauliJob set = job;
        std::vector<PauliTerm> rest = job.terms;
        std::vector<bool> result(job.slots(), true);
        for (std::size_t sets = 0; !rest.empty(); ++sets) {
            if (sets == max_sets || std::ranges::find(result, true) == result.end()) return std::vector<bool>(job.slots());
            const Index outside = rest.front().z & ~pass_.tile;
            std::vector<PauliTerm> others;
            set.terms.clear();
            for (const PauliTerm& t : rest) ((t.z & ~pass_.tile) == outside ? set.terms : others).push_back(t);
            rest = std::move(others);
            fill(set, lookup, 0, numbers_.data() + lookup.start);
            set_zeros(lookup, job.slots());
            for (std::size_t slot = 0; slot < result.size(); ++slot) result[slot] = result[slot] && lookup.is_zero[slot];
        }
        return result;
    }

    void add_fixed(const PauliJob& job, Lookup&& found) {
        fill(job, found, 0, numbers_.data() + found.start);
        const auto fits = [&](const Lookup& other) {
            return other.kind.lane_flip == found.kind.lane_flip && other.kind.imaginary == found.kind.imaginary &&
                   other.row_flip == found.row_flip && !other.changing;
        };
        const auto other = std::ranges::find_if(lookups_, fits);
        if (other == lookups_.end()) {
            lookups_.push_back(std::move(found));
            set_zeros(lookups_.back(), job.slots());
        } else {
            *other = sum(*other, found);
            set_zeros(*other, rows_);
        }
    }

    // The sum of two lookups, as one with a slot for each row.
    Lookup sum(const Lookup& a, const Lookup& b) {
        Lookup both{
            {a.kind.lane_flip, a.kind.imaginary, a.kind.by_lane || b.kind.by_lane}, a.row_flip, numbers_.size(), {}, {}, a.once};
        for (std::size_t r = 0; r < rows_; ++r) {
            both.slots.push_back(std::uint16_t(r));
            for (std::size_t l = 0; l < both.kind.stride(); ++l) {
                const Real first = numbers_[a.at(a.slots[r]) + (a.kind.by_lane ? l : 0)];
                numbers_.push_back(first + numbers_[b.at(b.slots[r]) + (b.kind.by_lane ? l : 0)]);
            }
        }
        return both;
    }

    void set_zeros(Lookup& lookup, std::size_t slots) {
        lookup.is_zero.clear();
        for (std::size_t slot = 0; slot < slots; ++slot) {
            const auto first = numbers_.begin() + std::ptrdiff_t(lookup.at(slot));
            lookup.is_zero.push_back(
                std::all_of(first, first + std::ptrdiff_t(lookup.kind.stride()), [](Real f) { return f == 0; }));
        }
    }

    // `outside` as in add_terms. Lanes are those that the factors' amplitudes are flipped to. Sums that cancel but for rounding
    // errors are zeros: most of an excitation's are, since it acts on few of the patterns that its bits can have.
    void fill(const PauliJob& job, const Lookup& lookup, Index outside, Real* factors) const {
        const PauliKind& kind = lookup.kind;
        thread_local std::vector<double> sums;
        thread_local std::vector<char> used;
        sums.assign(job.slots() * lanes, 0);
        used.assign(job.slots(), 0);
        double size = 0;
        for (const PauliTerm& term : job.terms) {
            const double weighted = (lookup.once ? 2 : 1) * weights_[term.observable] * term.coefficient;
            const double c = job.by_tile && parity(term.z & outside) ? -weighted : weighted;
            double* sum = sums.data() + term.slot * lanes;
            for (Index l = 0; l < lanes; ++l) sum[l] += parity(term.z & (l ^ kind.lane_flip)) ? -c : c;
            used[term.slot] = 1;
            size += std::abs(c);
        }
        transform_slots(sums.data(), job.slots(), used.data());
        const double rounding = 4 * std::numeric_limits<double>::epsilon() * size;
        for (std::size_t slot = 0; slot < job.slots(); ++slot)
            for (std::size_t l = 0; l < kind.stride(); ++l) {
                const double sum = sums[slot * lanes + l];
                factors[slot * kind.stride() + l] = std::abs(sum) <= rounding ? Real(0) : Real(sum);
            }
    }

    const PauliPass& pass_;
    std::vector<double> weights_;
    std::vector<Real> numbers_;
};

// What is added up for the rows of a tile, a block of neighbouring rows at a time. Factors that are zero in all tiles are
// left out: half of them where a chain's XX and YY have the same coefficient.
class RowSums {
public:
    // Where a row to read begins among a tile's numbers, and a factor among the pass's.
    struct Source {
        std::uint32_t row, factor;
    };

    RowSums(const PassLookups& factors, std::size_t block) : rows(factors.rows()) {
        // By kind: a lookup, and whether its sources serve whole blocks. Rows of a block differ by the same in all blocks.
        std::vector<std::vector<std::pair<const Lookup*, bool>>> of_kind;
        for (const Lookup& lookup : factors.lookups()) {
            const std::size_t kind = std::size_t(std::ranges::find(kinds, lookup.kind) - kinds.begin());
            if (kind == kinds.size()) {
                kinds.push_back(lookup.kind);
                of_kind.emplace_back();
            }
            const auto first = lookup.slots.begin();
            const bool equal =
                std::all_of(first, first + std::ptrdiff_t(block), [&](std::uint16_t slot) { return slot == *first; });
            of_kind[kind].push_back({&lookup, equal && lookup.row_flip % block == 0});
        }
        // Strings that flip nothing come first in a plan and are mostly the largest part of a sum: added last, they leave the
        // rounding errors of all other additions small.
        std::ranges::reverse(kinds);
        std::ranges::reverse(of_kind);
        for (auto& lookups : of_kind) std::ranges::reverse(lookups);
        for (std::size_t first = 0; first < rows; first += block)
            for (const auto& lookups : of_kind) {
                const std::size_t shared_before = shared.size(), own_before = own.size();
                for (const auto& [lookup, is_shared] : lookups) add(*lookup, first, block, is_shared);
                counts.push_back(std::uint16_t(shared.size() - shared_before));
                counts.push_back(std::uint16_t((own.size() - own_before) / block));
            }
    }

    std::size_t rows;
    std::vector<PauliKind> kinds;
    // For each block, and then for each kind: how many sources serve a whole block, from a first row on; and how many
    // more there are, with a row and a factor for each of the block's rows.
    std::vector<std::uint16_t> counts;
    std::vector<Source> shared, own;

private:
    void add(const Lookup& lookup, std::size_t first, std::size_t block, bool is_shared) {
        const auto source = [&](std::size_t row) {
            const std::size_t from = row ^ lookup.row_flip;
            return Source{std::uint32_t(2 * lanes * from), std::uint32_t(lookup.at(lookup.slots[from]))};
        };
        const auto is_zero = [&](std::size_t row) { return bool(lookup.is_zero[lookup.slots[row ^ lookup.row_flip]]); };
        if (lookup.once && first & std::bit_floor(lookup.row_flip)) return;
        if (is_shared) {
            if (!is_zero(first)) shared.push_back(source(first));
            return;
        }
        bool all_zero = true;
        for (std::size_t j = 0; j < block; ++j) all_zero = all_zero && is_zero(first + j);
        if (all_zero) return;
        for (std::size_t j = 0; j < block; ++j) own.push_back(source(first + j));
    }
};

}  // namespace qdist
