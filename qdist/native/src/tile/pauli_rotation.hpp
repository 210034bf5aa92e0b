// Pauli rotations of a tile's amplitudes.
#pragma once
#include <cmath>
#include <cstddef>

#include "base/bits.hpp"
#include "gates/formulas.hpp"
#include "tile/diagonal.hpp"
#include "tile/transition.hpp"

namespace qdist {

// exp(-i angle/2 P) for a Pauli string P that flips the tile's bits x and has the sign of the parity of z.
template <class Real>
class PauliRotation {
public:
    PauliRotation(int t, std::size_t x, std::size_t z, std::size_t far_z, int num_y, Bits near, Bits far)
        : t_(t), x_(x), z_(z), far_z_(far_z), num_y_(num_y), near_(near), far_(far) {}

    // factor: what the result is multiplied by, also when it is undone.
    void set(double angle, double factor = 1) {
        cosine_ = Real(factor * std::cos(angle / 2));
        // (P psi)_i = i^num_y (-1)^parity((i ^ x) & z) psi_(i ^ x)
        static constexpr Complex powers[4] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
        const Complex f = Complex(0, -factor * std::sin(angle / 2)) * powers[num_y_ & 3];
        factor_re_ = Real(f.real());
        factor_im_ = Real(f.imag());
    }

    // Whether it works on all of the state.
    bool is_unconditional() const { return !near_.mask && !far_.mask; }
    // What it, or undoing it, multiplies the norm by.
    double scale() const {
        const double c = cosine_, re = factor_re_, im = factor_im_;
        return std::sqrt(c * c + re * re + im * im);
    }

    void apply(Tile<Real> tile, std::size_t base) const { rotate(tile, base, 1); }
    void undo(Tile<Real> tile, std::size_t base) const { rotate(tile, base, -1); }

    // Im <bra|P|ket> over the tile's elements that are rotated.
    double overlap(const TilePair<Real>& tiles, std::size_t base) const {
        if (!far_.holds(base)) return 0;
        const bool odd = __builtin_parityll(base & far_z_);
        double re = 0, im = 0;
        for (std::size_t i = 0; i < std::size_t(1) << t_; ++i) {
            if (!near_.holds(i)) continue;
            const std::size_t j = i ^ x_;
            const bool sign = odd ^ bool(__builtin_parityll(j & z_));
            const double a = tiles.bra.re[i], b = tiles.bra.im[i], c = tiles.ket.re[j], d = tiles.ket.im[j];
            re += sign ? -(a * c + b * d) : a * c + b * d;
            im += sign ? b * c - a * d : a * d - b * c;
        }
        // Times i^num_y.
        switch (num_y_ & 3) {
            case 0: return im;
            case 1: return re;
            case 2: return -im;
            default: return -re;
        }
    }

private:
    // sign: 1, or -1 for the inverse.
    void rotate(Tile<Real> tile, std::size_t base, Real sign) const {
        if (!far_.holds(base)) return;
        const bool odd = __builtin_parityll(base & far_z_);
        const std::size_t size = std::size_t(1) << t_;
        const Real factor_re = sign * factor_re_, factor_im = sign * factor_im_;
        if (!x_) {
            // No flips: a phase of the parity's sign.
            return multiply_where(near_, t_, tile, [&](std::size_t i) {
                return Phase<Real>{cosine_, odd ^ bool(__builtin_parityll(i & z_)) ? -factor_im : factor_im};
            });
        }
        Real *const re = tile.re, *const im = tile.im;
        const std::size_t top = std::size_t(1) << (63 - __builtin_clzll(x_));
        const bool odd_x = __builtin_parityll(x_ & z_);
        for (std::size_t i = 0; i < size; ++i) {
            if ((i & top) || !near_.holds(i)) continue;
            const std::size_t j = i ^ x_;
            const bool sign_i = odd ^ odd_x ^ bool(__builtin_parityll(i & z_)), sign_j = sign_i ^ odd_x;
            const Real fr = sign_i ? -factor_re : factor_re, fi = sign_i ? -factor_im : factor_im;
            const Real gr = sign_j ? -factor_re : factor_re, gi = sign_j ? -factor_im : factor_im;
            const Real a = re[i], b = im[i], c = re[j], d = im[j];
            // The largest product, mostly the cosine's, comes last: as part of an FMA it is not rounded by itself.
            re[i] = (fr * c - fi * d) + cosine_ * a;
            im[i] = (fr * d + fi * c) + cosine_ * b;
            re[j] = (gr * a - gi * b) + cosine_ * c;
            im[j] = (gr * b + gi * a) + cosine_ * d;
        }
    }

    int t_;
    std::size_t x_, z_, far_z_;
    int num_y_;
    Bits near_, far_;
    Real cosine_ = 1, factor_re_ = 0, factor_im_ = 0;
};

}  // namespace qdist
