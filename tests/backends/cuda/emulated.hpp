// CUDA for a C++ compiler: the threads of a block are fibers that run in turn, from one barrier to the next. Blocks run one
// after the other. Slow, and exact: what a kernel computes, not how fast.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct float2 { float x, y; };
struct double2 { double x, y; };
struct int2 { int x, y; };
struct uint4 { unsigned x, y, z, w; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };

inline dim3 threadIdx, blockIdx, blockDim, gridDim;
alignas(16) inline unsigned char memory[1 << 20];

enum class Waits { NO, FOR_WARP, FOR_BLOCK };

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    dim3 thread;
    Waits waits = Waits::NO;
    bool done = false;
};
inline std::vector<Fiber> fibers;
inline ucontext_t scheduler;
inline Fiber* current;
inline std::function<void()> body;

inline void enter() {
    body();
    current->done = true;
    swapcontext(&current->context, &scheduler);
}
inline void pause(Waits waits) {
    current->waits = waits;
    swapcontext(&current->context, &scheduler);
}
inline void __syncthreads() { pause(Waits::FOR_BLOCK); }
inline void __syncwarp() { pause(Waits::FOR_WARP); }

// Lets the threads first ... end - 1 go on if all that are left of them wait for each other.
inline bool passed(size_t first, size_t end, Waits what) {
    bool any = false;
    for (size_t t = first; t < end; ++t) {
        if (fibers[t].done) continue;
        if (fibers[t].waits != what) return false;
        any = true;
    }
    for (size_t t = first; t < end; ++t) fibers[t].waits = Waits::NO;
    return any;
}

inline std::vector<double> exchanged;
template <class T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
    const unsigned own = threadIdx.x + threadIdx.y * blockDim.x;
    exchanged[own] = double(value);
    __syncwarp();
    const T found = T(exchanged[own ^ lanes]);
    __syncwarp();
    return found;
}

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
    const unsigned own = threadIdx.x + threadIdx.y * blockDim.x;
    exchanged[own] = double(value);
    __syncwarp();
    const T found = T(exchanged[own / 32 * 32 + lane]);
    __syncwarp();
    return found;
}

template <class T>
T __ldg(const T* from) { return *from; }
template <class T>
T __ldcs(const T* from) { return *from; }
inline long long __double2ll_rn(double x) { return std::llrint(x); }
inline int __double2hiint(double x) { return int(std::bit_cast<uint64_t>(x) >> 32); }
inline int __double2loint(double x) { return int(std::bit_cast<uint64_t>(x)); }
inline double __hiloint2double(int high, int low) { return std::bit_cast<double>(uint64_t(unsigned(high)) << 32 | unsigned(low)); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(unsigned x) { return x == 0 ? 32 : __builtin_clz(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(int(x)); }
inline void sincospi(double x, double* sine, double* cosine) {
    const long double pi = 3.14159265358979323846264338327950288L;
    *sine = double(sinl(pi * x)), *cosine = double(cosl(pi * x));
}
using std::atan2, std::fabs, std::fma, std::min, std::rint;

inline void launch(dim3 grid, dim3 block, std::function<void()> kernel) {
    gridDim = grid, blockDim = block, body = kernel;
    const unsigned threads = block.x * block.y;
    exchanged.assign(threads, 0);
    for (unsigned b = 0; b < grid.x; ++b) {
        blockIdx = {b, 0, 0};
        // What another block left there means nothing.
        std::memset(memory, 0xff, sizeof memory);
        fibers.resize(threads);
        for (unsigned t = 0; t < threads; ++t) {
            Fiber& own = fibers[t];
            own.done = false, own.waits = Waits::NO;
            own.thread = {t % block.x, t / block.x, 0};
            own.stack.resize(1 << 16);
            getcontext(&own.context);
            own.context.uc_stack.ss_sp = own.stack.data();
            own.context.uc_stack.ss_size = own.stack.size();
            own.context.uc_link = nullptr;
            makecontext(&own.context, enter, 0);
        }
        for (bool on = true; on;) {
            for (Fiber& fiber : fibers) {
                if (fiber.done || fiber.waits != Waits::NO) continue;
                current = &fiber;
                threadIdx = fiber.thread;
                swapcontext(&scheduler, &fiber.context);
            }
            on = passed(0, threads, Waits::FOR_BLOCK);
            for (unsigned t = 0; t < threads; t += 32) on |= passed(t, std::min(t + 32, threads), Waits::FOR_WARP);
        }
        // A barrier that some threads never reach would hang a GPU.
        for (const Fiber& fiber : fibers)
            if (!fiber.done) std::abort();
    }
}
