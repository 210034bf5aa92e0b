// Small complex matrices: constant or formulas of a program's angles, their products, and the gradient of a product.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "gates/formulas.hpp"

namespace qdist {

// A matrix to come: constant, or a formula of some of the program's angles.
struct Source {
    Formula formula = Formula::constant;
    std::vector<int> slots;  // which angles
    Matrix value;            // for a constant; for phases the real numbers of D; for a rotation G

    // Whether it is real whatever the angles are.
    bool is_real() const {
        if (formula != Formula::constant) return facts(formula).real;
        return std::all_of(value.begin(), value.end(), [](Complex z) { return z.imag() == 0; });
    }

    Matrix at(const double* angles) const {
        if (formula == Formula::phases) return phases(angles, [](double) { return Complex(1); });
        if (formula == Formula::rotation) {
            const double half = angles[slots[0]] / 2, s = std::sin(half / 2);
            return rotation(-2 * s * s, std::sin(half), 1);
        }
        return formula == Formula::constant ? value : gate_matrix(formula, chosen(angles).data());
    }

    // The derivative by the k-th of its angles.
    Matrix derivative(int k, const double* angles) const {
        if (formula == Formula::phases) return phases(angles, [](double d) { return Complex(0, d); });
        if (formula == Formula::rotation) {
            const double half = angles[slots[0]] / 2;
            return rotation(-std::sin(half) / 2, std::cos(half) / 2, 0);
        }
        return gate_derivative(formula, k, chosen(angles).data());
    }

private:
    // The diagonal matrix of factor(d) exp(i t d).
    template <class F>
    Matrix phases(const double* angles, F factor) const {
        Matrix m(value.size() * value.size());
        for (std::size_t k = 0; k < value.size(); ++k) {
            const double d = value[k].real();
            m[k * (value.size() + 1)] = factor(d) * cis(angles[slots[0]] * d);
        }
        return m;
    }

    // a G^2 - i b G, and c on the diagonal.
    Matrix rotation(double a, double b, double c) const {
        const std::size_t size = std::size_t(1) << (std::bit_width(value.size()) - 1) / 2;
        Matrix m(size * size);
        for (std::size_t p = 0; p < size; ++p) {
            for (std::size_t k = 0; k < size; ++k)
                for (std::size_t q = 0; q < size; ++q) m[p * size + q] += a * value[p * size + k] * value[k * size + q];
            for (std::size_t q = 0; q < size; ++q) m[p * size + q] -= Complex(0, b) * value[p * size + q];
            m[p * size + p] += c;
        }
        return m;
    }

    std::array<double, 4> chosen(const double* angles) const {
        std::array<double, 4> own{};
        for (std::size_t k = 0; k < slots.size(); ++k) own[k] = angles[slots[k]];
        return own;
    }
};

// a (2^k x 2^k, on the bits listed) times the 2^n x 2^n matrix m, in place. Bit j of a's index is bit bits[j] of m's.
void apply_left(const Matrix& a, const std::vector<int>& bits, Matrix& m, int n);

Matrix adjoint(const Matrix& m, std::size_t size);

// The 2^k x 2^k matrix that is left of m (2^n x 2^n) when the bits not listed are traced out.
Matrix traced(const Matrix& m, const std::vector<int>& bits, int n);

// One factor of a block's matrix: a matrix to come, on some of the block's bits.
struct Factor {
    Source source;
    std::vector<int> bits;
};

// The matrix of a block on n bits. factors: in the order in which they act.
Matrix product(const std::vector<Factor>& factors, int n, const double* angles);

// The derivatives by the angles of a block on n bits, given its transition matrix: 2 Re Tr(dU U^-1 T) each.
void add_dense_gradient(int n, const std::vector<Factor>& factors, Matrix t, const double* angles, double* gradient);

// Entries T_qp of a transition matrix that some derivatives depend on, whatever the angles are: a set of q ^ p, as bits.
struct Entries {
    unsigned flips;
    // Whether the transition matrix is that before the block, U^-1 T U, and not the one after it.
    bool before;
};

// Those that take fewest for the derivatives by the trainable angles of a block.
Entries fewest_entries(int n, const std::vector<Factor>& factors, const std::set<int>& trainable);

// The transition matrix after a block, given the one before it.
Matrix after(int n, const std::vector<Factor>& factors, Matrix before, const double* angles);

}  // namespace qdist
