// What is known of the machine's caches.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace qdist {

// Bytes of a state of which nothing is in a cache any more when the next sweep comes to it. Two cores of a Xeon gain from storing
// past the caches from 128 MiB on, though the cache that they share with other cores has 300.
inline std::atomic<std::size_t> beyond_caches = [] {
    std::size_t bytes = std::size_t(64) << 20;
#ifdef _SC_LEVEL3_CACHE_SIZE
    if (const long known = sysconf(_SC_LEVEL3_CACHE_SIZE); known > 0) bytes = std::min(bytes, std::size_t(known));
#endif
    return bytes;
}();

}  // namespace qdist
