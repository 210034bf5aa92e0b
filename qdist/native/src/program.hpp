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

#include "dense.hpp"
#include "diagonal.hpp"
#include "moves.hpp"

namespace qdist {

// One factor of a dense block's matrix: a matrix to come, on some of the block's bits.
struct Factor {
    Source source;
    std::vector<int> bits;
};

template <class Real>
struct DenseBlock {
    Dense<Real> dense;
    int num_targets;
    Bits far;
    std::vector<Factor> factors;
};

template <class Real>
struct RotationBlock {
    PauliRotation<Real> rotation;
    Affine angle;
};

template <class Real>
using Block = std::variant<DenseBlock<Real>, Diagonal<Real>, TableDiagonal<Real>, Permutation<Real>, RotationBlock<Real>>;

template <class Real>
struct Stage {
    std::vector<int> positions;  // of the shard's index; the tile's bits in order
    int low;                     // how many of them are 0, 1, 2, ...
    std::vector<Block<Real>> blocks;
};

// One entry of the affine map from parameters to angles.
struct Entry {
    int slot, parameter;
    double coefficient;
};

template <class Real>
class Program {
public:
    explicit Program(int num_bits) : n_(num_bits) {}

    int num_bits() const { return n_; }
    std::size_t num_stages() const { return stages_.size(); }

    void begin_stage(std::vector<int> positions) {
        int low = 0;
        while (low < int(positions.size()) && positions[low] == low) ++low;
        const int lanes = Simd<Real>::lane_bits;
        if (low < std::min(n_, lanes)) throw std::invalid_argument("a stage's tile must hold the lowest bits");
        stages_.push_back({std::move(positions), low, {}});
    }

    // Bits of the current stage's tile; never fewer than a vector has.
    int tile_bits() const { return std::max<int>(stages_.back().positions.size(), Simd<Real>::lane_bits); }

    void add(Block<Real> block) { stages_.back().blocks.push_back(std::move(block)); }

    // Computes all matrices and phases from the program's angles.
    void bind(const double* angles) {
        for (Stage<Real>& stage : stages_)
            for (Block<Real>& block : stage.blocks) {
                if (auto* d = std::get_if<DenseBlock<Real>>(&block))
                    d->dense.set(product(*d, angles));
                else if (auto* g = std::get_if<Diagonal<Real>>(&block))
                    g->set(angles);
                else if (auto* r = std::get_if<RotationBlock<Real>>(&block))
                    r->rotation.set(r->angle.at(angles));
            }
    }

    // The angles as an affine map of parameters, which bind_parameters then goes through.
    void set_affine(std::vector<Entry> entries, std::vector<double> constants) {
        entries_ = std::move(entries);
        constants_ = std::move(constants);
    }

    // Binds to parameter values; false, and nothing bound, if one is not finite.
    bool bind_parameters(const double* theta, std::size_t count) {
        for (std::size_t k = 0; k < count; ++k)
            if (!std::isfinite(theta[k])) return false;
        std::vector<double> angles = constants_;
        for (const Entry& e : entries_) angles[e.slot] += e.coefficient * theta[e.parameter];
        bind(angles.data());
        return true;
    }

    // Puts |0...0> into the state and runs all stages.
    void run_from_zero(std::complex<Real>* state) const {
        std::fill_n(state, std::size_t(1) << n_, std::complex<Real>(0));
        state[0] = 1;
        run(state, 0, 0, 0, 0, stages_.size());
    }

    // Runs stages first .. last in place. Before the first, amplitudes may be nonzero only where the index agrees with
    // `start` outside the bits of `live`; tiles that must be zero are passed over. Returns what is live afterwards.
    // `offset` is the index, in the whole state, of the shard's first amplitude: its bits decide far controls and phases.
    std::size_t run(std::complex<Real>* state, std::size_t offset, std::size_t start, std::size_t live, std::size_t first, std::size_t last) const {
        for (std::size_t k = first; k < std::min(last, stages_.size()); ++k) {
            run_stage(stages_[k], state, offset, start, live);
            for (int p : stages_[k].positions) live |= std::size_t(1) << p;
        }
        return live;
    }

    // Binds and runs once for every row of angles, each on its own state: threads over the batch when states are small,
    // over tiles when they are large.
    void run_batch(std::complex<Real>* states, const double* angles, std::size_t batch, std::size_t size, std::size_t count, bool from_zero) const {
        const std::size_t live = from_zero ? 0 : size - 1;
        const bool small = n_ <= small_bits;
#pragma omp parallel if (small && batch > 1)
        {
            Program mine = *this;
#pragma omp for schedule(static)
            for (std::ptrdiff_t b = 0; b < std::ptrdiff_t(batch); ++b) {
                mine.bind(angles + b * count);
                mine.run(states + b * size, 0, 0, live, 0, num_stages());
            }
        }
    }

private:
    // States of up to so many bits are given to threads whole.
    static constexpr int small_bits = 16;

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

    void run_stage(const Stage<Real>& stage, std::complex<Real>* state, std::size_t offset, std::size_t start, std::size_t live) const {
        const int t = int(stage.positions.size()), low = stage.low;
        std::vector<int> outside;
        for (int p = 0, k = 0; p < n_; ++p)
            if (k < t && stage.positions[k] == p)
                ++k;
            else
                outside.push_back(p);
        std::vector<std::size_t> row(std::size_t(1) << (t - low));
        for (std::size_t r = 0; r < row.size(); ++r)
            for (int k = low; k < t; ++k)
                if (r >> (k - low) & 1) row[r] |= std::size_t(1) << stage.positions[k];
        std::size_t tile_mask = 0;
        for (int p : stage.positions) tile_mask |= std::size_t(1) << p;
        // Only tiles that agree with `start` on the bits that are neither live nor the tile's.
        std::vector<int> running;
        for (int p : outside)
            if (live >> p & 1) running.push_back(p);
        const std::size_t fixed = start & ~live & ~tile_mask;
        const std::ptrdiff_t tiles = std::ptrdiff_t(1) << running.size();
        const std::size_t elements = std::size_t(1) << std::max(t, Simd<Real>::lane_bits);
#pragma omp parallel if (tiles > 1)
        {
            AlignedVector<Real> buffer(4 * elements);
#pragma omp for schedule(static)
            for (std::ptrdiff_t tile = 0; tile < tiles; ++tile) {
                std::size_t base = fixed;
                for (std::size_t k = 0; k < running.size(); ++k)
                    if (tile >> k & 1) base |= std::size_t(1) << running[k];
                run_tile(stage, state + base, base | offset, row, buffer.data(), elements);
            }
        }
    }

    static void run_tile(const Stage<Real>& stage, std::complex<Real>* state, std::size_t base, const std::vector<std::size_t>& row, Real* buffer, std::size_t elements) {
        Real *re = buffer, *im = buffer + elements, *other_re = buffer + 2 * elements, *other_im = buffer + 3 * elements;
        const std::size_t width = std::size_t(1) << stage.low;
        for (std::size_t r = 0; r < row.size(); ++r) load_row(state + row[r], re + r * width, im + r * width, width);
        const auto& blocks = stage.blocks;
        for (std::size_t k = 0; k < blocks.size(); ++k) {
            if (const auto* d = std::get_if<DenseBlock<Real>>(&blocks[k])) {
                if (!d->far.holds(base)) continue;
                const auto* next = k + 1 < blocks.size() ? std::get_if<DenseBlock<Real>>(&blocks[k + 1]) : nullptr;
                if (next && next->far.holds(base) && Dense<Real>::pairs(d->dense, next->dense)) {
                    Dense<Real>::apply_pair(d->dense, next->dense, re, im);
                    ++k;
                } else
                    d->dense.apply(re, im);
            } else if (const auto* g = std::get_if<Diagonal<Real>>(&blocks[k]))
                g->apply(re, im, base);
            else if (const auto* f = std::get_if<TableDiagonal<Real>>(&blocks[k]))
                f->apply(re, im, base);
            else if (const auto* p = std::get_if<Permutation<Real>>(&blocks[k])) {
                p->apply(re, im, other_re, other_im, base);
                std::swap(re, other_re);
                std::swap(im, other_im);
            } else
                std::get<RotationBlock<Real>>(blocks[k]).rotation.apply(re, im, base);
        }
        for (std::size_t r = 0; r < row.size(); ++r) store_row(state + row[r], re + r * width, im + r * width, width);
    }

    static void load_row(const std::complex<Real>* from, Real* re, Real* im, std::size_t width) {
        const Real* x = reinterpret_cast<const Real*>(from);
        if (width < Simd<Real>::lanes) {
            for (std::size_t i = 0; i < width; ++i) re[i] = x[2 * i], im[i] = x[2 * i + 1];
            return;
        }
        for (std::size_t i = 0; i < width; i += Simd<Real>::lanes) {
            Vec<Real> a, b;
            load_split(x + 2 * i, a, b);
            store<Real>(re + i, a);
            store<Real>(im + i, b);
        }
    }

    static void store_row(std::complex<Real>* to, const Real* re, const Real* im, std::size_t width) {
        Real* x = reinterpret_cast<Real*>(to);
        if (width < Simd<Real>::lanes) {
            for (std::size_t i = 0; i < width; ++i) x[2 * i] = re[i], x[2 * i + 1] = im[i];
            return;
        }
        for (std::size_t i = 0; i < width; i += Simd<Real>::lanes) store_interleaved<Real>(x + 2 * i, load(re + i), load(im + i));
    }

    int n_;
    std::vector<Stage<Real>> stages_;
    std::vector<Entry> entries_;
    std::vector<double> constants_;
};

}  // namespace qdist
