// Blocks of a stage that are undone one after the other on ket and bra in one pass over their tiles, whose vectors stay in
// registers between them (program/row_sets.hpp), and the sums of their derivatives in the same pass.
//
// Tiles of ket and bra together are larger than many first-level caches, so that a pass of one block waits for the second.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "base/simd.hpp"
#include "program/blocks.hpp"
#include "program/fused.hpp"
#include "program/row_sets.hpp"
#include "tile/tiles.hpp"

namespace qdist {

template <class Real>
class FusedBack {
public:
    static constexpr bool pays = FusedBlocks<Real>::pays;
    // Real and imaginary parts of the sets of both fill half of the registers.
    static constexpr int max_flips = FusedBlocks<Real>::max_flips - 1;
    // Diagonals whose derivatives are wanted: each needs room for a tile's numbers.
    static constexpr int max_summed_phases = 3;

    // The blocks from number `last` of a stage back; empty where fewer than two can be fused.
    static std::optional<FusedBack> find(int t, const std::vector<Block<Real>>& blocks, std::size_t last) {
        if constexpr (!pays) return {};
        FusedBack fused(t);
        // Rotations of single bits alone have a kernel of their own.
        bool is_worth_it = false;
        int phases = 0;
        std::size_t sums = 0;
        for (std::size_t k = last + 1; k-- > 0;) {
            const auto* g = std::get_if<DiagonalBlock<Real>>(&blocks[k]);
            if (g && !g->sums.empty() && ++phases > max_summed_phases) break;
            sums += vectors_of_sums(blocks[k]);
            if (sums > max_vectors || !fused.sets_.add(blocks[k])) break;
            is_worth_it = is_worth_it || std::holds_alternative<Rotations<Real>>(blocks[k]);
        }
        if (fused.num_blocks() < 2 || !is_worth_it) return {};
        fused.sets_.complete([&](int k) -> const Block<Real>& { return blocks[last - k]; });
        return fused;
    }

    std::size_t num_blocks() const { return sets_.num_blocks(); }

    // Undoes the blocks from number `last` back and adds to their sums, but not to those of phases; false, and nothing done, if
    // their angles do not allow it. phases_of(k): where Re(i conj(bra) ket) of diagonal k goes, or is added for phases of rows;
    // sums_of(k): where the sums of block k are.
    template <class PhasesOf, class SumsOf>
    bool undo(const std::vector<Block<Real>>& blocks, std::size_t last, const TilePair<Real>& tiles, std::size_t base,
              PhasesOf phases_of, SumsOf sums_of) const {
        if constexpr (!pays) return false;
        std::array<Step, Sets::max_blocks> steps;
        Sums sums;
        Real* vectors = sums.data();
        for (int k = 0; k < sets_.num_blocks(); ++k) {
            const Block<Real>& block = blocks[last - k];
            Step& step = steps[k];
            if (!make_step(block, k, base, step)) return false;
            step.sums = vectors;
            vectors += vectors_of_sums(block) * lanes;
            const auto* g = std::get_if<DiagonalBlock<Real>>(&block);
            if (g && !g->sums.empty()) step.sums = phases_of(last - k);
        }
        // So many sets are summed in Real before their sums become doubles.
        constexpr std::size_t together = 64 >> (max_flips - 1);
        const std::size_t count = sets_.num_sets();
        for (std::size_t set = 0; set < count; set += together) {
            std::fill(sums.data(), vectors, Real(0));
            run(tiles, steps.data(), set, std::min(set + together, count));
            for (int k = 0; k < sets_.num_blocks(); ++k) add(blocks[last - k], steps[k].sums, sums_of(last - k));
        }
        return true;
    }

private:
    using V = Vec<Real>;
    using Sets = RowSets<Real, max_flips>;
    using Set = RowSet<Real, max_flips>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    static constexpr int set_size = Set::size;
    static constexpr std::size_t max_vectors = 64;

    // Sums in Real, a vector each: of every pattern of a rotation, and two of a matrix of one bit.
    struct Sums {
        alignas(vector_bytes) Real numbers[max_vectors * lanes];

        Real* data() { return numbers; }
    };

    // Kinds of steps. The first four have one more, with sums.
    enum class Kind {
        even_rotation, even_summed, odd_rotation, odd_summed, real_givens, real_summed, imaginary_givens, imaginary_summed,
        hadamard, matrix, real_matrix, phases, phases_summed, row_phases, row_phases_summed
    };
    static constexpr Kind plus(Kind kind, bool summed) { return Kind(int(kind) + summed); }

    // A block as the kernel reads it.
    struct Step {
        int what;  // its kind and flip
        // Rotations: cosines and sines of all patterns. Phases: their parts.
        const Real *re, *im;
        const std::uint32_t* pattern;        // of the first row of each set, times the lanes
        std::uint32_t pattern_of[set_size];  // what each row adds
        Real matrix[8];                      // a tangent, or a matrix: real parts and imaginary parts
        int columns;                         // phases of rows of 2^columns elements
        Real* sums;                          // vectors of its own; of phases Re(i conj(bra) ket) of elements or of rows
    };

    struct Both {
        Set ket, bra;
    };

    explicit FusedBack(int t) : sets_(t) {}

    static std::size_t vectors_of_sums(const Block<Real>& block) {
        if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) return d->is_trainable ? 2 : 0;
        const auto* r = std::get_if<Rotations<Real>>(&block);
        return r ? r->num_sums() / lanes : 0;
    }

    bool make_step(const Block<Real>& block, int k, std::size_t base, Step& step) const {
        Kind kind;
        if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) {
            if (const Givens* givens = d->undo.givens()) {
                kind = givens->form == GivensForm::hadamard ? Kind::hadamard
                       : givens->is_imaginary()             ? plus(Kind::imaginary_givens, d->is_trainable)
                                                            : plus(Kind::real_givens, d->is_trainable);
                step.matrix[0] = Real(givens->tangent);
            } else {
                if (d->is_trainable) return false;
                kind = d->undo.is_real() ? Kind::real_matrix : Kind::matrix;
                d->undo.copy_matrix(step.matrix);
            }
        } else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) {
            std::tie(step.re, step.im) = g->diagonal.factors();
            step.columns = g->diagonal.columns();
            kind = plus(g->diagonal.rows_only() ? Kind::row_phases : Kind::phases, !g->sums.empty());
        } else {
            const auto& r = std::get<Rotations<Real>>(block);
            // What a pass of its own leaves alone would be computed here.
            if (!r.moves_all()) return false;
            kind = plus(r.is_odd() ? Kind::odd_rotation : Kind::even_rotation, r.is_trainable());
            std::tie(step.re, step.im) = r.cosines_and_sines();
            const std::uint32_t far = std::uint32_t(r.far_pattern(base) * lanes);
            step.pattern = sets_.patterns(k);
            for (int p = 0; p < set_size; ++p) step.pattern_of[p] = sets_.patterns_in_set(k)[p] ^ far;
        }
        step.what = int(kind) * max_flips + std::max(sets_.flip(k), 0);
        return true;
    }

    // Adds what sets have added up to a block's sums.
    static void add(const Block<Real>& block, const Real* vectors, double* sums) {
        if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) {
            if (d->is_trainable) *sums += lane_sum(load(vectors) - load(vectors + lanes));
        } else if (const auto* r = std::get_if<Rotations<Real>>(&block))
            for (std::size_t i = 0; i < r->num_sums(); i += lanes) add_lanes<Real>(load(vectors + i), sums + i);
    }

    void run(const TilePair<Real>& tiles, const Step* steps, std::size_t first, std::size_t last) const {
        const Step* const end = steps + num_blocks();
        for (std::size_t set = first; set < last; ++set) {
            const std::uint32_t* const row = sets_.rows(set);
            Both x;
            x.ket.load_from(tiles.ket, row);
            x.bra.load_from(tiles.bra, again(row));
            for (const Step* step = steps; step != end; ++step) undo_step(x, *step, set, row);
            x.ket.store_to(tiles.ket, again(row));
            x.bra.store_to(tiles.bra, again(row));
        }
    }

    // Im conj(bra_p) P_pq ket_q, or of a real matrix Im conj(bra_p) (P / i)_pq ket_q.
    template <bool odd>
    QDIST_INLINE static V overlap(const Both& x, std::size_t p, std::size_t q) {
        if constexpr (odd) return x.bra.re[p] * x.ket.re[q] + x.bra.im[p] * x.ket.im[q];
        return x.bra.re[p] * x.ket.im[q] - x.bra.im[p] * x.ket.re[q];
    }

    QDIST_INLINE static void add_to(Real* sums, V more) { store<Real>(sums, load(sums) + more); }

    template <Kind kind>
    static constexpr bool is(Kind one) {
        return kind == one || kind == plus(one, true);
    }

    QDIST_INLINE static void undo_step(Both& x, const Step& step, std::size_t set, const std::uint32_t* row) {
        row = again(row);
        constexpr int phases = int(Kind::phases) * max_flips, rows = int(Kind::row_phases) * max_flips;
        if (step.what >= rows) {
            const bool summed = step.what > rows;
            unrolled<set_size>([&](auto p) QDIST_INLINE {
                const std::size_t at = row[p] >> step.columns;
                if (summed) add_to(step.sums + at * lanes, turned(x, p));
                undo_phase(x, p, step.re[at] - V{}, step.im[at] - V{});
            });
        } else if (step.what >= phases) {
            const bool summed = step.what > phases;
            unrolled<set_size>([&](auto p) QDIST_INLINE {
                if (summed) store<Real>(step.sums + row[p], turned(x, p));
                undo_phase(x, p, load(step.re + row[p]), load(step.im + row[p]));
            });
        } else
            with_constant<phases>(step.what, [&](auto what) QDIST_INLINE { undo_pairs<Kind(what / max_flips), what % max_flips>(x, step, set); });
    }

    // Re(i conj(bra) ket), which phases do not change.
    QDIST_INLINE static V turned(const Both& x, std::size_t p) {
        return x.bra.im[p] * x.ket.re[p] - x.bra.re[p] * x.ket.im[p];
    }
    QDIST_INLINE static void undo_phase(Both& x, std::size_t p, V c, V s) {
        x.ket.multiply_row(p, c, -s);
        x.bra.multiply_row(p, c, -s);
    }

    template <Kind kind, int j>
    QDIST_INLINE static void undo_pairs(Both& x, const Step& step, std::size_t set) {
        if constexpr (is<kind>(Kind::even_rotation) || is<kind>(Kind::odd_rotation)) {
            constexpr bool odd = is<kind>(Kind::odd_rotation), summed = !(int(kind) % 2 == 0);
            Set::template each_pair<j>([&](auto p, auto q) QDIST_INLINE {
                const std::size_t at = step.pattern[set] ^ step.pattern_of[p];
                if constexpr (summed) {
                    const V one = overlap<odd>(x, p, q), other = overlap<odd>(x, q, p);
                    add_to(step.sums + at, odd ? one - other : one + other);
                }
                const V c = load(step.re + at), s = -load(step.im + at);
                x.ket.template rotate<odd>(p, q, c, s);
                x.bra.template rotate<odd>(p, q, c, s);
            });
        } else if constexpr (is<kind>(Kind::real_givens) || is<kind>(Kind::imaginary_givens)) {
            constexpr bool imaginary = is<kind>(Kind::imaginary_givens), summed = !(int(kind) % 2 == 0);
            if constexpr (summed) {
                V sum = load(step.sums), less = load(step.sums + lanes);
                Set::template each_pair<j>([&](auto p, auto q) QDIST_INLINE {
                    if constexpr (imaginary)
                        sum += overlap<false>(x, q, p), sum += overlap<false>(x, p, q);
                    else
                        sum += overlap<true>(x, q, p), less += overlap<true>(x, p, q);
                });
                store<Real>(step.sums, sum);
                store<Real>(step.sums + lanes, less);
            }
            const V t = splat(step.matrix[0]);
            x.ket.template rotate_givens<j, imaginary>(t);
            x.bra.template rotate_givens<j, imaginary>(t);
        } else if constexpr (kind == Kind::hadamard) {
            x.ket.template add_and_subtract<j>();
            x.bra.template add_and_subtract<j>();
        } else {
            x.ket.template multiply<j, kind == Kind::real_matrix>(step.matrix);
            x.bra.template multiply<j, kind == Kind::real_matrix>(step.matrix);
        }
    }

    Sets sets_;
};

}  // namespace qdist
