// The matrices of the gates that have angles, and their derivatives. The gate table (circuit/gates.py) says which gates
// there are; a test compares every row of it with these.
//
// A new formula is a line of QDIST_FORMULAS and a case of both switches, which do not compile without it (-Werror=switch).
#pragma once
#include <array>
#include <cmath>
#include <complex>
#include <stdexcept>
#include <vector>

namespace qdist {

using Complex = std::complex<double>;
using Matrix = std::vector<Complex>;  // row by row

// name, number of bits, number of angles, whether the matrix is real whatever the angles are
#define QDIST_FORMULAS(FORMULA)      \
    FORMULA(constant, 0, 0, false)   \
    FORMULA(rx, 1, 1, false)         \
    FORMULA(ry, 1, 1, true)          \
    FORMULA(rz, 1, 1, false)         \
    FORMULA(p, 1, 1, false)          \
    FORMULA(u, 1, 3, false)          \
    FORMULA(u2, 1, 2, false)         \
    FORMULA(r, 1, 2, false)          \
    FORMULA(rxx, 2, 1, false)        \
    FORMULA(ryy, 2, 1, false)        \
    FORMULA(rzz, 2, 1, false)        \
    FORMULA(rzx, 2, 1, false)        \
    FORMULA(xx_plus_yy, 2, 2, false) \
    FORMULA(fsim, 2, 2, false)       \
    FORMULA(phased_u, 1, 4, false)   \
    FORMULA(gphase, 0, 1, false)

#define QDIST_NAME(name, bits, angles, real) name,
enum class Formula : int { QDIST_FORMULAS(QDIST_NAME) };
#undef QDIST_NAME

struct FormulaFacts {
    const char* name;
    int bits, angles;
    bool real;
};
#define QDIST_FACTS(name, bits, angles, real) FormulaFacts{#name, bits, angles, real},
inline constexpr auto formulas = std::to_array({QDIST_FORMULAS(QDIST_FACTS)});
#undef QDIST_FACTS
inline constexpr const FormulaFacts& facts(Formula formula) { return formulas[std::size_t(formula)]; }

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
    throw std::logic_error("a constant matrix has no angles");
}

// The derivative of gate_matrix(formula, a) by a[k].
inline Matrix gate_derivative(Formula formula, int k, const double* a) {
    const Complex i(0, 1);
    // Where every entry holds the angle as cos(a/2) or sin(a/2), the derivative is half the value at a + pi.
    const auto shifted = [&] {
        double b[4] = {a[0] + M_PI, a[1], a[2], a[3]};
        Matrix m = gate_matrix(formula, b);
        for (Complex& z : m) z *= 0.5;
        return m;
    };
    Matrix m;
    switch (formula) {
        case Formula::rx:
        case Formula::ry:
        case Formula::rz:
        case Formula::rxx:
        case Formula::ryy:
        case Formula::rzz:
        case Formula::rzx: return shifted();
        case Formula::p: return {0, 0, 0, i * cis(a[0])};
        case Formula::gphase: return {i * cis(a[0])};
        case Formula::u:
        case Formula::phased_u:
            if (k == 0) return shifted();
            m = gate_matrix(formula, a);
            if (k == 1) return {0, 0, i * m[2], i * m[3]};
            if (k == 2) return {0, i * m[1], 0, i * m[3]};
            for (Complex& z : m) z *= i;
            return m;
        case Formula::u2:
            m = gate_matrix(formula, a);
            if (k == 0) return {0, 0, i * m[2], i * m[3]};
            return {0, i * m[1], 0, i * m[3]};
        case Formula::r:
            if (k == 0) return shifted();
            m = gate_matrix(formula, a);
            return {0, -i * m[1], i * m[2], 0};
        case Formula::xx_plus_yy: {
            Matrix d(16);
            m = k == 0 ? shifted() : gate_matrix(formula, a);
            if (k == 0) d[5] = m[5], d[10] = m[10];
            d[6] = k == 0 ? m[6] : -i * m[6];
            d[9] = k == 0 ? m[9] : i * m[9];
            return d;
        }
        case Formula::fsim: {
            Matrix d(16);
            if (k == 0) {
                d[5] = d[10] = -std::sin(a[0]);
                d[6] = d[9] = -i * std::cos(a[0]);
            } else
                d[15] = -i * cis(-a[1]);
            return d;
        }
        case Formula::constant: break;
    }
    throw std::logic_error("a constant matrix has no angles");
}

}  // namespace qdist
