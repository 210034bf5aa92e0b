// Expectation values of sums of Pauli strings.
#pragma once
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/ordered_sum.hpp"
#include "base/simd.hpp"
#include "pauli/plan.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// In-place Walsh-Hadamard transform over the slots, a row of lanes each. used: which of them are not zero, where few are;
// overwritten. Blocks of zeros are skipped: n slots of one bit each, as a sum of single Z's has, cost 2 n additions and not n log n.
inline void transform_slots(double* slots, std::size_t count, char* used = nullptr) {
    for (std::size_t h = 1; h < count; h *= 2)
        for (std::size_t i = 0; i < count; i += 2 * h) {
            const bool first = !used || used[i / h], second = !used || used[i / h + 1];
            if (used) used[i / h / 2] = first || second;
            if (!first && !second) continue;
            for (double *a = slots + i * lanes, *b = a + h * lanes; a != slots + (i + h) * lanes; a += lanes, b += lanes) {
                const auto u = Lanes<double>::load(a), v = Lanes<double>::load(b);
                (u + v).store(a);
                (u - v).store(b);
            }
        }
}

// Calls f with a flip of the lanes, so that it becomes a fixed shuffle of registers, and with `imaginary` as constants.
template <class Function>
QDIST_INLINE inline void specialised(Index lane_flip, bool imaginary, Function f) {
    with_constant<lanes>(int(lane_flip), [&](auto flip) QDIST_INLINE {
        if (imaginary)
            f(flip, std::true_type());
        else
            f(flip, std::false_type());
    });
}

// Adds Re or Im of conj(b) a, with a running over a job's rows and b over their partners, to the rows' slots.
template <class Real, Index flip, bool imaginary>
void add_products(const PauliJob& job, Tile<Real> ket, Tile<Real> bra, Index base, double* sums) {
    const Index row_flip = job.flip >> lane_bits;
    const std::uint16_t *rows = job.rows.data(), *starts = job.starts.data();
    const std::uint32_t base_slot = job.base_slot(base);
    if (imaginary) std::swap(ket.re, ket.im);
    // This many rows' products are added before they become doubles, because that costs more than they do.
    constexpr std::size_t together = 8;
    for (std::uint32_t slot = 0; slot < job.slots(); ++slot) {
        double* target = sums + (slot ^ base_slot) * lanes;
        auto sum = Lanes<double>::load(target);
        std::size_t k = starts[slot];
        const std::size_t end = starts[slot + 1];
        while (k < end) {
            Lanes<Real> first{}, second{};  // two sums, so that neither waits for the other
            for (const std::size_t stop = std::min(k + together, end); k < stop; ++k) {
                const std::size_t a = rows[k] * lanes, b = (rows[k] ^ row_flip) * lanes;
                first = first + Lanes<Real>::load(ket.re + a) * flipped<flip>(Lanes<Real>::load(bra.re + b));
                second = second + Lanes<Real>::load(ket.im + a) * flipped<flip>(Lanes<Real>::load(bra.im + b));
            }
            sum = sum + widened(imaginary ? first - second : first + second);
        }
        sum.store(target);
    }
}

// Turns a job's slot sums into its terms' values and adds them, times factor, to the observables' results. `outside`
// holds the bits outside the tile, for jobs that are summed by the tile.
inline void add_terms(const PauliJob& job, Index outside, double factor, double* slots, double* results) {
    transform_slots(slots, job.slots());
    for (const PauliTerm& term : job.terms) {
        const double* sum = slots + term.slot * lanes;
        double value = 0;
        for (Index l = 0; l < lanes; ++l) value += parity(term.z & l) ? -sum[l] : sum[l];
        const bool negative = job.by_tile && parity(term.z & outside);
        results[term.observable] += (negative ? -factor : factor) * term.coefficient * value;
    }
}

// What a job's sums are multiplied by. Products with i and with its partner are conjugates, so pairs that are visited once
// count twice.
inline double pair_factor(const PauliPass& pass, const PauliJob& job) {
    return (job.imaginary ? -1.0 : 1.0) * (pass.far || job.pairs ? 2.0 : 1.0);
}

// One thread's sums of a pass: those of the jobs that are summed over tiles, one job behind the other.
class PassSums {
public:
    explicit PassSums(const PauliPass& pass) : pass_(pass), start_(pass.jobs.size()) {
        std::size_t size = 0, of_tile = 0;
        for (std::size_t j = 0; j < pass.jobs.size(); ++j) {
            start_[j] = size;
            const std::size_t own = pass.jobs[j].slots() * lanes;
            if (pass.jobs[j].by_tile)
                of_tile = std::max(of_tile, own);
            else
                size += own;
        }
        kept_.resize(size);
        tile_slots_.resize(of_tile);
    }

    // Adds a tile's products; `base` is the index of its first amplitude, `bra` the tile that `ket` is flipped to.
    template <class Real>
    void add_tile(Tile<Real> ket, Tile<Real> bra, Index base, double* results) {
        for (std::size_t j = 0; j < pass_.jobs.size(); ++j) {
            const PauliJob& job = pass_.jobs[j];
            double* slots = job.by_tile ? tile_slots_.data() : kept_.data() + start_[j];
            if (job.by_tile) std::fill(slots, slots + job.slots() * lanes, 0.0);
            specialised(job.flip % lanes, job.imaginary, [&](auto lane_flip, auto imaginary) {
                add_products<Real, lane_flip, imaginary>(job, ket, bra, base, slots);
            });
            if (job.by_tile) add_terms(job, base & ~pass_.tile, pair_factor(pass_, job), slots, results);
        }
    }

    // Adds what the tiles so far have in common to the observables' results, and begins anew.
    void finish(double* results) {
        for (std::size_t j = 0; j < pass_.jobs.size(); ++j)
            if (!pass_.jobs[j].by_tile)
                add_terms(pass_.jobs[j], 0, pair_factor(pass_, pass_.jobs[j]), kept_.data() + start_[j], results);
        std::fill(kept_.begin(), kept_.end(), 0.0);
    }

private:
    const PauliPass& pass_;
    std::vector<std::size_t> start_;
    std::vector<double> kept_, tile_slots_;
};

// Adds what one pass finds in a shard, whose first index is `first`, to results.
template <class Real>
void add_expectations(const PauliPlan& plan, const PauliPass& pass, const Real* shard, Index first, double* results) {
    // Of a pair of tiles only one is counted, which has the highest bit of `far` 0: its partner comes with it.
    const Index outer = low_bits(plan.bits) & ~pass.tile & ~(pass.far ? std::bit_floor(pass.far) : 0);
    const TileGrid grid(positions_of(pass.tile), outer);
    const std::size_t size = grid.elements<Real>();
    const auto make = [&] { return PassSums(pass); };
    const auto work = [&](PassSums& sums, std::size_t t, std::size_t last, double* found) {
        Real* const room = tile_room<Real>(4 * size);
        const Tile<Real> ket{room, room + size}, partner{room + 2 * size, room + 3 * size};
        for (; t < last; ++t) {
            const Index base = grid.base(t);
            grid.load(shard + 2 * base, ket);
            if (pass.far) grid.load(shard + 2 * (base ^ pass.far), partner);
            sums.add_tile(ket, pass.far ? partner : ket, first + base, found);
        }
        sums.finish(found);
    };
    ordered_sum(grid.count(), std::size_t(plan.observables), results, make, work);
}

}  // namespace qdist
