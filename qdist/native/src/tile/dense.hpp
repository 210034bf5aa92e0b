// Dense blocks on a tile: small matrices on a few of its bits, under controls.
#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/simd.hpp"
#include "gates/formulas.hpp"
#include "tile/dense_shape.hpp"
#include "tile/givens.hpp"
#include "tile/lane_matrices.hpp"
#include "tile/tiles.hpp"
#include "tile/wide.hpp"

namespace qdist {

// One dense block: the matrix of `targets` where the bits of `control_mask` have the values `control_value`.
template <class Real>
class Dense : private DenseShape<Real> {
    using Shape = DenseShape<Real>;
    using Shape::t_, Shape::targets_, Shape::control_mask_, Shape::control_value_;
    using Shape::permutations_, Shape::offset_, Shape::plain_, Shape::runs_;

public:
    using Shape::lane_bits, Shape::lanes;

    Dense(int t, std::vector<int> targets, std::size_t control_mask, std::size_t control_value)
        : Shape(t, std::move(targets), control_mask, control_value) {
        if (targets_.size() > 2)
            wide_.emplace(t, targets_, control_mask, control_value);
        else if (!plain_)
            find_entries();
    }

    const Shape& shape() const { return *this; }
    // See DenseShape.
    void narrow(int bits) {
        Shape::narrow(bits);
        if (wide_) wide_->narrow(bits);
    }

    // Whether it works on all of the tile.
    bool is_unconditional() const { return !control_mask_; }

    // Whether it is a matrix of one bit above the lanes, without controls.
    bool is_plain_of_one_bit() const { return plain_ && targets_.size() == 1 && !control_mask_; }
    bool is_real() const { return real_; }
    // Not of Givens rotations: real parts, then imaginary parts.
    void copy_matrix(Real* to) const {
        std::copy(matrix_im_.begin(), matrix_im_.end(), std::copy(matrix_re_.begin(), matrix_re_.end(), to));
    }

    // Makes it a Givens rotation whose cosine is left out, if m is one of one bit above the lanes, without controls: a real one,
    // an imaginary one or a Hadamard gate, where these are allowed.
    bool set_givens(const Matrix& m, GivensForms allowed) {
        constexpr double rounding = 1e-14;
        if (!plain_ || targets_.size() != 1 || control_mask_ || std::abs(m[0].imag()) >= rounding) return false;
        const double cosine = m[0].real();
        const auto equal = [&](Complex a) { return std::abs(a - m[0]) < rounding; };
        if (allowed.hadamard && equal(m[1]) && equal(m[2]) && equal(-m[3]))
            givens_ = {targets_[0], 1, GivensForm::hadamard};
        else if (!equal(m[3]))
            return false;
        else if (allowed.real && std::abs(m[1].imag()) < rounding && std::abs(m[1] + m[2]) < rounding)
            givens_ = {targets_[0], m[2].real() / cosine};
        else if (allowed.imaginary && std::abs(m[1].real()) < rounding && std::abs(m[1] - m[2]) < rounding)
            givens_ = {targets_[0], m[1].imag() / cosine, GivensForm::imaginary};
        else
            return false;
        return is_givens_ = true;
    }
    const Givens* givens() const { return is_givens_ ? &givens_ : nullptr; }

    // It as one of LaneMatrices, if it is such a matrix.
    std::optional<LaneMatrix<Real>> lane_matrix() const {
        if (!LaneMatrices<Real>::available || plain_ || targets_.size() != 1 || control_mask_ || !(real_ || is_half_imaginary_))
            return {};
        return LaneMatrix<Real>{targets_[0], !real_, re_.data(), (real_ ? re_ : im_).data() + lanes};
    }

    // Sets the matrix, 2^k x 2^k, bit j of its index being target j.
    void set(const Matrix& m) {
        is_givens_ = false;
        const std::size_t size = std::size_t(1) << targets_.size();
        real_ = std::all_of(m.begin(), m.end(), [](Complex z) { return z.imag() == 0; });
        is_half_imaginary_ = size == 2 && m[0].imag() == 0 && m[3].imag() == 0 && m[1].real() == 0 && m[2].real() == 0;
        matrix_re_.resize(size * size);
        matrix_im_.resize(size * size);
        for (std::size_t k = 0; k < size * size; ++k) {
            matrix_re_[k] = Real(m[k].real());
            matrix_im_[k] = Real(m[k].imag());
        }
        if (wide_) return wide_->set(m);
        if (plain_) return;
        Real re[num_numbers], im[num_numbers];
        std::copy(matrix_re_.begin(), matrix_re_.end(), re);
        std::copy(matrix_im_.begin(), matrix_im_.end(), im);
        re[zero] = im[zero] = im[one] = 0;
        re[one] = 1;
        for (std::size_t k = 0; k < entries_.size(); ++k) {
            re_[k] = re[entries_[k]];
            im_[k] = im[entries_[k]];
        }
    }

    // Not for Givens rotations.
    void apply(Tile<Real> tile) const {
        if (wide_) return wide_->apply(tile);
        if (plain_ && real_)
            return targets_.size() == 1 ? real<2>(tile.re), real<2>(tile.im) : (real<4>(tile.re), real<4>(tile.im));
        if (plain_ && is_half_imaginary_) return half_imaginary(tile);
        if (plain_) return targets_.size() == 1 ? complex<2>(tile) : complex<4>(tile);
        this->specialised([&]<int Rows, int Perms, int X1, int X2>() { in_lanes<Rows, Perms, X1, X2>(tile); });
    }

    // Two real one-bit blocks above the lanes, without controls, in one pass: half the loads and stores of two. Not Givens,
    // whose matrices are those of an earlier set().
    static bool pairs(const Dense& a, const Dense& b) {
        return !a.is_givens_ && !b.is_givens_ && a.plain_ && b.plain_ && a.real_ && b.real_ && a.targets_.size() == 1 &&
               b.targets_.size() == 1 && !a.control_mask_ && !b.control_mask_ && a.targets_[0] != b.targets_[0];
    }
    static void apply_pair(const Dense& a, const Dense& b, Tile<Real> tile) {
        pair(a, b, tile.re);
        pair(a, b, tile.im);
    }

private:
    using V = Vec<Real>;

    // Which entry of the matrix each coefficient of in_lanes() is; where controls do not hold, those of the identity.
    void find_entries() {
        const std::size_t size = std::size_t(1) << targets_.size(), n = permutations_.size(), rows = offset_.size();
        for (std::size_t p = 0; p < rows; ++p)
            for (std::size_t q = 0; q < rows; ++q)
                for (std::size_t x = 0; x < n; ++x)
                    for (std::size_t lane = 0; lane < lanes; ++lane)
                        entries_.push_back(
                            std::int32_t(this->holds(lane) ? this->index(p, lane) * size + this->index(q, lane ^ permutations_[x])
                                         : p == q && x == 0 ? one
                                                            : zero));
        re_.resize(entries_.size());
        im_.resize(entries_.size());
    }

    // A real matrix of one or two targets above the lanes, on real parts or on imaginary parts.
    template <int size>
    void real(Real* x) const {
        V m[size * size];
        for (int k = 0; k < size * size; ++k) m[k] = splat(matrix_re_[k]);
        std::size_t o[size];
        std::copy_n(offset_.data(), size, o);
        runs_.each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V v[size];
#pragma GCC unroll 4
                for (int q = 0; q < size; ++q) v[q] = load(x + i + o[q]);
#pragma GCC unroll 4
                for (int p = 0; p < size; ++p) {
                    V sum = m[size * p] * v[0];
#pragma GCC unroll 4
                    for (int q = 1; q < size; ++q) sum += m[size * p + q] * v[q];
                    store<Real>(x + i + o[p], sum);
                }
            }
        });
    }

    static void pair(const Dense& a, const Dense& b, Real* x) {
        const Real *m = a.matrix_re_.data(), *n = b.matrix_re_.data();
        const V a00 = splat(m[0]), a01 = splat(m[1]), a10 = splat(m[2]), a11 = splat(m[3]);
        const V b00 = splat(n[0]), b01 = splat(n[1]), b10 = splat(n[2]), b11 = splat(n[3]);
        const std::size_t s = a.offset_[1], u = b.offset_[1];
        const Runs runs(a.t_, std::array{a.targets_[0], b.targets_[0]}, 0, lane_bits);
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

    // A complex matrix of one or two targets above the lanes.
    template <int size>
    void complex(Tile<Real> tile) const {
        // The matrix column by column: where a vector can be multiplied by a lane of another, numbers lie in lanes.
        constexpr int entries = size * size, count = multiplies_by_lanes ? std::max(1, entries / lanes) : entries;
        alignas(64) Real columns[2][std::max(entries, lanes)] = {};
        for (int p = 0; p < size; ++p)
            for (int q = 0; q < size; ++q) {
                columns[0][size * q + p] = matrix_re_[size * p + q];
                columns[1][size * q + p] = matrix_im_[size * p + q];
            }
        V m[count], n[count];
        for (int k = 0; k < count; ++k) {
            m[k] = multiplies_by_lanes ? load(columns[0] + k * lanes) : splat(columns[0][k]);
            n[k] = multiplies_by_lanes ? load(columns[1] + k * lanes) : splat(columns[1][k]);
        }
        std::size_t o[size];
        std::copy_n(offset_.data(), size, o);
        // By value: what is reached through a pointer is loaded, and spread over a vector, again for every run.
        runs_.each([=, re = tile.re, im = tile.im](std::size_t first, std::size_t length) QDIST_INLINE {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V a[size] = {}, b[size] = {};
                unrolled<size>([&](auto q) QDIST_INLINE {
                    const V r = load(re + i + o[q]), s = load(im + i + o[q]);
                    unrolled<size>([&](auto p) QDIST_INLINE {
                        constexpr std::size_t k = size * q + p;
                        const auto c = entry<k>(m), d = entry<k>(n);
                        a[p] = q ? a[p] + c * r : c * r;
                        b[p] = q ? b[p] + c * s : c * s;
                        a[p] -= d * s;
                        b[p] += d * r;
                    });
                });
                unrolled<size>([&](auto p) QDIST_INLINE {
                    store<Real>(re + i + o[p], a[p]);
                    store<Real>(im + i + o[p], b[p]);
                });
            }
        });
    }
    // A matrix of one target above the lanes whose diagonal is real and the rest imaginary, as that of RX.
    void half_imaginary(Tile<Real> tile) const {
        const V own = splat(matrix_re_[0]), up = splat(matrix_im_[1]), down = splat(matrix_im_[2]), last = splat(matrix_re_[3]);
        const std::size_t o = offset_[1];
        runs_.each([=, re = tile.re, im = tile.im](std::size_t first, std::size_t length) QDIST_INLINE {
            for (std::size_t i = first; i < first + length; i += lanes) {
                const V a = load(re + i), b = load(im + i), d = load(re + i + o), e = load(im + i + o);
                store<Real>(re + i, own * a - up * e), store<Real>(im + i, own * b + up * d);
                store<Real>(re + i + o, last * d - down * b), store<Real>(im + i + o, last * e + down * a);
            }
        });
    }
    template <std::size_t k>
    QDIST_INLINE static auto entry(const V* numbers) {
        if constexpr (multiplies_by_lanes)
            return numbers[k / lanes][k % lanes];
        else
            return numbers[k];
    }

    // What the entries of a matrix are. Half imaginary: those of one target whose diagonal is real and the rest imaginary.
    enum class Entries { real, half_imaginary, complex };

    // Rows vectors and Perms lane permutations; every coefficient is a vector of its own.
    template <int Rows, int Perms, int X1, int X2>
    void in_lanes(Tile<Real> tile) const {
        if constexpr (Rows * Perms == 2)
            if (is_half_imaginary_) return in_lanes<Entries::half_imaginary, Rows, Perms, X1, X2>(tile);
        real_ ? in_lanes<Entries::real, Rows, Perms, X1, X2>(tile) : in_lanes<Entries::complex, Rows, Perms, X1, X2>(tile);
    }
    template <Entries entries, int Rows, int Perms, int X1, int X2>
    void in_lanes(Tile<Real> tile) const {
        constexpr int columns = Rows * Perms;
        // Copies: what is reached through a pointer is loaded again for every vector, since storing these might change it.
        V c[Rows * columns], d[Rows * columns];
        for (int k = 0; k < Rows * columns; ++k) {
            c[k] = load(&re_[k * lanes]);
            if constexpr (entries != Entries::real) d[k] = load(&im_[k * lanes]);
        }
        Real *const re = tile.re, *const im = tile.im;
        std::size_t o[Rows];
        std::copy_n(offset_.data(), Rows, o);
        runs_.each([&](std::size_t first, std::size_t length) QDIST_INLINE {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V r[columns], s[columns];
#pragma GCC unroll 16
                for (int q = 0; q < Rows; ++q) {
                    const V a = load(re + i + o[q]), b = load(im + i + o[q]);
                    unrolled<Perms>([&](auto x) QDIST_INLINE {
                        constexpr int permutation = (x & 1 ? X1 : 0) ^ (x & 2 ? X2 : 0);
                        r[q * Perms + x] = lane_xor<permutation>(a);
                        s[q * Perms + x] = lane_xor<permutation>(b);
                    });
                }
                unrolled<Rows>([&](auto p) QDIST_INLINE {
                    // The column of the diagonal, which has real parts in all matrices, first.
                    constexpr std::size_t first_column = entries == Entries::half_imaginary ? p * Perms : 0;
                    V a = c[p * columns + first_column] * r[first_column], b = c[p * columns + first_column] * s[first_column];
                    unrolled<columns>([&](auto k) QDIST_INLINE {
                        constexpr std::size_t at = p * columns + k;
                        if constexpr (entries != Entries::half_imaginary && k > 0) a += c[at] * r[k], b += c[at] * s[k];
                        if constexpr (entries == Entries::complex || (entries == Entries::half_imaginary && k != first_column))
                            a -= d[at] * s[k], b += d[at] * r[k];
                    });
                    store<Real>(re + i + o[p], a);
                    store<Real>(im + i + o[p], b);
                });
            }
        });
    }

    bool real_ = false, is_givens_ = false;
    bool is_half_imaginary_ = false;  // of one bit, with a real diagonal and the rest imaginary
    Givens givens_{};
    std::vector<Real> matrix_re_, matrix_im_;
    static constexpr std::size_t zero = 16, one = 17, num_numbers = 18;  // behind a matrix of two bits
    std::vector<std::int32_t> entries_;
    AlignedVector<Real> re_, im_;
    std::optional<Wide<Real>> wide_;  // of more than two targets
};

}  // namespace qdist
