// What is known of the machine's caches.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>

namespace qdist {

// Bytes of a state whose rows are best stored past the caches. Two cores of a Xeon gain from it from 128 MiB on, though the cache
// that they share with other cores has 300. AMD's cores (Zen 5) lose by it: 24 qubits take 5 to 10 % longer, 26 as long.
inline std::atomic<std::size_t> beyond_caches = [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_is("amd")) return std::numeric_limits<std::size_t>::max();
#endif
    std::size_t bytes = std::size_t(64) << 20;
#ifdef _SC_LEVEL3_CACHE_SIZE
    if (const long known = sysconf(_SC_LEVEL3_CACHE_SIZE); known > 0) bytes = std::min(bytes, std::size_t(known));
#endif
    return bytes;
}();

}  // namespace qdist
