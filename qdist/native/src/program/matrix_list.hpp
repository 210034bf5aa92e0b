// A list of matrices to come, each a product of factors on some of its bits: those of dense blocks, for executors that keep
// them elsewhere. The same formulas as the CPU's own blocks.
#pragma once
#include <algorithm>
#include <vector>

#include "base/checks.hpp"
#include "gates/formulas.hpp"
#include "gates/matrices.hpp"
#include "program/block_checks.hpp"
#include "program/matrix_setter.hpp"

namespace qdist {

class MatrixList {
public:
    // everywhere: whether it works on the whole state.
    void add(int num_bits, const std::vector<FactorData>& factors, bool everywhere) {
        check_range(num_bits, 0, max_bits, "the number of a matrix's bits");
        matrices_.push_back({num_bits, checked_factors(factors, num_bits, num_angles_), everywhere});
        size_ += std::size_t(1) << 2 * num_bits;
    }

    // Entries of all matrices together.
    std::size_t size() const { return size_; }
    // How many angles the matrices read.
    std::size_t num_angles() const { return std::size_t(num_angles_); }
    static constexpr int max_bits = 15;  // 16 GiB of entries

    // single: whether they will be rounded to single precision. Then each that works everywhere makes up for what the
    // rounding of the one before it does to the norm, and the first for `scale`, by which it is multiplied elsewhere.
    void at(const double* angles, bool single, double scale, Complex* out) const {
        for (const auto& [bits, factors, everywhere] : matrices_) {
            Matrix m = product(factors, bits, angles);
            if (everywhere && single) {
                for (Complex& z : m) z /= scale;
                scale = rounding_scale<float>(m.data(), m.size());
            }
            out = std::copy(m.begin(), m.end(), out);
        }
    }

    void add_gradients(const Complex* transitions, const double* angles, double* gradient) const {
        for (const auto& [bits, factors, everywhere] : matrices_) {
            const Complex* end = transitions + (std::size_t(1) << 2 * bits);
            add_dense_gradient(bits, factors, Matrix(transitions, end), angles, gradient);
            transitions = end;
        }
    }

private:
    struct Entry {
        int bits;
        std::vector<Factor> factors;
        bool everywhere;
    };
    std::vector<Entry> matrices_;
    std::size_t size_ = 0;
    int num_angles_ = 0;
};

}  // namespace qdist
