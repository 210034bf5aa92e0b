// Sums over all threads that do not depend on their number.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/pool.hpp"

namespace qdist {

inline std::size_t num_chunks(std::size_t count) { return std::min<std::size_t>(count, 64); }

// Adds what `work` finds in items 0 .. count - 1 to `results`, `numbers` of them. Items are divided into a fixed number of
// chunks, whose sums are added in order. make(): what a thread works with. work(that, first, last, sums): adds to a chunk's.
template <class Make, class Work>
void ordered_sum(std::size_t count, std::size_t numbers, double* results, Make make, Work work) {
    const std::size_t chunks = num_chunks(count);
    std::vector<double> partial(chunks * numbers);
    each_on_threads(chunks, make, [&](auto& own, std::size_t c) {
        work(own, c * count / chunks, (c + 1) * count / chunks, partial.data() + c * numbers);
    });
    for (std::size_t c = 0; c < chunks; ++c)
        for (std::size_t i = 0; i < numbers; ++i) results[i] += partial[c * numbers + i];
}

}  // namespace qdist
