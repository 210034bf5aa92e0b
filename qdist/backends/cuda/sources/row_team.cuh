// What the kernels for batches of rows share: angles modulo 4 pi, the threads of a row and their sums, and Walsh-Hadamard
// transforms in shared memory.
#pragma once

#include "row_records.cuh"
#include "warps.cuh"

extern __shared__ __align__(16) unsigned char memory[];

// Numbers whose lowest five bits are alike are in different banks, unless the next five are alike too.
__device__ __forceinline__ unsigned swizzled(unsigned i) { return i ^ (i >> 5 & 31); }

// Not inlined: the argument reduction of large numbers takes local memory.
__device__ __noinline__ double reduced_huge(double angle) { return 2 * atan2(sin(angle / 2), cos(angle / 2)); }

// Modulo 4 pi, which is the sum of two doubles (native/src/gates/angles.hpp).
__device__ __forceinline__ double reduced(double angle) {
    constexpr double PERIOD = 0x1.921fb54442d18p+3, REST = 0x1.1a62633145c07p-51;
    if (fabs(angle) <= PERIOD) return angle;
    if (fabs(angle) < 0x1p50) {
        const double turns = rint(angle / PERIOD);
        return fma(-turns, REST, fma(-turns, PERIOD, angle));
    }
    return reduced_huge(angle);
}

// Adds coefficient * value, without the rounding error of the product.
__device__ __forceinline__ double plus_product(double angle, double coefficient, double value) {
    const double product = coefficient * value;
    return reduced(angle + (reduced(product) + fma(coefficient, value, -product)));
}

// Cosine and sine of half an angle.
struct __align__(2 * sizeof(Real)) Turned {
    Real cosine, sine;
};
__device__ __forceinline__ void half_turn(double angle, double& cosine, double& sine) { sincospi(angle * 0x1.45f306dc9c883p-3, &sine, &cosine); }
__device__ __forceinline__ Turned turned(double angle) {
    double s, c;
    half_turn(angle, c, s);
    return {Real(c), Real(s)};
}

// The turn of each of a warp's lanes, as numbers of lane 0, 1, ... run one after the other. In single precision a rounded turn scales
// the amplitudes by a factor within 6e-8 of one, the same in every run; where gates are repeated that adds up. So the next turn
// that is everywhere is divided by it before it is rounded. excess: what the scale of the turns so far has above one.
__device__ __forceinline__ Turned evened(double cosine, double sine, bool everywhere, double& excess) {
    if (sizeof(Real) == sizeof(double)) return {Real(cosine), Real(sine)};
    Turned own;
    for (int lane = 0; lane < 32; ++lane) {
        const double by = everywhere ? 1 - excess : 1;
        const Turned rounded = {Real(by * cosine), Real(by * sine)};
        const double c = rounded.cosine, s = rounded.sine, after = excess + (c * c + (s * s - 1)) / 2;
        if (lane == int(threadIdx.x % 32)) own = rounded;
        excess = __shfl_sync(0xffffffff, everywhere ? after : excess, lane);
    }
    return own;
}

// Traits of an angle: it depends on parameters of rows; all rows have it, and it turns all amplitudes.
enum { OF_ROW = 1, EVERYWHERE = 2 };

// With the other sign if the highest bit of a mask is set.
__device__ __forceinline__ double negated(double value, unsigned mask) { return __hiloint2double(__double2hiint(value) ^ int(mask & 0x80000000), __double2loint(value)); }
__device__ __forceinline__ float negated(float value, unsigned mask) { return __int_as_float(__float_as_int(value) ^ int(mask & 0x80000000)); }

// Numbers that come in either precision, which a bit of RowLaunch::singles says.
enum { ROWS_SINGLE = 1, SHARED_SINGLE = 2, COTANGENTS_SINGLE = 4, GRADIENTS_SINGLE = 8 };
__device__ __forceinline__ double given(const void* numbers, bool single, Index i) {
    return single ? double(static_cast<const float*>(numbers)[i]) : static_cast<const double*>(numbers)[i];
}

// A slot: a sum of coefficient * parameter, modulo 4 pi.
template <class Parameter>
__device__ __forceinline__ double sum_of(double sum, int begin, int end, Table<RowEntry> entries, Parameter parameter) {
    for (int e = begin; e < end; ++e) sum = plus_product(sum, entries.at(e, &RowEntry::coefficient), parameter(entries.at(e, &RowEntry::other)));
    return sum;
}

// An angle: a sum of coefficient * slot.
template <class Slot>
__device__ __forceinline__ double angle_of(const RowLaunch& launch, int angle, Slot slot) {
    double sum = launch.constants[angle];
    for (int e = launch.begins[angle]; e < launch.begins[angle + 1]; ++e) sum += launch.entries.at(e, &RowEntry::coefficient) * slot(launch.entries.at(e, &RowEntry::other));
    return sum;
}

// A number of a table that is read once from end to end: it does not drive out of the cache what is read again and again.
__device__ __forceinline__ Complex streamed(const Complex* from) {
    const Pair v = __ldcs(reinterpret_cast<const Pair*>(from));
    return {v.x, v.y};
}

// The threads of one row: a warp, or a whole block.
struct Team {
    unsigned thread, threads;

    __device__ __forceinline__ void sync() const {
        if (threads == 32)
            __syncwarp();
        else
            __syncthreads();
    }
    __device__ __forceinline__ unsigned warps() const { return threads / 32; }
};

// The sum over a team's threads, for all of them. room: a double a warp.
__device__ __forceinline__ double team_sum(const Team& team, double value, double* room) {
    value = warp_sum(value);
    if (team.threads == 32) return value;
    team.sync();
    if (team.thread % 32 == 0) room[team.thread / 32] = value;
    team.sync();
    value = 0;
    for (unsigned w = 0; w < team.warps(); ++w) value += room[w];
    return value;
}

// Walsh-Hadamard transform of a power of two of numbers that a thread has.
template <int SIZE, class T>
__device__ __forceinline__ void butterflies(T* v) {
#pragma unroll
    for (int half = 1; half < SIZE; half *= 2)
#pragma unroll
        for (int j = 0; j < SIZE; ++j)
            if (!(j & half)) {
                const T a = v[j], c = v[j | half];
                v[j] = a + c;
                v[j | half] = a - c;
            }
}

// Walsh-Hadamard transform of 2^bits numbers: over bits b ... b + W - 1, over those from begin to end, over all.
template <int W, class T>
__device__ __forceinline__ void walsh_pass(const Team& team, T* x, int b, int bits) {
    unsigned offset[1 << W];
#pragma unroll
    for (int j = 0; j < 1 << W; ++j) offset[j] = swizzled(j << b);
    for (unsigned i = team.thread; i < 1u << (bits - W); i += team.threads) {
        const unsigned first = swizzled(i >> b << (b + W) | (i & ((1u << b) - 1)));
        T v[1 << W];
#pragma unroll
        for (int j = 0; j < 1 << W; ++j) v[j] = x[first ^ offset[j]];
        butterflies<1 << W>(v);
#pragma unroll
        for (int j = 0; j < 1 << W; ++j) x[first ^ offset[j]] = v[j];
    }
    team.sync();
}
template <class T>
__device__ __forceinline__ void walsh_between(const Team& team, T* x, int begin, int end, int bits) {
    int b = begin;
    for (; b + 3 <= end; b += 3) walsh_pass<3>(team, x, b, bits);
    if (end - b == 2) walsh_pass<2>(team, x, b, bits);
    if (end - b == 1) walsh_pass<1>(team, x, b, bits);
}
template <class T>
__device__ __forceinline__ void walsh(const Team& team, T* x, int bits) { walsh_between(team, x, 0, bits, bits); }
