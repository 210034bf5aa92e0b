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
        const Entry* before = nullptr;
        Matrix m;
        for (const Entry& entry : matrices_) {
            if (before == nullptr || !are_equal(*before, entry, angles)) m = product(entry.factors, entry.bits, angles);
            before = &entry;
            Complex* const own = out;
            out = std::copy(m.begin(), m.end(), out);
            if (entry.everywhere && single) {
                for (Complex* z = own; z != out; ++z) *z /= scale;
                scale = rounding_scale<float>(own, m.size());
            }
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

    // Whether two matrices are the same formulas of the same values and numbers, as gates that share a parameter are.
    static bool are_equal(const Entry& a, const Entry& b, const double* angles) {
        return a.bits == b.bits && std::equal(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(), [&](const Factor& f, const Factor& g) {
            const auto is_same = [&](int s, int t) { return angles[s] == angles[t]; };
            return f.source.formula == g.source.formula && f.bits == g.bits && f.source.value == g.source.value &&
                   std::equal(f.source.slots.begin(), f.source.slots.end(), g.source.slots.begin(), g.source.slots.end(), is_same);
        });
    }

    std::vector<Entry> matrices_;
    std::size_t size_ = 0;
    int num_angles_ = 0;
};

}  // namespace qdist
