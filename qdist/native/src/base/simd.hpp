// One vector type an instruction set, through the compiler's vector extensions: the same source for NEON, SSE, AVX.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace qdist {

// Width of the vectors of the instruction set that this is compiled for.
#if defined(__AVX512F__)
inline constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t vector_bytes = 32;
#else
inline constexpr std::size_t vector_bytes = 16;
#endif

template <class Real>
struct Simd {
    static constexpr std::size_t lanes = vector_bytes / sizeof(Real);
    static constexpr int lane_bits = lanes == 2 ? 1 : lanes == 4 ? 2 : lanes == 8 ? 3 : 4;
    typedef Real type __attribute__((vector_size(vector_bytes)));
    // The same for memory that is aligned to the elements alone.
    typedef Real loose __attribute__((vector_size(vector_bytes), aligned(sizeof(Real))));
};

template <class Real>
using Vec = typename Simd<Real>::type;

template <class Real>
inline Vec<Real> load(const Real* p) {
    return *reinterpret_cast<const Vec<Real>*>(p);
}

template <class Real>
inline void store(Real* p, Vec<Real> v) {
    *reinterpret_cast<Vec<Real>*>(p) = v;
}

template <class Real>
inline Vec<Real> splat(Real x) {
    return x - Vec<Real>{};
}

namespace detail {
template <class Real, int X, std::size_t... I>
inline Vec<Real> lane_xor(Vec<Real> v, std::index_sequence<I...>) {
    return __builtin_shufflevector(v, v, int(I ^ X)...);
}
template <class Real, bool Odd, std::size_t... I>
inline Vec<Real> every_second(Vec<Real> a, Vec<Real> b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, int(2 * I + Odd)...);
}
template <class Real, bool High, std::size_t... I>
inline Vec<Real> interleave(Vec<Real> a, Vec<Real> b, std::index_sequence<I...>) {
    constexpr std::size_t n = sizeof...(I);
    return __builtin_shufflevector(a, b, int((I / 2 + (High ? n / 2 : 0)) + (I % 2 ? n : 0))...);
}
}  // namespace detail

// Lane i of the result is lane i ^ X of v.
template <int X, class Real>
inline Vec<Real> lane_xor(Vec<Real> v) {
    return detail::lane_xor<Real, X>(v, std::make_index_sequence<Simd<Real>::lanes>());
}

// Reads `lanes` complex numbers at p into real and imaginary parts.
template <class Real>
inline void load_split(const Real* p, Vec<Real>& re, Vec<Real>& im) {
    using Loose = typename Simd<Real>::loose;
    constexpr auto n = std::make_index_sequence<Simd<Real>::lanes>();
    const Vec<Real> a = *reinterpret_cast<const Loose*>(p);
    const Vec<Real> b = *reinterpret_cast<const Loose*>(p + Simd<Real>::lanes);
    re = detail::every_second<Real, false>(a, b, n);
    im = detail::every_second<Real, true>(a, b, n);
}

template <class Real>
inline void store_interleaved(Real* p, Vec<Real> re, Vec<Real> im) {
    using Loose = typename Simd<Real>::loose;
    constexpr auto n = std::make_index_sequence<Simd<Real>::lanes>();
    *reinterpret_cast<Loose*>(p) = detail::interleave<Real, false>(re, im, n);
    *reinterpret_cast<Loose*>(p + Simd<Real>::lanes) = detail::interleave<Real, true>(re, im, n);
}

// The same between complex numbers in memory that are of single precision and parts that are of double.
namespace detail {
typedef float HalfVec __attribute__((vector_size(vector_bytes / 2)));
template <bool Odd, std::size_t... I>
inline Vec<double> widened_every_second(Vec<float> v, std::index_sequence<I...>) {
    const HalfVec half = __builtin_shufflevector(v, v, int(2 * I + Odd)...);
    return __builtin_convertvector(half, Vec<double>);
}
template <std::size_t... I>
inline Vec<float> interleave_halves(HalfVec a, HalfVec b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, int(I / 2 + (I % 2 ? sizeof...(I) / 2 : 0))...);
}
}  // namespace detail

inline void load_split(const float* p, Vec<double>& re, Vec<double>& im) {
    constexpr auto n = std::make_index_sequence<Simd<double>::lanes>();
    const Vec<float> v = *reinterpret_cast<const Simd<float>::loose*>(p);
    re = detail::widened_every_second<false>(v, n);
    im = detail::widened_every_second<true>(v, n);
}

inline void store_interleaved(float* p, Vec<double> re, Vec<double> im) {
    constexpr auto n = std::make_index_sequence<Simd<float>::lanes>();
    const detail::HalfVec a = __builtin_convertvector(re, detail::HalfVec), b = __builtin_convertvector(im, detail::HalfVec);
    *reinterpret_cast<Simd<float>::loose*>(p) = detail::interleave_halves(a, b, n);
}

// Calls f with a compile-time constant equal to x, which is in 0..N-1.
template <int N, class F>
inline void with_constant(int x, F&& f) {
    if constexpr (N > 0) {
        if (x == N - 1)
            f(std::integral_constant<int, N - 1>());
        else
            with_constant<N - 1>(x, std::forward<F>(f));
    }
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

// r with a zero bit inserted at position b.
inline std::size_t insert_zero(std::size_t r, int b) {
    const std::size_t low = r & ((std::size_t(1) << b) - 1);
    return ((r - low) << 1) | low;
}

}  // namespace qdist
