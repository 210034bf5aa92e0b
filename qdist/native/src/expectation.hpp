// Expectation values of sums of Pauli strings.
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

#include "pauli_tiles.hpp"

namespace qdist {

// Adds Re or Im of conj(b) a, with a running over the rows of a tile and b over their flipped partners, to the rows'
// slots. Visits every second run of `run` rows: where partners are in the same tile, one of each pair.
template <class Real, Index flip, bool imaginary>
void add_products(const Tile<Real>& ket, const Tile<Real>& bra, std::size_t rows, std::size_t run, Index row_flip,
                  const std::uint32_t* row_slot, std::uint32_t base_slot, double* slots) {
    for (std::size_t start = 0; start < rows; start += 2 * run)
        for (std::size_t r = start; r < start + run; ++r) {
            const std::size_t other = (r ^ row_flip) * lanes;
            const Real* ar = ket.re.data() + r * lanes;
            const Real* ai = ket.im.data() + r * lanes;
            const Real* br = bra.re.data() + other;
            const Real* bi = bra.im.data() + other;
            double* sum = slots + (row_slot[r] ^ base_slot);
            Real product[lanes];
            for (Index l = 0; l < lanes; ++l) {
                if constexpr (imaginary)
                    product[l] = ai[l] * br[l ^ flip] - ar[l] * bi[l ^ flip];
                else
                    product[l] = ar[l] * br[l ^ flip] + ai[l] * bi[l ^ flip];
            }
            for (Index l = 0; l < lanes; ++l) sum[l] += double(product[l]);
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

// Adds the expectation values in a shard, whose first index is `first`, to results. Tiles are summed in a fixed number
// of chunks, which are added in order: the result does not depend on the number of threads.
template <class Real>
void add_expectations(const PauliPlan& plan, const Real* shard, Index first, double* results) {
    for (const PauliPass& pass : plan.passes) {
        TileGrid grid(plan.bits, pass);
        if (pass.far) grid.halve(pass.far);
        const std::size_t tiles = grid.count(), chunks = std::min<std::size_t>(tiles, 64), rows = grid.size / lanes;
        const std::size_t observables = std::size_t(plan.observables);
        std::vector<double> partial(chunks * observables);
        std::vector<std::size_t> slot_start(pass.jobs.size());
        std::size_t kept = 0;
        for (std::size_t j = 0; j < pass.jobs.size(); ++j) {
            slot_start[j] = kept;
            if (!pass.jobs[j].by_tile) kept += pass.jobs[j].slots() * lanes;
        }
        // Products with i and with its partner are conjugates, so pairs that are visited once count twice.
        const auto factor_of = [&](const PauliJob& job) {
            const bool once = pass.far || extract(job.x, pass.tile) >> lane_bits;
            return (job.imaginary ? -1.0 : 1.0) * (once ? 2.0 : 1.0);
        };
#pragma omp parallel if (chunks > 1)
        {
            Tile<Real> ket(grid.size), partner(pass.far ? grid.size : 0);
            std::vector<double> kept_slots(kept), tile_slots(lanes << PauliPlan::max_rank);
#pragma omp for schedule(static)
            for (std::size_t c = 0; c < chunks; ++c) {
                std::fill(kept_slots.begin(), kept_slots.end(), 0.0);
                double* sums = partial.data() + c * observables;
                for (std::size_t t = c * (tiles / chunks); t < (c + 1) * (tiles / chunks); ++t) {
                    const Index base = grid.base(t);
                    grid.load(shard, base, ket);
                    if (pass.far) grid.load(shard, base ^ pass.far, partner);
                    const Tile<Real>& bra = pass.far ? partner : ket;
                    for (std::size_t j = 0; j < pass.jobs.size(); ++j) {
                        const PauliJob& job = pass.jobs[j];
                        double* slots = job.by_tile ? tile_slots.data() : kept_slots.data() + slot_start[j];
                        if (job.by_tile) std::fill(slots, slots + job.slots() * lanes, 0.0);
                        const Index flip = extract(job.x, pass.tile), row_flip = flip >> lane_bits;
                        const std::size_t run = row_flip && !pass.far ? std::bit_floor(row_flip) : rows;
                        const auto add = [&](auto imaginary) {
                            with_lane_flip(flip & (lanes - 1), [&](auto lane_flip) {
                                add_products<Real, lane_flip, imaginary>(ket, bra, rows, run, row_flip,
                                                                         job.row_slot.data(),
                                                                         job.base_slot(first + base), slots);
                            });
                        };
                        if (job.imaginary)
                            add(std::true_type());
                        else
                            add(std::false_type());
                        if (job.by_tile) add_terms(job, (first + base) & ~pass.tile, factor_of(job), slots, sums);
                    }
                }
                for (std::size_t j = 0; j < pass.jobs.size(); ++j)
                    if (!pass.jobs[j].by_tile)
                        add_terms(pass.jobs[j], 0, factor_of(pass.jobs[j]), kept_slots.data() + slot_start[j], sums);
            }
        }
        for (std::size_t i = 0; i < partial.size(); ++i) results[i % observables] += partial[i];
    }
}

}  // namespace qdist
