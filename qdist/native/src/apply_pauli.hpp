// The product of a sum of Pauli strings with a state.
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

#include "pauli_tiles.hpp"

namespace qdist {

// The factors of a job by slot and lane. `outside` as in add_terms.
template <class Real>
void fill_factors(const PauliJob& job, Index outside, std::vector<double>& sums, Real* factors) {
    const std::size_t size = job.slots() * lanes;
    std::fill(sums.begin(), sums.begin() + std::ptrdiff_t(size), 0.0);
    for (const PauliTerm& term : job.terms) {
        const double c = job.by_tile && parity(term.z & outside) ? -term.coefficient : term.coefficient;
        double* sum = sums.data() + term.slot * lanes;
        for (Index l = 0; l < lanes; ++l) sum[l] += parity(term.z & l) ? -c : c;
    }
    transform_slots(sums.data(), job.slots());
    std::copy(sums.begin(), sums.begin() + std::ptrdiff_t(size), factors);
}

// Adds a job's product with the tile `in` to the tile `out`: row r of the result comes from row r ^ row_flip.
template <class Real, Index flip, bool imaginary>
void add_flipped(const Tile<Real>& in, std::size_t rows, Index row_flip, const std::uint32_t* row_slot,
                 std::uint32_t base_slot, const Real* factors, Tile<Real>& out) {
    for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t source = r ^ row_flip;
        const Real* factor = factors + (row_slot[source] ^ base_slot);
        const Real* re = in.re.data() + source * lanes;
        const Real* im = in.im.data() + source * lanes;
        Real* out_re = out.re.data() + r * lanes;
        Real* out_im = out.im.data() + r * lanes;
        for (Index l = 0; l < lanes; ++l) {
            const Real f = factor[l ^ flip], x = re[l ^ flip], y = im[l ^ flip];
            if constexpr (imaginary) {
                out_re[l] -= f * y;
                out_im[l] += f * x;
            } else {
                out_re[l] += f * x;
                out_im[l] += f * y;
            }
        }
    }
}

// out = (sum of the plan's terms) shard. The shard's first index is `first`; `out` is apart from it.
template <class Real>
void apply_pauli_sum(const PauliPlan& plan, const Real* shard, Index first, Real* out) {
    if (plan.passes.empty()) std::fill(out, out + (std::size_t(2) << plan.bits), Real(0));
    for (const PauliPass& pass : plan.passes) {
        const bool is_first = &pass == &plan.passes.front();
        const TileGrid grid(plan.bits, pass);
        const std::size_t tiles = grid.count(), rows = grid.size / lanes;
        std::vector<double> sums(lanes << PauliPlan::max_rank);
        std::vector<std::vector<Real>> kept_factors(pass.jobs.size());
        for (std::size_t j = 0; j < pass.jobs.size(); ++j)
            if (!pass.jobs[j].by_tile) {
                kept_factors[j].resize(pass.jobs[j].slots() * lanes);
                fill_factors(pass.jobs[j], 0, sums, kept_factors[j].data());
            }
#pragma omp parallel if (tiles > 1) firstprivate(sums)
        {
            Tile<Real> in(grid.size), result(grid.size);
            std::vector<Real> tile_factors(sums.size());
#pragma omp for schedule(static)
            for (std::size_t t = 0; t < tiles; ++t) {
                const Index base = grid.base(t), source = base ^ pass.far;
                grid.load(shard, source, in);
                if (is_first) {
                    std::fill(result.re.begin(), result.re.end(), Real(0));
                    std::fill(result.im.begin(), result.im.end(), Real(0));
                } else {
                    grid.load(out, base, result);
                }
                for (std::size_t j = 0; j < pass.jobs.size(); ++j) {
                    const PauliJob& job = pass.jobs[j];
                    if (job.by_tile) fill_factors(job, (first + source) & ~pass.tile, sums, tile_factors.data());
                    const Real* factors = job.by_tile ? tile_factors.data() : kept_factors[j].data();
                    const Index flip = extract(job.x, pass.tile);
                    const auto add = [&](auto imaginary) {
                        with_lane_flip(flip & (lanes - 1), [&](auto lane_flip) {
                            add_flipped<Real, lane_flip, imaginary>(in, rows, flip >> lane_bits, job.row_slot.data(),
                                                                    job.base_slot(first + source), factors, result);
                        });
                    };
                    if (job.imaginary)
                        add(std::true_type());
                    else
                        add(std::false_type());
                }
                grid.store(result, base, out);
            }
        }
    }
}

}  // namespace qdist
