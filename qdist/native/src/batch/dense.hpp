// Constant matrices of a row block: gates that are neither rotations nor index changes, such as a unitary that is given by
// its matrix.
#pragma once
#include <complex>
#include <vector>

#include "batch/walk.hpp"

namespace qdist::batch {

inline constexpr int most_dense_bits = 4;

struct Constant {
    Walk walk;  // of amplitudes
    std::vector<Index> offset;
    std::vector<std::complex<double>> matrix, inverse;  // row by row
};

template <class Real>
void multiply_constant(const Constant& gate, const std::vector<std::complex<double>>& matrix, std::size_t size, Real* state) {
    constexpr std::size_t W = rows<Real>, most = std::size_t(1) << most_dense_bits;
    const std::size_t small = gate.offset.size();
    Vec<Real> re[most], im[most];
    for (const std::uint32_t high : gate.walk.outer)
        for (const std::uint32_t low : gate.walk.inner) {
            const std::size_t place = high ^ low;
            for (std::size_t k = 0; k < small; ++k) {
                re[k] = load(state + (place ^ gate.offset[k]) * W);
                im[k] = load(state + (size + (place ^ gate.offset[k])) * W);
            }
            for (std::size_t row = 0; row < small; ++row) {
                Vec<Real> x{}, y{};
                for (std::size_t k = 0; k < small; ++k) {
                    const Real a = Real(matrix[row * small + k].real()), b = Real(matrix[row * small + k].imag());
                    x += a * re[k] - b * im[k];
                    y += a * im[k] + b * re[k];
                }
                store(state + (place ^ gate.offset[row]) * W, x);
                store(state + (size + (place ^ gate.offset[row])) * W, y);
            }
        }
}

}  // namespace qdist::batch
