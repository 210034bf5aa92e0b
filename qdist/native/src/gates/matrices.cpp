// Products of small matrices, and the gradient of a product.
#include "gates/matrices.hpp"

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
        apply_left(adjoint(u, small), bits, t, n);
        t = transposed(t, size);
        apply_left(transposed(u, small), bits, t, n);
        t = transposed(t, size);
    }
}

}  // namespace qdist
