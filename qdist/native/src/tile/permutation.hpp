// Permutations of a tile's amplitudes: X, CX, SWAP and every product of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"

namespace qdist {

template <class Real>
class Permutation {
public:
    struct Flip {
        Bits when;
        std::size_t bits;
    };

    // Element i of the result is element source[i] ^ (the bits of all flips that hold) of the tile.
    Permutation(std::vector<std::uint32_t> source, std::vector<Flip> flips) : source_(std::move(source)), flips_(std::move(flips)) {
        constexpr std::size_t lanes = Simd<Real>::lanes;
        whole_vectors_ = source_.size() >= lanes;
        for (std::size_t i = 0; i < source_.size(); ++i) whole_vectors_ = whole_vectors_ && source_[i] == source_[i - i % lanes] + i % lanes;
        for (const Flip& f : flips_) whole_vectors_ = whole_vectors_ && f.bits % lanes == 0;
        size_ = source_.size();
        if (whole_vectors_) {
            // One source a vector is enough, and leaves room for the tile in the cache.
            for (std::size_t i = 0; i < size_; i += lanes) source_[i / lanes] = source_[i];
            source_.resize(size_ / lanes);
        }
    }

    void apply(const Real* re, const Real* im, Real* to_re, Real* to_im, std::size_t base) const {
        constexpr std::size_t lanes = Simd<Real>::lanes;
        const std::size_t flip = flip_at(base);
        if (whole_vectors_) {
            for (std::size_t i = 0; i < size_; i += lanes) {
                const std::size_t j = source_[i / lanes] ^ flip;
                store<Real>(to_re + i, load(re + j));
                store<Real>(to_im + i, load(im + j));
            }
            return;
        }
        for (std::size_t i = 0; i < size_; ++i) {
            const std::size_t j = source_[i] ^ flip;
            to_re[i] = re[j];
            to_im[i] = im[j];
        }
    }

    // Takes what apply() made back to what it was made of.
    void undo(const Real* re, const Real* im, Real* to_re, Real* to_im, std::size_t base) const {
        constexpr std::size_t lanes = Simd<Real>::lanes;
        const std::size_t flip = flip_at(base);
        if (whole_vectors_) {
            for (std::size_t i = 0; i < size_; i += lanes) {
                const std::size_t j = source_[i / lanes] ^ flip;
                store<Real>(to_re + j, load(re + i));
                store<Real>(to_im + j, load(im + i));
            }
            return;
        }
        for (std::size_t i = 0; i < size_; ++i) {
            const std::size_t j = source_[i] ^ flip;
            to_re[j] = re[i];
            to_im[j] = im[i];
        }
    }

private:
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
};

}  // namespace qdist
