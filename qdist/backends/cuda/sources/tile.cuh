// A thread's share of a tile: its registers, and how they lie in shared memory.
//
// Compiled with REGISTER_BITS, STATES (1, or 2 for a ket and a bra), RARE (whether what few circuits need is part of it; without,
// it compiles in half the time), KEEP_NORM (norm.cuh) and EXCHANGES (whether matrices that exchange amplitudes, ops.cuh, are part of
// it: others are up to 4 % slower beside them) defined, beside what types.cuh needs.
#pragma once

#include "tile_records.cuh"

#ifndef REGISTER_BITS
#define REGISTER_BITS 4
#define STATES 2
#define RARE 1
#define KEEP_NORM 1
#define EXCHANGES 1
#endif

constexpr int R = REGISTER_BITS;
constexpr int N = 1 << R;
// With R = 3 there is no fourth register bit; it is aliased so that the switch compiles. Tables never emit it.
constexpr int FOURTH = R > 3 ? 3 : R - 1;

// A thread's own amplitudes of each state.
typedef Complex States[STATES][N];

// Ket and bra are interleaved in shared memory where one access of 16 bytes reads or writes both; else one state's tile follows
// the other's.
constexpr int TOGETHER = STATES * sizeof(Complex) <= 16 ? STATES : 1;
constexpr unsigned PLACE_BYTES = TOGETHER * sizeof(Complex);

struct __align__(PLACE_BYTES) Place {
    Complex of[TOGETHER];
};

// Adjacent amplitudes of one state there, which differ in the last register bit and are read by one access of 16 bytes.
constexpr int SIDE = STATES * sizeof(Complex) == 8 && R > 2 ? 2 : 1;

struct __align__(SIDE * sizeof(Complex)) Neighbours {
    Complex of[SIDE];
};

// Whether a thread's number meets a condition: mask | value << 16.
__device__ __forceinline__ bool holds(unsigned thread, unsigned condition) {
    return (thread & condition & 0xffff) == condition >> 16;
}

// A number of 64 bits from its halves in a list: an int* or a Table<int>.
template <class List>
__device__ __forceinline__ Index joined(List halves) {
    return Index(unsigned(halves[0])) | Index(unsigned(halves[1])) << 32;
}

// x with the opposite sign if bit k of `signs` is set.
__device__ __forceinline__ float signed_by(unsigned signs, int k, float x) { return __uint_as_float(__float_as_uint(x) ^ (signs << (31 - k) & 0x80000000)); }
__device__ __forceinline__ double signed_by(unsigned signs, int k, double x) { return __hiloint2double(__double2hiint(x) ^ (signs << (31 - k) & 0x80000000), __double2loint(x)); }

// Register bits I < J.
template <int I, int J>
struct Two {};

// Calls run(Two<I, J>()) for the two that have a number (lowering/operations.py).
template <int I, int J, class F>
__device__ __forceinline__ void if_two(const F& run) {
    if constexpr (J < R) run(Two<I, J>());
}
template <class F>
__device__ __forceinline__ void with_two(int number, const F& run) {
    switch (number) {
        case 0: if_two<0, 1>(run); break;
        case 1: if_two<0, 2>(run); break;
        case 2: if_two<1, 2>(run); break;
        case 3: if_two<0, 3>(run); break;
        case 4: if_two<1, 3>(run); break;
        case 5: if_two<2, 3>(run); break;
        case 6: if_two<0, 4>(run); break;
        case 7: if_two<1, 4>(run); break;
        case 8: if_two<2, 4>(run); break;
        case 9: if_two<3, 4>(run); break;
    }
}
