// Linear permutations of a tile's numbers, a vector at a time.
//
// Products of X, CX and SWAP are affine maps of the index over GF(2): number i comes from source(i) = source(row) ^ L(lane). The
// lanes of a vector then come from at most 2^k rows, where k is the rank of what L does to the rows, and which row and lane that
// is does not depend on the row but for an XOR. So a vector is made of 2^k loads and as many permutations with two sources. Only
// AVX-512 has those of all lanes; elsewhere nothing fits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "tile/tiles.hpp"

namespace qdist {

template <class Real>
class VectorGather {
public:
    VectorGather() = default;
    // Number i of the result is number source[i] of a tile.
    explicit VectorGather(const std::vector<std::uint32_t>& source) {
        if (vector_bytes < 64 || source.size() < lanes || !is_affine(source)) return;
        // The span of what the lanes' bits do to the rows; j: which element of it a lane needs.
        std::vector<std::size_t> which(lanes);
        offsets_ = {0};
        for (std::size_t bit = 1; bit < lanes; bit *= 2) {
            const std::size_t row = (source[bit] ^ source[0]) & ~(lanes - 1);
            std::size_t known = 0;
            while (known < offsets_.size() && offsets_[known] != row) ++known;
            if (known == offsets_.size())
                for (std::size_t j = 0; j < known; ++j) offsets_.push_back(offsets_[j] ^ row);
            for (std::size_t lane = 0; lane < bit; ++lane) which[lane | bit] = which[lane] ^ known;
        }
        while (std::size_t(1) << depth_ < offsets_.size()) ++depth_;
        for (std::size_t x = 0; x < lanes; ++x)
            for (std::size_t lane = 0; lane < lanes; ++lane)
                lane_of_.push_back(Int(((source[lane] ^ source[0] ^ x) & (lanes - 1)) | (which[lane] & 1 ? lanes : 0)));
        for (int level = 1; level < depth_; ++level)
            for (std::size_t lane = 0; lane < lanes; ++lane) choice_.push_back(Int(lane | (which[lane] >> level & 1 ? lanes : 0)));
        for (std::size_t i = 0; i < source.size(); i += lanes) first_.push_back(source[i]);
    }

    bool fits() const { return !first_.empty(); }

    // flip: XORed to all sources.
    void run(Tile<Real> from, Tile<Real> to, std::size_t flip) const {
        with_constant<Simd<Real>::lane_bits + 1>(depth_, [&](auto depth) { run_some<depth>(from, to, flip); });
    }

private:
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    using Int = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;

    static bool is_affine(const std::vector<std::uint32_t>& source) {
        for (std::size_t i = 1; i < source.size(); ++i) {
            const std::size_t low = i & -i;
            if (source[i] != (source[i ^ low] ^ source[low] ^ source[0])) return false;
        }
        return true;
    }

    // Lane l is number choice[l] of those of a and b together.
    QDIST_INLINE static V chosen(V a, V b, const Int* choice) {
#if defined(__AVX512F__)
        const __m512i index = _mm512_load_si512(choice);
        if constexpr (sizeof(Real) == 4)
            return V(_mm512_permutex2var_ps(__m512(a), index, __m512(b)));
        else
            return V(_mm512_permutex2var_pd(__m512d(a), index, __m512d(b)));
#else
        (void)b, (void)choice;
        return a;
#endif
    }

    template <int depth>
    void run_some(Tile<Real> from, Tile<Real> to, std::size_t flip) const {
        for (std::size_t r = 0; r < first_.size(); ++r) {
            const std::size_t source = first_[r] ^ flip, row = source & ~(lanes - 1);
            const Int* lane_of = &lane_of_[(source & (lanes - 1)) * lanes];
            const auto gather = [&](const Real* x) QDIST_INLINE {
                V v[1 << depth];
                for (int j = 0; j < 1 << depth; ++j) v[j] = load(x + (row ^ offsets_[j]));
                if constexpr (depth == 0) return chosen(v[0], v[0], lane_of);
#pragma GCC unroll 8
                for (int j = 0; j < 1 << depth >> 1; ++j) v[j] = chosen(v[2 * j], v[2 * j + 1], lane_of);
#pragma GCC unroll 4
                for (int level = 1; level < depth; ++level)
#pragma GCC unroll 8
                    for (int j = 0; j < 1 << depth >> (level + 1); ++j)
                        v[j] = chosen(v[2 * j], v[2 * j + 1], &choice_[(level - 1) * lanes]);
                return v[0];
            };
            store<Real>(to.re + r * lanes, gather(from.re));
            store<Real>(to.im + r * lanes, gather(from.im));
        }
    }

    int depth_ = 0;
    std::vector<std::size_t> offsets_;     // of the 2^depth rows that a vector comes from
    std::vector<std::uint32_t> first_;     // the source of each vector's first number
    AlignedVector<Int> lane_of_, choice_;  // for each XOR of lanes: lanes of two rows; for each level: of two vectors
};

}  // namespace qdist
