// Blocks of a stage that follow each other and run in one pass over a tile, its vectors held in registers between them
// (program/row_sets.hpp).
//
// A pass of one block is bound by loads, stores and index arithmetic, not by its few multiplications.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "base/simd.hpp"
#include "program/blocks.hpp"
#include "program/row_sets.hpp"
#include "tile/tiles.hpp"

namespace qdist {

template <class Real>
class FusedBlocks {
public:
    // Whether it is faster than a pass for each block. Trotter steps, 20 qubits, one thread, fused and not: 38.8 and 49.9 ms with
    // AVX-512, but 127 and 100 on Neoverse-N1, where every circuit that was tried lost by 4 to 37 %.
#if defined(__aarch64__)
    static constexpr bool pays = false;
#else
    static constexpr bool pays = true;
#endif
    // Real and imaginary parts of a set fill half of the registers, 32 with AVX-512.
#if defined(__AVX512F__)
    static constexpr int max_flips = 3;
#else
    static constexpr int max_flips = 2;
#endif

    // The blocks from number `first` of a stage with tiles of 2^t elements on; empty where fewer than two can be fused.
    static std::optional<FusedBlocks> find(int t, const std::vector<Block<Real>>& blocks, std::size_t first) {
        if constexpr (!pays) return {};
        FusedBlocks fused(t);
        // Rotations of single bits alone have a kernel of their own.
        bool is_worth_it = false;
        for (std::size_t k = first; k < blocks.size() && fused.sets_.add(blocks[k]); ++k)
            is_worth_it = is_worth_it || !std::holds_alternative<DenseBlock<Real>>(blocks[k]);
        if (fused.num_blocks() < 2 || !is_worth_it) return {};
        fused.sets_.complete([&](int k) -> const Block<Real>& { return blocks[first + k]; });
        return fused;
    }

    std::size_t num_blocks() const { return sets_.num_blocks(); }

    // Runs the blocks from number `first` on; false, and nothing done, if their angles leave too many rows alone.
    bool apply(const std::vector<Block<Real>>& blocks, std::size_t first, Tile<Real> tile, std::size_t base) const {
        if constexpr (!pays) return false;
        std::array<Step, Sets::max_blocks> steps;
        for (std::size_t k = 0; k < num_blocks(); ++k)
            if (!make_step(blocks[first + k], int(k), base, steps[k])) return false;
        run(tile, steps.data());
        return true;
    }

private:
    using V = Vec<Real>;
    using Sets = RowSets<Real, max_flips>;
    using Set = RowSet<Real, max_flips>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    static constexpr int set_size = Set::size;

    enum class Kind { even_rotation, odd_rotation, real_givens, imaginary_givens, hadamard, matrix, real_matrix, phases, row_phases };

    // A block as the kernel reads it.
    struct Step {
        int what;  // its kind and flip
        // Rotations: cosines and sines of all patterns. Phases: their parts.
        const Real *re, *im;
        const std::uint32_t* pattern;        // of the first row of each set, times the lanes
        std::uint32_t pattern_of[set_size];  // what each row adds
        Real matrix[8];                      // a tangent, or a matrix: real parts and imaginary parts
        int columns;                         // phases of rows of 2^columns elements
    };

    explicit FusedBlocks(int t) : sets_(t) {}

    bool make_step(const Block<Real>& block, int k, std::size_t base, Step& step) const {
        Kind kind = Kind::phases;
        if (const auto* d = std::get_if<DenseBlock<Real>>(&block)) {
            if (const Givens* givens = d->dense.givens()) {
                kind = givens->form == GivensForm::hadamard ? Kind::hadamard
                       : givens->is_imaginary()             ? Kind::imaginary_givens
                                                            : Kind::real_givens;
                step.matrix[0] = Real(givens->tangent);
            } else {
                kind = d->dense.is_real() ? Kind::real_matrix : Kind::matrix;
                d->dense.copy_matrix(step.matrix);
            }
        } else if (const auto* g = std::get_if<DiagonalBlock<Real>>(&block)) {
            std::tie(step.re, step.im) = g->diagonal.factors();
            step.columns = g->diagonal.columns();
            if (g->diagonal.rows_only()) kind = Kind::row_phases;
        } else {
            const auto& r = std::get<Rotations<Real>>(block);
            if (!r.moves_much()) return false;
            kind = r.is_odd() ? Kind::odd_rotation : Kind::even_rotation;
            std::tie(step.re, step.im) = r.cosines_and_sines();
            const std::uint32_t far = std::uint32_t(r.far_pattern(base) * lanes);
            step.pattern = sets_.patterns(k);
            for (int p = 0; p < set_size; ++p) step.pattern_of[p] = sets_.patterns_in_set(k)[p] ^ far;
        }
        step.what = int(kind) * max_flips + std::max(sets_.flip(k), 0);
        return true;
    }

    void run(Tile<Real> tile, const Step* steps) const {
        const std::size_t num_sets = sets_.num_sets();
        const Step* const end = steps + num_blocks();
        for (std::size_t set = 0; set < num_sets; ++set) {
            const std::uint32_t* const row = sets_.rows(set);
            Set x;
            x.load_from(tile, row);
            for (const Step* step = steps; step != end; ++step) apply_step(x, *step, set, row);
            x.store_to(tile, again(row));
        }
    }

    QDIST_INLINE static void apply_step(Set& x, const Step& step, std::size_t set, const std::uint32_t* row) {
        row = again(row);
        constexpr int phases = int(Kind::phases) * max_flips;
        if (step.what == phases)
            unrolled<set_size>(
                [&](auto p) QDIST_INLINE { x.multiply_row(p, load(step.re + row[p]), load(step.im + row[p])); });
        else if (step.what > phases)
            unrolled<set_size>([&](auto p) QDIST_INLINE {
                const std::size_t at = row[p] >> step.columns;
                x.multiply_row(p, step.re[at] - V{}, step.im[at] - V{});
            });
        else
            with_constant<phases>(step.what, [&](auto what) QDIST_INLINE {
                constexpr Kind kind = Kind(what / max_flips);
                constexpr int j = what % max_flips;
                if constexpr (kind == Kind::even_rotation || kind == Kind::odd_rotation)
                    Set::template each_pair<j>([&](auto p, auto q) QDIST_INLINE {
                        const std::size_t at = step.pattern[set] ^ step.pattern_of[p];
                        x.template rotate<kind == Kind::odd_rotation>(p, q, load(step.re + at), load(step.im + at));
                    });
                else if constexpr (kind == Kind::hadamard)
                    x.template add_and_subtract<j>();
                else if constexpr (kind == Kind::matrix || kind == Kind::real_matrix)
                    x.template multiply<j, kind == Kind::real_matrix>(step.matrix);
                else
                    x.template rotate_givens<j, kind == Kind::imaginary_givens>(splat(step.matrix[0]));
            });
    }

    Sets sets_;
};

}  // namespace qdist
