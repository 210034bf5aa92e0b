// Dense blocks on a tile: small matrices on a few of its bits, under controls.
#pragma once
#include <algorithm>
#include <vector>

#include "base/simd.hpp"
#include "gates/formulas.hpp"
#include "tile/dense_shape.hpp"
#include "tile/givens.hpp"

namespace qdist {

// One dense block: the matrix of `targets` where the bits of `control_mask` have the values `control_value`.
template <class Real>
class Dense : private DenseShape<Real> {
    using Shape = DenseShape<Real>;
    using Shape::t_, Shape::targets_, Shape::control_mask_, Shape::control_value_, Shape::row_targets_;
    using Shape::lane_targets_, Shape::permutations_, Shape::rows_, Shape::offset_, Shape::plain_, Shape::runs_;

public:
    using Shape::lane_bits, Shape::lanes;

    using Shape::Shape;

    const Shape& shape() const { return *this; }
    using Shape::narrow;

    // Whether it works on all of the tile.
    bool is_unconditional() const { return !control_mask_; }

    // Whether m can run as a Givens rotation: real, of one bit above the lanes, without controls.
    bool is_givens(const Matrix& m) const {
        constexpr double rounding = 1e-14;
        return plain_ && targets_.size() == 1 && !control_mask_ && std::abs(m[0] - m[3]) < rounding && std::abs(m[1] + m[2]) < rounding &&
               std::abs(m[0].imag()) < rounding && std::abs(m[1].imag()) < rounding;
    }

    // Makes it such a rotation, whose cosine is left out.
    void set_givens(const Matrix& m) {
        is_givens_ = true;
        givens_ = {targets_[0], m[2].real() / m[0].real()};
    }
    const Givens* givens() const { return is_givens_ ? &givens_ : nullptr; }

    // Sets the matrix, 2^k x 2^k, bit j of its index being target j.
    void set(const Matrix& m) {
        is_givens_ = false;
        const std::size_t size = std::size_t(1) << targets_.size();
        real_ = std::all_of(m.begin(), m.end(), [](Complex z) { return z.imag() == 0; });
        matrix_re_.assign(size * size, 0);
        matrix_im_.assign(size * size, 0);
        for (std::size_t k = 0; k < size * size; ++k) {
            matrix_re_[k] = Real(m[k].real());
            matrix_im_[k] = Real(m[k].imag());
        }
        if (plain_) return;
        const std::size_t n = permutations_.size();
        re_.assign(rows_ * rows_ * n * lanes, 0);
        im_.assign(rows_ * rows_ * n * lanes, 0);
        for (int p = 0; p < rows_; ++p)
            for (int q = 0; q < rows_; ++q)
                for (std::size_t x = 0; x < n; ++x)
                    for (int lane = 0; lane < lanes; ++lane) {
                        const std::size_t at = ((p * rows_ + q) * n + x) * lanes + lane;
                        if (!this->holds(lane)) {
                            re_[at] = p == q && x == 0 ? 1 : 0;
                            continue;
                        }
                        const Complex c = m[this->index(p, lane) * size + this->index(q, lane ^ permutations_[x])];
                        re_[at] = Real(c.real());
                        im_[at] = Real(c.imag());
                    }
    }

    // Not for Givens rotations.
    void apply(Real* re, Real* im) const {
        if (plain_)
            switch (targets_.size()) {
                case 1: return real_ ? real1(re), real1(im) : complex1(re, im);
                case 2: return real_ ? real2(re), real2(im) : complex2(re, im);
                default: return wide(re, im);
            }
        if (targets_.size() > 2) return wide_in_lanes(re, im);
        if (rows_ == 1) return permutations_.size() == 1 ? in_lanes<1, 1>(re, im) : permutations_.size() == 2 ? in_lanes<1, 2>(re, im) : in_lanes<1, 4>(re, im);
        if (rows_ == 2) return permutations_.size() == 1 ? in_lanes<2, 1>(re, im) : in_lanes<2, 2>(re, im);
        return in_lanes<4, 1>(re, im);
    }

    // Two real one-bit blocks above the lanes, without controls, in one pass: half the loads and stores of two. Not Givens,
    // whose matrices are those of an earlier set().
    static bool pairs(const Dense& a, const Dense& b) {
        return !a.is_givens_ && !b.is_givens_ && a.plain_ && b.plain_ && a.real_ && b.real_ && a.targets_.size() == 1 && b.targets_.size() == 1 &&
               !a.control_mask_ && !b.control_mask_ && a.targets_[0] != b.targets_[0];
    }
    static void apply_pair(const Dense& a, const Dense& b, Real* re, Real* im) {
        pair(a, b, re);
        pair(a, b, im);
    }

private:
    using V = Vec<Real>;

    void real1(Real* x) const {
        const V a = splat(matrix_re_[0]), b = splat(matrix_re_[1]), c = splat(matrix_re_[2]), d = splat(matrix_re_[3]);
        const std::size_t s = offset_[1];
        runs_.each([=](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                const V x0 = load(x + i), x1 = load(x + i + s);
                store<Real>(x + i, a * x0 + b * x1);
                store<Real>(x + i + s, c * x0 + d * x1);
            }
        });
    }

    static void pair(const Dense& a, const Dense& b, Real* x) {
        const Real *m = a.matrix_re_.data(), *n = b.matrix_re_.data();
        const V a00 = splat(m[0]), a01 = splat(m[1]), a10 = splat(m[2]), a11 = splat(m[3]);
        const V b00 = splat(n[0]), b01 = splat(n[1]), b10 = splat(n[2]), b11 = splat(n[3]);
        const std::size_t s = a.offset_[1], u = b.offset_[1];
        const Runs runs(a.t_, {a.targets_[0], b.targets_[0]}, 0, lane_bits);
        runs.each([=](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                const V x0 = load(x + i), x1 = load(x + i + s), x2 = load(x + i + u), x3 = load(x + i + s + u);
                const V y0 = a00 * x0 + a01 * x1, y1 = a10 * x0 + a11 * x1;
                const V y2 = a00 * x2 + a01 * x3, y3 = a10 * x2 + a11 * x3;
                store<Real>(x + i, b00 * y0 + b01 * y2);
                store<Real>(x + i + s, b00 * y1 + b01 * y3);
                store<Real>(x + i + u, b10 * y0 + b11 * y2);
                store<Real>(x + i + s + u, b10 * y1 + b11 * y3);
            }
        });
    }

    void complex1(Real* re, Real* im) const {
        const Real *m = matrix_re_.data(), *n = matrix_im_.data();
        const V ar = splat(m[0]), br = splat(m[1]), cr = splat(m[2]), dr = splat(m[3]);
        const V ai = splat(n[0]), bi = splat(n[1]), ci = splat(n[2]), di = splat(n[3]);
        const std::size_t s = offset_[1];
        runs_.each([=](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                const V r0 = load(re + i), i0 = load(im + i), r1 = load(re + i + s), i1 = load(im + i + s);
                store<Real>(re + i, ar * r0 - ai * i0 + br * r1 - bi * i1);
                store<Real>(im + i, ar * i0 + ai * r0 + br * i1 + bi * r1);
                store<Real>(re + i + s, cr * r0 - ci * i0 + dr * r1 - di * i1);
                store<Real>(im + i + s, cr * i0 + ci * r0 + dr * i1 + di * r1);
            }
        });
    }

    void real2(Real* x) const {
        const Real* m = matrix_re_.data();
        const std::size_t o1 = offset_[1], o2 = offset_[2], o3 = offset_[3];
        runs_.each([=](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                const V x0 = load(x + i), x1 = load(x + i + o1), x2 = load(x + i + o2), x3 = load(x + i + o3);
                store<Real>(x + i, m[0] * x0 + m[1] * x1 + m[2] * x2 + m[3] * x3);
                store<Real>(x + i + o1, m[4] * x0 + m[5] * x1 + m[6] * x2 + m[7] * x3);
                store<Real>(x + i + o2, m[8] * x0 + m[9] * x1 + m[10] * x2 + m[11] * x3);
                store<Real>(x + i + o3, m[12] * x0 + m[13] * x1 + m[14] * x2 + m[15] * x3);
            }
        });
    }

    void complex2(Real* re, Real* im) const {
        // The matrix column by column, held in vectors: AArch64 multiplies by a lane, others by a broadcast of it.
        constexpr int count = 16 / lanes > 0 ? 16 / lanes : 1;
        alignas(64) Real columns[2][16 > lanes ? 16 : lanes] = {};
        for (int p = 0; p < 4; ++p)
            for (int q = 0; q < 4; ++q) {
                columns[0][4 * q + p] = matrix_re_[4 * p + q];
                columns[1][4 * q + p] = matrix_im_[4 * p + q];
            }
        V m[count], n[count];
        for (int k = 0; k < count; ++k) {
            m[k] = load(columns[0] + k * lanes);
            n[k] = load(columns[1] + k * lanes);
        }
        const std::size_t o[4] = {0, offset_[1], offset_[2], offset_[3]};
        runs_.each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V a[4] = {}, b[4] = {};
#pragma GCC unroll 4
                for (int q = 0; q < 4; ++q) {
                    const V r = load(re + i + o[q]), s = load(im + i + o[q]);
#pragma GCC unroll 4
                    for (int p = 0; p < 4; ++p) {
                        const int k = 4 * q + p;
                        const Real c = m[k / lanes][k % lanes], d = n[k / lanes][k % lanes];
                        a[p] = q ? a[p] + c * r : c * r;
                        b[p] = q ? b[p] + c * s : c * s;
                        a[p] -= d * s;
                        b[p] += d * r;
                    }
                }
#pragma GCC unroll 4
                for (int p = 0; p < 4; ++p) {
                    store<Real>(re + i + o[p], a[p]);
                    store<Real>(im + i + o[p], b[p]);
                }
            }
        });
    }

    // Rows vectors and Perms lane permutations; every coefficient is a vector of its own.
    template <int Rows, int Perms>
    void in_lanes(Real* re, Real* im) const {
        const Real *cr = re_.data(), *ci = im_.data();
        const int x1 = Perms > 1 ? permutations_[1] : 0, x2 = Perms > 2 ? permutations_[2] : 0;
        with_constant<lanes>(x1, [&](auto X1) {
            with_constant<Perms == 4 ? lanes : 1>(x2, [&](auto X2) {
                lanes_loop<Rows, Perms, decltype(X1)::value, decltype(X2)::value>(re, im, cr, ci);
            });
        });
    }

    template <int Rows, int Perms, int X1, int X2>
    void lanes_loop(Real* re, Real* im, const Real* cr, const Real* ci) const {
        const bool real = real_;
        std::size_t o[Rows];
        std::copy_n(offset_.data(), Rows, o);
        runs_.each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V r[Rows * Perms], s[Rows * Perms];
#pragma GCC unroll 16
                for (int q = 0; q < Rows; ++q) {
                    const V a = load(re + i + o[q]), b = load(im + i + o[q]);
                    r[q * Perms] = a;
                    s[q * Perms] = b;
                    if constexpr (Perms > 1) {
                        r[q * Perms + 1] = lane_xor<X1, Real>(a);
                        s[q * Perms + 1] = lane_xor<X1, Real>(b);
                    }
                    if constexpr (Perms > 2) {
                        r[q * Perms + 2] = lane_xor<X2, Real>(a);
                        s[q * Perms + 2] = lane_xor<X2, Real>(b);
                        r[q * Perms + 3] = lane_xor<(X1 ^ X2), Real>(a);
                        s[q * Perms + 3] = lane_xor<(X1 ^ X2), Real>(b);
                    }
                }
#pragma GCC unroll 16
                for (int p = 0; p < Rows; ++p) {
                    V a{}, b{};
#pragma GCC unroll 16
                    for (int k = 0; k < Rows * Perms; ++k) {
                        const V c = load(cr + (p * Rows * Perms + k) * lanes);
                        a += c * r[k];
                        b += c * s[k];
                        if (!real) {
                            const V d = load(ci + (p * Rows * Perms + k) * lanes);
                            a -= d * s[k];
                            b += d * r[k];
                        }
                    }
                    store<Real>(re + i + o[p], a);
                    store<Real>(im + i + o[p], b);
                }
            }
        });
    }

    // More than two targets, all above the lanes: gather the vectors, multiply, put them back.
    void wide(Real* re, Real* im) const {
        const std::size_t size = std::size_t(1) << targets_.size();
        AlignedVector<Real> old(2 * size * lanes);
        runs_.each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                for (std::size_t q = 0; q < size; ++q) {
                    store<Real>(&old[2 * q * lanes], load(re + i + offset_[q]));
                    store<Real>(&old[(2 * q + 1) * lanes], load(im + i + offset_[q]));
                }
                for (std::size_t p = 0; p < size; ++p) {
                    V a{}, b{};
                    const Real *m = &matrix_re_[p * size], *n = &matrix_im_[p * size];
                    for (std::size_t q = 0; q < size; ++q) {
                        const V r = load(&old[2 * q * lanes]), s = load(&old[(2 * q + 1) * lanes]);
                        a += m[q] * r - n[q] * s;
                        b += m[q] * s + n[q] * r;
                    }
                    store<Real>(re + i + offset_[p], a);
                    store<Real>(im + i + offset_[p], b);
                }
            }
        });
    }

    // More than two targets, some of them lanes: one index at a time.
    void wide_in_lanes(Real* re, Real* im) const {
        const std::size_t size = std::size_t(1) << targets_.size(), all = std::size_t(1) << t_;
        std::vector<std::size_t> at(size);
        std::size_t mask = 0;
        for (int b : targets_) mask |= std::size_t(1) << b;
        std::vector<Real> r(size), s(size);
        for (std::size_t k = 0; k < size; ++k)
            for (std::size_t j = 0; j < targets_.size(); ++j)
                if (k >> j & 1) at[k] |= std::size_t(1) << targets_[j];
        for (std::size_t i = 0; i < all; ++i) {
            if ((i & mask) || (i & control_mask_) != control_value_) continue;
            for (std::size_t q = 0; q < size; ++q) {
                r[q] = re[i | at[q]];
                s[q] = im[i | at[q]];
            }
            for (std::size_t p = 0; p < size; ++p) {
                Real a = 0, b = 0;
                for (std::size_t q = 0; q < size; ++q) {
                    a += matrix_re_[p * size + q] * r[q] - matrix_im_[p * size + q] * s[q];
                    b += matrix_re_[p * size + q] * s[q] + matrix_im_[p * size + q] * r[q];
                }
                re[i | at[p]] = a;
                im[i | at[p]] = b;
            }
        }
    }

    bool real_ = false, is_givens_ = false;
    Givens givens_{};
    std::vector<Real> matrix_re_, matrix_im_;
    AlignedVector<Real> re_, im_;
};

}  // namespace qdist
