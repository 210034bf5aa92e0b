// The transition matrix between a ket and a bra on a few bits: T = Tr_rest |ket><bra|.
//
// A block with the matrix U on those bits changes <bra|ket> by Tr(dU U^-1 T) when an angle of it changes, so that one T
// serves all angles of the block.
#pragma once
#include "base/simd.hpp"
#include "tile/dense_shape.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// Adds the entries T_qp = sum ket_q conj(bra_p) of a tile to sums: real and imaginary parts interleaved, row by row.
template <class Real>
class Transition {
public:
    explicit Transition(const DenseShape<Real>& shape) : shape_(shape), size_(std::size_t(1) << shape.targets_.size()) {}

    void add(const TilePair<Real>& tiles, double* sums) const {
        shape_.specialised([&]<int Rows, int Perms, int X1, int X2>() {
            // Two rows of the bra at a time: more sums than that do not fit the registers.
            for (int first = 0; first < Rows; first += 2) add_rows<Rows, std::min(Rows, 2), Perms, X1, X2>(tiles, first, sums);
        });
    }

private:
    using V = Vec<Real>;
    static constexpr int lanes = Simd<Real>::lanes;
    // Products summed in Real before the sum is added to a double.
    static constexpr int together = 64;

    template <int Rows, int Some, int Perms, int X1, int X2>
    void add_rows(const TilePair<Real>& tiles, int first_row, double* sums) const {
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
                    b_re[p] = load(bra.re + i + o[first_row + p]);
                    b_im[p] = load(bra.im + i + o[first_row + p]);
                }
#pragma GCC unroll 4
                for (int q = 0; q < Rows; ++q) {
                    const V a = load(ket.re + i + o[q]), b = load(ket.im + i + o[q]);
                    unrolled<Perms>([&](auto x) QDIST_INLINE {
                        constexpr int permutation = (x & 1 ? X1 : 0) ^ (x & 2 ? X2 : 0);
                        const V c = lane_xor<permutation>(a), d = lane_xor<permutation>(b);
                        add_products<Some, Rows * Perms>(c, d, b_re, b_im, re + q * Perms + x, im + q * Perms + x);
                    });
                }
                if (++pending == together) flush();
            }
        });
        flush();
        add_entries(total, Rows, Some, Perms, first_row, sums);
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

    // ket conj(bra) of one row of the ket and `Some` of the bra, whose sums are a stride of `Step` apart.
    template <int Some, int Step>
    static void add_products(V ket_re, V ket_im, const V* bra_re, const V* bra_im, V* re, V* im) {
#pragma GCC unroll 2
        for (int p = 0; p < Some; ++p) {
            re[p * Step] += ket_re * bra_re[p];
            re[p * Step] += ket_im * bra_im[p];
            im[p * Step] += ket_im * bra_re[p];
            im[p * Step] -= ket_re * bra_im[p];
        }
    }

    DenseShape<Real> shape_;
    std::size_t size_;
};

}  // namespace qdist
