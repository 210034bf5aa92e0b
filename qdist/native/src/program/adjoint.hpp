// The adjoint sweep: a program undone, stage by stage from the last, on a ket and a bra whose tiles are in cache together.
//
// Before a block is undone, what its angles do to <bra|ket> is summed: one pass over the tile for all angles of the block.
#pragma once
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "base/ordered_sum.hpp"
#include "base/subnormals.hpp"
#include "base/simd.hpp"
#include "gates/formulas.hpp"
#include "gates/matrices.hpp"
#include "program/program.hpp"
#include "tile/dense.hpp"
#include "tile/diagonal.hpp"
#include "tile/givens.hpp"
#include "tile/permutation.hpp"
#include "tile/tile_norm.hpp"
#include "tile/tiles.hpp"
#include "tile/transition.hpp"

namespace qdist {

// Some of these have a default, which is wrong for a block with angles.
static_assert(std::variant_size_v<Block<float>> == 5, "a new block has cases in touched, sizes, undo, collect and finish");

// The bits of a tile of t that a block reads or changes, or more than those.
template <class Real>
std::size_t touched(const Block<Real>& block, int t) {
    std::size_t bits = 0;
    if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) {
        bits = d->dense.shape().control_mask_;
        for (int b : d->dense.shape().targets_) bits |= std::size_t(1) << b;
        return bits;
    }
    if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) {
        for (const auto& term : g->diagonal.terms())
            for (int b : {term.first, term.second})
                if (b >= 0 && b < t) bits |= std::size_t(1) << b;
        for (const auto& wide : g->diagonal.wide()) bits |= wide.near.mask;
        return bits;
    }
    return ~std::size_t(0);
}

// What of a stage's work and results is wanted.
struct Wanted {
    std::size_t until;  // the first block that must be undone
    Index zero_bits;    // bits of the tile that are 0 in every nonzero amplitude before the stage
    bool rest;          // store the amplitudes whose zero_bits are all 0: earlier stages need them
    bool everything;    // store all amplitudes
    double shift;       // the multiple of the ket that is subtracted from the bra before anything is undone
    bool streams;       // store past the caches (TileGrid::streams)
};

// One stage's part of the sweep: what is summed where, and in which order blocks are undone.
template <class Real>
class StageBack {
public:
    // angles: those that the stage is bound to.
    StageBack(const Stage<Real>& stage, const double* angles, Wanted wanted) : stage_(stage), angles_(angles), wanted_(wanted) {
        for (const Block<Real>& block : stage.blocks) {
            sums_at_.push_back(num_sums_);
            results_at_.push_back(num_results_);
            const auto [sums, results] = sizes(block);
            num_sums_ += sums;
            num_results_ += results;
            rows_at_.push_back(num_rows_);
            if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) num_rows_ += g->sums.numbers_of_rows();
        }
        count_bits();
    }

    template <class Stored>
    void run(Stored* ket, Stored* bra, std::size_t offset, const TileGrid& grid, double* gradient) const {
        const std::size_t size = grid.elements<Real>();
        std::vector<double> results(num_results_);
        const auto make = [&] { return Sums{std::vector<double>(num_sums_), AlignedVector<Real>(num_rows_)}; };
        // Whatever the number of threads is, so that sums are the same.
        const int bits = grid.bits_together<Stored>(4 * size * sizeof(Real), num_chunks(grid.count()));
        const std::size_t together = std::size_t(1) << bits;
        const auto work = [&](Sums& sums, std::size_t tile, std::size_t last, double* found) {
            const FlushedSubnormals flushed;
            Real* const buffer = tile_room<Real>((4 * together + 2 + FusedBack<Real>::max_summed_phases) * size);
            Real* const room = buffer + (4 * together + 2) * size;
            const auto room_at = [&](std::size_t k) { return Tile<Real>{buffer + 2 * k * size, buffer + (2 * k + 1) * size}; };
            std::fill(sums.of_blocks.begin(), sums.of_blocks.end(), 0.0);
            std::size_t tiles_in_rows = 0;
            for (; tile < last; tile += together) {
                // So few tiles are summed in Real before their sums become doubles.
                if (tiles_in_rows >= most_tiles_in_rows) collect_rows(sums), tiles_in_rows = 0;
                tiles_in_rows += together;
                std::array<Tile<Real>, TileGrid::most_together> kets, bras;
                for (std::size_t k = 0; k < together; ++k) kets[k] = room_at(k), bras[k] = room_at(together + k);
                Tile<Real> other = room_at(2 * together);
                const std::span<const Tile<Real>> all_kets(kets.data(), together), all_bras(bras.data(), together);
                const Index first = grid.base(tile);
                const std::size_t rest = std::size_t(1) << rest_bits_, stored = wanted_.everything ? grid.size : rest;
                if (together > 1) grid.load(ket + 2 * first, all_kets), grid.load(bra + 2 * first, all_bras);
                for (std::size_t k = 0; k < together; ++k) {
                    const Index base = grid.base(tile + k);
                    TilePair<Real> pair{kets[k], bras[k], other};
                    std::size_t left = stage_.blocks.size();
                    if (together == 1)
                        left = load(ket + 2 * base, bra + 2 * base, grid, base | offset, pair, room, sums);
                    else
                        shift(pair, size);
                    undo_blocks(left, pair, base | offset, room, sums);
                    // Above it the ket is zero by now, but for rounding errors that lack the factor of rotations.
                    if (wanted_.rest)
                        for (Real* x : {pair.ket.re, pair.ket.im}) std::fill(x + std::min(rest, stored), x + stored, Real(0));
                    kets[k] = pair.ket, bras[k] = pair.bra, other = pair.other;
                }
                if (!wanted_.rest) continue;
                grid.store(ket + 2 * first, all_kets, stored, wanted_.streams);
                grid.store(bra + 2 * first, all_bras, stored, wanted_.streams);
            }
            collect_rows(sums);
            collect(sums.of_blocks.data(), found);
        };
        ordered_sum(grid.count(), num_results_, results.data(), make, work);
        for (std::size_t k = 0; k < stage_.blocks.size(); ++k) {
            double* own = results.data() + results_at_[k];
            const std::size_t end = k + 1 < stage_.blocks.size() ? results_at_[k + 1] : num_results_;
            // Ket and bra both lacked the factor.
            const double lacking = stage_.lacking[k] * stage_.lacking[k];
            std::for_each(own, results.data() + end, [=](double& x) { x *= lacking; });
            finish(stage_.blocks[k], own, gradient);
        }
    }

private:
    using Dense_ = DenseBlock<Real>;
    static constexpr std::size_t most_tiles_in_rows = 16;

    // Of all blocks; and of phases of rows what is not summed up yet.
    struct Sums {
        std::vector<double> of_blocks;
        AlignedVector<Real> of_rows;
    };

    // Where block k adds Re(i conj(bra) ket) of rows. Those that are summed up tile by tile have `room`, which is cleared.
    Real* rows_of(std::size_t k, Sums& sums, Real* room) const {
        const auto& g = std::get<DiagonalBlock<Real>>(stage_.blocks[k]);
        if (g.sums.numbers_of_rows()) return sums.of_rows.data() + rows_at_[k];
        if (g.diagonal.rows_only()) std::fill_n(room, Simd<Real>::lanes << (tile_bits() - g.diagonal.columns()), Real(0));
        return room;
    }

    // Sums up what a tile has added to w = rows_of(k), unless it waits for other tiles.
    void add_phases(std::size_t k, Real* w, std::size_t base, Sums& sums) const {
        const auto& g = std::get<DiagonalBlock<Real>>(stage_.blocks[k]);
        if (!g.sums.numbers_of_rows()) g.sums.add(w, base, sums.of_blocks.data() + sums_at_[k]);
    }

    void collect_rows(Sums& sums) const {
        if (!num_rows_) return;
        for (std::size_t k = 0; k < stage_.blocks.size(); ++k)
            if (const auto* g = std::get_if<DiagonalBlock<Real>>(&stage_.blocks[k]); g && g->sums.numbers_of_rows())
                g->sums.add(sums.of_rows.data() + rows_at_[k], 0, sums.of_blocks.data() + sums_at_[k]);
        std::fill(sums.of_rows.begin(), sums.of_rows.end(), Real(0));
    }

    // A dense block for the lowest bits of the tile.
    struct Narrow {
        Narrow(const Dense_& block, int bits) : undo(block.undo), transition(block.transition) {
            undo.narrow(bits);
            if (transition) transition->narrow(bits);
        }

        Dense<Real> undo;
        std::optional<Transition<Real>> transition;
    };

    static std::pair<std::size_t, std::size_t> sizes(const Block<Real>& block) {
        if (const auto* d = std::get_if<Dense_>(&block)) {
            // A rotation is summed in one number whether its angle is wanted or not.
            if (d->sums_one()) return {1, 1};
            return d->is_trainable ? std::pair(d->transition->num_sums(), d->transition->num_results())
                                   : std::pair<std::size_t, std::size_t>();
        }
        if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) return {g->sums.num_sums(), g->sums.num_results()};
        if (const auto* r = std::get_if<Rotations<Real>>(&block)) return {r->num_sums(), r->num_results()};
        return {0, 0};
    }

    int tile_bits() const { return int(stage_.positions.size()); }

    // Before a block that is the first to touch the tile's highest bit, that bit was zero where anything was not, and will
    // be once the block is undone: blocks before it then have half as much to do.
    void count_bits() {
        const auto& blocks = stage_.blocks;
        std::vector<std::size_t> first(tile_bits(), blocks.size());
        for (std::size_t k = blocks.size(); k-- > 0;) {
            const std::size_t own = touched(blocks[k], tile_bits());
            for (int b = 0; b < tile_bits(); ++b)
                if (own >> b & 1) first[b] = k;
        }
        const auto bits_before = [&](std::size_t k) {
            int bits = tile_bits();
            while (bits > Simd<Real>::lane_bits && wanted_.zero_bits >> (bits - 1) & 1 && first[bits - 1] >= k) --bits;
            return bits;
        };
        narrow_.resize(blocks.size());
        for (std::size_t k = 0; k < blocks.size(); ++k) {
            bits_.push_back(bits_before(k + 1));
            const auto* d = std::get_if<Dense_>(&blocks[k]);
            if (d && !d->sums_one() && bits_[k] < tile_bits()) narrow_[k] = std::make_unique<Narrow>(*d, bits_[k]);
        }
        rest_bits_ = bits_before(0);
        const auto is_diagonal = [](const Block<Real>& block) { return std::holds_alternative<DiagonalBlock<Real>>(block); };
        first_phases_ = std::size_t(std::find_if(blocks.begin(), blocks.end(), is_diagonal) - blocks.begin());
    }

    // Loads a tile of both, and undoes the last block on the way if it is one of phases for whole rows. Returns the number
    // of blocks that are left. room: for a tile's numbers.
    template <class Stored>
    std::size_t load(const Stored* ket, const Stored* bra, const TileGrid& grid, std::size_t base, const TilePair<Real>& pair,
                     Real* room, Sums& sums) const {
        const std::size_t count = stage_.blocks.size();
        const auto* g = count > wanted_.until ? std::get_if<DiagonalBlock<Real>>(&stage_.blocks.back()) : nullptr;
        if (!g || !g->diagonal.rows_only() || g->sums.empty() || grid.width() < std::size_t(1) << g->diagonal.columns()) {
            grid.load(ket, pair.ket);
            grid.load(bra, pair.bra);
            shift(pair, grid.elements<Real>());
            return count;
        }
        Real* const w = rows_of(count - 1, sums, room);
        g->diagonal.undo_rows(pair, base, w, [&](std::size_t first) {
            const Stored *const kets = grid.at(ket, first), *const bras = grid.at(bra, first);
            return [=, shift = Real(wanted_.shift)](std::size_t column, Vec<Real>& k, Vec<Real>& l, Vec<Real>& a, Vec<Real>& b) {
                load_split(kets + 2 * column, k, l);
                load_split(bras + 2 * column, a, b);
                a -= shift * k;
                b -= shift * l;
            };
        });
        add_phases(count - 1, w, base, sums);
        return count - 1;
    }

    // Takes the shift off the bra.
    void shift(const TilePair<Real>& pair, std::size_t size) const {
        if (wanted_.shift == 0) return;
        const Real shift = Real(wanted_.shift);
        for (std::size_t i = 0; i < size; ++i) {
            pair.bra.re[i] -= shift * pair.ket.re[i];
            pair.bra.im[i] -= shift * pair.ket.im[i];
        }
    }

    // Undoes the first `left` blocks, or what is wanted of them.
    void undo_blocks(std::size_t left, TilePair<Real>& pair, std::size_t base, Real* room, Sums& sums) const {
        double* const of_blocks = sums.of_blocks.data();
        KeptNorm<Real> ket_norm, bra_norm;
        int noted_bits = -1, passes_since = 0;
        // Brings both back to the norms that they had. Those of another part of the tile are noted first.
        const auto keep_norms = [&](int bits, double lacking) {
            const std::size_t size = std::size_t(1) << std::max<int>(bits, Simd<Real>::lane_bits);
            if (bits == noted_bits) {
                ket_norm.restore(pair.ket, size, lacking);
                bra_norm.restore(pair.bra, size, lacking);
            } else {
                ket_norm.note(pair.ket, size, lacking);
                bra_norm.note(pair.bra, size, lacking);
            }
            noted_bits = bits;
            passes_since = 0;
        };
        for (std::size_t k = left; k-- > wanted_.until;) {
            if (stage_.keeps_norm() && (noted_bits < 0 || passes_since >= KeptNorm<Real>::worth_it))
                keep_norms(bits_[k], stage_.lacking[k]);
            const auto fused = stage_.fused_back.find(k);
            if (fused != stage_.fused_back.end() && bits_[k] == tile_bits() && k + 1 >= wanted_.until + fused->second.num_blocks() &&
                undo_fused(fused->second, k, pair, base, room, sums)) {
                k -= fused->second.num_blocks() - 1;
                passes_since += int(fused->second.num_blocks());
                continue;
            }
            ++passes_since;
            Givens rotations[max_givens];
            double* givens_sums[max_givens_of_both];
            const auto block = std::make_reverse_iterator(stage_.blocks.begin() + k + 1);
            const auto end = std::make_reverse_iterator(stage_.blocks.begin() + wanted_.until);
            const Givens* const next = std::holds_alternative<Dense_>(*block) ? std::get<Dense_>(*block).undo.givens() : nullptr;
            if (next && next->form == GivensForm::hadamard) {
                const int count = next_givens<Real>(block, end, &Dense_::undo, max_givens, rotations);
                for (const Tile<Real>& tile : {pair.ket, pair.bra}) GivensRotations<Real>::apply(bits_[k], rotations, count, tile);
                k -= count - 1;
                passes_since += count - 1;
            } else if (const int count = next_givens<Real>(block, end, &Dense_::undo, max_givens_of_both, rotations)) {
                const std::size_t first = k - (count - 1);
                for (int j = 0; j < count; ++j) givens_sums[j] = of_blocks + sums_at_[k - j];
                const int then = wanted_.everything ? tile_bits() : first ? bits_[first - 1] : rest_bits_;
                // Phases to come are summed over all of the tile.
                const bool ends =
                    first < first_phases_ &&
                    std::all_of(rotations, rotations + count, [=](const Givens& givens) { return givens.bit >= then; });
                GivensRotations<Real>::apply_both(bits_[k], rotations, count, ends, pair, givens_sums);
                k = first;
                passes_since += count - 1;
            } else if (LaneMatrix<Real> in_lanes[LaneMatrices<Real>::most];
                       const int count =
                           next_lane_matrices<Real>(block, end, [](const Dense_& d) { return d.lane_undo(); }, in_lanes)) {
                double* lane_sums[LaneMatrices<Real>::most];
                for (int j = 0; j < count; ++j) lane_sums[j] = of_blocks + sums_at_[k - j];
                LaneMatrices<Real>::apply_both(std::max(std::size_t(1) << bits_[k], Simd<Real>::lanes), in_lanes, count, pair,
                                               lane_sums);
                k -= count - 1;
                passes_since += count - 1;
            } else if (narrow_[k]) {
                const auto& d = std::get<Dense_>(stage_.blocks[k]);
                if (d.far.holds(base)) undo_dense(d, narrow_[k]->undo, narrow_[k]->transition, pair, of_blocks + sums_at_[k]);
            } else
                undo(k, pair, base, room, sums);
        }
        if (noted_bits == rest_bits_ && wanted_.rest) keep_norms(rest_bits_, 1);
    }

    static void undo_dense(const Dense_& block, const Dense<Real>& undo, const std::optional<Transition<Real>>& transition,
                           const TilePair<Real>& pair, double* sums) {
        if (transition && !block.sums_before) transition->add(pair, sums);
        undo.apply(pair.ket);
        undo.apply(pair.bra);
        if (transition && block.sums_before) transition->add(pair, sums);
    }

    // The same for blocks from number `last` back that run in one pass; false, and nothing done, if their angles do not allow it.
    bool undo_fused(const FusedBack<Real>& fused, std::size_t last, const TilePair<Real>& pair, std::size_t base, Real* room,
                    Sums& sums) const {
        // Each diagonal has room of its own.
        std::array<Real*, FusedBack<Real>::max_summed_phases> rooms{};
        std::size_t used = 0;
        if (!fused.undo(
                stage_.blocks, last, pair, base,
                [&](std::size_t k) {
                    rooms[used] = rows_of(k, sums, room + used * std::max(std::size_t(1) << tile_bits(), Simd<Real>::lanes));
                    return rooms[used++];
                },
                [&](std::size_t k) { return sums.of_blocks.data() + sums_at_[k]; }))
            return false;
        used = 0;
        for (std::size_t k = last + 1; k-- > last + 1 - fused.num_blocks();)
            if (const auto* g = std::get_if<DiagonalBlock<Real>>(&stage_.blocks[k]); g && !g->sums.empty())
                add_phases(k, rooms[used++], base, sums);
        return true;
    }

    // Adds what the angles of block k change to its sums, and undoes it.
    void undo(std::size_t k, TilePair<Real>& pair, std::size_t base, Real* room, Sums& sums) const {
        const Block<Real>& block = stage_.blocks[k];
        double* const own = sums.of_blocks.data() + sums_at_[k];
        if (const auto* d = std::get_if<Dense_>(&block)) {
            if (d->far.holds(base)) undo_dense(*d, d->undo, d->transition, pair, own);
        } else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) {
            Real* const w = g->sums.empty() ? nullptr : rows_of(k, sums, room);
            g->diagonal.undo(pair, base, w);
            if (w) add_phases(k, w, base, sums);
        } else if (const auto* f = std::get_if<TableDiagonal<Real>>(&block)) {
            f->undo(pair.ket, base);
            f->undo(pair.bra, base);
        } else if (const auto* p = std::get_if<Permutation<Real>>(&block)) {
            for (Tile<Real>* tile : {&pair.ket, &pair.bra}) {
                p->undo(*tile, pair.other, base);
                std::swap(*tile, pair.other);
            }
        } else
            std::get<Rotations<Real>>(block).undo(pair, base, own);
    }

    void collect(const double* sums, double* results) const {
        for (std::size_t k = 0; k < stage_.blocks.size(); ++k) {
            const double* from = sums + sums_at_[k];
            double* to = results + results_at_[k];
            const auto* d = std::get_if<Dense_>(&stage_.blocks[k]);
            if (const auto* r = std::get_if<Rotations<Real>>(&stage_.blocks[k]))
                r->collect(from, to);
            else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&stage_.blocks[k]))
                g->sums.collect(from, to);
            else if (d && !d->sums_one() && d->transition)
                d->transition->collect(from, to);
            else
                std::copy_n(from, sizes(stage_.blocks[k]).second, to);
        }
    }

    void finish(const Block<Real>& block, const double* results, double* gradient) const {
        if (const auto* d = std::get_if<Dense_>(&block)) {
            if (!d->is_trainable) return;
            if (d->sums_one() && d->factors.size() == 1) {
                // An RY or RX alone: dU U^-1 is half the matrix that the sum is of.
                gradient[d->factors[0].source.slots[0]] += *results;
            } else if (d->sums_one()) {
                // What else is in T changes nothing: dU U^-1 is a multiple of -iY, which is real, or of -iX.
                const Complex entry = d->sums_of_x() ? Complex(0, *results) : Complex(*results);
                add_dense_gradient(1, d->factors, {0, entry, 0, 0}, angles_, gradient);
            } else {
                Matrix t(std::size_t(1) << 2 * d->num_targets);
                for (std::size_t k = 0; k < t.size(); ++k) t[k] = {results[2 * k], results[2 * k + 1]};
                if (d->sums_before) t = after(d->num_targets, d->factors, std::move(t), angles_);
                add_dense_gradient(d->num_targets, d->factors, std::move(t), angles_, gradient);
            }
        } else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block))
            g->sums.finish(results, gradient);
        else if (const auto* r = std::get_if<Rotations<Real>>(&block))
            r->finish(results, gradient);
    }

    const Stage<Real>& stage_;
    const double* angles_;
    const Wanted wanted_;
    std::vector<std::size_t> sums_at_, results_at_, rows_at_;
    std::vector<std::unique_ptr<Narrow>> narrow_;  // for blocks that have less to do than all of a tile
    std::vector<int> bits_;                        // of the tile, how many of the lowest are in use when a block is undone
    int rest_bits_;
    std::size_t first_phases_;  // the first block of phases
    std::size_t num_sums_ = 0, num_results_ = 0, num_rows_ = 0;
};

// Undoes a program on ket and bra, and adds 2 Re <bra|d ket> by each of the program's angles to gradient, where parts that
// cancel in the derivatives by its parameters may be left out (tile/rotations.hpp). `offset` and `live`
// are those of the run that made the ket: what it passed over is passed over here. Without `recover` the sweep ends at the
// first block that depends on a parameter, and what is left in ket and bra is of no use. shift: the multiple of the ket that
// is first subtracted from the bra, which changes no derivative, because Re <ket|d ket> = 0.
template <class Real, class Stored>
void run_back(Program<Real>& program, Stored* ket, Stored* bra, std::size_t offset, Index live, bool recover, double shift,
              double* gradient) {
    const auto& stages = program.stages();
    program.bind_undo();
    std::vector<Index> live_before;
    for (const Stage<Real>& stage : stages) live_before.push_back(std::exchange(live, live | stage.mask()));
    std::size_t first = 0, until = 0;
    if (!recover) {
        while (first < stages.size() && (until = stages[first].first_trainable()) == stages[first].blocks.size()) ++first;
    }
    for (std::size_t k = stages.size(); k-- > first;) {
        const TileGrid grid(stages[k].positions, live_before[k] & ~stages[k].mask());
        const Index zero_bits = gathered(~live_before[k], stages[k].positions);
        const bool streams = grid.streams(ket, program.num_bits() + 1) && grid.streams(bra, program.num_bits() + 1);
        const Wanted wanted{k == first ? until : 0,   zero_bits, recover || k > first, recover,
                            k + 1 == stages.size() ? shift : 0, streams};
        StageBack<Real>(stages[k], program.angles(), wanted).run(ket, bra, offset, grid, gradient);
    }
}

}  // namespace qdist
