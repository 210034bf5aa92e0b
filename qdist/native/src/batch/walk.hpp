// Rows of a batch in the lanes of a vector, and the walks through what a row block holds.
//
// A row block holds the states of as many rows as a vector of numbers has lanes: number i of each state is one vector, lane
// r of which belongs to row r. A state of n qubits is 2^(n + 1) real numbers: i = s for the real part of amplitude s, and
// i = s + 2^n for its imaginary part, so that bit n of i is the plane.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"

namespace qdist::batch {

// Rows of a block.
template <class Real>
inline constexpr std::size_t rows = Simd<Real>::lanes;

// Calls f with the constants 0 .. count - 1, so that arrays of vectors that it indexes stay in registers.
template <std::size_t count, class Function>
[[gnu::always_inline]] inline void repeat(Function f) {
    [&]<std::size_t... k>(std::index_sequence<k...>) __attribute__((always_inline)) {
        (f(std::integral_constant<std::size_t, k>()), ...);
    }(std::make_index_sequence<count>());
}

// All places base ^ (XOR of some of the columns): an affine subspace of indices over GF(2). Step g has the columns at the
// set bits of g; its place is inner[g % 64] ^ outer[g / 64].
struct Walk {
    Walk(Index base, std::span<const std::int64_t> columns) : bits(int(columns.size())), inner{std::uint32_t(base)}, outer{0} {
        for (std::size_t k = 0; k < columns.size(); ++k) {
            auto& table = k < inner_bits ? inner : outer;
            const std::size_t size = table.size();
            for (std::size_t j = 0; j < size; ++j) table.push_back(table[j] ^ std::uint32_t(columns[k]));
        }
    }

    static constexpr std::size_t inner_bits = 6;

    int bits;
    std::vector<std::uint32_t> inner, outer;
};

// Sums over many steps: each run of up to 64 is added up in Real, the runs in double.
template <class Real>
struct LaneSums {
    double lane[rows<Real>] = {};

    [[gnu::always_inline]] void add(Vec<Real> v) {
        for (std::size_t r = 0; r < rows<Real>; ++r) lane[r] += double(v[r]);
    }
    double total() const {
        double sum = 0;
        for (double x : lane) sum += x;
        return sum;
    }
};

}  // namespace qdist::batch
