// Rows of eight numbers in SIMD registers, by the compilers' portable vector types.
#pragma once
#include <algorithm>
#include <cstring>
#include <utility>

#include "bits.hpp"
#include "vector_bytes.hpp"

namespace qdist {

// Eight numbers, in as few registers as hold them.
template <class Real>
struct Lanes {
    static constexpr std::size_t width = std::min<std::size_t>(lanes, vector_bytes / sizeof(Real));
    static constexpr std::size_t count = lanes / width;
    typedef Real Register __attribute__((vector_size(width * sizeof(Real))));
    Register part[count];

    static Lanes load(const Real* source) {
        Lanes result;
        for (std::size_t k = 0; k < count; ++k) std::memcpy(&result.part[k], source + k * width, sizeof(Register));
        return result;
    }
    void store(Real* target) const {
        for (std::size_t k = 0; k < count; ++k) std::memcpy(target + k * width, &part[k], sizeof(Register));
    }
};

template <class Real>
inline Lanes<Real> operator+(Lanes<Real> a, const Lanes<Real>& b) {
    for (std::size_t k = 0; k < a.count; ++k) a.part[k] += b.part[k];
    return a;
}

template <class Real>
inline Lanes<Real> operator-(Lanes<Real> a, const Lanes<Real>& b) {
    for (std::size_t k = 0; k < a.count; ++k) a.part[k] -= b.part[k];
    return a;
}

template <class Real>
inline Lanes<Real> operator*(Lanes<Real> a, const Lanes<Real>& b) {
    for (std::size_t k = 0; k < a.count; ++k) a.part[k] *= b.part[k];
    return a;
}

// Lane l of the result is lane l ^ flip.
template <Index flip, class Real>
inline Lanes<Real> flipped(const Lanes<Real>& a) {
    constexpr std::size_t width = Lanes<Real>::width, inside = flip % width;
    Lanes<Real> result;
    for (std::size_t k = 0; k < a.count; ++k) {
        const auto source = a.part[k ^ flip / width];
        if constexpr (inside == 0)
            result.part[k] = source;
        else
            result.part[k] = [&]<std::size_t... l>(std::index_sequence<l...>) {
                return __builtin_shufflevector(source, source, (l ^ inside)...);
            }(std::make_index_sequence<width>());
    }
    return result;
}

// The real and imaginary parts of eight complex numbers, which lie in turn in memory.
template <class Real>
struct Split {
    Lanes<Real> re, im;

    static Split load(const Real* source) {
        const auto low = Lanes<Real>::load(source), high = Lanes<Real>::load(source + lanes);
        Split result;
        for (std::size_t k = 0; k < low.count; ++k) {
            // Parts 2 k and 2 k + 1 of what was loaded.
            const auto& from = 2 * k < low.count ? low : high;
            const std::size_t first = 2 * k % low.count;
            const auto a = from.part[first];
            const auto b = low.count == 1 ? high.part[0] : from.part[(first + 1) % low.count];
            [&]<std::size_t... l>(std::index_sequence<l...>) {
                result.re.part[k] = __builtin_shufflevector(a, b, (2 * l)...);
                result.im.part[k] = __builtin_shufflevector(a, b, (2 * l + 1)...);
            }(std::make_index_sequence<Lanes<Real>::width>());
        }
        return result;
    }

    void store(Real* target) const {
        Lanes<Real> out[2];
        constexpr std::size_t width = Lanes<Real>::width, count = Lanes<Real>::count;
        for (std::size_t k = 0; k < count; ++k) {
            const auto a = re.part[k], b = im.part[k];
            [&]<std::size_t... l>(std::index_sequence<l...>) {
                out[2 * k / count].part[2 * k % count] =
                    __builtin_shufflevector(a, b, (l / 2 + l % 2 * width)...);
                out[(2 * k + 1) / count].part[(2 * k + 1) % count] =
                    __builtin_shufflevector(a, b, (width / 2 + l / 2 + l % 2 * width)...);
            }(std::make_index_sequence<width>());
        }
        out[0].store(target);
        out[1].store(target + lanes);
    }
};

template <class Real>
inline Split<Real> operator+(const Split<Real>& a, const Split<Real>& b) {
    return {a.re + b.re, a.im + b.im};
}

inline Lanes<double> widened(const Lanes<double>& a) { return a; }

// Some numbers of a vector of twice as many as a register holds.
template <std::size_t start, class Wide, std::size_t... l>
inline Lanes<double>::Register part_of(Wide a, std::index_sequence<l...>) {
    return __builtin_shufflevector(a, a, (start + l)...);
}

inline Lanes<double> widened(const Lanes<float>& a) {
    constexpr std::size_t width = Lanes<double>::width, parts = Lanes<float>::width / width;
    constexpr auto places = std::make_index_sequence<width>();
    static_assert(parts == 1 || parts == 2);
    typedef double Wide __attribute__((vector_size(Lanes<float>::width * sizeof(double))));
    Lanes<double> result;
    for (std::size_t k = 0; k < Lanes<float>::count; ++k) {
        const Wide wide = __builtin_convertvector(a.part[k], Wide);
        result.part[k * parts] = part_of<0>(wide, places);
        if constexpr (parts == 2) result.part[k * parts + 1] = part_of<width>(wide, places);
    }
    return result;
}

}  // namespace qdist
