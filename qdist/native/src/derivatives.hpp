// Derivatives of the matrices of matrices.hpp by one of their angles, and of what blocks of them do to <bra|ket>.
#pragma once
#include "matrices.hpp"

namespace qdist {

// The derivative of gate_matrix(formula, a) by a[k].
inline Matrix gate_derivative(Formula formula, int k, const double* a) {
    const Complex i(0, 1);
    // Where every entry holds the angle as cos(a/2) or sin(a/2), half a turn further is twice the derivative.
    const auto turned = [&] {
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
        case Formula::rzx: return turned();
        case Formula::p: return {0, 0, 0, i * cis(a[0])};
        case Formula::gphase: return {i * cis(a[0])};
        case Formula::u:
        case Formula::phased_u:
            if (k == 0) return turned();
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
            if (k == 0) return turned();
            m = gate_matrix(formula, a);
            return {0, -i * m[1], i * m[2], 0};
        case Formula::xx_plus_yy: {
            Matrix d(16);
            m = k == 0 ? turned() : gate_matrix(formula, a);
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
    throw std::logic_error("a constant matrix has no derivative");
}

// The derivative of a gate's matrix by the k-th of its angles.
inline Matrix derivative(const Source& source, int k, const double* angles) {
    double chosen[4] = {};
    for (std::size_t j = 0; j < source.slots.size(); ++j) chosen[j] = angles[source.slots[j]];
    return gate_derivative(source.formula, k, chosen);
}

inline Matrix transposed(const Matrix& m, std::size_t size) {
    Matrix t(m.size());
    for (std::size_t p = 0; p < size; ++p)
        for (std::size_t q = 0; q < size; ++q) t[q * size + p] = m[p * size + q];
    return t;
}

inline Matrix adjoint(const Matrix& m, std::size_t size) {
    Matrix t = transposed(m, size);
    for (Complex& z : t) z = std::conj(z);
    return t;
}

// The 2^k x 2^k matrix that is left of m (2^n x 2^n) when the bits not listed are traced out.
inline Matrix traced(const Matrix& m, const std::vector<int>& bits, int n) {
    const std::size_t size = std::size_t(1) << n, small = std::size_t(1) << bits.size();
    std::vector<std::size_t> offset(small);
    std::size_t all = 0;
    for (int b : bits) all |= std::size_t(1) << b;
    for (std::size_t k = 0; k < small; ++k)
        for (std::size_t j = 0; j < bits.size(); ++j)
            if (k >> j & 1) offset[k] |= std::size_t(1) << bits[j];
    Matrix out(small * small);
    for (std::size_t rest = 0; rest < size; ++rest)
        if (!(rest & all))
            for (std::size_t p = 0; p < small; ++p)
                for (std::size_t q = 0; q < small; ++q) out[p * small + q] += m[(rest | offset[p]) * size + (rest | offset[q])];
    return out;
}

// The derivatives by the angles of a block on n bits, given its transition matrix: 2 Re Tr(dU U^-1 T) each. factors: pairs of
// a source and its bits, in the order in which they act.
template <class Factors>
void add_dense_gradient(int n, const Factors& factors, Matrix t, const double* angles, double* gradient) {
    const std::size_t size = std::size_t(1) << n;
    for (std::size_t f = factors.size(); f-- > 0;) {
        const auto& [source, bits] = factors[f];
        const std::size_t small = std::size_t(1) << bits.size();
        const Matrix u = source.at(angles);
        if (!source.slots.empty()) {
            // Tr(dU U^-1 T) = Tr(dU S) with S = U^-1 T.
            Matrix s = traced(t, bits, n);
            std::vector<int> own(bits.size());
            for (std::size_t j = 0; j < own.size(); ++j) own[j] = int(j);
            apply_left(adjoint(u, small), own, s, int(bits.size()));
            for (std::size_t k = 0; k < source.slots.size(); ++k) {
                const Matrix d = derivative(source, int(k), angles);
                double sum = 0;
                for (std::size_t p = 0; p < small; ++p)
                    for (std::size_t q = 0; q < small; ++q) sum += (d[p * small + q] * s[q * small + p]).real();
                gradient[source.slots[k]] += 2 * sum;
            }
        }
        if (f == 0) break;
        // The transition matrix before this factor: U^-1 T U.
        apply_left(adjoint(u, small), bits, t, n);
        t = transposed(t, size);
        apply_left(transposed(u, small), bits, t, n);
        t = transposed(t, size);
    }
}

}  // namespace qdist
