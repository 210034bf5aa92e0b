// The transition matrix between a ket and a bra on a few bits: T = Tr_rest |ket><bra|.
//
// A block with the matrix U on those bits changes <bra|ket> by Tr(dU U^-1 T) when an angle of it changes, so that one T
// serves all angles of the block. As U is unitary, dU U^-1 is anti-Hermitian: the real part of the trace, which is what is
// asked for, depends on T - T^+ alone. So real parts of the diagonal are not summed up, and with two bits above the lanes
// T_qp - conj(T_pq) is summed in place of T_qp, and nothing in place of T_pq: half as many sums, which fit the registers.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "tile/dense_shape.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// Adds T of tiles to sums of vectors, lane by lane, and these to the entries T_qp = sum ket_q conj(bra_p).
template <class Real>
class Transition {
public:
    // flips: of which q ^ p entries are asked for, as bits. Others may be added too.
    Transition(const DenseShape<Real>& shape, unsigned flips)
        : shape_(shape), size_(std::size_t(1) << shape.targets_.size()), flips_(flips) {
        const std::size_t rows = shape.offset_.size();
        // A pass for each flip is bound by what it loads: two of them take less than all entries together do.
        if (rows == 4 && std::popcount(flips) <= 2)
            kind_ = Kind::flipped;
        else if (rows == 4)
            kind_ = Kind::differences;
        else
            kind_ = Kind::all;
        const std::size_t perms = shape.permutations_.size();
        if (kind_ == Kind::flipped) {
            for (std::size_t flip = 0; flip < 4; ++flip)
                if (flips >> flip & 1)
                    for (std::size_t p = 0; p < 4; ++p)
                        for (int part = 0; part < 2; ++part) note(p ^ gathered(flip, shape.row_targets_), 0, p, part);
        } else if (kind_ == Kind::differences) {
            for (std::size_t p = 0; p < 4; ++p) note(p, 0, p, 1);
            for (std::size_t q = 1; q < 4; ++q)
                for (std::size_t p = 0; p < q; ++p)
                    for (int part = 0; part < 2; ++part) note(q, 0, p, part);
        } else
            for (std::size_t p = 0; p < rows; ++p)
                for (std::size_t q = 0; q < rows; ++q)
                    for (std::size_t x = 0; x < perms; ++x)
                        for (int part = 0; part < 2; ++part) note(q, shape.permutations_[x], p, part);
    }

    // Of sums, and of the results that they are collected to: real and imaginary parts of T interleaved, row by row.
    std::size_t num_sums() const { return places_.size() * lanes; }
    std::size_t num_results() const { return 2 * size_ * size_; }

    void add(const TilePair<Real>& tiles, double* sums) const {
        if (kind_ == Kind::flipped) {
            for (std::size_t flip = 0; flip < 4; ++flip)
                if (flips_ >> flip & 1) {
                    flip ? add_flipped<false>(tiles, flip, sums) : add_flipped<true>(tiles, flip, sums);
                    sums += 8 * lanes;
                }
        } else if (kind_ == Kind::differences)
            add_differences(tiles, sums);
        else
            shape_.specialised([&]<int Rows, int Perms, int X1, int X2>() {
                if constexpr (Rows <= 2) add_all<Rows, Perms, X1, X2>(tiles, sums);
            });
    }

    void collect(const double* sums, double* results) const {
        for (std::size_t k = 0; k < places_.size(); ++k)
            if (shape_.plain_)
                results[places_[k][0]] += Lanes<double, lanes>::load(sums + k * lanes).sum();
            else
                for (std::size_t lane = 0; lane < lanes; ++lane)
                    if (places_[k][lane] >= 0) results[places_[k][lane]] += sums[k * lanes + lane];
    }

    // The same for the part of a tile that is zero above its lowest bits, those of the matrix among them.
    void narrow(int bits) { shape_.narrow(bits); }

private:
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    // Products summed in Real before the sum is added to a double.
    static constexpr int together = 64;

    enum class Kind { all, differences, flipped };

    // A vector to come sums up the real or the imaginary part of row q of the ket, its lanes permuted, and row p of the bra.
    void note(std::size_t q, std::size_t permutation, std::size_t p, int part) {
        const auto place = [&](std::size_t lane) { return 2 * (shape_.index(q, lane ^ permutation) * size_ + shape_.index(p, lane)) + part; };
        places_.emplace_back();
        for (std::size_t lane = 0; lane < lanes; ++lane) places_.back()[lane] = shape_.holds(lane) ? int(place(lane)) : -1;
    }

    // Sums of vectors in registers, which are added to doubles from time to time.
    template <int count>
    struct Registers {
        V sum[count] = {};
        int pending = 0;

        QDIST_INLINE void flush_after(int more, double* sums) {
            if ((pending += more) < together) return;
            flush(sums);
        }
        QDIST_INLINE void flush(double* sums) {
            // By copies: the sums stay in registers where nothing has their address.
            V copies[count];
            unrolled<count>([&](auto e) QDIST_INLINE { copies[e] = sum[e], sum[e] = V{}; });
            add_vectors(copies, count, sums);
            pending = 0;
        }
    };
    // What every case has in common: compiled once, and not with each of them.
    [[gnu::noinline]] static void add_vectors(const V* vectors, int count, double* sums) {
        for (int e = 0; e < count; ++e) add_lanes<Real>(vectors[e], sums + e * lanes);
    }

    // Of two bits above the lanes.
    void add_differences(const TilePair<Real>& tiles, double* sums) const {
        Registers<16> x;
        std::size_t o[4];
        std::copy_n(shape_.offset_.data(), 4, o);
        const Tile<Real> ket = tiles.ket, bra = tiles.bra;
        shape_.runs_.each([&](std::size_t first, std::size_t length) QDIST_INLINE {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V k[4], l[4], a[4], b[4];
                unrolled<4>([&](auto p) QDIST_INLINE {
                    k[p] = load(ket.re + i + o[p]), l[p] = load(ket.im + i + o[p]);
                    a[p] = load(bra.re + i + o[p]), b[p] = load(bra.im + i + o[p]);
                    x.sum[p] += l[p] * a[p];
                    x.sum[p] -= k[p] * b[p];
                });
                unrolled<3>([&](auto before) QDIST_INLINE {
                    constexpr std::size_t q = before + 1;
                    unrolled<q>([&](auto p) QDIST_INLINE {
                        constexpr std::size_t n = 4 + q * (q - 1) + 2 * p;
                        x.sum[n] += k[q] * a[p], x.sum[n + 1] += l[q] * a[p];
                        x.sum[n] += l[q] * b[p], x.sum[n + 1] -= k[q] * b[p];
                        x.sum[n] -= k[p] * a[q], x.sum[n + 1] -= k[p] * b[q];
                        x.sum[n] -= l[p] * b[q], x.sum[n + 1] += l[p] * a[q];
                    });
                });
                x.flush_after(1, sums);
            }
        });
        x.flush(sums);
    }

    // The entries T_qp with q ^ p == flip, of two targets that are both above the lanes.
    template <bool diagonal>
    void add_flipped(const TilePair<Real>& tiles, std::size_t flip, double* sums) const {
        const std::size_t row_flip = gathered(flip, shape_.row_targets_);
        Registers<8> x;
        std::size_t of_ket[4], of_bra[4];
        for (std::size_t p = 0; p < 4; ++p) {
            of_bra[p] = shape_.offset_[p];
            of_ket[p] = shape_.offset_[p ^ row_flip];
        }
        const Tile<Real> ket = tiles.ket, bra = tiles.bra;
        shape_.runs_.each([&](std::size_t first, std::size_t length) QDIST_INLINE {
            for (std::size_t i = first; i < first + length; i += lanes) {
                unrolled<4>([&](auto p) QDIST_INLINE {
                    add_product<diagonal>(load(ket.re + i + of_ket[p]), load(ket.im + i + of_ket[p]), load(bra.re + i + of_bra[p]),
                                          load(bra.im + i + of_bra[p]), x.sum[2 * p], x.sum[2 * p + 1]);
                });
                x.flush_after(1, sums);
            }
        });
        x.flush(sums);
    }

    // All entries of one or two rows.
    template <int Rows, int Perms, int X1, int X2>
    void add_all(const TilePair<Real>& tiles, double* sums) const {
        Registers<2 * Rows * Rows * Perms> x;
        std::size_t o[Rows];
        std::copy_n(shape_.offset_.data(), Rows, o);
        const Tile<Real> ket = tiles.ket, bra = tiles.bra;
        shape_.runs_.each([&](std::size_t first, std::size_t length) QDIST_INLINE {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V a[Rows], b[Rows];
                unrolled<Rows>([&](auto p) QDIST_INLINE { a[p] = load(bra.re + i + o[p]), b[p] = load(bra.im + i + o[p]); });
                unrolled<Rows>([&](auto q) QDIST_INLINE {
                    const V k = load(ket.re + i + o[q]), l = load(ket.im + i + o[q]);
                    unrolled<Perms>([&](auto y) QDIST_INLINE {
                        constexpr int permutation = (y & 1 ? X1 : 0) ^ (y & 2 ? X2 : 0);
                        const V c = lane_xor<permutation>(k), d = lane_xor<permutation>(l);
                        unrolled<Rows>([&](auto p) QDIST_INLINE {
                            constexpr int n = 2 * ((p * Rows + q) * Perms + y);
                            add_product<y == 0 && p == q>(c, d, a[p], b[p], x.sum[n], x.sum[n + 1]);
                        });
                    });
                });
                x.flush_after(1, sums);
            }
        });
        x.flush(sums);
    }

    // ket conj(bra), of the diagonal only the imaginary part.
    template <bool diagonal>
    QDIST_INLINE static void add_product(V ket_re, V ket_im, V bra_re, V bra_im, V& re, V& im) {
        if constexpr (!diagonal) {
            re += ket_re * bra_re;
            re += ket_im * bra_im;
        }
        im += ket_im * bra_re;
        im -= ket_re * bra_im;
    }

    DenseShape<Real> shape_;
    std::size_t size_;
    unsigned flips_;
    Kind kind_;
    std::vector<std::array<int, lanes>> places_;  // the number of the result that each lane of each vector is a part of, or -1
};

}  // namespace qdist
