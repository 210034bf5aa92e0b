// Numbers, and tables of them in global memory.
//
// Compiled with Real (float or double), Pair (float2 or double2) and Turn (unsigned of the same size: a phase angle as a
// fraction of a full turn, in fixed point) defined, and with WIDENED where amplitudes are stored in single precision and
// computed in double.
#pragma once

// For editors, which do not know the compiler's options.
#ifndef Real
#define Real float
#define Pair float2
#define Turn unsigned
#endif

typedef unsigned long long Index;

// For assertions of tests: NVRTC has no offsetof, and __INTADDR__ is its front end's own.
#ifdef CHECK_OFFSETS
#define OFFSET(T, FIELD) __INTADDR__(&((T*)0)->FIELD)
#endif

struct __align__(2 * sizeof(Real)) Complex {
    Real x, y;
};

// An amplitude in global memory.
#if WIDENED
struct __align__(8) Stored {
    float x, y;
};
typedef float2 StoredPair;
#else
typedef Complex Stored;
typedef Pair StoredPair;
#endif

// Reads through the read-only path of the cache (ld.global.nc). The compiler takes it by itself only for pointers that are
// parameters of a kernel with __restrict__, not for those in a struct.
__device__ __forceinline__ int read_only(const int* from) { return __ldg(from); }
__device__ __forceinline__ float read_only(const float* from) { return __ldg(from); }
__device__ __forceinline__ double read_only(const double* from) { return __ldg(from); }
__device__ __forceinline__ unsigned read_only(const unsigned* from) { return __ldg(from); }
__device__ __forceinline__ unsigned short read_only(const unsigned short* from) { return __ldg(from); }
__device__ __forceinline__ Index read_only(const Index* from) { return __ldg(from); }
__device__ __forceinline__ Complex read_only(const Complex* from) {
    const Pair v = __ldg(reinterpret_cast<const Pair*>(from));
    return {v.x, v.y};
}

// A table in global memory that is not written while a kernel runs. Of a table of records, fields are read: at(k, &T::field).
template <class T>
struct Table {
    const T* first;

    __device__ __forceinline__ T operator[](Index k) const { return read_only(first + k); }
    template <class F, class Of>
    __device__ __forceinline__ F at(Index k, F Of::*field) const { return read_only(&(first[k].*field)); }
    template <class F, class Of, int COUNT>
    __device__ __forceinline__ Table<F> at(Index k, F (Of::*field)[COUNT]) const { return {first[k].*field}; }
    __device__ __forceinline__ Table operator+(Index k) const { return {first + k}; }
};
