// The tiles of a stage: sets of amplitudes of a shard that differ in the stage's bits alone.
#pragma once
#include <algorithm>
#include <complex>
#include <vector>

#include "base/simd.hpp"

namespace qdist {

// A thread's buffer for tiles, kept between stages: an allocation would cost small states as much as a block does.
template <class Real>
Real* tile_room(std::size_t numbers) {
    thread_local AlignedVector<Real> room;
    if (room.size() < numbers) room.resize(numbers);
    return room.data();
}

// Where the tiles are that may hold anything but zeros, and how they are read and written as real and imaginary parts.
// Real: what a tile is computed in. Stored: what the state is made of, which may be less precise.
template <class Real, class Stored = Real>
class StageTiles {
public:
    // positions: the tile's bits, in order, the first `low` of which are 0, 1, 2, ... Outside the bits of `live`,
    // amplitudes may be nonzero only where the index agrees with `start`.
    StageTiles(const std::vector<int>& positions, int low, int num_bits, std::size_t start, std::size_t live)
        : elements(std::size_t(1) << std::max<int>(positions.size(), Simd<Real>::lane_bits)),
          width_(std::size_t(1) << low),
          ahead_(std::max<std::size_t>(1, 2048 / (width_ * sizeof(std::complex<Stored>)))),
          row_(std::size_t(1) << (positions.size() - low)) {
        const int t = int(positions.size());
        for (std::size_t r = 0; r < row_.size(); ++r)
            for (int k = low; k < t; ++k)
                if (r >> (k - low) & 1) row_[r] |= std::size_t(1) << positions[k];
        std::size_t inside = 0;
        for (int p : positions) inside |= std::size_t(1) << p;
        for (int p = 0; p < num_bits; ++p)
            if (~inside & live & std::size_t(1) << p) running_.push_back(p);
        fixed_ = start & ~live & ~inside;
        for (int k = 0; k < t; ++k)
            if (~(live | start) >> positions[k] & 1) dead_ |= std::size_t(1) << k;
    }

    std::size_t count() const { return std::size_t(1) << running_.size(); }

    // The index of a tile's first amplitude.
    std::size_t base(std::size_t tile) const {
        std::size_t index = fixed_;
        for (std::size_t k = 0; k < running_.size(); ++k)
            if (tile >> k & 1) index |= std::size_t(1) << running_[k];
        return index;
    }

    // state: at the tile's first amplitude.
    void load(const std::complex<Stored>* state, Real* re, Real* im) const {
        for (std::size_t r = 0; r < row_.size(); ++r) {
            prefetch_after(state, r);
            load_row(state + row_[r], re + r * width_, im + r * width_);
        }
    }
    // For callers that load rows themselves: the address of element `i`. Elements up to the next multiple of width() follow
    // it; the row after is prefetched.
    const Stored* row_at(const std::complex<Stored>* state, std::size_t i) const {
        if (i % width_ == 0) prefetch_after(state, i / width_);
        return reinterpret_cast<const Stored*>(state + row_[i / width_] + i % width_);
    }
    std::size_t width() const { return width_; }
    void store(std::complex<Stored>* state, const Real* re, const Real* im) const { store_rows(state, re, im, row_.size()); }
    // The same of that part of the tile that has zeros above its lowest `bits` bits, or of a little more.
    void store(std::complex<Stored>* state, const Real* re, const Real* im, int bits) const {
        store_rows(state, re, im, std::max<std::size_t>(1, (std::size_t(1) << bits) / width_));
    }

    // Dead bits: those of the tile that are 0 in every nonzero amplitude.
    std::size_t dead() const { return dead_; }

    // Numbers of a tile's real parts; never fewer than a vector has.
    const std::size_t elements;

private:
    // Software prefetch, a few rows ahead: rows are too short for the hardware prefetcher, and prefetching the whole tile
    // would evict parts of it, since addresses that differ by powers of two map to the same cache sets.
    void prefetch_after(const std::complex<Stored>* state, std::size_t r) const {
        if (r + ahead_ < row_.size()) prefetch_row(state + row_[r + ahead_]);
    }

    void prefetch_row(const std::complex<Stored>* row) const {
        constexpr std::size_t line = 64 / sizeof(std::complex<Stored>);
        for (std::size_t i = 0; i < width_; i += line) __builtin_prefetch(row + i, 1, 3);
    }

    void load_row(const std::complex<Stored>* from, Real* re, Real* im) const {
        const Stored* x = reinterpret_cast<const Stored*>(from);
        if (width_ < Simd<Real>::lanes) {
            // A state smaller than a vector: the rest of it is zeros.
            std::fill_n(re, elements, Real(0));
            std::fill_n(im, elements, Real(0));
            for (std::size_t i = 0; i < width_; ++i) re[i] = x[2 * i], im[i] = x[2 * i + 1];
            return;
        }
        for (std::size_t i = 0; i < width_; i += Simd<Real>::lanes) {
            Vec<Real> a, b;
            load_split(x + 2 * i, a, b);
            qdist::store<Real>(re + i, a);
            qdist::store<Real>(im + i, b);
        }
    }

    void store_rows(std::complex<Stored>* state, const Real* re, const Real* im, std::size_t count) const {
        for (std::size_t r = 0; r < count; ++r) store_row(state + row_[r], re + r * width_, im + r * width_);
    }

    void store_row(std::complex<Stored>* to, const Real* re, const Real* im) const {
        Stored* x = reinterpret_cast<Stored*>(to);
        if (width_ < Simd<Real>::lanes) {
            for (std::size_t i = 0; i < width_; ++i) x[2 * i] = Stored(re[i]), x[2 * i + 1] = Stored(im[i]);
            return;
        }
        for (std::size_t i = 0; i < width_; i += Simd<Real>::lanes)
            store_interleaved(x + 2 * i, qdist::load(re + i), qdist::load(im + i));
    }

    std::size_t width_, ahead_, fixed_, dead_ = 0;
    std::vector<std::size_t> row_;
    std::vector<int> running_;
};

}  // namespace qdist
