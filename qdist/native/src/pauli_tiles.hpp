// Tiles of a shard in split real and imaginary parts, and the passes of a PauliPlan over them.
#pragma once
#include <type_traits>
#include <vector>

#include "bits.hpp"
#include "lanes.hpp"
#include "pauli_plan.hpp"

namespace qdist {

template <class Real>
struct Tile {
    explicit Tile(std::size_t size) : re(size), im(size) {}
    std::vector<Real> re, im;
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
        each_run([&](Index offset, std::size_t start, std::size_t length) {
            const Real* a = shard + 2 * (base | offset);
            Real* re = tile.re.data() + start;
            Real* im = tile.im.data() + start;
            for (std::size_t k = 0; k < length; ++k) {
                re[k] = a[2 * k];
                im[k] = a[2 * k + 1];
            }
        });
    }

    template <class Real>
    void store(const Tile<Real>& tile, Index base, Real* shard) const {
        each_run([&](Index offset, std::size_t start, std::size_t length) {
            Real* a = shard + 2 * (base | offset);
            const Real* re = tile.re.data() + start;
            const Real* im = tile.im.data() + start;
            for (std::size_t k = 0; k < length; ++k) {
                a[2 * k] = re[k];
                a[2 * k + 1] = im[k];
            }
        });
    }

    std::size_t size;

private:
    template <class Function>
    void each_run(Function function) const {
        const std::size_t length = std::size_t(1) << run_bits_;
        Index offset = 0;
        for (std::size_t start = 0; start < size; start += length, offset = next_within(offset, run_mask_))
            function(offset, start, length);
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

// Calls f with the job's flip of the lanes, so that it becomes a fixed shuffle of registers, and its `imaginary` as
// constants.
template <class Function>
void specialised(const PauliJob& job, Function f) {
    const auto with_flip = [&](auto flip) {
        if (job.imaginary)
            f(flip, std::true_type());
        else
            f(flip, std::false_type());
    };
    switch (job.flip % lanes) {
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
