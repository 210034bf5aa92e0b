// While an object of this type lives, the thread that made it reads and writes subnormal numbers as zero.
//
// Rounding errors of amplitudes that cancel shrink from block to block until they are subnormal, and then each operation on
// them takes over a hundred cycles: 12 iterations of Grover's algorithm took ten times as long. No result depends on numbers
// below 1e-38.
#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace qdist {

class FlushedSubnormals {
public:
    FlushedSubnormals(const FlushedSubnormals&) = delete;
    FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

#if defined(__x86_64__)
    // Results that are flushed to zero (bit 15), operands that are taken as zero (bit 6).
    FlushedSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
    ~FlushedSubnormals() { _mm_setcsr(before_); }

private:
    unsigned before_;
#elif defined(__aarch64__)
    // FZ of the floating-point control register is for both.
    FlushedSubnormals() {
        asm volatile("mrs %0, fpcr" : "=r"(before_));
        asm volatile("msr fpcr, %0" : : "r"(before_ | std::uint64_t(1) << 24));
    }
    ~FlushedSubnormals() { asm volatile("msr fpcr, %0" : : "r"(before_)); }

private:
    std::uint64_t before_;
#else
    FlushedSubnormals() {}
#endif
};

}  // namespace qdist
