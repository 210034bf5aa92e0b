// Sums of Pauli strings, arranged so that few passes over a shard serve all of them.
//
// A string with masks (x, z) maps |i> to i^|x & z| (-1)^|z & i| |i ^ x>. Strings with the same x pair the same
// amplitudes and differ in signs alone: they form a job (two, where some have an odd number of Y and some an even one).
// A pass reads tiles, sets of amplitudes that differ in the tile's bits only; every job whose x lies within those bits
// is done while the tile is in cache.
//
// The signs of a job's strings at index i are parities of i with their z masks. A basis of those masks over GF(2) sorts
// the rows of a tile into 2^rank slots of equal signs. For an expectation value, products of amplitudes are summed a
// slot and a lane, and a Walsh-Hadamard transform of the slots' sums gives all strings at once; for the product with a
// state, the transform of the coefficients gives every slot's factor.
#pragma once
#include <algorithm>
#include <complex>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/bits.hpp"

namespace qdist {

struct PauliTerm {
    Index z;
    double coefficient;  // of the real or the imaginary phase, as the job says
    int observable;
    std::uint32_t slot = 0;  // the coordinates of z's rows in the job's basis
};

struct PauliJob {
    Index x;
    bool imaginary;  // the phases of all terms are i times a real number
    std::vector<PauliTerm> terms = {};
    // Masks of whole indices above the lanes, so that slots can be summed over tiles; or, where those would be too many
    // slots, masks of the tile's rows, and the terms' signs outside the tile are applied to each tile.
    std::vector<Index> basis = {};
    bool by_tile = false;
    // Rows of a tile, sorted by slot: those of slot s are rows[starts[s]] to rows[starts[s + 1] - 1]. Where partners are
    // in the same tile, one row of each pair.
    std::vector<std::uint16_t> rows = {}, starts = {};
    Index flip = 0;      // x within the tile, by the tile's own bits
    bool pairs = false;  // partners are other rows of the same tile

    std::size_t slots() const { return std::size_t(1) << basis.size(); }

    // What a tile at `base` adds (by xor) to its rows' slots.
    std::uint32_t base_slot(Index base) const { return by_tile ? 0 : slot_of(base); }

    std::uint32_t slot_of(Index index) const {
        std::uint32_t slot = 0;
        for (std::size_t j = 0; j < basis.size(); ++j) slot |= std::uint32_t(parity(basis[j] & index)) << j;
        return slot;
    }

    // The slots of a tile's rows, by the tile's own bits alone: each is the sum of what the bits of the row's number give.
    std::vector<std::uint16_t> row_slots(Index row_bits) const {
        std::vector<std::uint16_t> slots{0};
        each_bit(row_bits, [&](int p) {
            const std::uint32_t of_bit = slot_of(Index(1) << p);
            for (std::size_t r = 0, size = slots.size(); r < size; ++r) slots.push_back(std::uint16_t(slots[r] ^ of_bit));
        });
        return slots;
    }
};

struct PauliPass {
    Index tile;     // the tile's bits
    Index far = 0;  // the part of every job's x outside of them: tiles are read in pairs where it is not zero
    std::vector<PauliJob> jobs;
};

// What products keep between calls, for each precision and purpose: see pauli/product_tables.hpp.
struct ProductTablesKept {
    std::mutex mutex;
    std::shared_ptr<const void> kept[2][2];
};

// A basis of masks over GF(2), found by elimination.
class ParityBasis {
public:
    // Whether the mask is a sum of the vectors.
    bool spans(Index mask) const {
        for (Index vector : vectors)
            if (mask & vector & -vector) mask ^= vector;
        return mask == 0;
    }

    // The vectors whose sum is the mask, a bit each; extends the basis where it must.
    std::uint32_t coordinates(Index mask) {
        std::uint32_t result = 0;
        for (std::size_t j = 0; j < vectors.size(); ++j)
            if (mask & vectors[j] & -vectors[j]) {
                mask ^= vectors[j];
                result |= std::uint32_t(1) << j;
            }
        if (mask == 0) return result;
        vectors.push_back(mask);
        return result | std::uint32_t(1) << (vectors.size() - 1);
    }

    // The lowest bit of each is in none of the later ones.
    std::vector<Index> vectors;
};

class PauliPlan {
public:
    static constexpr int max_tile_bits = 16;
    static constexpr int run_bits = 5;  // a tile is made of runs of at least 2^run_bits neighbours
    // Slots that are summed over tiles: bits of them a job, jobs that a job may be split into for that, and numbers in
    // all of a pass.
    static constexpr int kept_rank = 7;
    static constexpr std::size_t max_split = 6, kept_numbers = std::size_t(1) << 15;
    // Strings that are summed by the tile rather than kept, where their slots inside of it are so few.
    static constexpr std::size_t few_rank = 2, few_terms = 64;

    // Strings with masks of bit positions on shards of 2^bits amplitudes (x must lie within them), each with a complex
    // coefficient and the number of the observable it belongs to. tile_bits: of tiles, where shards are larger. as_product:
    // whether the value of a single observable, with real coefficients, comes the way its product with a state does.
    PauliPlan(int bits, std::span<const Index> x, std::span<const Index> z, std::span<const std::complex<double>> c,
              std::span<const std::int64_t> observable, int observables, int tile_bits, bool as_product)
        : lift(bits), bits(lift.bits), observables(observables), tile_bits(tile_bits), as_product(as_product) {
        if (as_product && observables != 1) throw std::invalid_argument("several observables have no product in common");
        if (tile_bits <= run_bits || tile_bits > max_tile_bits) throw std::invalid_argument("tiles have 6 to 16 bits");
        std::vector<PauliJob> jobs = grouped(x, z, c, observable);
        for (PauliJob& job : jobs)
            for (PauliTerm& term : job.terms) term.z = lift.mask(term.z);
        if (this->bits <= tile_bits) {
            if (!jobs.empty()) add_pass(low_bits(this->bits), 0, jobs, {});
        } else {
            cover(jobs);
        }
        // To read what an earlier pass has written is cheap where the tile has long runs, and best where it has no gaps.
        std::vector<Index> run_lengths;
        for (const PauliPass& pass : passes) run_lengths.push_back(pass.far ? 0 : Index(std::countr_one(pass.tile)));
        std::vector<PauliPass> sorted;
        for (std::size_t k : order_of(run_lengths)) sorted.push_back(std::move(passes[k]));
        passes = std::move(sorted);
    }

    Lift lift;
    int bits, observables, tile_bits;
    bool as_product;
    std::vector<PauliPass> passes;
    mutable ProductTablesKept product_tables;

private:
    // The numbers of the keys, in order of them; equal ones stay as they are.
    static std::vector<std::size_t> order_of(std::span<const Index> keys) {
        std::vector<std::pair<Index, std::size_t>> numbered;
        for (std::size_t k = 0; k < keys.size(); ++k) numbered.push_back({keys[k], k});
        std::sort(numbered.begin(), numbered.end());
        std::vector<std::size_t> order;
        for (const auto& [key, k] : numbered) order.push_back(k);
        return order;
    }

    static std::vector<PauliJob> grouped(std::span<const Index> x, std::span<const Index> z,
                                         std::span<const std::complex<double>> c, std::span<const std::int64_t> observable) {
        const std::vector<std::size_t> order = order_of(x);
        std::vector<PauliJob> jobs;
        for (std::size_t start = 0, end = 0; start < order.size(); start = end) {
            while (end < order.size() && x[order[end]] == x[order[start]]) ++end;
            for (bool imaginary : {false, true}) {
                PauliJob job{.x = x[order[start]], .imaginary = imaginary};
                for (std::size_t k = start; k < end; ++k) {
                    const std::size_t term = order[k];
                    const std::complex<double> phases[] = {1, {0, 1}, -1, {0, -1}};
                    const auto phase = c[term] * phases[std::popcount(x[term] & z[term]) & 3];
                    const double coefficient = imaginary ? phase.imag() : phase.real();
                    if (coefficient != 0) job.terms.push_back({z[term], coefficient, int(observable[term])});
                }
                if (!job.terms.empty()) jobs.push_back(std::move(job));
            }
        }
        return jobs;
    }

    // Passes for more bits than a tile has: first the tile of the lowest bits; then, greedily, tiles of a few lowest
    // bits and the high bits that serve most jobs, or pairs of low tiles for strings that flip more than that.
    void cover(std::vector<PauliJob>& jobs) {
        const Index low = low_bits(tile_bits), run = low_bits(run_bits);
        add_pass(low, 0, jobs, {~low, 0});
        while (!jobs.empty()) {
            const Index far = jobs.front().x & ~low;
            Index tile = run | jobs.front().x;
            if (std::popcount(tile) <= tile_bits) grow(tile, jobs);
            const Bits within{~tile, 0}, paired{~low, far};
            const auto count = [&](Bits flips) {
                return std::ranges::count_if(jobs, [=](const PauliJob& job) { return flips.holds(job.x); });
            };
            if (std::popcount(tile) == tile_bits && count(within) >= count(paired))
                add_pass(tile, 0, jobs, within);
            else
                add_pass(low, far, jobs, paired);
        }
    }

    // Adds to the tile the bits of the jobs that need fewest more, then the lowest ones that are left.
    void grow(Index& tile, const std::vector<PauliJob>& jobs) const {
        for (;;) {
            Index best = 0;
            int fewest = tile_bits - std::popcount(tile) + 1;
            for (const PauliJob& job : jobs) {
                const int more = std::popcount(job.x & ~tile);
                if (more > 0 && more < fewest) {
                    fewest = more;
                    best = job.x;
                }
                if (fewest == 1) break;
            }
            if (best == 0) break;
            tile |= best;
        }
        for (Index bit = 1; std::popcount(tile) < tile_bits; bit <<= 1) tile |= bit;
    }

    // Takes the jobs with certain flips.
    void add_pass(Index tile, Index far, std::vector<PauliJob>& jobs, Bits flips) {
        PauliPass pass{tile, far, {}};
        std::vector<PauliJob> rest;
        std::size_t kept = 0;
        for (PauliJob& job : jobs) {
            if (!flips.holds(job.x)) {
                rest.push_back(std::move(job));
                continue;
            }
            for (PauliJob& some : by_reach(std::move(job), tile))
                for (PauliJob& part : split(std::move(some), tile, kept)) {
                    sort_rows(part, tile);
                    pass.jobs.push_back(std::move(part));
                }
        }
        jobs = std::move(rest);
        if (!pass.jobs.empty()) passes.push_back(std::move(pass));
    }

    // A job in two where that leaves less to do for each tile: strings whose signs depend on the tile's bits alone, and
    // others that are few and have few different parities inside the tile, which are then summed by the tile.
    static std::vector<PauliJob> by_reach(PauliJob&& job, Index tile) {
        std::vector<PauliJob> parts(2, PauliJob{.x = job.x, .imaginary = job.imaginary});
        ParityBasis rows;
        for (PauliTerm term : job.terms) {
            const bool reaches_out = term.z & ~(tile | low_bits(lane_bits));
            if (reaches_out) term.slot = rows.coordinates(term.z & tile & ~low_bits(lane_bits));
            parts[reaches_out].terms.push_back(term);
        }
        if (parts[1].terms.empty() || rows.vectors.size() > few_rank || parts[1].terms.size() > few_terms)
            return single(std::move(job));
        parts[1].basis = std::move(rows.vectors);
        parts[1].by_tile = true;
        if (parts[0].terms.empty()) parts.erase(parts.begin());
        return parts;
    }

    // A job as few jobs whose slots can be kept over tiles; as one that is summed by the tile where they would be many.
    static std::vector<PauliJob> split(PauliJob&& job, Index tile, std::size_t& kept) {
        if (job.by_tile) return single(std::move(job));
        std::vector<PauliJob> parts;
        std::vector<ParityBasis> bases;
        std::size_t numbers = 0;
        for (const PauliTerm& term : job.terms) {
            const Index mask = term.z & ~low_bits(lane_bits);
            std::size_t p = 0;
            while (p < parts.size() && bases[p].vectors.size() == kept_rank && !bases[p].spans(mask)) ++p;
            if (p == parts.size()) {
                if (p == max_split) break;
                parts.push_back({.x = job.x, .imaginary = job.imaginary});
                bases.emplace_back();
            }
            parts[p].terms.push_back(term);
            parts[p].terms.back().slot = bases[p].coordinates(mask);
        }
        std::size_t terms = 0;
        for (std::size_t p = 0; p < parts.size(); ++p) {
            parts[p].basis = std::move(bases[p].vectors);
            numbers += parts[p].slots() * lanes;
            terms += parts[p].terms.size();
        }
        if (terms == job.terms.size() && kept + numbers <= kept_numbers) {
            kept += numbers;
            return parts;
        }
        ParityBasis rows;
        for (PauliTerm& term : job.terms) term.slot = rows.coordinates(term.z & tile & ~low_bits(lane_bits));
        job.basis = std::move(rows.vectors);
        job.by_tile = true;
        return single(std::move(job));
    }

    static std::vector<PauliJob> single(PauliJob&& job) {
        std::vector<PauliJob> jobs;
        jobs.push_back(std::move(job));
        return jobs;
    }

    static void sort_rows(PauliJob& job, Index tile) {
        job.flip = gathered(job.x, positions_of(tile));
        const Index row_flip = job.flip >> lane_bits;
        job.pairs = row_flip != 0 && (job.x & ~tile) == 0;
        const std::vector<std::uint16_t> slots = job.row_slots(tile & ~low_bits(lane_bits));
        const auto is_taken = [&](std::size_t r) { return !job.pairs || (r & std::bit_floor(row_flip)) == 0; };
        // Counting sort.
        job.starts.assign(job.slots() + 1, 0);
        for (std::size_t r = 0; r < slots.size(); ++r)
            if (is_taken(r)) ++job.starts[slots[r] + 1];
        std::partial_sum(job.starts.begin(), job.starts.end(), job.starts.begin());
        job.rows.resize(job.starts.back());
        std::vector<std::uint16_t> next = job.starts;
        for (std::size_t r = 0; r < slots.size(); ++r)
            if (is_taken(r)) job.rows[next[slots[r]]++] = std::uint16_t(r);
    }
};

}  // namespace qdist
