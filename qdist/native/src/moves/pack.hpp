// Some amplitudes of a shard, copied to and from a buffer or exchanged with as many others.
//
// Which ones: all indices base | b, with b any setting of the bits of a mask `within`. They are numbered in the order of
// their indices. Neighbours in memory are moved as runs.
#pragma once
#include <algorithm>
#include <cstddef>

#include "base/bits.hpp"
#include "base/pool.hpp"
#include "base/simd.hpp"

namespace qdist {

// Calls move(offset from the base, number of the first, length) for every run of neighbours, on all threads. The length
// is a compile-time constant where it is short, so that a move is a few instructions.
template <class Move>
void each_run(Index within, Move move) {
    constexpr int block_bits = 12, long_run_bits = 4;
    const Index block = deposit(low_bits(block_bits), within), outer = within & ~block;
    const std::size_t size = std::size_t(1) << std::popcount(block), blocks = std::size_t(1) << std::popcount(outer);
    const int run_bits = std::min(std::countr_one(block), block_bits);
    const Index between = block & ~low_bits(run_bits);
    const auto all_blocks = [&](auto run) {
        ranges_on_threads(blocks, size >> block_bits ? 4 : blocks, [&](std::size_t first, std::size_t last) {
            for (std::size_t b = first; b < last; ++b) {
                Index offset = 0;
                const Index base = deposit(b, outer);
                for (std::size_t k = 0; k < size; k += run, offset = next_within(offset, between))
                    move(base | offset, b * size + k, run);
            }
        });
    };
    if (run_bits >= long_run_bits)
        all_blocks(std::size_t(1) << run_bits);
    else
        with_constant<long_run_bits>(
            run_bits, [&](auto bits) { all_blocks(std::integral_constant<std::size_t, (std::size_t(1) << bits)>()); });
}

template <class Complex>
void pack(const Complex* shard, Index base, Index within, Complex* out) {
    each_run(within, [=](Index offset, std::size_t first, auto run) { std::copy_n(shard + (base | offset), run, out + first); });
}

template <class Complex>
void unpack(const Complex* in, Complex* shard, Index base, Index within) {
    each_run(within, [=](Index offset, std::size_t first, auto run) { std::copy_n(in + first, run, shard + (base | offset)); });
}

// The two may be parts of one shard that have nothing in common.
template <class Complex>
void swap_parts(Complex* a, Index base_a, Complex* b, Index base_b, Index within) {
    each_run(within, [=](Index offset, std::size_t, auto run) {
        Complex* x = a + (base_a | offset);
        std::swap_ranges(x, x + run, b + (base_b | offset));
    });
}

}  // namespace qdist
