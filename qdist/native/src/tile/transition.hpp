// The transition matrix between a ket and a bra on a few bits: T = Tr_rest |ket><bra|.
//
// A block with the matrix U on those bits changes <bra|ket> by Tr(dU U^-1 T) when an angle of it changes, so that one T
// serves all angles of the block. Of the diagonal of T only imaginary parts are summed up: as U is unitary, dU U^-1 is
// anti-Hermitian, and real parts there do not change the real part of the trace, which is what is asked for.
#pragma once
#include <bit>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "tile/dense_shape.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// Adds the entries T_qp = sum ket_q conj(bra_p) of a tile to sums: real and imaginary parts interleaved, row by row.
template <class Real>
class Transition {
public:
    explicit Transition(const DenseShape<Real>& shape) : shape_(shape), size_(std::size_t(1) << shape.targets_.size()) {}

    // flips: of which q ^ p entries are asked for, as bits. Others may be added too.
    void add(const TilePair<Real>& tiles, unsigned flips, double* sums) const {
        // A pass for each flip is bound by what it loads: two of them take less than all entries together do.
        if (shape_.offset_.size() == 4 && std::popcount(flips) <= 2) {
            for (std::size_t flip = 0; flip < 4; ++flip)
                if (flips >> flip & 1) flip ? add_flipped<false>(tiles, flip, sums) : add_flipped<true>(tiles, flip, sums);
        } else
            add_all(tiles, sums);
    }

private:
    using V = Vec<Real>;
    static constexpr int lanes = Simd<Real>::lanes;
    // Products summed in Real before the sum is added to a double.
    static constexpr int together = 64;

    void add_all(const TilePair<Real>& tiles, double* sums) const {
        shape_.specialised([&]<int Rows, int Perms, int X1, int X2>() {
            // Two rows of the bra at a time: more sums than that do not fit the registers.
            add_rows<Rows, 0, std::min(Rows, 2), Perms, X1, X2>(tiles, sums);
            if constexpr (Rows > 2) add_rows<Rows, 2, 2, Perms, X1, X2>(tiles, sums);
        });
    }

    // The entries T_qp with q ^ p == flip, of two targets that are both above the lanes.
    template <bool Diagonal>
    void add_flipped(const TilePair<Real>& tiles, std::size_t flip, double* sums) const {
        const std::size_t row_flip = gathered(flip, shape_.row_targets_);
        double total[8][lanes] = {};
        V re[4] = {}, im[4] = {};
        int pending = 0;
        const auto flush = [&] {
            V sums[8];
            for (int p = 0; p < 4; ++p) {
                sums[2 * p] = re[p];
                sums[2 * p + 1] = im[p];
                re[p] = im[p] = V{};
            }
            add_vectors(sums, 8, total);
            pending = 0;
        };
        std::size_t of_ket[4], of_bra[4];
        for (std::size_t p = 0; p < 4; ++p) {
            of_bra[p] = shape_.offset_[p];
            of_ket[p] = shape_.offset_[p ^ row_flip];
        }
        const Tile<Real> ket = tiles.ket, bra = tiles.bra;
        shape_.runs_.each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
#pragma GCC unroll 4
                for (int p = 0; p < 4; ++p) {
                    const V c = load(bra.re + i + of_bra[p]), d = load(bra.im + i + of_bra[p]);
                    add_products<1, 1>(load(ket.re + i + of_ket[p]), load(ket.im + i + of_ket[p]), &c, &d, Diagonal ? 0 : -1,
                                       re + p, im + p);
                }
                if (++pending == together) flush();
            }
        });
        flush();
        for (std::size_t p = 0; p < 4; ++p)
            for (int lane = 0; lane < lanes; ++lane) {
                if (!shape_.holds(lane)) continue;
                const std::size_t entry = 2 * (shape_.index(p ^ row_flip, lane) * size_ + shape_.index(p, lane));
                sums[entry] += total[2 * p][lane];
                sums[entry + 1] += total[2 * p + 1][lane];
            }
    }

    template <int Rows, int FirstRow, int Some, int Perms, int X1, int X2>
    void add_rows(const TilePair<Real>& tiles, double* sums) const {
        constexpr int entries = Some * Rows * Perms;
        double total[2 * entries][lanes] = {};
        V re[entries] = {}, im[entries] = {};
        int pending = 0;
        const auto flush = [&] {
            // By copies: the sums stay in registers where nothing has their address.
            V sums[2 * entries];
            for (int e = 0; e < entries; ++e) {
                sums[2 * e] = re[e];
                sums[2 * e + 1] = im[e];
                re[e] = im[e] = V{};
            }
            add_vectors(sums, 2 * entries, total);
            pending = 0;
        };
        std::size_t o[Rows];
        std::copy_n(shape_.offset_.data(), Rows, o);
        const Tile<Real> ket = tiles.ket, bra = tiles.bra;
        shape_.runs_.each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V b_re[Some], b_im[Some];
#pragma GCC unroll 2
                for (int p = 0; p < Some; ++p) {
                    b_re[p] = load(bra.re + i + o[FirstRow + p]);
                    b_im[p] = load(bra.im + i + o[FirstRow + p]);
                }
#pragma GCC unroll 4
                for (int q = 0; q < Rows; ++q) {
                    const V a = load(ket.re + i + o[q]), b = load(ket.im + i + o[q]);
                    unrolled<Perms>([&](auto x) QDIST_INLINE {
                        constexpr int permutation = (x & 1 ? X1 : 0) ^ (x & 2 ? X2 : 0);
                        const V c = lane_xor<permutation>(a), d = lane_xor<permutation>(b);
                        add_products<Some, Rows * Perms>(c, d, b_re, b_im, x == 0 ? q - FirstRow : -1, re + q * Perms + x,
                                                         im + q * Perms + x);
                    });
                }
                if (++pending == together) flush();
            }
        });
        flush();
        add_entries(total, Rows, Some, Perms, FirstRow, sums);
    }

    // What every case has in common: compiled once, and not with each of them.
    [[gnu::noinline]] static void add_vectors(const V* vectors, int count, double (*total)[lanes]) {
        for (int e = 0; e < count; ++e) add_lanes<Real>(vectors[e], total[e]);
    }
    [[gnu::noinline]] void add_entries(const double (*total)[lanes], int rows, int some, int perms, int first_row,
                                       double* sums) const {
        for (int p = 0; p < some; ++p)
            for (int q = 0; q < rows; ++q)
                for (int x = 0; x < perms; ++x)
                    for (int lane = 0; lane < lanes; ++lane) {
                        if (!shape_.holds(lane)) continue;
                        const int e = (p * rows + q) * perms + x;
                        const std::size_t row = shape_.index(q, lane ^ shape_.permutations_[x]),
                                          column = shape_.index(first_row + p, lane);
                        sums[2 * (row * size_ + column)] += total[2 * e][lane];
                        sums[2 * (row * size_ + column) + 1] += total[2 * e + 1][lane];
                    }
    }

    // ket conj(bra) of one row of the ket and `Some` of the bra, whose sums are a stride of `Step` apart. diagonal: which
    // row of the bra is that of the ket.
    template <int Some, int Step>
    QDIST_INLINE static void add_products(V ket_re, V ket_im, const V* bra_re, const V* bra_im, int diagonal, V* re, V* im) {
#pragma GCC unroll 2
        for (int p = 0; p < Some; ++p) {
            if (p != diagonal) {
                re[p * Step] += ket_re * bra_re[p];
                re[p * Step] += ket_im * bra_im[p];
            }
            im[p * Step] += ket_im * bra_re[p];
            im[p * Step] -= ket_re * bra_im[p];
        }
    }

    DenseShape<Real> shape_;
    std::size_t size_;
};

}  // namespace qdist
