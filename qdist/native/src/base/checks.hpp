// What Python may hand to a kernel: sizes, positions and indices are checked once a call, before any memory is touched.
//
// std::invalid_argument becomes ValueError in Python.
#pragma once
#include <algorithm>
#include <bit>
#include <span>
#include <sstream>
#include <stdexcept>

#include "base/bits.hpp"

namespace qdist {

// Indices are signed 64-bit numbers elsewhere, and a sum of two must be one too.
inline constexpr int max_index_bits = 62;

template <class... Parts>
[[noreturn]] void refuse(const Parts&... why) {
    std::ostringstream text;
    (text << ... << why);
    throw std::invalid_argument(text.str());
}

// The index bits of an array of 2^k amplitudes.
inline int checked_bits(std::size_t size, const char* what = "a shard") {
    if (!std::has_single_bit(size) || std::countr_zero(size) > max_index_bits)
        refuse(what, " must hold 2**k amplitudes; got ", size);
    return std::countr_zero(size);
}

inline void check_size(std::size_t size, std::size_t wanted, const char* what) {
    if (size != wanted) refuse(what, " must have ", wanted, " numbers; got ", size);
}

inline void check_range(std::int64_t value, std::int64_t least, std::int64_t most, const char* what) {
    if (value < least || value > most) refuse(what, " must be from ", least, " to ", most, "; got ", value);
}

// Different positions below `count`.
inline void check_positions(std::span<const int> positions, int count, const char* what = "positions") {
    Index seen = 0;
    for (int p : positions) {
        check_range(p, 0, count - 1, what);
        if (seen >> p & 1) refuse(what, " must be different; got ", p, " twice");
        seen |= Index(1) << p;
    }
}

// All positions below `positions.size()`, each once.
inline void check_permutation(std::span<const int> positions, std::size_t size) {
    const int bits = checked_bits(size);
    check_size(positions.size(), std::size_t(bits), "positions");
    check_positions(positions, bits);
}

// A mask of the lowest `bits` index bits, and the values of those bits.
inline void check_mask(Index mask, int bits, const char* what) {
    if (mask & ~low_bits(bits)) refuse(what, " must have bits below ", bits, " alone; got ", mask);
}
inline void check_condition(Index mask, Index value, int bits, const char* what) {
    check_mask(mask, bits, what);
    if (value & ~mask) refuse("the value of ", what, " must lie within its mask; got ", value, " under ", mask);
}

// The place, in the whole state, of a shard's first amplitude.
inline void check_first(Index first, std::size_t size, int lifted = 0) {
    check_mask(first, max_index_bits - lifted, "the place of a shard's first amplitude");
    if (first & (size - 1)) refuse("a shard must begin at a multiple of its size; got ", first);
}

// Arrays that one kernel reads and writes must be either the same, where it says so, or apart.
inline void check_apart(const void* a, const void* b, std::size_t bytes, const char* what) {
    const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
    if (bytes && std::max(x, y) - std::min(x, y) < bytes) refuse(what, " must not share memory");
}

}  // namespace qdist
