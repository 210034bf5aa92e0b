// Expectation values of sums of Pauli strings.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/lanes.hpp"
#include "pauli/plan.hpp"
#include "pauli/tiles.hpp"

namespace qdist {

// Adds Re or Im of conj(b) a, with a running over a job's rows and b over their partners, to the rows' slots.
template <class Real, Index flip, bool imaginary>
void add_products(const PauliJob& job, Rows<const Real> ket, Rows<const Real> bra, Index base, double* sums) {
    const Index row_flip = job.flip >> lane_bits;
    const std::uint16_t *rows = job.rows.data(), *starts = job.starts.data();
    const std::uint32_t base_slot = job.base_slot(base);
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
                const auto a = ket[rows[k]], b = bra[rows[k] ^ row_flip];
                const auto br = flipped<flip>(b.re), bi = flipped<flip>(b.im);
                first = first + (imaginary ? a.im : a.re) * br;
                second = second + (imaginary ? a.re : a.im) * bi;
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
    explicit PassSums(const PauliPass& pass)
        : pass_(pass), start_(pass.jobs.size()) {
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
    void add_tile(Rows<const Real> ket, Rows<const Real> bra, Index base, double* results) {
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

// Adds what one pass finds in a shard, whose first index is `first`, to results. Tiles are summed in a fixed number of
// chunks, which are added in order: the result does not depend on the number of threads.
template <class Real>
void add_expectations(const PauliPlan& plan, const PauliPass& pass, const Real* shard, Index first, double* results) {
    TileGrid grid(plan.bits, pass);
    if (pass.far) grid.halve(pass.far);
    const std::size_t tiles = grid.count(), chunks = std::min<std::size_t>(tiles, 64);
    const std::size_t observables = std::size_t(plan.observables);
    std::vector<double> partial(chunks * observables);
#pragma omp parallel if (chunks > 1)
    {
        Tile<Real> ket(grid.size), partner(pass.far ? grid.size : 0);
        PassSums sums(pass);
#pragma omp for schedule(static)
        for (std::size_t c = 0; c < chunks; ++c) {
            double* found = partial.data() + c * observables;
            for (std::size_t t = c * (tiles / chunks); t < (c + 1) * (tiles / chunks); ++t) {
                const Index base = grid.base(t);
                grid.load(shard, base, ket);
                if (pass.far) grid.load(shard, base ^ pass.far, partner);
                const Rows<const Real> rows = std::as_const(ket).rows();
                sums.add_tile(rows, pass.far ? std::as_const(partner).rows() : rows, first + base, found);
            }
            sums.finish(found);
        }
    }
    for (std::size_t i = 0; i < partial.size(); ++i) results[i % observables] += partial[i];
}

}  // namespace qdist
