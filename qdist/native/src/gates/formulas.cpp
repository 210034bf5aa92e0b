// The matrices of the gates that have angles, and their derivatives.
#include "gates/formulas.hpp"

#include <stdexcept>

namespace qdist {

namespace {

Matrix u_matrix(double theta, double phi, double lam, double gamma) {
    const double c = std::cos(theta / 2), s = std::sin(theta / 2);
    return {c * cis(gamma), -s * cis(gamma + lam), s * cis(gamma + phi), c * cis(gamma + phi + lam)};
}

}  // namespace

Matrix gate_matrix(Formula formula, const double* a) {
    const Complex i(0, 1);
    const double c = std::cos(a[0] / 2), s = std::sin(a[0] / 2);
    switch (formula) {
        case Formula::rx: return {c, -i * s, -i * s, c};
        case Formula::ry: return {c, -s, s, c};
        case Formula::u: return u_matrix(a[0], a[1], a[2], 0);
        case Formula::u2: return u_matrix(M_PI / 2, a[0], a[1], 0);
        case Formula::r: return {c, -i * s * cis(-a[1]), -i * s * cis(a[1]), c};
        case Formula::rxx: return {c, 0, 0, -i * s, 0, c, -i * s, 0, 0, -i * s, c, 0, -i * s, 0, 0, c};
        case Formula::ryy: return {c, 0, 0, i * s, 0, c, -i * s, 0, 0, -i * s, c, 0, i * s, 0, 0, c};
        case Formula::xx_plus_yy: return {1, 0, 0, 0, 0, c, -i * s * cis(-a[1]), 0, 0, -i * s * cis(a[1]), c, 0, 0, 0, 0, 1};
        case Formula::fsim: {
            const Complex cosine = std::cos(a[0]), sine = -i * std::sin(a[0]);
            return {1, 0, 0, 0, 0, cosine, sine, 0, 0, sine, cosine, 0, 0, 0, 0, cis(-a[1])};
        }
        case Formula::phased_u: return u_matrix(a[0], a[1], a[2], a[3]);
        case Formula::constant:
        case Formula::phases:
        case Formula::rotation: break;
    }
    throw std::logic_error("a matrix that comes with its numbers has no formula");
}

Matrix gate_derivative(Formula formula, int k, const double* a) {
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
        case Formula::rxx:
        case Formula::ryy: return shifted();
        case Formula::u:
        case Formula::u2:
        case Formula::phased_u:
            if (formula == Formula::u2) ++k;  // u2 is u at theta = pi/2
            if (k == 0) return shifted();
            m = gate_matrix(formula, a);
            if (k == 1) return {0, 0, i * m[2], i * m[3]};
            if (k == 2) return {0, i * m[1], 0, i * m[3]};
            for (Complex& z : m) z *= i;
            return m;
        case Formula::r:
            if (k == 0) return shifted();
            m = gate_matrix(formula, a);
            return {0, -i * m[1], i * m[2], 0};
        case Formula::xx_plus_yy:
            m = k == 0 ? shifted() : gate_matrix(formula, a);
            if (k == 0) return {0, 0, 0, 0, 0, m[5], m[6], 0, 0, m[9], m[10], 0, 0, 0, 0, 0};
            return {0, 0, 0, 0, 0, 0, -i * m[6], 0, 0, i * m[9], 0, 0, 0, 0, 0, 0};
        case Formula::fsim: {
            const Complex c = -std::sin(a[0]), s = -i * std::cos(a[0]);
            if (k == 0) return {0, 0, 0, 0, 0, c, s, 0, 0, s, c, 0, 0, 0, 0, 0};
            return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -i * cis(-a[1])};
        }
        case Formula::constant:
        case Formula::phases:
        case Formula::rotation: break;
    }
    throw std::logic_error("a matrix that comes with its numbers has no formula");
}

}  // namespace qdist
