// Maxima over windows of images, and their derivative.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/simd.hpp"

namespace qdist {

struct Window {
    std::size_t kernel[2], stride[2];
};

// One image: rows `step` numbers apart, numbers of a row beside each other.
template <class Number>
struct Plane {
    Number* first;
    std::ptrdiff_t step;
    std::size_t height, width;

    Number* row(std::size_t r) const { return first + std::ptrdiff_t(r) * step; }
};

// best = the largest number of each window (NaN where there is one), winner = the place in the window, row by row, of the
// first such number. height, width: the window's where they are constants, which unrolls its loops; else 0.
template <std::size_t height, std::size_t width, class Real>
void max_pool(const Plane<const Real>& x, const Window& window, const Plane<Real>& best, const Plane<std::uint8_t>& winner) {
    const std::size_t rows = height ? height : window.kernel[0], columns = width ? width : window.kernel[1];
    for (std::size_t oy = 0; oy < best.height; ++oy) {
        const Real* const first = x.row(oy * window.stride[0]);
        Real* const largest = best.row(oy);
        std::uint8_t* const places = winner.row(oy);
        for (std::size_t ox = 0; ox < best.width; ++ox) {
            const Real* row = first + ox * window.stride[1];
            Real most = *row;
            // Without branches on what is larger, which nobody could predict.
            std::size_t found = 0, invalid = 0;
            for (std::size_t i = 0; i < rows; ++i, row += x.step)
                for (std::size_t j = 0; j < columns; ++j) {
                    const Real candidate = row[j];
                    const std::size_t is_larger = candidate > most;
                    found += is_larger * (i * columns + j - found);
                    most = candidate > most ? candidate : most;
                    invalid |= std::size_t(candidate != candidate);
                }
            largest[ox] = invalid ? std::numeric_limits<Real>::quiet_NaN() : most;
            places[ox] = std::uint8_t(found);
        }
    }
}

// The same for windows of 2 x 2 numbers that touch, as many of a row at a time as a vector has lanes.
template <class Real>
void max_pool_pairs(const Plane<const Real>& x, const Plane<Real>& best, const Plane<std::uint8_t>& winner) {
    using V = Vec<Real>;
    constexpr std::size_t lanes = Simd<Real>::lanes;
    typedef std::uint8_t Bytes __attribute__((vector_size(lanes)));
    const auto some = [&](std::size_t oy, std::size_t ox, auto count) QDIST_INLINE {
        V numbers[4];
        for (std::size_t i = 0; i < 2; ++i) {
            V pairs[2] = {};
            std::memcpy(pairs, x.row(2 * oy + i) + 2 * ox, 2 * count * sizeof(Real));
            numbers[2 * i] = shuffled<lanes>(pairs[0], pairs[1], [](std::size_t l) { return 2 * l; });
            numbers[2 * i + 1] = shuffled<lanes>(pairs[0], pairs[1], [](std::size_t l) { return 2 * l + 1; });
        }
        V most = numbers[0];
        LaneMask<Real> places = {}, invalid = most != most;
        for (int place = 1; place < 4; ++place) {
            const V candidate = numbers[place];
            const LaneMask<Real> larger = candidate > most;
            most = larger ? candidate : most;
            places = larger ? LaneMask<Real>{} + place : places;
            invalid |= candidate != candidate;
        }
        most = invalid ? splat(std::numeric_limits<Real>::quiet_NaN()) : most;
        const Bytes bytes = __builtin_convertvector(places, Bytes);
        std::memcpy(best.row(oy) + ox, &most, count * sizeof(Real));
        std::memcpy(winner.row(oy) + ox, &bytes, count);
    };
    for (std::size_t oy = 0; oy < best.height; ++oy) {
        std::size_t ox = 0;
        for (; ox + lanes <= best.width; ox += lanes) some(oy, ox, std::integral_constant<std::size_t, lanes>());
        if (ox < best.width) some(oy, ox, best.width - ox);
    }
}

template <class Real>
void max_pool(const Plane<const Real>& x, const Window& window, const Plane<Real>& best, const Plane<std::uint8_t>& winner) {
    if (window.kernel[0] == 2 && window.kernel[1] == 2 && window.stride[0] == 2 && window.stride[1] == 2)
        max_pool_pairs(x, best, winner);
    else if (window.kernel[0] == 2 && window.kernel[1] == 2)
        max_pool<2, 2>(x, window, best, winner);
    else if (window.kernel[0] == 3 && window.kernel[1] == 3)
        max_pool<3, 3>(x, window, best, winner);
    else
        max_pool<0, 0>(x, window, best, winner);
}

// Adds each output's cotangent to that of the number it came from. Places must be within the window.
template <class Real>
void max_pool_back(const Plane<const Real>& g, const Plane<const std::uint8_t>& winner, const Window& window,
                   const Plane<Real>& x) {
    std::ptrdiff_t offsets[256];
    for (std::size_t place = 0; place < window.kernel[0] * window.kernel[1]; ++place)
        offsets[place] = std::ptrdiff_t(place / window.kernel[1]) * x.step + std::ptrdiff_t(place % window.kernel[1]);
    for (std::size_t oy = 0; oy < g.height; ++oy) {
        Real* corner = x.row(oy * window.stride[0]);
        const Real* cotangents = g.row(oy);
        const std::uint8_t* places = winner.row(oy);
        for (std::size_t ox = 0; ox < g.width; ++ox, corner += window.stride[1]) corner[offsets[places[ox]]] += cotangents[ox];
    }
}

}  // namespace qdist
