// Tiles of a shard: sets of amplitudes that differ in some bits of the index alone, copied into cache and back.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "base/caches.hpp"
#include "base/simd.hpp"

namespace qdist {

// A tile in cache: real parts and imaginary parts, so that arithmetic on whole vectors needs no shuffles.
template <class Real>
struct Tile {
    Real *re, *im;
};

// The tiles of a ket and of a bra, and room for one more tile.
template <class Real>
struct TilePair {
    Tile<Real> ket, bra, other;
};

// A thread's buffer for tiles, kept between passes: an allocation would cost small states as much as a block does.
template <class Real>
Real* tile_room(std::size_t numbers) {
    thread_local AlignedVector<Real> room;
    if (room.size() < numbers) room.resize(numbers);
    return room.data();
}

// The elements of a tile at which a block works: some bits have given values, and the loop runs over the others.
class Runs {
public:
    // fixed: those bits; value: theirs. Runs are no shorter than 2^floor: no bit below is fixed.
    Runs(int t, std::span<const int> fixed, std::size_t value, int floor) : value_(value) {
        for (int bit : fixed) mask_ |= std::size_t(1) << bit;
        length_ = std::size_t(1) << (fixed.empty() ? t : std::max(std::countr_zero(mask_), floor));
        count_ = std::size_t(1) << t >> fixed.size();
    }

    // f(first, length): elements first .. first + length of the tile. Inlined by force: what f holds, sums and numbers of a
    // matrix, stays in registers then.
    template <class F>
    QDIST_INLINE void each(F&& f) const {
        const std::size_t length = std::min(length_, count_);
        // With ones at the fixed bits a carry goes through them.
        for (std::size_t r = 0, i = 0; r < count_; r += length_, i = ((i | mask_) + length_) & ~mask_) f(i | value_, length);
    }

    // Leaves out what is not zero in so many of the highest bits, none of which is fixed.
    void narrow(int highest) { count_ >>= highest; }

private:
    std::size_t mask_ = 0, value_, length_, count_;
};

// Inlined by force: to g++ a function that does nothing else has no effects, and it drops calls of it.
template <int write, class Number>
QDIST_INLINE inline void prefetch(const Number* first, std::size_t count) {
    for (std::size_t k = 0; k < count; k += 64 / sizeof(Number)) __builtin_prefetch(first + k, write, 3);
}

// Where the tiles of a pass are. Amplitude i of a shard is its numbers 2 i and 2 i + 1; `first` below is where those of a
// tile's first amplitude are. A shard may be stored in less precision than its tiles are computed in.
class TileGrid {
public:
    // positions: the tile's bits, in order. outer: the bits that number the tiles; all others are zero.
    TileGrid(std::span<const int> positions, Index outer) : size(std::size_t(1) << positions.size()), outer_(outer) {
        while (low_ < positions.size() && positions[low_] == int(low_)) ++low_;
        width_ = std::size_t(1) << low_;
        runs_ = all_scattered(positions.subspan(low_));
    }

    std::size_t count() const { return std::size_t(1) << std::popcount(outer_); }
    // The index of a tile's first amplitude.
    Index base(std::size_t tile) const { return deposit(tile, outer_); }
    // Amplitudes that follow each other in memory.
    std::size_t width() const { return width_; }
    // Numbers of a tile's real parts in cache; never fewer than a vector has.
    template <class Real>
    std::size_t elements() const {
        return std::max(size, Simd<Real>::lanes);
    }

    // Of how many tiles that are neighbours in memory the rows are best loaded together, in bits of their number. A tile's own
    // may be shorter than memory is fastest at: one Neoverse-N1 core loads 128 bytes a row at 7.5 GB/s and 512 at 12, and stores
    // them at 13 and 17, 1024 at 24. bytes: of what is held for each tile; together they stay in the second-level cache. pieces:
    // into how many the tiles must still be divided, as those that are loaded together are one thread's.
    static constexpr std::size_t most_together = 8;
    template <class Stored>
    int bits_together(std::size_t bytes, std::size_t pieces) const {
        constexpr std::size_t row_bytes = 1024, held_bytes = 1 << 18;
        int bits = 0;
        const auto fits = [&](int more) {
            return (bytes << more) <= held_bytes && std::size_t(1) << more <= most_together && count() >> more >= pieces;
        };
        while ((2 * sizeof(Stored) * width_ << bits) < row_bytes && outer_ >> (low_ + bits) & 1 && fits(bits + 1)) ++bits;
        return bits;
    }

    // The tile at `first` and those after it, as many as there are.
    template <class Real, class Stored>
    void load(const Stored* first, std::span<const Tile<Real>> tiles) const {
        each_run<1>(first, tiles.size(), [&](std::size_t element, const Stored* x) {
            for (const Tile<Real>& tile : tiles) {
                load_run(x, tile.re + element, tile.im + element);
                x += 2 * width_;
            }
        });
    }
    // The same where amplitudes whose index has a 1 at a bit of `zeros` count as zeros: what is in memory there is not used, and
    // rows of them are not read.
    template <class Real, class Stored>
    void load_beside(Index zeros, const Stored* first, std::span<const Tile<Real>> tiles) const {
        for (std::size_t r = 0; r < runs_.size(); ++r) {
            const Stored* x = first + 2 * runs_[r];
            for (const Tile<Real>& tile : tiles) {
                Real *const re = tile.re + r * width_, *const im = tile.im + r * width_;
                if (runs_[r] & zeros) {
                    std::fill_n(re, std::max(width_, Simd<Real>::lanes), Real(0));
                    std::fill_n(im, std::max(width_, Simd<Real>::lanes), Real(0));
                } else {
                    load_run(x, re, im);
                    if (zeros & (width_ - 1))
                        for (std::size_t i = 0; i < width_; ++i)
                            if (i & zeros) re[i] = im[i] = 0;
                }
                x += 2 * width_;
            }
        }
    }
    template <class Real, class Stored>
    void load(const Stored* first, Tile<Real> tile) const {
        load<Real>(first, std::span<const Tile<Real>>(&tile, 1));
    }

    // Whether the rows of a shard's tiles are best stored past the caches. Where too many of them share the same sets of a
    // second-level cache (128 KiB apart, 16 lines each), none is there any more when it is stored, and an ordinary store reads it
    // again: a third of all that is moved. But a state that the caches hold should stay there. num_bits: of all that is swept.
    template <class Stored>
    bool streams(const Stored* shard, int num_bits) const {
        constexpr std::size_t same_sets = 1 << 17, ways = 16, alignment = 64;
        if constexpr (!has_streaming_stores) return false;
        if (2 * sizeof(Stored) << num_bits <= beyond_caches || 2 * sizeof(Stored) * width_ < alignment) return false;
        if (reinterpret_cast<std::uintptr_t>(shard) % alignment) return false;
        const auto meets_first = [](Index run) { return 2 * sizeof(Stored) * run % same_sets == 0; };
        return std::size_t(std::count_if(runs_.begin(), runs_.end(), meets_first)) > ways;
    }

    // Stores the first `elements` of each tile, or a little more. streams: past the caches.
    template <class Real, class Stored>
    void store(Stored* first, std::span<const Tile<Real>> tiles, std::size_t elements, bool streams = false) const {
        if (has_streaming_stores && streams) {
            store_runs<true>(first, tiles, elements);
            finish_streaming_stores();
        } else
            store_runs<false>(first, tiles, elements);
    }
    template <class Real, class Stored>
    void store(Stored* first, Tile<Real> tile, std::size_t elements) const {
        store<Real>(first, std::span<const Tile<Real>>(&tile, 1), elements);
    }

    // The tile as it lies in memory, interleaved, where it has no gaps; else copied to `room`. For rows of eight and more.
    template <class Real>
    const Real* interleaved(const Real* first, Real* room) const {
        if (runs_.size() == 1) return first;
        each_run<0>(first, 1, [&](std::size_t element, const Real* x) {
            for (std::size_t k = 0; k < 2 * width_; k += 2 * lanes) Amplitudes<Real>::load(x + k).store(room + 2 * element + k);
        });
        return room;
    }

    // For callers that load runs themselves: where element `i` is. Those up to the next multiple of width() follow it.
    template <class Stored>
    const Stored* at(const Stored* first, std::size_t i) const {
        const std::size_t within = i & (width_ - 1);
        if (within == 0) prefetch_after<1>(first, i >> low_, 1);
        return first + 2 * (runs_[i >> low_] + within);
    }

    const std::size_t size;

private:
    template <class Real, class Stored>
    void load_run(const Stored* x, Real* re, Real* im) const {
        if (width_ < Simd<Real>::lanes) {
            // A state smaller than a vector: the rest of it is zeros.
            std::fill_n(re, Simd<Real>::lanes, Real(0));
            std::fill_n(im, Simd<Real>::lanes, Real(0));
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
    template <bool streams, class Real, class Stored>
    void store_runs(Stored* first, std::span<const Tile<Real>> tiles, std::size_t elements) const {
        for (std::size_t r = 0; r < std::max<std::size_t>(1, elements >> low_); ++r) {
            Stored* x = first + 2 * runs_[r];
            for (const Tile<Real>& tile : tiles) {
                store_run<streams>(x, tile.re + r * width_, tile.im + r * width_);
                x += 2 * width_;
            }
        }
    }
    template <bool streams, class Real, class Stored>
    void store_run(Stored* x, const Real* re, const Real* im) const {
        if (width_ < Simd<Real>::lanes)
            for (std::size_t i = 0; i < width_; ++i) x[2 * i] = Stored(re[i]), x[2 * i + 1] = Stored(im[i]);
        else
            for (std::size_t i = 0; i < width_; i += Simd<Real>::lanes)
                store_interleaved<streams>(x + 2 * i, qdist::load(re + i), qdist::load(im + i));
    }

    // Calls f(first element, where it is) for each run of neighbours, of so many tiles.
    template <int write, class Stored, class F>
    void each_run(const Stored* first, std::size_t tiles, F f) const {
        for (std::size_t r = 0; r < runs_.size(); ++r) {
            prefetch_after<write>(first, r, tiles);
            f(r * width_, first + 2 * runs_[r]);
        }
    }

    // Software prefetch, a few runs ahead: runs are too short for the hardware prefetcher, and prefetching the whole tile
    // would evict parts of it, since addresses that differ by powers of two map to the same cache sets.
    template <int write, class Stored>
    QDIST_INLINE void prefetch_after(const Stored* first, std::size_t r, std::size_t tiles) const {
        const std::size_t ahead = std::max<std::size_t>(1, 1024 / sizeof(Stored) / tiles >> low_);
        if (r + ahead < runs_.size()) prefetch<write>(first + 2 * runs_[r + ahead], 2 * width_ * tiles);
    }

    Index outer_;
    std::size_t low_ = 0, width_;
    std::vector<Index> runs_;  // the offset of each
};

}  // namespace qdist
