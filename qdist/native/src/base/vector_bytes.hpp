// How wide a vector of the instruction set is that this file is compiled for.
#pragma once
#include <cstddef>

namespace qdist {

#if defined(__AVX512F__)
inline constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t vector_bytes = 32;
#else
inline constexpr std::size_t vector_bytes = 16;
#endif

}  // namespace qdist
