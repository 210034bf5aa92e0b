// Small complex matrices of the gates that have angles. The order and the formulas are those of circuit/gates.py.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <stdexcept>
#include <vector>

namespace qdist {

using Complex = std::complex<double>;
using Matrix = std::vector<Complex>;  // row by row

enum class Formula : int { constant, rx, ry, rz, p, u, u2, r, rxx, ryy, rzz, rzx, xx_plus_yy, fsim, phased_u, gphase };

inline Complex cis(double angle) { return {std::cos(angle), std::sin(angle)}; }

inline Matrix u_matrix(double theta, double phi, double lam, double gamma) {
    const double c = std::cos(theta / 2), s = std::sin(theta / 2);
    return {c * cis(gamma), -s * cis(gamma + lam), s * cis(gamma + phi), c * cis(gamma + phi + lam)};
}

// exp(-i theta/2 P) for a P that squares to one, given its nonzero entry of each row.
inline Matrix rotation4(double theta, std::array<int, 4> column, std::array<Complex, 4> entry) {
    const double c = std::cos(theta / 2), s = std::sin(theta / 2);
    Matrix m(16);
    for (int r = 0; r < 4; ++r) {
        m[5 * r] += c;
        m[4 * r + column[r]] += Complex(0, -s) * entry[r];
    }
    return m;
}

inline Matrix gate_matrix(Formula formula, const double* a) {
    const Complex i(0, 1);
    switch (formula) {
        case Formula::rx: {
            const double c = std::cos(a[0] / 2), s = std::sin(a[0] / 2);
            return {c, -i * s, -i * s, c};
        }
        case Formula::ry: {
            const double c = std::cos(a[0] / 2), s = std::sin(a[0] / 2);
            return {c, -s, s, c};
        }
        case Formula::rz: return {cis(-a[0] / 2), 0, 0, cis(a[0] / 2)};
        case Formula::p: return {1, 0, 0, cis(a[0])};
        case Formula::u: return u_matrix(a[0], a[1], a[2], 0);
        case Formula::u2: return u_matrix(M_PI / 2, a[0], a[1], 0);
        case Formula::r: {
            const double c = std::cos(a[0] / 2), s = std::sin(a[0] / 2);
            return {c, -i * s * cis(-a[1]), -i * s * cis(a[1]), c};
        }
        case Formula::rxx: return rotation4(a[0], {3, 2, 1, 0}, {1, 1, 1, 1});
        case Formula::ryy: return rotation4(a[0], {3, 2, 1, 0}, {-1, 1, 1, -1});
        case Formula::rzz: return rotation4(a[0], {0, 1, 2, 3}, {1, -1, -1, 1});
        // Z on the first qubit, X on the second: the second is the higher bit.
        case Formula::rzx: return rotation4(a[0], {2, 3, 0, 1}, {1, -1, 1, -1});
        case Formula::xx_plus_yy: {
            const double c = std::cos(a[0] / 2), s = std::sin(a[0] / 2);
            return {1, 0, 0, 0, 0, c, -i * s * cis(-a[1]), 0, 0, -i * s * cis(a[1]), c, 0, 0, 0, 0, 1};
        }
        case Formula::fsim: {
            const Complex c = std::cos(a[0]), s = -i * std::sin(a[0]);
            return {1, 0, 0, 0, 0, c, s, 0, 0, s, c, 0, 0, 0, 0, cis(-a[1])};
        }
        case Formula::phased_u: return u_matrix(a[0], a[1], a[2], a[3]);
        case Formula::gphase: return {cis(a[0])};
        case Formula::constant: break;
    }
    throw std::logic_error("a constant matrix has no formula");
}

// A matrix to come: constant, or a formula of some of the program's angles.
struct Source {
    Formula formula = Formula::constant;
    std::vector<int> slots;  // which angles
    Matrix value;            // for a constant

    // Whether it is real whatever the angles are.
    bool is_real() const {
        if (formula != Formula::constant) return formula == Formula::ry;
        return std::all_of(value.begin(), value.end(), [](Complex z) { return z.imag() == 0; });
    }

    Matrix at(const double* angles) const {
        if (formula == Formula::constant) return value;
        double chosen[4] = {};
        for (std::size_t k = 0; k < slots.size(); ++k) chosen[k] = angles[slots[k]];
        return gate_matrix(formula, chosen);
    }
};

// a (2^k x 2^k, on the bits listed) times the 2^n x 2^n matrix m, in place. Bit j of a's index is bit bits[j] of m's.
inline void apply_left(const Matrix& a, const std::vector<int>& bits, Matrix& m, int n) {
    const std::size_t size = std::size_t(1) << n, small = std::size_t(1) << bits.size();
    std::vector<std::size_t> offset(small);
    std::size_t all = 0;
    for (int b : bits) all |= std::size_t(1) << b;
    for (std::size_t k = 0; k < small; ++k)
        for (std::size_t j = 0; j < bits.size(); ++j)
            if (k >> j & 1) offset[k] |= std::size_t(1) << bits[j];
    std::vector<Complex> old(small);
    for (std::size_t base = 0; base < size; ++base) {
        if (base & all) continue;
        for (std::size_t column = 0; column < size; ++column) {
            for (std::size_t k = 0; k < small; ++k) old[k] = m[(base | offset[k]) * size + column];
            for (std::size_t r = 0; r < small; ++r) {
                Complex sum = 0;
                for (std::size_t k = 0; k < small; ++k) sum += a[r * small + k] * old[k];
                m[(base | offset[r]) * size + column] = sum;
            }
        }
    }
}

}  // namespace qdist
