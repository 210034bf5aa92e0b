// Squared norm of a shard, accumulated in double whatever the amplitudes' precision.
#pragma once
#include <cstddef>
#include <vector>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace qdist {

// Sums |x|^2 of one block in eight independent lanes, so that it vectorises without reassociating anything at run time.
template <class Real>
double block_squared_norm(const Real* x, std::size_t n) {
    constexpr std::size_t lanes = 8;
    double sum[lanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (std::size_t k = 0; k < lanes; ++k) {
            const double v = x[i + k];
            sum[k] += v * v;
        }
    double total = 0;
    for (; i < n; ++i) total += double(x[i]) * double(x[i]);
    for (double s : sum) total += s;
    return total;
}

// x holds n real numbers (real and imaginary parts alike). Blocks have a fixed size and their sums are added in order,
// so the result does not depend on the number of threads.
template <class Real>
double squared_norm(const Real* x, std::size_t n) {
    constexpr std::size_t block = std::size_t(1) << 16;
    const std::size_t blocks = (n + block - 1) / block;
    if (blocks <= 1) return block_squared_norm(x, n);
    std::vector<double> sums(blocks);
#pragma omp parallel for schedule(static)
    for (std::size_t b = 0; b < blocks; ++b) {
        const std::size_t first = b * block;
        sums[b] = block_squared_norm(x + first, first + block <= n ? block : n - first);
    }
    double total = 0;
    for (double s : sums) total += s;
    return total;
}

}  // namespace qdist
