// Norms and inner products of shards, accumulated in double whatever the amplitudes' precision.
#pragma once
#include <algorithm>
#include <complex>
#include <cstddef>

#include "base/ordered_sum.hpp"
#include "base/simd.hpp"

namespace qdist {

// sum_i conj(x_i) y_i of n amplitudes; with `real_only` its imaginary part is not computed.
template <bool real_only, class Real>
std::complex<double> inner(const Real* x, const Real* y, std::size_t n) {
    constexpr std::size_t block = std::size_t(1) << 15;
    double sums[2] = {};
    const auto nothing = [] { return 0; };
    ordered_sum((2 * n + block - 1) / block, 2, sums, nothing, [=](int, std::size_t first, std::size_t last, double* found) {
        std::size_t i = first * block;
        const std::size_t end = std::min(last * block, 2 * n);
        // Products of real and imaginary parts side by side, as they lie in memory; blocks are summed one by one.
        constexpr std::size_t row = 4 * Simd<double>::lanes;
        while (i + row <= end) {
            Lanes<double, row> same{}, crossed{};
            for (const std::size_t stop = std::min(i + block, end / row * row); i < stop; i += row) {
                const auto a = widened(Lanes<Real, row>::load(x + i)), b = widened(Lanes<Real, row>::load(y + i));
                same = same + a * b;
                if (!real_only) crossed = crossed + a * flipped<1>(b);
            }
            double c[row];
            crossed.store(c);
            found[0] += same.sum();
            for (std::size_t l = 0; l < row; l += 2) found[1] += c[l] - c[l + 1];
        }
        for (; i < end; i += 2) {
            found[0] += double(x[i]) * y[i] + double(x[i + 1]) * y[i + 1];
            found[1] += double(x[i]) * y[i + 1] - double(x[i + 1]) * y[i];
        }
    });
    return {sums[0], sums[1]};
}

}  // namespace qdist
