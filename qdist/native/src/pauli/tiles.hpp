// Tiles of a shard, split into real and imaginary parts, and what the passes of a PauliPlan share.
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/bits.hpp"
#include "base/lanes.hpp"
#include "pauli/plan.hpp"

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

// Prefetches consecutive rows of amplitudes, to read them or to write them too.
template <int write, class Real>
void prefetch(const Real* row, std::size_t count) {
    for (std::size_t k = 0; k < 2 * lanes * count; k += 64 / sizeof(Real)) __builtin_prefetch(row + k, write, 3);
}

// Where the amplitudes of a pass's tiles are.
class TileGrid {
public:
    // Rows to prefetch ahead: runs of neighbours are too short for the hardware prefetcher, and prefetching a whole tile
    // evicts parts of it, since addresses that differ by powers of two map to the same cache sets.
    static constexpr std::size_t ahead = 32;

    TileGrid(int bits, const PauliPass& pass) : size(std::size_t(1) << std::popcount(pass.tile)), rows(size / lanes) {
        outer_ = low_bits(bits) & ~pass.tile;
        run_rows_ = std::size_t(1) << (std::countr_one(pass.tile) - lane_bits);
        for (Index row = 0; row < rows; ++row) offsets_.push_back(deposit(row * lanes, pass.tile));
        offsets_.resize(rows + ahead);
    }

    // For pairs of tiles: count only those with the highest bit of `far` 0, their partners come with them.
    void halve(Index far) { outer_ &= ~std::bit_floor(far); }

    std::size_t count() const { return std::size_t(1) << std::popcount(outer_); }
    Index base(std::size_t tile) const { return deposit(tile, outer_); }

    // Where the rows begin, seen from a tile's first amplitude; `ahead` more than there are.
    const Index* offsets() const { return offsets_.data(); }

    template <class Real>
    void load(const Real* shard, Index base, Tile<Real>& tile) const {
        const Real* first = shard + 2 * base;
        const Rows<Real> out = tile.rows();
        const Index* offsets = offsets_.data();
        const std::size_t run = run_rows_;
        for (std::size_t row = 0; row < rows; row += run) {
            const Real* a = first + 2 * offsets[row];
            for (std::size_t k = 0; k < run; ++k) out.set(row + k, Split<Real>::load(a + 2 * lanes * k));
            if (run < ahead) prefetch<0>(first + 2 * offsets[row + ahead], run);
        }
    }

    // The amplitudes of a tile as they lie in memory, where they have no gaps; else copied, in order, to `room`.
    template <class Real>
    const Real* gathered(const Real* shard, Index base, std::vector<Real>& room) const {
        const Real* first = shard + 2 * base;
        if (run_rows_ == rows) return first;
        const std::size_t run = run_rows_;
        for (std::size_t row = 0; row < rows; row += run) {
            for (std::size_t k = 0; k < run; ++k)
                Amplitudes<Real>::load(first + 2 * (offsets_[row] + lanes * k)).store(room.data() + 2 * lanes * (row + k));
            if (run < ahead) prefetch<0>(first + 2 * offsets_[row + ahead], run);
        }
        return room.data();
    }

    const std::size_t size, rows;

private:
    std::vector<Index> offsets_;
    Index outer_;
    std::size_t run_rows_;
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

// Calls f with a flip of the lanes, so that it becomes a fixed shuffle of registers, and with `imaginary` as constants. A
// switch inlines f into each case; through with_constant expectation values take an eighth longer.
template <class Function>
[[gnu::always_inline]] inline void specialised(Index lane_flip, bool imaginary, Function f) {
    const auto with_flip = [&](auto flip) __attribute__((always_inline)) {
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
