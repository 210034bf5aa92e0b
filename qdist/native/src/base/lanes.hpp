// Rows of eight numbers in SIMD registers, by the compilers' portable vector types.
#pragma once
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bits.hpp"
#include "base/simd.hpp"

namespace qdist {

// Calls f with the constants 0 .. count - 1. GCC unrolls a loop only after scalar replacement, so an array would go to memory.
template <std::size_t count, class Function>
[[gnu::always_inline]] inline void unrolled(Function f) {
    [&]<std::size_t... k>(std::index_sequence<k...>) __attribute__((always_inline)) {
        (f(std::integral_constant<std::size_t, k>()), ...);
    }(std::make_index_sequence<count>());
}

// Some numbers, eight unless said otherwise, in as few registers as hold them.
template <class Real, std::size_t size = lanes>
struct Lanes {
    static constexpr std::size_t width = std::min<std::size_t>(size, vector_bytes / sizeof(Real));
    static constexpr std::size_t count = size / width;
    typedef Real Register __attribute__((vector_size(width * sizeof(Real))));
    Register part[count];

    [[gnu::always_inline]] static Lanes load(const Real* source) {
        Lanes result;
        unrolled<count>([&](auto k) __attribute__((always_inline)) { std::memcpy(&result.part[k], source + k * width, sizeof(Register)); });
        return result;
    }
    [[gnu::always_inline]] static Lanes all(Real number) {
        Lanes result;
        unrolled<count>([&](auto k) __attribute__((always_inline)) { result.part[k] = number - Register{}; });
        return result;
    }
    [[gnu::always_inline]] void store(Real* target) const {
        unrolled<count>([&](auto k) __attribute__((always_inline)) { std::memcpy(target + k * width, &part[k], sizeof(Register)); });
    }
};

template <class Real, std::size_t size>
[[gnu::always_inline]] inline Lanes<Real, size> operator+(Lanes<Real, size> a, const Lanes<Real, size>& b) {
    unrolled<a.count>([&](auto k) __attribute__((always_inline)) { a.part[k] += b.part[k]; });
    return a;
}

template <class Real, std::size_t size>
[[gnu::always_inline]] inline Lanes<Real, size> operator-(Lanes<Real, size> a, const Lanes<Real, size>& b) {
    unrolled<a.count>([&](auto k) __attribute__((always_inline)) { a.part[k] -= b.part[k]; });
    return a;
}

template <class Real, std::size_t size>
[[gnu::always_inline]] inline Lanes<Real, size> operator*(Lanes<Real, size> a, const Lanes<Real, size>& b) {
    unrolled<a.count>([&](auto k) __attribute__((always_inline)) { a.part[k] *= b.part[k]; });
    return a;
}

// Lane l of the result is lane l ^ flip.
template <Index flip, class Real, std::size_t size>
[[gnu::always_inline]] inline Lanes<Real, size> flipped(const Lanes<Real, size>& a) {
    constexpr std::size_t width = Lanes<Real, size>::width, inside = flip % width;
    Lanes<Real, size> result;
    unrolled<a.count>([&](auto k) __attribute__((always_inline)) {
        const auto source = a.part[k ^ flip / width];
        if constexpr (inside == 0)
            result.part[k] = source;
        else
            [&]<std::size_t... l>(std::index_sequence<l...>) __attribute__((always_inline)) {
                result.part[k] = __builtin_shufflevector(source, source, (l ^ inside)...);
            }(std::make_index_sequence<width>());
    });
    return result;
}

// Eight amplitudes as they lie in memory: real and imaginary parts interleaved.
template <class Real>
using Amplitudes = Lanes<Real, 2 * lanes>;

// Each of eight numbers twice; the first of the two with the other sign where it is for a product with i.
template <bool imaginary, class Real>
[[gnu::always_inline]] inline Amplitudes<Real> doubled(const Lanes<Real>& a) {
    constexpr std::size_t width = Amplitudes<Real>::width;
    Amplitudes<Real> result;
    unrolled<result.count>([&](auto k) __attribute__((always_inline)) {
        constexpr std::size_t first = k * width / 2, from = Lanes<Real>::width;
        const auto source = a.part[first / from];
        const auto other = imaginary ? -source : source;
        [&]<std::size_t... l>(std::index_sequence<l...>) __attribute__((always_inline)) {
            result.part[k] = __builtin_shufflevector(other, source, (first % from + l / 2 + l % 2 * from)...);
        }(std::make_index_sequence<width>());
    });
    return result;
}

// The real and imaginary parts of eight complex numbers, which are interleaved in memory.
template <class Real>
struct Split {
    Lanes<Real> re, im;

    [[gnu::always_inline]] static Split load(const Real* source) {
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

    [[gnu::always_inline]] void store(Real* target) const {
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
[[gnu::always_inline]] inline Split<Real> operator+(const Split<Real>& a, const Split<Real>& b) {
    return {a.re + b.re, a.im + b.im};
}

template <std::size_t size>
[[gnu::always_inline]] inline Lanes<double, size> widened(const Lanes<double, size>& a) {
    return a;
}

// Some numbers of a vector of twice as many as a register holds.
template <class Register, std::size_t start, class Wide, std::size_t... l>
[[gnu::always_inline]] inline Register part_of(Wide a, std::index_sequence<l...>) {
    return __builtin_shufflevector(a, a, (start + l)...);
}

template <std::size_t size>
[[gnu::always_inline]] inline Lanes<double, size> widened(const Lanes<float, size>& a) {
    using Result = Lanes<double, size>;
    using Register = typename Result::Register;
    constexpr std::size_t width = Result::width, parts = Lanes<float, size>::width / width;
    constexpr auto places = std::make_index_sequence<width>();
    static_assert(parts == 1 || parts == 2);
    typedef double Wide __attribute__((vector_size(Lanes<float, size>::width * sizeof(double))));
    Result result;
    unrolled<a.count>([&](auto k) __attribute__((always_inline)) {
        const Wide wide = __builtin_convertvector(a.part[k], Wide);
        result.part[k * parts] = part_of<Register, 0>(wide, places);
        if constexpr (parts == 2) result.part[k * parts + 1] = part_of<Register, width>(wide, places);
    });
    return result;
}

}  // namespace qdist
