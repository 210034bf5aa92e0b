// CRC-32 (that of zlib and Ethernet) by the CPU's own instructions where it has them.
//
// A CRC is the remainder of the message, as a polynomial modulo 2, by P of degree 32. Bytes are in reflected order: the
// lowest bit of the first byte is the highest power. The register begins and ends inverted.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace qdist::crc {

inline constexpr std::uint32_t polynomial = 0xEDB88320;  // P without its highest power, reflected

// The register, seen as a reflected polynomial, times x modulo P.
inline constexpr std::uint32_t times_x(std::uint32_t r) { return r >> 1 ^ (r & 1 ? polynomial : 0); }

// x to this power modulo P, reflected.
inline constexpr std::uint32_t power_of_x(int exponent) {
    std::uint32_t r = 0x80000000;
    while (exponent-- > 0) r = times_x(r);
    return r;
}

// What a byte at this distance from the end of eight contributes.
inline constexpr auto tables = [] {
    std::array<std::array<std::uint32_t, 256>, 8> result{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t r = byte;
        for (int bit = 0; bit < 8; ++bit) r = times_x(r);
        result[0][byte] = r;
    }
    for (int k = 1; k < 8; ++k)
        for (int byte = 0; byte < 256; ++byte) {
            const std::uint32_t r = result[k - 1][byte];
            result[k][byte] = r >> 8 ^ result[0][r & 255];
        }
    return result;
}();

inline std::uint32_t by_tables(const unsigned char* data, std::size_t size, std::uint32_t r) {
    for (; size >= 8; data += 8, size -= 8) {
        const std::uint32_t first = r ^ (data[0] | data[1] << 8 | data[2] << 16 | std::uint32_t(data[3]) << 24);
        r = 0;
        for (int k = 0; k < 4; ++k) r ^= tables[7 - k][first >> 8 * k & 255] ^ tables[3 - k][data[4 + k]];
    }
    for (; size; --size) r = r >> 8 ^ tables[0][(r ^ *data++) & 255];
    return r;
}

#if defined(__x86_64__)

// A product without carries of two reflected numbers is short of one power of x, which the constants make up for.
inline constexpr long long fold_by(int bits) { return static_cast<long long>(std::uint64_t(power_of_x(bits)) << 1); }

[[gnu::target("pclmul,sse2")]] inline __m128i folded(__m128i r, __m128i powers, __m128i next) {
    const __m128i low = _mm_clmulepi64_si128(r, powers, 0x00), high = _mm_clmulepi64_si128(r, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Four registers of 128 bits, each times x^512 plus the next 128 bits of its quarter; at least 64 bytes.
[[gnu::target("pclmul,sse2")]] inline std::uint32_t by_products(const unsigned char* data, std::size_t size, std::uint32_t r) {
    const auto load = [](const unsigned char* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); };
    const __m128i by_512 = _mm_set_epi64x(fold_by(512 - 32), fold_by(512 + 32));
    const __m128i by_128 = _mm_set_epi64x(fold_by(128 - 32), fold_by(128 + 32));
    __m128i a = _mm_xor_si128(load(data), _mm_cvtsi32_si128(int(r)));
    __m128i b = load(data + 16), c = load(data + 32), d = load(data + 48);
    for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
        a = folded(a, by_512, load(data));
        b = folded(b, by_512, load(data + 16));
        c = folded(c, by_512, load(data + 32));
        d = folded(d, by_512, load(data + 48));
    }
    a = folded(folded(folded(a, by_128, b), by_128, c), by_128, d);
    for (; size >= 16; data += 16, size -= 16) a = folded(a, by_128, load(data));
    unsigned char rest[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), a);
    return by_tables(data, size, by_tables(rest, 16, 0));
}

inline std::uint32_t registered(const unsigned char* data, std::size_t size, std::uint32_t r) {
    static const bool has_products = __builtin_cpu_supports("pclmul");
    return has_products && size >= 64 ? by_products(data, size, r) : by_tables(data, size, r);
}

#elif defined(__aarch64__) && defined(__linux__)

[[gnu::target("+crc")]] inline std::uint32_t by_instructions(const unsigned char* data, std::size_t size, std::uint32_t r) {
    for (; size >= 8; data += 8, size -= 8) {
        std::uint64_t eight;
        std::memcpy(&eight, data, 8);
        r = __crc32d(r, eight);
    }
    for (; size; --size) r = __crc32b(r, *data++);
    return r;
}

inline std::uint32_t registered(const unsigned char* data, std::size_t size, std::uint32_t r) {
    static const bool has_instructions = getauxval(AT_HWCAP) & HWCAP_CRC32;
    return has_instructions ? by_instructions(data, size, r) : by_tables(data, size, r);
}

#else

inline std::uint32_t registered(const unsigned char* data, std::size_t size, std::uint32_t r) {
    return by_tables(data, size, r);
}

#endif

}  // namespace qdist::crc

namespace qdist {

// The CRC of what has `before`, followed by these bytes.
inline std::uint32_t crc32(const void* data, std::size_t size, std::uint32_t before = 0) {
    return ~crc::registered(static_cast<const unsigned char*>(data), size, ~before);
}

}  // namespace qdist
