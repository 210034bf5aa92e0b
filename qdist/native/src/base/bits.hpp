// Small arithmetic on index bits.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace qdist {

using Index = std::uint64_t;

// Amplitudes are handled in rows of this many neighbours, so that the lowest three bits are lanes of SIMD registers.
inline constexpr int lane_bits = 3;
inline constexpr Index lanes = Index(1) << lane_bits;

inline constexpr Index low_bits(int count) { return count >= 64 ? ~Index(0) : (Index(1) << count) - 1; }

inline Index parity(Index v) { return std::popcount(v) & 1; }

// Calls f with the position of each set bit, lowest first.
template <class F>
[[gnu::always_inline]] inline void each_bit(Index mask, F f) {
    for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

inline std::vector<int> positions_of(Index mask) {
    std::vector<int> result;
    each_bit(mask, [&](int p) { result.push_back(p); });
    return result;
}

// The bits of value, lowest first, at some positions; and back.
template <class Positions>
inline Index scattered(Index value, const Positions& positions) {
    Index result = 0;
    for (int p : positions) result |= (value & 1) << p, value >>= 1;
    return result;
}
template <class Positions>
inline Index gathered(Index index, const Positions& positions) {
    Index result = 0;
    int k = 0;
    for (int p : positions) result |= (index >> p & 1) << k++;
    return result;
}

// scattered() for all values of the bits.
template <class Positions>
std::vector<Index> all_scattered(const Positions& positions) {
    std::vector<Index> result{0};
    for (int p : positions)
        for (std::size_t k = 0, size = result.size(); k < size; ++k) result.push_back(result[k] | Index(1) << p);
    return result;
}

// The bits of value, lowest first, at the set bits of mask.
inline Index deposit(Index value, Index mask) {
    Index result = 0;
    for (; mask; mask &= mask - 1, value >>= 1)
        if (value & 1) result |= mask & -mask;
    return result;
}

// The index after `current` among those that only have bits of mask.
inline Index next_within(Index current, Index mask) { return (current - mask) & mask; }

// r with a zero bit inserted at position b.
inline Index insert_zero(Index r, int b) {
    const Index low = r & low_bits(b);
    return ((r - low) << 1) | low;
}

// The step and the finaliser of SplitMix64: every bit of the input changes about half of the output's.
inline constexpr std::uint64_t splitmix_step = 0x9e3779b97f4a7c15;
inline std::uint64_t splitmix(std::uint64_t x) {
    x += splitmix_step;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// A condition on bits of an index.
struct Bits {
    std::size_t mask = 0, value = 0;
    bool holds(std::size_t index) const { return (index & mask) == value; }
};

// Shards shorter than a row of lanes are padded to one. The bits above their own then stand higher, because the padding
// takes some of theirs.
struct Lift {
    explicit Lift(int shard_bits) : own(shard_bits), bits(shard_bits < lane_bits ? lane_bits : shard_bits) {}

    int position(int p) const { return p < own ? p : p + bits - own; }
    Index mask(Index m) const { return (m & low_bits(own)) | (m & ~low_bits(own)) << (bits - own); }

    int own, bits;
};

}  // namespace qdist
