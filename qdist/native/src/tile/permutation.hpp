// Permutations of a tile's amplitudes: X, CX, SWAP and every product of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "tile/tiles.hpp"
#include "tile/vector_gather.hpp"

namespace qdist {

template <class Real>
class Permutation {
public:
    struct Flip {
        Bits when;
        std::size_t bits;
    };

    // Element i of the result is element source[i] ^ (the bits of all flips that hold) of the tile.
    Permutation(std::vector<std::uint32_t> source, std::vector<Flip> flips)
        : source_(std::move(source)), flips_(std::move(flips)) {
        constexpr std::size_t lanes = Simd<Real>::lanes;
        whole_vectors_ = source_.size() >= lanes;
        for (std::size_t i = 0; i < source_.size(); ++i)
            whole_vectors_ = whole_vectors_ && source_[i] == source_[i - i % lanes] + i % lanes;
        for (const Flip& f : flips_) whole_vectors_ = whole_vectors_ && f.bits % lanes == 0;
        size_ = source_.size();
        if (whole_vectors_) {
            // One source a vector is enough, and leaves room for the tile in the cache.
            for (std::size_t i = 0; i < size_; i += lanes) source_[i / lanes] = source_[i];
            source_.resize(size_ / lanes);
        } else if (forward_ = VectorGather<Real>(source_); forward_.fits()) {
            std::vector<std::uint32_t> inverse(size_);
            for (std::size_t i = 0; i < size_; ++i) inverse[source_[i]] = std::uint32_t(i);
            backward_ = VectorGather<Real>(inverse);
            for (std::size_t bit = 1; bit < size_; bit *= 2) undone_bits_.push_back(inverse[bit] ^ inverse[0]);
            source_ = {};
        }
    }

    void apply(Tile<Real> from, Tile<Real> to, std::size_t base) const {
        if (forward_.fits()) return forward_.run(from, to, flip_at(base));
        each(base, [=](std::size_t i, std::size_t source, auto copy) {
            copy(to.re + i, from.re + source), copy(to.im + i, from.im + source);
        });
    }

    // The inverse of apply().
    void undo(Tile<Real> from, Tile<Real> to, std::size_t base) const {
        if (backward_.fits()) {
            std::size_t flip = 0;
            each_bit(flip_at(base), [&](int bit) { flip ^= undone_bits_[bit]; });
            return backward_.run(from, to, flip);
        }
        each(base, [=](std::size_t i, std::size_t source, auto copy) {
            copy(to.re + source, from.re + i), copy(to.im + source, from.im + i);
        });
    }

private:
    // Calls f(element, its source, what copies there) for each element or vector of the tile.
    template <class F>
    void each(std::size_t base, F f) const {
        constexpr std::size_t lanes = Simd<Real>::lanes;
        const std::size_t flip = flip_at(base);
        if (whole_vectors_)
            for (std::size_t i = 0; i < size_; i += lanes)
                f(i, source_[i / lanes] ^ flip, [](Real* to, const Real* from) { store<Real>(to, load(from)); });
        else
            for (std::size_t i = 0; i < size_; ++i) f(i, source_[i] ^ flip, [](Real* to, const Real* from) { *to = *from; });
    }

    // What the flips that hold on a tile add to all sources.
    std::size_t flip_at(std::size_t base) const {
        std::size_t flip = 0;
        for (const Flip& f : flips_)
            if (f.when.holds(base)) flip ^= f.bits;
        return flip;
    }

    std::vector<std::uint32_t> source_;  // of each element, or of each vector
    std::vector<Flip> flips_;
    bool whole_vectors_;
    std::size_t size_;
    VectorGather<Real> forward_, backward_;    // where they fit
    std::vector<std::uint32_t> undone_bits_;  // what a flip of each bit is to the source of the inverse
};

}  // namespace qdist
