// What a stage does to its tiles: the kinds of blocks.
#pragma once
#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "base/bits.hpp"
#include "gates/angles.hpp"
#include "gates/formulas.hpp"
#include "gates/matrices.hpp"
#include "tile/dense.hpp"
#include "tile/diagonal.hpp"
#include "tile/diagonal_sums.hpp"
#include "tile/givens.hpp"
#include "tile/lane_matrices.hpp"
#include "tile/pair.hpp"
#include "tile/permutation.hpp"
#include "tile/rotations.hpp"
#include "tile/transition.hpp"

namespace qdist {

template <class Real>
struct DenseBlock {
    DenseBlock(Dense<Real> block, Bits far_bits, std::vector<Factor> parts, const Slots& trainable)
        : dense(std::move(block)),
          undo(dense),
          num_targets(int(dense.shape().targets_.size())),
          far(far_bits),
          factors(std::move(parts)) {
        for (const Factor& f : factors) {
            for (int slot : f.source.slots) is_trainable = is_trainable || trainable.contains(slot);
            is_real = is_real && f.source.is_real();
            is_x_rotation = is_x_rotation && f.source.formula == Formula::rx;
        }
        if (!is_trainable) return;
        if (num_targets > 2) refuse("a matrix on ", num_targets, " bits must not depend on parameters");
        // Of fewer qubits all entries are needed or nearly so.
        unsigned flips = ~0u;
        if (num_targets == 2) {
            const Entries entries = fewest_entries(num_targets, factors, trainable);
            flips = entries.flips, sums_before = entries.before;
        }
        transition.emplace(dense.shape(), flips);
    }

    // Undone as one of LaneMatrices, if it can be: a trained one is summed as a rotation about Y or X, so that is what its
    // derivatives must be of.
    std::optional<LaneMatrix<Real>> lane_undo() const {
        auto found = far.mask ? std::nullopt : undo.lane_matrix();
        if (found && is_trainable && !(found->is_imaginary ? is_x_rotation : is_real)) found.reset();
        return found;
    }
    // Whether all of its derivatives follow from one number, Im <bra|Y|ket> or Im <bra|X|ket>.
    bool sums_one() const { return undo.givens() || lane_undo(); }
    bool sums_of_x() const { return undo.givens() ? undo.givens()->is_imaginary() : lane_undo()->is_imaginary; }

    Dense<Real> dense, undo;
    // How the matrix runs forward, where it is not as `dense`.
    std::optional<Pair<Real>> pair;
    int num_targets;
    Bits far;
    std::vector<Factor> factors;
    Matrix matrix;  // at the angles that the program is bound to, but for a pair's
    bool is_trainable = false;
    // What its derivatives are made of, if it is trainable, and whether that is the transition matrix before the block.
    std::optional<Transition<Real>> transition;
    bool sums_before = false;
    // Whatever the angles are.
    bool is_real = true, is_x_rotation = true;
};

template <class Real>
struct DiagonalBlock {
    DiagonalBlock(int t, Diagonal<Real> block, const Slots& trainable)
        : diagonal(std::move(block)), sums(t, diagonal, trainable) {}

    Diagonal<Real> diagonal;
    DiagonalSums<Real> sums;
};

template <class Real>
using Block = std::variant<DenseBlock<Real>, DiagonalBlock<Real>, TableDiagonal<Real>, Permutation<Real>, Rotations<Real>>;
// Some of these have a default, which is wrong for a block with angles.
static_assert(std::variant_size_v<Block<float>> == 5, "a new block has cases in is_trainable, bind, bind_undo and run_tile");

// Whether a block depends on an angle that depends on a parameter.
template <class Real>
bool is_trainable(const Block<Real>& block) {
    if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) return d->is_trainable;
    if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) return !g->sums.empty();
    const auto* r = std::get_if<Rotations<Real>>(&block);
    return r && r->is_trainable();
}

// The matrices of different bits inside the vectors, all imaginary or none, from `block` on which can run in one pass; returns
// their number. of: gives a DenseBlock's.
template <class Real, class Iterator, class Of>
int next_lane_matrices(Iterator block, Iterator end, Of of, LaneMatrix<Real>* matrices) {
    int count = 0;
    for (; block != end && count < LaneMatrices<Real>::most; ++block) {
        const auto* d = std::get_if<DenseBlock<Real>>(&*block);
        const std::optional<LaneMatrix<Real>> found = d ? of(*d) : std::nullopt;
        const auto apart = [&](const LaneMatrix<Real>& m) {
            return m.bit == found->bit || m.is_imaginary != found->is_imaginary;
        };
        if (!found || std::any_of(matrices, matrices + count, apart)) break;
        matrices[count++] = *found;
    }
    return count;
}

// The Givens rotations of different bits, all of one form, from `block` on, at most `most`, which can run in one pass;
// returns their number. which:
// the matrices that are run, DenseBlock's dense or undo.
template <class Real, class Iterator>
int next_givens(Iterator block, Iterator end, Dense<Real> DenseBlock<Real>::* which, int most, Givens* rotations) {
    int count = 0;
    for (; block != end && count < most; ++block) {
        const auto* d = std::get_if<DenseBlock<Real>>(&*block);
        const Givens* givens = d ? (d->*which).givens() : nullptr;
        const auto apart = [&](const Givens& g) { return g.bit == givens->bit || g.form != givens->form; };
        if (!givens || std::any_of(rotations, rotations + count, apart)) break;
        rotations[count++] = *givens;
    }
    return count;
}

}  // namespace qdist
