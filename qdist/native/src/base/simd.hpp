// Vectors through the compilers' extensions: one source for NEON, SSE and AVX.
//
// Vec is one register, Lanes as few of them as hold a given count of numbers. What depends on an instruction set is here:
// the width of a register, and shuffles that compilers turn into its own.
#pragma once
#ifdef __x86_64__
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bits.hpp"

// For lambdas in hot loops, whose vectors would go through memory if they became calls.
#define QDIST_INLINE __attribute__((always_inline))

namespace qdist {

// Vectors of the instruction set that this is compiled for: how many there are, and their width.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int num_registers = 32;
#else
inline constexpr int num_registers = 16;
#endif
// Whether a vector can be multiplied by a number that is in a lane of another.
#ifdef __aarch64__
inline constexpr bool multiplies_by_lanes = true;
#else
inline constexpr bool multiplies_by_lanes = false;
#endif
#if defined(__AVX512F__)
inline constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t vector_bytes = 32;
#else
inline constexpr std::size_t vector_bytes = 16;
#endif

template <class Real, std::size_t size = vector_bytes / sizeof(Real)>
struct Simd {
    static constexpr std::size_t lanes = size;
    static constexpr int lane_bits = std::countr_zero(size);
    typedef Real type __attribute__((vector_size(size * sizeof(Real))));
};

template <class Real, std::size_t size = Simd<Real>::lanes>
using Vec = typename Simd<Real, size>::type;

template <class Real>
inline Vec<Real> load(const Real* p) {
    return *reinterpret_cast<const Vec<Real>*>(p);
}

template <class Real>
inline void store(Real* p, Vec<Real> v) {
    *reinterpret_cast<Vec<Real>*>(p) = v;
}

// From memory that is aligned to its elements alone.
template <class V, class Real>
inline V load_unaligned(const Real* p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

template <class Real>
inline Vec<Real> splat(Real x) {
    return x - Vec<Real>{};
}

// A vector of `size` numbers: lane l is number place(l) of those of a and b together. place: a lambda without captures.
template <std::size_t size, class V, class Place>
QDIST_INLINE inline auto shuffled(V a, V b, Place) {
    return [&]<std::size_t... l>(std::index_sequence<l...>)
               QDIST_INLINE { return __builtin_shufflevector(a, b, Place()(l)...); }(std::make_index_sequence<size>());
}

// Lane l of the result is lane l ^ X of v.
template <std::size_t X, class V>
QDIST_INLINE inline V lane_xor(V v) {
    if constexpr (X == 0) return v;
    return shuffled<sizeof(V) / sizeof(v[0])>(v, v, [](std::size_t l) { return l ^ X; });
}

// For a blend of two vectors: all ones where the first is taken.
template <class Real>
using LaneMask = Vec<std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>>;

// A permutation of a vector's lanes that is known at run time.
template <class Real>
class LaneOrder {
public:
#if defined(__AVX512F__)
    static constexpr std::size_t unit = sizeof(Real);  // bytes that the instruction moves together
#elif defined(__AVX2__)
    static constexpr std::size_t unit = 4;
#else
    static constexpr std::size_t unit = 1;
#endif
#if defined(__SSSE3__) || (defined(__ARM_NEON) && defined(__aarch64__))
    static constexpr bool available = true;
#else
    static constexpr bool available = false;
#endif

    // Lane l of the result is lane place(l).
    template <class Place>
    explicit LaneOrder(Place place) {
        constexpr std::size_t units = sizeof(Real) / unit;
        for (std::size_t k = 0; k < vector_bytes / unit; ++k) units_[k] = Unit(place(k / units) * units + k % units);
    }

    QDIST_INLINE Vec<Real> of(Vec<Real> v) const {
#if defined(__AVX512F__)
        const __m512i order = _mm512_load_si512(units_);
        if constexpr (sizeof(Real) == 4) return Vec<Real>(_mm512_permutexvar_ps(order, __m512(v)));
        if constexpr (sizeof(Real) == 8) return Vec<Real>(_mm512_permutexvar_pd(order, __m512d(v)));
#elif defined(__AVX2__)
        return Vec<Real>(_mm256_permutevar8x32_ps(__m256(v), *reinterpret_cast<const __m256i*>(units_)));
#elif defined(__SSSE3__)
        return Vec<Real>(_mm_shuffle_epi8(__m128i(v), *reinterpret_cast<const __m128i*>(units_)));
#elif defined(__ARM_NEON) && defined(__aarch64__)
        return Vec<Real>(vqtbl1q_u8(uint8x16_t(v), vld1q_u8(units_)));
#endif
        return v;
    }

private:
    using Unit = std::conditional_t<unit == 1, std::uint8_t, std::conditional_t<unit == 4, std::uint32_t, std::uint64_t>>;
    alignas(vector_bytes) Unit units_[vector_bytes / unit];
};

// The same numbers in another precision. GCC 12 converts those of AVX-512 half a register at a time unless told otherwise.
template <class To, class From>
QDIST_INLINE inline To converted(From v) {
#if defined(__AVX512F__)
    if constexpr (sizeof(To) == 64 && sizeof(From) == 32) return To(_mm512_cvtps_pd(__m256(v)));
    if constexpr (sizeof(To) == 32 && sizeof(From) == 64) return To(_mm512_cvtpd_ps(__m512d(v)));
#endif
    return __builtin_convertvector(v, To);
}

// The sum of a vector's numbers, in double: of halves, of their halves, and so on.
template <class V>
QDIST_INLINE inline double lane_sum(V v) {
    constexpr std::size_t half = sizeof(V) / sizeof(v[0]) / 2;
    if constexpr (half == 1) {
        return double(v[0]) + double(v[1]);
    } else {
        const auto low = shuffled<half>(v, v, [](std::size_t l) { return l; });
        const auto high = shuffled<half>(v, v, [](std::size_t l) { return half + l; });
        return lane_sum(converted<Vec<double, half>>(low) + converted<Vec<double, half>>(high));
    }
}

#if defined(__AVX__) && !defined(__AVX512F__)
// A vector from two halves in memory. Numbers pass from half to half of a register in one port alone, but are loaded into either.
inline Vec<float> load_halves(const float* low, const float* high) { return Vec<float>(_mm256_loadu2_m128(high, low)); }
inline Vec<double> load_halves(const double* low, const double* high) { return Vec<double>(_mm256_loadu2_m128d(high, low)); }
#endif

// Reads as many complex numbers as re and im have lanes. What is in memory may be of single precision and they of double.
template <class V, class Stored>
QDIST_INLINE inline void load_split(const Stored* p, V& re, V& im) {
    constexpr std::size_t n = sizeof(V) / sizeof(re[0]);
    constexpr auto even = [](std::size_t l) { return 2 * l; };
    constexpr auto odd = [](std::size_t l) { return 2 * l + 1; };
#if defined(__AVX__) && !defined(__AVX512F__)
    if constexpr (std::is_same_v<V, Vec<Stored>>) {
        const V a = load_halves(p, p + n), b = load_halves(p + n / 2, p + n + n / 2);
        // Within halves: the even places of a's and then of b's.
        constexpr auto place = [](std::size_t l) { return l / (n / 2) * (n / 2) + 2 * l % (n / 2) + l % (n / 2) / (n / 4) * n; };
        re = shuffled<n>(a, b, place);
        im = shuffled<n>(a, b, [](std::size_t l) { return decltype(place)()(l) + 1; });
        return;
    }
#endif
    if constexpr (sizeof(Stored) == sizeof(re[0])) {
        const V a = load_unaligned<V>(p), b = load_unaligned<V>(p + n);
        re = shuffled<n>(a, b, even);
        im = shuffled<n>(a, b, odd);
    } else {
        const auto both = load_unaligned<Vec<Stored, 2 * n>>(p);
        re = converted<V>(shuffled<n>(both, both, even));
        im = converted<V>(shuffled<n>(both, both, odd));
    }
}

// Whether there are stores that do not read the cache line first, and leave it in no cache.
#ifdef __x86_64__
inline constexpr bool has_streaming_stores = true;
inline void finish_streaming_stores() { _mm_sfence(); }
#else
inline constexpr bool has_streaming_stores = false;
inline void finish_streaming_stores() {}
#endif

// streams: by such a store, if there are; p is then a multiple of the vector's size.
template <bool streams, class V>
QDIST_INLINE inline void put(void* p, V v) {
#ifdef __x86_64__
    if constexpr (streams) {
        if constexpr (sizeof(V) == 16) return _mm_stream_ps(static_cast<float*>(p), __builtin_bit_cast(__m128, v));
#ifdef __AVX__
        if constexpr (sizeof(V) == 32) return _mm256_stream_ps(static_cast<float*>(p), __builtin_bit_cast(__m256, v));
#endif
#ifdef __AVX512F__
        if constexpr (sizeof(V) == 64) return _mm512_stream_ps(static_cast<float*>(p), __builtin_bit_cast(__m512, v));
#endif
    }
#endif
    std::memcpy(p, &v, sizeof v);
}

template <bool streams = false, class V, class Stored>
QDIST_INLINE inline void store_interleaved(Stored* p, V re, V im) {
    constexpr std::size_t n = sizeof(V) / sizeof(re[0]);
    if constexpr (sizeof(Stored) == sizeof(re[0])) {
        const V low = shuffled<n>(re, im, [](std::size_t l) { return l / 2 + l % 2 * n; });
        const V high = shuffled<n>(re, im, [](std::size_t l) { return n / 2 + l / 2 + l % 2 * n; });
        put<streams>(p, low);
        put<streams>(p + n, high);
    } else {
        using Half = Vec<Stored, n>;
        const Half a = converted<Half>(re), b = converted<Half>(im);
        const auto both = shuffled<2 * n>(a, b, [](std::size_t l) { return l / 2 + l % 2 * n; });
        put<streams>(p, both);
    }
}

// Calls f with the constants 0 .. count - 1. GCC unrolls a loop only after scalar replacement, so an array would go to memory.
template <std::size_t count, std::size_t first = 0, class F>
QDIST_INLINE inline void unrolled(F f) {
    f(std::integral_constant<std::size_t, first>());
    // Two at a time: far fewer functions to inline than with a pack of all.
    if constexpr (first + 1 < count) f(std::integral_constant<std::size_t, first + 1>());
    if constexpr (first + 2 < count) unrolled<count, first + 2>(f);
}

// Some numbers, eight unless said otherwise, in as few registers as hold them.
template <class Real, std::size_t size = lanes>
struct Lanes {
    static constexpr std::size_t width = std::min<std::size_t>(size, Simd<Real>::lanes), count = size / width;
    using Register = Vec<Real, width>;
    Register part[count];

    // part(k): register k, which is a constant. What has one register, as most do with AVX-512, goes without it below: each
    // lambda takes the compiler time.
    template <class Part>
    QDIST_INLINE static Lanes of(Part part) {
        Lanes result;
        if constexpr (count == 1)
            result.part[0] = part(std::integral_constant<std::size_t, 0>());
        else
            unrolled<count>([&](auto k) QDIST_INLINE { result.part[k] = part(k); });
        return result;
    }
    QDIST_INLINE static Lanes load(const Real* source) {
        if constexpr (count == 1) return {{load_unaligned<Register>(source)}};
        return of([&](auto k) QDIST_INLINE { return load_unaligned<Register>(source + k * width); });
    }
    QDIST_INLINE static Lanes all(Real number) {
        if constexpr (count == 1) return {{number - Register{}}};
        return of([&](auto) QDIST_INLINE { return number - Register{}; });
    }
    QDIST_INLINE void store(Real* target) const {
        // Not by memcpy, for which g++ puts registers on the stack.
        typedef Register Loose __attribute__((aligned(alignof(Real)), may_alias));
        if constexpr (count == 1)
            *reinterpret_cast<Loose*>(target) = part[0];
        else
            unrolled<count>([&](auto k) QDIST_INLINE { *reinterpret_cast<Loose*>(target + k * width) = part[k]; });
    }
    QDIST_INLINE friend Lanes operator+(const Lanes& a, const Lanes& b) {
        if constexpr (count == 1) return {{a.part[0] + b.part[0]}};
        return of([&](auto k) QDIST_INLINE { return a.part[k] + b.part[k]; });
    }
    QDIST_INLINE friend Lanes operator-(const Lanes& a, const Lanes& b) {
        if constexpr (count == 1) return {{a.part[0] - b.part[0]}};
        return of([&](auto k) QDIST_INLINE { return a.part[k] - b.part[k]; });
    }
    QDIST_INLINE friend Lanes operator*(const Lanes& a, const Lanes& b) {
        if constexpr (count == 1) return {{a.part[0] * b.part[0]}};
        return of([&](auto k) QDIST_INLINE { return a.part[k] * b.part[k]; });
    }
    QDIST_INLINE double sum() const {
        double total = 0;
        for (const Register& some : part) total += lane_sum(some);
        return total;
    }
};

// Lane l of the result is lane l ^ flip.
template <std::size_t flip, class Real, std::size_t size>
QDIST_INLINE inline Lanes<Real, size> flipped(const Lanes<Real, size>& a) {
    using Result = Lanes<Real, size>;
    return Result::of([&](auto k) QDIST_INLINE { return lane_xor<flip % Result::width>(a.part[k ^ flip / Result::width]); });
}

template <class Real, std::size_t size>
QDIST_INLINE inline Lanes<double, size> widened(const Lanes<Real, size>& a) {
    if constexpr (std::is_same_v<Real, double>)
        return a;
    else {
        using Result = Lanes<double, size>;
        return Result::of([&](auto k) QDIST_INLINE {
            constexpr std::size_t width = Result::width, from = Lanes<Real, size>::width, first = k * width;
            const auto source = a.part[first / from];
            const auto some = shuffled<width>(source, source, [](std::size_t l) { return first % from + l; });
            return converted<typename Result::Register>(some);
        });
    }
}

// Adds a vector's numbers to as many doubles.
template <class Real, std::size_t size = Simd<Real>::lanes>
QDIST_INLINE inline void add_lanes(const Vec<Real>& v, double* sums) {
    (Lanes<double, size>::load(sums) + widened(Lanes<Real, size>{{v}})).store(sums);
}

// Eight amplitudes as they lie in memory: real and imaginary parts interleaved.
template <class Real>
using Amplitudes = Lanes<Real, 2 * lanes>;

// Each of eight numbers twice; the first of the two with the other sign where it is for a product with i.
template <bool imaginary, class Real>
QDIST_INLINE inline Amplitudes<Real> doubled(const Lanes<Real>& a) {
    return Amplitudes<Real>::of([&](auto k) QDIST_INLINE {
        constexpr std::size_t width = Amplitudes<Real>::width, from = Lanes<Real>::width, first = k * width / 2;
        const auto source = a.part[first / from];
        return shuffled<width>(imaginary ? -source : source, source,
                               [](std::size_t l) { return first % from + l / 2 + l % 2 * from; });
    });
}

// Calls f with a compile-time constant equal to x, which is in 0..N-1. A switch, so that f is inlined into each case: as a chain
// of comparisons it makes expectation values take an eighth longer.
template <int N, int first = 0, class F>
QDIST_INLINE inline void with_constant(int x, F f) {
    switch (x - first) {
        case 0:
            if constexpr (first < N) f(std::integral_constant<int, first>());
            return;
        case 1:
            if constexpr (first + 1 < N) f(std::integral_constant<int, first + 1>());
            return;
        case 2:
            if constexpr (first + 2 < N) f(std::integral_constant<int, first + 2>());
            return;
        case 3:
            if constexpr (first + 3 < N) f(std::integral_constant<int, first + 3>());
            return;
        case 4:
            if constexpr (first + 4 < N) f(std::integral_constant<int, first + 4>());
            return;
        case 5:
            if constexpr (first + 5 < N) f(std::integral_constant<int, first + 5>());
            return;
        case 6:
            if constexpr (first + 6 < N) f(std::integral_constant<int, first + 6>());
            return;
        case 7:
            if constexpr (first + 7 < N) f(std::integral_constant<int, first + 7>());
            return;
    }
    if constexpr (first + 8 < N) with_constant<N, first + 8>(x, f);
}

// Memory aligned to the widest vectors, for std::vector.
template <class T>
struct AlignedAllocator {
    static constexpr std::size_t alignment = 64;
    using value_type = T;
    AlignedAllocator() = default;
    template <class U>
    AlignedAllocator(const AlignedAllocator<U>&) {}
    T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(alignment))); }
    void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t(alignment)); }
    template <class U>
    bool operator==(const AlignedAllocator<U>&) const {
        return true;
    }
};
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace qdist
