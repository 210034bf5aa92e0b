// Products of small matrices, and the gradient of a product.
#include "gates/matrices.hpp"

#include <bit>
#include <cmath>

namespace qdist {

void apply_left(const Matrix& a, const std::vector<int>& bits, Matrix& m, int n) {
    const std::size_t size = std::size_t(1) << n, small = std::size_t(1) << bits.size();
    const std::vector<Index> offset = all_scattered(bits);
    const std::size_t all = offset.back();
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

Matrix transposed(const Matrix& m, std::size_t size) {
    Matrix t(m.size());
    for (std::size_t p = 0; p < size; ++p)
        for (std::size_t q = 0; q < size; ++q) t[q * size + p] = m[p * size + q];
    return t;
}

// A M A^-1 of a unitary a on the bits listed.
static Matrix conjugated(const Matrix& a, const std::vector<int>& bits, Matrix m, int n) {
    const std::size_t size = std::size_t(1) << n, small = std::size_t(1) << bits.size();
    apply_left(a, bits, m, n);
    m = transposed(m, size);
    apply_left(transposed(adjoint(a, small), small), bits, m, n);
    return transposed(m, size);
}

Matrix adjoint(const Matrix& m, std::size_t size) {
    Matrix t = transposed(m, size);
    for (Complex& z : t) z = std::conj(z);
    return t;
}

Matrix traced(const Matrix& m, const std::vector<int>& bits, int n) {
    const std::size_t size = std::size_t(1) << n, small = std::size_t(1) << bits.size();
    const std::vector<Index> offset = all_scattered(bits);
    const std::size_t all = offset.back();
    Matrix out(small * small);
    for (std::size_t rest = 0; rest < size; ++rest)
        if (!(rest & all))
            for (std::size_t p = 0; p < small; ++p)
                for (std::size_t q = 0; q < small; ++q) out[p * small + q] += m[(rest | offset[p]) * size + (rest | offset[q])];
    return out;
}

Matrix product(const std::vector<Factor>& factors, int n, const double* angles) {
    const std::size_t size = std::size_t(1) << n;
    if (factors.size() == 1 && int(factors[0].bits.size()) == n && std::is_sorted(factors[0].bits.begin(), factors[0].bits.end()))
        return factors[0].source.at(angles);
    Matrix m(size * size);
    for (std::size_t k = 0; k < size; ++k) m[k * size + k] = 1;
    for (const Factor& f : factors) apply_left(f.source.at(angles), f.bits, m, n);
    return m;
}

void add_dense_gradient(int n, const std::vector<Factor>& factors, Matrix t, const double* angles, double* gradient) {
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
                const Matrix d = source.derivative(int(k), angles);
                double sum = 0;
                for (std::size_t p = 0; p < small; ++p)
                    for (std::size_t q = 0; q < small; ++q) sum += (d[p * small + q] * s[q * small + p]).real();
                gradient[source.slots[k]] += 2 * sum;
            }
        }
        if (f == 0) break;
        // The transition matrix before this factor: U^-1 T U.
        t = conjugated(adjoint(u, small), bits, std::move(t), n);
    }
}

Matrix after(int n, const std::vector<Factor>& factors, Matrix before, const double* angles) {
    for (const auto& [source, bits] : factors) before = conjugated(source.at(angles), bits, std::move(before), n);
    return before;
}

Entries fewest_entries(int n, const std::vector<Factor>& factors, const std::set<int>& trainable) {
    // What vanishes at angles without any pattern vanishes at all of them.
    std::vector<Factor> own = factors;
    std::vector<double> angles;
    std::vector<bool> wanted;
    for (Factor& factor : own)
        for (int& slot : factor.source.slots) {
            wanted.push_back(trainable.contains(slot));
            slot = int(angles.size());
            angles.push_back(std::fmod(0.731 + 1.618 * double(slot), 3));
        }
    const std::size_t size = std::size_t(1) << n;
    const auto flips = [&](bool before) {
        unsigned found = 0;
        for (std::size_t flip = 0; flip < size; ++flip) {
            Matrix t(size * size);
            for (std::size_t q = 0; q < size; ++q)
                t[q * size + (q ^ flip)] = {std::sin(1.3 + 2.9 * double(q)), std::cos(0.4 + 1.7 * double(q))};
            if (before) t = after(n, own, std::move(t), angles.data());
            std::vector<double> gradient(angles.size());
            add_dense_gradient(n, own, std::move(t), angles.data(), gradient.data());
            for (std::size_t k = 0; k < gradient.size(); ++k)
                if (wanted[k] && std::abs(gradient[k]) > 1e-9) found |= 1u << flip;
        }
        return found;
    };
    const unsigned first = flips(true), last = flips(false);
    const bool before = std::popcount(first) < std::popcount(last);
    return {before ? first : last, before};
}

}  // namespace qdist
