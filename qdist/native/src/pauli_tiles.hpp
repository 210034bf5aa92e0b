// Tiles of a shard, split into real and imaginary parts, and what the passes of a PauliPlan share.
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

#include "bits.hpp"
#include "lanes.hpp"
#include "pauli_plan.hpp"

namespace qdist {

// Amplitudes in rows of eight real parts and eight imaginary parts.
template <class Real>
struct Rows {
    Real* numbers;

    Split<std::remove_const_t<Real>> operator[](Index r) const {
        const Real* a = numbers + 2 * lanes * r;
        return {Lanes<std::remove_const_t<Real>>::load(a), Lanes<std::remove_const_t<Real>>::load(a + lanes)};
    }

    void set(Index r, const Split<Real>& row) const {
        Real* a = numbers + 2 * lanes * r;
        row.re.store(a);
        row.im.store(a + lanes);
    }
};

template <class Real>
class Tile {
public:
    explicit Tile(std::size_t size) : numbers_(2 * size) {}
    Rows<const Real> rows() const { return {numbers_.data()}; }
    Rows<Real> rows() { return {numbers_.data()}; }

private:
    std::vector<Real> numbers_;
};

// Where the amplitudes of a pass's tiles are.
class TileGrid {
public:
    TileGrid(int bits, const PauliPass& pass) {
        run_bits_ = std::countr_one(pass.tile);
        run_mask_ = pass.tile & ~low_bits(run_bits_);
        outer_ = low_bits(bits) & ~pass.tile;
        size = std::size_t(1) << std::popcount(pass.tile);
    }

    // For pairs of tiles: count only those with the highest bit of `far` 0, their partners come with them.
    void halve(Index far) { outer_ &= ~std::bit_floor(far); }

    std::size_t count() const { return std::size_t(1) << std::popcount(outer_); }
    Index base(std::size_t tile) const { return deposit(tile, outer_); }

    template <class Real>
    void load(const Real* shard, Index base, Tile<Real>& tile) const {
        const Rows<Real> rows = tile.rows();
        each_run([&](Index offset, Index row, Index count) {
            const Real* a = shard + 2 * (base | offset);
            for (Index k = 0; k < count; ++k) rows.set(row + k, Split<Real>::load(a + 2 * lanes * k));
        });
    }

    template <class Real>
    void store(const Tile<Real>& tile, Index base, Real* shard) const {
        const Rows<const Real> rows = tile.rows();
        each_run([&](Index offset, Index row, Index count) {
            Real* a = shard + 2 * (base | offset);
            for (Index k = 0; k < count; ++k) rows[row + k].store(a + 2 * lanes * k);
        });
    }

    // Adds a tile to what is there.
    template <class Real>
    void add(const Tile<Real>& tile, Index base, Real* shard) const {
        const Rows<const Real> rows = tile.rows();
        each_run([&](Index offset, Index row, Index count) {
            Real* a = shard + 2 * (base | offset);
            for (Index k = 0; k < count; ++k) {
                const auto there = Split<Real>::load(a + 2 * lanes * k), more = rows[row + k];
                Split<Real>{there.re + more.re, there.im + more.im}.store(a + 2 * lanes * k);
            }
        });
    }

    // Asks for the amplitudes of a tile that will be loaded next: its runs are too short for the hardware to guess.
    template <class Real>
    void prefetch(const Real* shard, Index base) const {
        each_run([&](Index offset, Index, Index rows) {
            const char* a = reinterpret_cast<const char*>(shard + 2 * (base | offset));
            for (std::size_t k = 0; k < 2 * lanes * rows * sizeof(Real); k += 64) __builtin_prefetch(a + k, 0, 2);
        });
    }

    std::size_t size;

private:
    // Calls f(offset, first row, rows) for each run of neighbours.
    template <class Function>
    void each_run(Function f) const {
        const Index rows = Index(1) << (run_bits_ - lane_bits);
        Index offset = 0;
        for (Index row = 0; row * lanes < size; row += rows, offset = next_within(offset, run_mask_))
            f(offset, row, rows);
    }

    int run_bits_;
    Index run_mask_, outer_;
};

// In-place Walsh-Hadamard transform over the slots, a row of lanes each.
template <class Real>
void transform_slots(Real* slots, std::size_t count) {
    for (std::size_t h = 1; h < count; h *= 2)
        for (std::size_t i = 0; i < count; i += 2 * h) {
            Real* a = slots + i * lanes;
            Real* b = a + h * lanes;
            for (std::size_t k = 0; k < h * lanes; k += lanes) {
                const auto u = Lanes<Real>::load(a + k), v = Lanes<Real>::load(b + k);
                (u + v).store(a + k);
                (u - v).store(b + k);
            }
        }
}

// Calls f with a flip of the lanes, so that it becomes a fixed shuffle of registers, and with `imaginary` as constants.
template <class Function>
void specialised(Index lane_flip, bool imaginary, Function f) {
    const auto with_flip = [&](auto flip) {
        if (imaginary)
            f(flip, std::true_type());
        else
            f(flip, std::false_type());
    };
    switch (lane_flip) {
        case 0: return with_flip(std::integral_constant<Index, 0>());
        case 1: return with_flip(std::integral_constant<Index, 1>());
        case 2: return with_flip(std::integral_constant<Index, 2>());
        case 3: return with_flip(std::integral_constant<Index, 3>());
        case 4: return with_flip(std::integral_constant<Index, 4>());
        case 5: return with_flip(std::integral_constant<Index, 5>());
        case 6: return with_flip(std::integral_constant<Index, 6>());
        default: return with_flip(std::integral_constant<Index, 7>());
    }
}

}  // namespace qdist
