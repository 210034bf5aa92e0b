// Small arithmetic on index bits.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace qdist {

using Index = std::uint64_t;

// Amplitudes are handled in rows of this many neighbours, so that the lowest three bits are lanes of SIMD registers.
inline constexpr int lane_bits = 3;
inline constexpr Index lanes = Index(1) << lane_bits;

inline constexpr Index low_bits(int count) { return count >= 64 ? ~Index(0) : (Index(1) << count) - 1; }

inline Index parity(Index v) { return std::popcount(v) & 1; }

// The bits of value, lowest first, at the set bits of mask.
inline Index deposit(Index value, Index mask) {
    Index result = 0;
    for (; mask; mask &= mask - 1, value >>= 1)
        if (value & 1) result |= mask & -mask;
    return result;
}

// The bits of value at the set bits of mask, packed: the inverse of deposit.
inline Index extract(Index value, Index mask) {
    Index result = 0;
    for (int k = 0; mask; mask &= mask - 1, ++k)
        if (value & mask & -mask) result |= Index(1) << k;
    return result;
}

// The index after `current` among those that only have bits of mask.
inline Index next_within(Index current, Index mask) { return (current - mask) & mask; }

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
