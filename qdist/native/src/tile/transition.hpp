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
    Transition(const DenseShape<Real>& shape, unsigned flips) : shape_(shape), size_(std::size_t(1) << shape.targets_.size()) {
        const std::size_t rows = shape.offset_.size(), perms = shape.permutations_.size();
        if (rows == 4 && std::popcount(flips) <= 2) {
            // A pass for a flip, or for one and the diagonal.
            for (std::size_t flip = 1; flip < 4; ++flip)
                if (flips >> flip & 1)
                    passes_.push_back({flips & 1 && passes_.empty(), true, gathered(flip, shape.row_targets_)});
            if (passes_.empty()) passes_.push_back({true, false, 1});
            for (const Pass& pass : passes_) {
                const std::array<std::size_t, 4> row = pass.rows();
                if (pass.diagonal)
                    for (std::size_t p : row) note(p, 0, p, 1);
                if (pass.pairs)
                    for (int part : {0, 1})
                        for (int k : {0, 2}) note(row[k + 1], 0, row[k], part);
            }
        } else if (rows == 4) {
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
        for (const Pass& pass : passes_) {
            const auto add = !pass.pairs     ? &Transition::add_flip<true, false>
                             : pass.diagonal ? &Transition::add_flip<true, true>
                                             : &Transition::add_flip<false, true>;
            (this->*add)(tiles, pass, sums);
            sums += 4 * (pass.diagonal + pass.pairs) * lanes;
        }
        if (!passes_.empty()) return;
        if (shape_.offset_.size() == 4)
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

    // Entries of two bits above the lanes that are summed in one pass: the diagonal's, those of rows that a flip exchanges.
    struct Pass {
        bool diagonal, pairs;
        std::size_t flip;  // of a row's number

        // In pairs.
        std::array<std::size_t, 4> rows() const {
            const std::size_t second = flip == 1 ? 2 : 1;
            return {0, flip, second, second ^ flip};
        }
    };

    // A vector to come sums up the real or the imaginary part of row q of the ket, its lanes permuted, and row p of the bra.
    void note(std::size_t q, std::size_t permutation, std::size_t p, int part) {
        const auto place = [&](std::size_t lane) {
            return 2 * (shape_.index(q, lane ^ permutation) * size_ + shape_.index(p, lane)) + part;
        };
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
                        add_difference<p, q>(k, l, a, b, x.sum[n], x.sum[n + 1]);
                    });
                });
                x.flush_after(1, sums);
            }
        });
        x.flush(sums);
    }

    template <bool diagonal, bool pairs>
    void add_flip(const TilePair<Real>& tiles, const Pass& pass, double* sums) const {
        constexpr int first_pair = diagonal ? 4 : 0;
        Registers<first_pair + (pairs ? 4 : 0)> x;
        std::size_t o[4];
        for (int p = 0; p < 4; ++p) o[p] = shape_.offset_[pass.rows()[p]];
        const Tile<Real> ket = tiles.ket, bra = tiles.bra;
        shape_.runs_.each([&](std::size_t first, std::size_t length) QDIST_INLINE {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V k[4], l[4], a[4], b[4];
                unrolled<4>([&](auto p) QDIST_INLINE {
                    k[p] = load(ket.re + i + o[p]), l[p] = load(ket.im + i + o[p]);
                    a[p] = load(bra.re + i + o[p]), b[p] = load(bra.im + i + o[p]);
                    if constexpr (diagonal) {
                        x.sum[p] += l[p] * a[p];
                        x.sum[p] -= k[p] * b[p];
                    }
                });
                if constexpr (pairs)
                    unrolled<2>([&](auto pair) QDIST_INLINE {
                        constexpr std::size_t p = 2 * pair, q = p + 1, n = first_pair + pair;
                        add_difference<p, q>(k, l, a, b, x.sum[n], x.sum[n + 2]);
                    });
                x.flush_after(1, sums);
            }
        });
        x.flush(sums);
    }

    // T_qp - conj(T_pq)
    template <std::size_t p, std::size_t q>
    QDIST_INLINE static void add_difference(const V* k, const V* l, const V* a, const V* b, V& re, V& im) {
        re += k[q] * a[p], im += l[q] * a[p];
        re += l[q] * b[p], im -= k[q] * b[p];
        re -= k[p] * a[q], im -= k[p] * b[q];
        re -= l[p] * b[q], im += l[p] * a[q];
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
    std::vector<Pass> passes_;                    // where not all entries are asked for
    std::vector<std::array<int, lanes>> places_;  // the number of the result that each lane of each vector is a part of, or -1
};

}  // namespace qdist
