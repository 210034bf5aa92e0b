// A compiled circuit: stages of blocks. A stage loads each tile once, applies all its blocks, stores it once.
#pragma once
#include <algorithm>
#include <map>
#include <vector>

#include "base/bits.hpp"
#include "base/checks.hpp"
#include "base/pool.hpp"
#include "base/simd.hpp"
#include "base/subnormals.hpp"
#include "gates/angles.hpp"
#include "gates/formulas.hpp"
#include "gates/matrices.hpp"
#include "program/blocks.hpp"
#include "program/fused.hpp"
#include "program/fused_back.hpp"
#include "program/matrix_setter.hpp"
#include "tile/givens.hpp"
#include "tile/tile_norm.hpp"
#include "tile/tiles.hpp"

namespace qdist {

template <class Real>
struct Stage {
    std::vector<int> positions;  // of the shard's index; the tile's bits in order
    bool is_unitary = true;
    std::vector<Block<Real>> blocks = {};
    std::vector<double> lacking = {};  // the factor missing from ket and bra before each block is undone
    std::map<std::size_t, FusedBlocks<Real>> fused = {};     // by the number of their first block
    std::map<std::size_t, FusedBack<Real>> fused_back = {};  // by the number of the one that is undone first
    std::vector<Bits> conditions = {};  // of bits outside the tile, one of which must hold; none if the stage runs on all tiles

    Index mask() const { return scattered(~Index(0), positions); }

    // Brings matrices of bits inside a vector together, which commute with those of other bits.
    void gather_lanes() {
        const auto bit_of = [](const Block<Real>& block) {
            const auto* d = std::get_if<DenseBlock<Real>>(&block);
            return d && d->num_targets == 1 && !d->far.mask && d->dense.is_unconditional() ? d->dense.shape().targets_[0] : -1;
        };
        for (auto first = blocks.begin(); first != blocks.end();) {
            auto last = first;
            std::size_t bits = 0;
            for (int b; last != blocks.end() && (b = bit_of(*last)) >= 0 && !(bits >> b & 1); ++last) bits |= std::size_t(1) << b;
            std::stable_partition(first, last, [&](const Block<Real>& block) { return bit_of(block) < Simd<Real>::lane_bits; });
            first = last == first ? last + 1 : last;
        }
    }

    void find_fused(int t) {
        fused.clear();
        for (std::size_t k = 0; k < blocks.size();) {
            auto some = FusedBlocks<Real>::find(t, blocks, k);
            const std::size_t count = some ? some->num_blocks() : 1;
            if (some) fused.emplace(k, *std::move(some));
            k += count;
        }
    }

    void find_fused_back(int t) {
        fused_back.clear();
        for (std::size_t left = blocks.size(); left > 0;) {
            auto some = FusedBack<Real>::find(t, blocks, left - 1);
            const std::size_t count = some ? some->num_blocks() : 1;
            if (some) fused_back.emplace(left - 1, *std::move(some));
            left -= count;
        }
    }

    void find_conditions() {
        conditions.clear();
        for (const Block<Real>& block : blocks) {
            const auto* d = std::get_if<DenseBlock<Real>>(&block);
            const auto* r = std::get_if<Rotations<Real>>(&block);
            const Bits far = d ? d->far : r ? r->far() : Bits{};
            if (!far.mask) return conditions.clear();
            if (std::none_of(conditions.begin(), conditions.end(), [&](const Bits& c) { return c.mask == far.mask && c.value == far.value; }))
                conditions.push_back(far);
        }
    }

    // Whether no block does anything to the tile.
    bool passes_over(std::size_t base) const {
        return !conditions.empty() && std::none_of(conditions.begin(), conditions.end(), [&](const Bits& c) { return c.holds(base); });
    }

    // Whether rounding errors of the norm are worth being measured.
    bool keeps_norm() const { return KeptNorm<Real>::rounds && is_unitary && int(blocks.size()) >= KeptNorm<Real>::worth_it; }

    // Where the first block is that depends on a parameter; the number of blocks where there is none.
    std::size_t first_trainable() const {
        return std::size_t(std::find_if(blocks.begin(), blocks.end(), is_trainable<Real>) - blocks.begin());
    }
};

// One entry of the affine map from parameters to angles.
struct Entry {
    int slot, parameter;
    double coefficient;
};

// Real: what matrices and tiles are computed in. The state may be stored in less: it is then rounded once a stage.
template <class Real>
class Program {
public:
    explicit Program(int num_bits) : n_(num_bits) { check_range(num_bits, 0, max_index_bits, "the number of bits"); }

    int num_bits() const { return n_; }
    std::size_t num_stages() const { return stages_.size(); }

    // is_unitary: whether all of its blocks will be.
    void begin_stage(std::vector<int> positions, bool is_unitary = true) {
        check_positions(positions, n_, "a stage's positions");
        check_range(std::int64_t(positions.size()), 0, max_tile_bits, "the number of a tile's bits");
        const int low = std::min(n_, Simd<Real>::lane_bits);
        for (int p = 0; p < low; ++p)
            if (p >= int(positions.size()) || positions[p] != p) refuse("a stage's tile must hold the lowest bits");
        stages_.push_back({std::move(positions), is_unitary});
    }

    // Bits of the current stage, and of its tile: never fewer than a vector has.
    int stage_bits() const {
        if (stages_.empty()) refuse("there is no stage yet: begin_stage comes first");
        return int(stages_.back().positions.size());
    }
    int tile_bits() const { return std::max(stage_bits(), Simd<Real>::lane_bits); }

    // So many blocks of the current stage are to come.
    void expect_blocks(std::size_t count) { stages_.back().blocks.reserve(count); }

    void add(Block<Real> block) {
        is_bound_ = is_complete_ = is_undo_complete_ = false;
        is_trainable_ = is_trainable_ || qdist::is_trainable(block);
        stages_.back().blocks.push_back(std::move(block));
    }

    const std::vector<Stage<Real>>& stages() const { return stages_; }
    // The angles that depend on parameters, and whether any block has one.
    const Slots& trainable() const { return trainable_; }
    bool is_trainable() const { return is_trainable_; }
    // Those that it is bound to.
    const double* angles() const { return angles_.data(); }
    std::size_t num_angles() const { return angles_.size(); }

    // A block to come reads the first `count` angles, or some of them.
    void need_angles(int count) { needed_angles_ = std::max(needed_angles_, std::size_t(count)); }
    void check_angles(std::size_t count) const {
        if (count < needed_angles_) refuse("the blocks read ", needed_angles_, " angles; got ", count);
    }
    // Blocks have no matrices before angles are bound.
    void check_bound() const {
        if (!is_bound_) refuse("the program is not bound to angles: bind comes before a run");
    }

    // Computes all matrices and phases from the program's angles.
    void bind(const double* angles, std::size_t count) {
        check_angles(count);
        angles_.resize(count);
        std::transform(angles, angles + count, angles_.begin(), reduced);
        is_bound_ = true;
        undo_bound_ = false;
        MatrixSetter<Real> setter;
        for (Stage<Real>& stage : stages_) {
            if (!is_complete_) {
                stage.gather_lanes();
                stage.find_fused(std::max(int(stage.positions.size()), Simd<Real>::lane_bits));
                stage.find_conditions();
            }
            for (Block<Real>& block : stage.blocks) {
                if (auto* d = std::get_if<DenseBlock<Real>>(&block)) {
                    if (d->pair)
                        setter.set(*d->pair);
                    else
                        setter.set(d->dense, d->matrix = matrix(*d, angles_.data()), !d->far.mask, {true, true, true});
                } else if (auto* g = std::get_if<DiagonalBlock<Real>>(&block)) {
                    setter.set(g->diagonal, angles_.data());
                } else if (auto* r = std::get_if<Rotations<Real>>(&block))
                    setter.set(*r, angles_.data());
            }
            setter.finish_stage();
        }
        is_complete_ = true;
    }

    // Computes the matrices that undo the dense blocks, unless they are those of the last bind already.
    void bind_undo() {
        if (undo_bound_) return;
        MatrixSetter<Real> setter;
        for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
            if (!is_undo_complete_) stage->find_fused_back(std::max(int(stage->positions.size()), Simd<Real>::lane_bits));
            std::size_t last_givens = 0;
            stage->lacking.assign(stage->blocks.size(), 1);
            for (std::size_t k = stage->blocks.size(); k-- > 0;) {
                stage->lacking[k] = setter.lacking();
                if (auto* d = std::get_if<DenseBlock<Real>>(&stage->blocks[k])) {
                    // A rotation is summed as a real or an imaginary one, so that is what its derivatives must be of.
                    const GivensForms givens{d->is_real || !d->is_trainable, d->is_x_rotation || !d->is_trainable, !d->is_trainable};
                    if (d->pair) d->matrix = matrix(*d, angles_.data());
                    setter.set(d->undo, adjoint(d->matrix, std::size_t(1) << d->num_targets), !d->far.mask, givens);
                    if (d->undo.givens()) last_givens = k;
                    if (d->sums_before) stage->lacking[k] = setter.lacking();
                } else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&stage->blocks[k]))
                    setter.note(g->diagonal);
                else if (const auto* r = std::get_if<Rotations<Real>>(&stage->blocks[k]))
                    setter.note(*r);
            }
            if (setter.finish_stage()) std::fill_n(stage->lacking.begin(), last_givens, setter.lacking());
        }
        undo_bound_ = is_undo_complete_ = true;
    }

    // The angles as an affine map of parameters, which bind_parameters then goes through. Comes before the blocks.
    void set_affine(std::vector<Entry> entries, std::vector<double> constants) {
        if (!stages_.empty()) refuse("set_affine comes before the stages");
        for (const Entry& e : entries) {
            check_range(e.slot, 0, std::int64_t(constants.size()) - 1, "the number of an angle");
            check_range(e.parameter, 0, (std::int64_t(1) << 31) - 2, "the number of a parameter");
            num_parameters_ = std::max(num_parameters_, std::size_t(e.parameter) + 1);
            trainable_.insert(e.slot);
        }
        entries_ = std::move(entries);
        std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.slot < b.slot; });
        constants_ = std::move(constants);
        std::transform(constants_.begin(), constants_.end(), constants_.begin(), reduced);
    }

    // What an angle of a block changes by with each parameter.
    std::map<int, double> slopes(const Affine& angle) const {
        std::map<int, double> result;
        for (const auto& [slot, coefficient] : angle.terms) {
            auto e = std::lower_bound(entries_.begin(), entries_.end(), slot, [](const Entry& a, int s) { return a.slot < s; });
            for (; e != entries_.end() && e->slot == slot; ++e) result[e->parameter] += coefficient * e->coefficient;
        }
        return result;
    }

    // Binds to parameter values; false, and nothing bound, if one is not finite.
    bool bind_parameters(const double* theta, std::size_t count) {
        if (count < num_parameters_) refuse("the angles depend on ", num_parameters_, " parameters; got ", count);
        for (std::size_t k = 0; k < count; ++k)
            if (!std::isfinite(theta[k])) return false;
        angles_ = constants_;
        for (const Entry& e : entries_) add_product(e.coefficient, theta[e.parameter], angles_[e.slot]);
        bind(angles_.data(), angles_.size());
        return true;
    }

    // Runs all stages on |0...0>, whatever was in the state's memory before.
    template <class Stored>
    void run_from_zero(Stored* state) const {
        state[0] = 1, state[1] = 0;
        const Index zeros = ~run(state, 0, 0, 0, stages_.size()) & ((Index(1) << n_) - 1);
        if (!zeros) return;
        // Amplitudes that differ below the lowest of these bits follow each other.
        const std::size_t width = std::size_t(1) << std::countr_zero(zeros), count = (std::size_t(1) << n_) / width;
        ranges_on_threads(count, std::max<std::size_t>(1, (1 << 16) / width), [&](std::size_t first, std::size_t last) {
            for (std::size_t run = first; run < last; ++run)
                if (run * width & zeros) std::fill_n(state + 2 * run * width, 2 * width, Stored(0));
        });
    }

    // Runs stages first .. last in place. Before the first, amplitudes whose index has a 1 outside the bits of `live` count as
    // zeros and are not read; tiles of such amplitudes alone are passed over. Returns what is live afterwards: of other
    // amplitudes none was written. `offset` is the index, in the whole state, of the shard's first amplitude: its bits decide
    // far controls and phases.
    template <class Stored>
    Index run(Stored* state, std::size_t offset, Index live, std::size_t first, std::size_t last) const {
        for (std::size_t k = first; k < std::min(last, stages_.size()); ++k) {
            run_stage(stages_[k], state, offset, live);
            live |= stages_[k].mask();
        }
        return live;
    }

    // Calls f(a copy of the program bound to row b of angles, b) for each row of a batch: on threads over the batch when states
    // are small, over tiles when they are large.
    template <class F>
    void each_bound(const double* angles, std::size_t batch, std::size_t count, F f) const {
        // States of up to so many bits are given to threads whole.
        constexpr int small_bits = 16;
        const auto copied = [&] { return *this; };
        const auto run = [&](Program& mine, std::size_t b) {
            mine.bind(angles + b * count, count);
            f(mine, b);
        };
        if (n_ <= small_bits) return each_on_threads(batch, copied, run);
        Program mine = copied();
        for (std::size_t b = 0; b < batch; ++b) run(mine, b);
    }

    // Sources of a tile's elements are 32-bit numbers.
    static constexpr int max_tile_bits = 31;

private:
    static Matrix matrix(const DenseBlock<Real>& block, const double* angles) {
        return product(block.factors, block.num_targets, angles);
    }

    // With fewer, threads wait for the last of them: ansatz of 20 qubits, two threads, 15.6 ms with 16 and 15.4 with 32 pieces each.
    static constexpr std::size_t pieces_a_thread = 32;

    template <class Stored>
    void run_stage(const Stage<Real>& stage, Stored* state, std::size_t offset, Index live) const {
        const TileGrid grid(stage.positions, live & ~stage.mask());
        const std::size_t size = grid.elements<Real>(), count = grid.count();
        const int bits = grid.bits_together<Stored>(2 * size * sizeof(Real), pieces_a_thread * std::size_t(max_threads()));
        const std::size_t together = std::size_t(1) << bits;
        struct Room {
            const FlushedSubnormals flushed;
            Real* const buffer;
        };
        const auto room = [&] { return Room{{}, tile_room<Real>(2 * (together + 1) * size)}; };
        const Index zeros = ~live;
        // A tile with rows that were not live must be written even if no block works on it.
        const bool widens = zeros & stage.mask(), conditional = !widens && !stage.conditions.empty();
        const bool streams = grid.streams(state, n_);
        each_on_threads(count >> bits, room, [&](const Room& own, std::size_t group) {
            const std::size_t first = group << bits;
            if (conditional && passes_over(stage, grid, first, together, offset)) return;
            std::array<Tile<Real>, TileGrid::most_together> tiles;
            const auto room_at = [&](std::size_t k) { return Tile<Real>{own.buffer + 2 * k * size, own.buffer + (2 * k + 1) * size}; };
            for (std::size_t k = 0; k < together; ++k) tiles[k] = room_at(k);
            Tile<Real> other = room_at(together);
            const std::span<const Tile<Real>> used(tiles.data(), together);
            Stored* const begin = state + 2 * grid.base(first);
            widens ? grid.load_beside(zeros, begin, used) : grid.load(begin, used);
            for (std::size_t k = 0; k < together; ++k) run_tile(stage, size, tiles[k], other, grid.base(first + k) | offset);
            grid.store(begin, used, grid.size, streams);
        });
    }

    // Whether no block does anything to some tiles. Apart, since inlined it makes the loop over tiles slower (QFT, N1: a tenth).
    [[gnu::noinline]] static bool passes_over(const Stage<Real>& stage, const TileGrid& grid, std::size_t first, std::size_t count,
                                              std::size_t offset) {
        for (std::size_t k = 0; k < count; ++k)
            if (!stage.passes_over(grid.base(first + k) | offset)) return false;
        return true;
    }

    // other: room for a tile, which may take the place of the tile's.
    static void run_tile(const Stage<Real>& stage, std::size_t size, Tile<Real>& tile, Tile<Real>& other, std::size_t base) {
        KeptNorm<Real> norm;
        if (stage.keeps_norm()) norm.note(tile, size, 1);
        const auto& blocks = stage.blocks;
        auto fused = stage.fused.begin();
        for (std::size_t k = 0; k < blocks.size(); ++k) {
            if (fused != stage.fused.end() && fused->first == k) {
                const FusedBlocks<Real>& some = (fused++)->second;
                if (some.apply(blocks, k, tile, base)) {
                    k += some.num_blocks() - 1;
                    continue;
                }
            }
            if (const auto* d = std::get_if<DenseBlock<Real>>(&blocks[k])) {
                if (!d->far.holds(base)) continue;
                if (d->pair) {
                    d->pair->apply(tile);
                    continue;
                }
                const std::size_t end = fused == stage.fused.end() ? blocks.size() : fused->first;
                Givens rotations[max_givens];
                if (const int count = next_givens<Real>(blocks.begin() + k, blocks.begin() + end, &DenseBlock<Real>::dense,
                                                        max_givens, rotations)) {
                    GivensRotations<Real>::apply(d->dense.shape().t_, rotations, count, tile);
                    k += count - 1;
                    continue;
                }
                LaneMatrix<Real> in_lanes[LaneMatrices<Real>::most];
                const auto lane_matrix = [](const DenseBlock<Real>& block) {
                    return block.far.mask ? std::nullopt : block.dense.lane_matrix();
                };
                if (const int count = next_lane_matrices<Real>(blocks.begin() + k, blocks.begin() + end, lane_matrix, in_lanes)) {
                    LaneMatrices<Real>::apply(size, in_lanes, count, tile);
                    k += count - 1;
                    continue;
                }
                const auto* next = k + 1 < end ? std::get_if<DenseBlock<Real>>(&blocks[k + 1]) : nullptr;
                if (next && next->far.holds(base) && Dense<Real>::pairs(d->dense, next->dense)) {
                    Dense<Real>::apply_pair(d->dense, next->dense, tile);
                    ++k;
                } else
                    d->dense.apply(tile);
            } else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&blocks[k]))
                g->diagonal.apply(tile, base);
            else if (const auto* f = std::get_if<TableDiagonal<Real>>(&blocks[k]))
                f->apply(tile, base);
            else if (const auto* p = std::get_if<Permutation<Real>>(&blocks[k])) {
                p->apply(tile, other, base);
                std::swap(tile, other);
            } else
                std::get<Rotations<Real>>(blocks[k]).apply(tile, base);
        }
        if (stage.keeps_norm()) norm.restore(tile, size, 1);
    }

    int n_;
    std::vector<Stage<Real>> stages_;
    std::vector<Entry> entries_;
    std::vector<double> constants_, angles_;
    Slots trainable_;
    std::size_t needed_angles_ = 0, num_parameters_ = 0;
    bool is_trainable_ = false, is_complete_ = false, is_undo_complete_ = false, is_bound_ = false, undo_bound_ = false;
};

}  // namespace qdist
