// A compiled circuit: stages of blocks. A stage loads each tile once, applies all its blocks, stores it once.
#pragma once
#include <complex>
#include <memory>
#include <optional>
#include <variant>
#include <vector>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/bits.hpp"
#include "base/checks.hpp"
#include "base/simd.hpp"
#include "gates/angles.hpp"
#include "gates/formulas.hpp"
#include "gates/matrices.hpp"
#include "program/matrix_setter.hpp"
#include "tile/dense.hpp"
#include "tile/diagonal.hpp"
#include "tile/diagonal_sums.hpp"
#include "tile/pauli_rotation.hpp"
#include "tile/permutation.hpp"
#include "tile/tile_norm.hpp"
#include "tile/tiles.hpp"
#include "tile/transition.hpp"
#include "tile/givens.hpp"

namespace qdist {

// One factor of a dense block's matrix: a matrix to come, on some of the block's bits.
struct Factor {
    Source source;
    std::vector<int> bits;
};

template <class Real>
struct DenseBlock {
    DenseBlock(Dense<Real> block, Bits far_bits, std::vector<Factor> parts, const Slots& trainable)
        : dense(std::move(block)), undo(dense), transition(dense.shape()), num_targets(int(dense.shape().targets_.size())), far(far_bits), factors(std::move(parts)) {
        for (const Factor& f : factors) {
            for (int slot : f.source.slots) is_trainable = is_trainable || trainable.contains(slot);
            is_real = is_real && f.source.is_real();
        }
    }

    Dense<Real> dense, undo;
    Transition<Real> transition;
    int num_targets;
    Bits far;
    std::vector<Factor> factors;
    bool is_trainable = false;
    bool is_real = true;  // whatever the angles are
};

template <class Real>
struct DiagonalBlock {
    DiagonalBlock(int t, Diagonal<Real> block, const Slots& trainable) : diagonal(std::move(block)), sums(t, diagonal, trainable) {}

    Diagonal<Real> diagonal;
    DiagonalSums<Real> sums;
};

template <class Real>
struct RotationBlock {
    PauliRotation<Real> rotation;
    Affine angle;
    bool is_trainable;
};

template <class Real>
using Block = std::variant<DenseBlock<Real>, DiagonalBlock<Real>, TableDiagonal<Real>, Permutation<Real>, RotationBlock<Real>>;

// Whether a block depends on an angle that depends on a parameter.
template <class Real>
bool is_trainable(const Block<Real>& block) {
    if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) return d->is_trainable;
    if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) return !g->sums.empty();
    const auto* r = std::get_if<RotationBlock<Real>>(&block);
    return r && r->is_trainable;
}

// What a block costs, in passes over a tile in cache.
template <class Real>
int passes(const Block<Real>& block) {
    return std::holds_alternative<RotationBlock<Real>>(block) ? 4 : 1;
}

template <class Real>
struct Stage {
    std::vector<int> positions;  // of the shard's index; the tile's bits in order
    int low;                     // how many of them are 0, 1, 2, ...
    std::vector<Block<Real>> blocks;
    std::vector<double> lacking = {};  // the factor missing from ket and bra before each block is undone
    int passes = 0;                    // of all blocks

    // Whether rounding errors of the norm are worth being measured.
    bool keeps_norm() const { return KeptNorm<Real>::rounds && passes >= KeptNorm<Real>::worth_it; }

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

    void begin_stage(std::vector<int> positions) {
        check_positions(positions, n_, "a stage's positions");
        check_range(std::int64_t(positions.size()), 0, max_tile_bits, "the number of a tile's bits");
        int low = 0;
        while (low < int(positions.size()) && positions[low] == low) ++low;
        const int lanes = Simd<Real>::lane_bits;
        if (low < std::min(n_, lanes)) throw std::invalid_argument("a stage's tile must hold the lowest bits");
        stages_.push_back({std::move(positions), low, {}, {}, 0});
    }

    // Bits of the current stage, and of its tile: never fewer than a vector has.
    int stage_bits() const {
        if (stages_.empty()) refuse("there is no stage yet: begin_stage comes first");
        return int(stages_.back().positions.size());
    }
    int tile_bits() const { return std::max(stage_bits(), Simd<Real>::lane_bits); }

    void add(Block<Real> block) {
        is_bound_ = false;
        is_trainable_ = is_trainable_ || qdist::is_trainable(block);
        stages_.back().passes += passes(block);
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
        if (count < needed_angles_) refuse("the blocks read " + std::to_string(needed_angles_) + " angles; got " + std::to_string(count));
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
            for (Block<Real>& block : stage.blocks) {
                if (auto* d = std::get_if<DenseBlock<Real>>(&block))
                    setter.set(d->dense, product(*d, angles_.data()), !d->far.mask, true);
                else if (auto* g = std::get_if<DiagonalBlock<Real>>(&block)) {
                    g->diagonal.set(angles_.data());
                    setter.stretched(g->diagonal);
                } else if (auto* r = std::get_if<RotationBlock<Real>>(&block))
                    setter.set(r->rotation, r->angle.at(angles_.data()));
            }
            setter.finish_stage();
        }
    }

    // Computes the matrices that undo the dense blocks, unless they are those of the last bind already.
    void bind_undo() {
        if (undo_bound_) return;
        MatrixSetter<Real> setter;
        for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
            std::size_t last_givens = 0;
            stage->lacking.assign(stage->blocks.size(), 1);
            for (std::size_t k = stage->blocks.size(); k-- > 0;) {
                stage->lacking[k] = setter.lacking();
                if (auto* d = std::get_if<DenseBlock<Real>>(&stage->blocks[k])) {
                    // A rotation is summed as one of reals, so that is what its derivatives must be of.
                    const bool may_drop_cosine = d->is_real || !d->is_trainable;
                    setter.set(d->undo, adjoint(product(*d, angles_.data()), std::size_t(1) << d->num_targets), !d->far.mask, may_drop_cosine);
                    if (d->undo.givens()) last_givens = k;
                } else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&stage->blocks[k]))
                    setter.stretched(g->diagonal);
                else if (const auto* r = std::get_if<RotationBlock<Real>>(&stage->blocks[k]))
                    setter.stretched(r->rotation);
            }
            if (setter.finish_stage()) std::fill_n(stage->lacking.begin(), last_givens, setter.lacking());
        }
        undo_bound_ = true;
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
        constants_ = std::move(constants);
        std::transform(constants_.begin(), constants_.end(), constants_.begin(), reduced);
    }

    // Binds to parameter values; false, and nothing bound, if one is not finite.
    bool bind_parameters(const double* theta, std::size_t count) {
        if (count < num_parameters_) refuse("the angles depend on " + std::to_string(num_parameters_) + " parameters; got " + std::to_string(count));
        for (std::size_t k = 0; k < count; ++k)
            if (!std::isfinite(theta[k])) return false;
        std::vector<double> angles = constants_;
        for (const Entry& e : entries_) add_product(e.coefficient, theta[e.parameter], angles[e.slot]);
        bind(angles.data(), angles.size());
        return true;
    }

    // Puts |0...0> into the state and runs all stages.
    template <class Stored>
    void run_from_zero(std::complex<Stored>* state) const {
        const std::size_t size = std::size_t(1) << n_, part = std::min<std::size_t>(size, 1 << 16);
#pragma omp parallel for schedule(static) if (size > part)
        for (std::ptrdiff_t p = 0; p < std::ptrdiff_t(size / part); ++p) std::fill_n(state + p * part, part, std::complex<Stored>(0));
        state[0] = 1;
        run(state, 0, 0, 0, 0, stages_.size());
    }

    // Runs stages first .. last in place. Before the first, amplitudes may be nonzero only where the index agrees with
    // `start` outside the bits of `live`; tiles that must be zero are passed over. Returns what is live afterwards.
    // `offset` is the index, in the whole state, of the shard's first amplitude: its bits decide far controls and phases.
    template <class Stored>
    std::size_t run(std::complex<Stored>* state, std::size_t offset, std::size_t start, std::size_t live, std::size_t first, std::size_t last) const {
        for (std::size_t k = first; k < std::min(last, stages_.size()); ++k) {
            run_stage(stages_[k], state, offset, start, live);
            for (int p : stages_[k].positions) live |= std::size_t(1) << p;
        }
        return live;
    }

    // Binds and runs once for every row of angles, each on its own state: threads over the batch when states are small,
    // over tiles when they are large.
    template <class Stored>
    void run_batch(std::complex<Stored>* states, const double* angles, std::size_t batch, std::size_t size, std::size_t count, bool from_zero) const {
        const std::size_t live = from_zero ? 0 : size - 1;
        const bool small = n_ <= small_bits;
#pragma omp parallel if (small && batch > 1)
        {
            Program mine = *this;
#pragma omp for schedule(static)
            for (std::ptrdiff_t b = 0; b < std::ptrdiff_t(batch); ++b) {
                mine.bind(angles + b * count, count);
                mine.run(states + b * size, 0, 0, live, 0, num_stages());
            }
        }
    }

    // States of up to so many bits are given to threads whole.
    static constexpr int small_bits = 16;

    // Sources of a tile's elements are 32-bit numbers.
    static constexpr int max_tile_bits = 31;

private:

    static Matrix product(const DenseBlock<Real>& block, const double* angles) {
        const std::size_t size = std::size_t(1) << block.num_targets;
        if (block.factors.size() == 1 && int(block.factors[0].bits.size()) == block.num_targets) {
            bool in_order = true;
            for (int j = 0; j < block.num_targets; ++j) in_order = in_order && block.factors[0].bits[j] == j;
            if (in_order) return block.factors[0].source.at(angles);
        }
        Matrix m(size * size);
        for (std::size_t k = 0; k < size; ++k) m[k * size + k] = 1;
        for (const Factor& f : block.factors) apply_left(f.source.at(angles), f.bits, m, block.num_targets);
        return m;
    }

    template <class Stored>
    void run_stage(const Stage<Real>& stage, std::complex<Stored>* state, std::size_t offset, std::size_t start, std::size_t live) const {
        const StageTiles<Real, Stored> tiles(stage.positions, stage.low, n_, start, live);
        const std::ptrdiff_t count = std::ptrdiff_t(tiles.count());
#pragma omp parallel if (count > 1)
        {
            Real* const buffer = tile_room<Real>(4 * tiles.elements);
#pragma omp for schedule(static)
            for (std::ptrdiff_t tile = 0; tile < count; ++tile) {
                const std::size_t base = tiles.base(tile);
                run_tile(stage, tiles, state + base, base | offset, buffer);
            }
        }
    }

    template <class Stored>
    static void run_tile(const Stage<Real>& stage, const StageTiles<Real, Stored>& tiles, std::complex<Stored>* state, std::size_t base, Real* buffer) {
        const std::size_t size = tiles.elements;
        Real *re = buffer, *im = buffer + size, *other_re = buffer + 2 * size, *other_im = buffer + 3 * size;
        tiles.load(state, re, im);
        KeptNorm<Real> norm;
        if (stage.keeps_norm()) norm.note(re, im, size, 1);
        const auto& blocks = stage.blocks;
        for (std::size_t k = 0; k < blocks.size(); ++k) {
            if (const auto* d = std::get_if<DenseBlock<Real>>(&blocks[k])) {
                if (!d->far.holds(base)) continue;
                Givens rotations[max_givens];
                if (const int count = next_givens(blocks, k, rotations)) {
                    GivensRotations<Real>::apply(d->dense.shape().t_, rotations, count, re);
                    GivensRotations<Real>::apply(d->dense.shape().t_, rotations, count, im);
                    k += count - 1;
                    continue;
                }
                const auto* next = k + 1 < blocks.size() ? std::get_if<DenseBlock<Real>>(&blocks[k + 1]) : nullptr;
                if (next && next->far.holds(base) && Dense<Real>::pairs(d->dense, next->dense)) {
                    Dense<Real>::apply_pair(d->dense, next->dense, re, im);
                    ++k;
                } else
                    d->dense.apply(re, im);
            } else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&blocks[k]))
                g->diagonal.apply(re, im, base);
            else if (const auto* f = std::get_if<TableDiagonal<Real>>(&blocks[k]))
                f->apply(re, im, base);
            else if (const auto* p = std::get_if<Permutation<Real>>(&blocks[k])) {
                p->apply(re, im, other_re, other_im, base);
                std::swap(re, other_re);
                std::swap(im, other_im);
            } else
                std::get<RotationBlock<Real>>(blocks[k]).rotation.apply(re, im, base);
        }
        if (stage.keeps_norm()) norm.restore(re, im, size, 1);
        tiles.store(state, re, im);
    }

    // The Givens rotations of different bits from block k on, which can run in one pass; returns their number.
    static int next_givens(const std::vector<Block<Real>>& blocks, std::size_t k, Givens* rotations) {
        int count = 0;
        for (; k < blocks.size() && count < max_givens; ++k) {
            const auto* d = std::get_if<DenseBlock<Real>>(&blocks[k]);
            const Givens* givens = d ? d->dense.givens() : nullptr;
            if (!givens || std::any_of(rotations, rotations + count, [&](const Givens& t) { return t.bit == givens->bit; })) break;
            rotations[count++] = *givens;
        }
        return count;
    }

    int n_;
    std::vector<Stage<Real>> stages_;
    std::vector<Entry> entries_;
    std::vector<double> constants_, angles_;
    Slots trainable_;
    std::size_t needed_angles_ = 0, num_parameters_ = 0;
    bool is_trainable_ = false, is_bound_ = false, undo_bound_ = false;
};

}  // namespace qdist
