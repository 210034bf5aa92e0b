// Linear permutations of a tile's numbers, a vector at a time: lane_groups.hpp says how.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "tile/lane_groups.hpp"
#include "tile/tiles.hpp"

namespace qdist {

template <class Real>
class VectorGather {
public:
    VectorGather() = default;
    // Number i of the result is number source[i] of a tile. Only linear permutations fit.
    explicit VectorGather(const std::vector<std::uint32_t>& source) {
        if (!LaneOrder<Real>::available || source.size() < lanes || !LaneGroups::is_affine(source)) return;
        const LaneGroups& groups = groups_.emplace(source, lanes);
        for (std::size_t x = 0; x < lanes; ++x) {
            before_.push_back(LaneOrder<Real>([&](std::size_t l) { return groups.place[l] ^ x; }));
            after_.push_back(LaneOrder<Real>([&](std::size_t l) { return l ^ x; }));
        }
        for (int j = 0; j < groups.depth; ++j)
            for (std::size_t l = 0; l < lanes; ++l) other_[j][l] = groups.coordinates[l] >> j & 1 ? -1 : 0;
    }

    bool fits() const { return groups_.has_value(); }

    // flip: XORed to all sources.
    void run(Tile<Real> from, Tile<Real> to, std::size_t flip) const {
        with_constant<Simd<Real>::lane_bits + 1>(groups_->depth, [&](auto depth) {
            // Real and imaginary parts at once share the addresses, where the registers hold both.
            if constexpr ((4 << depth) <= num_registers) {
                run_some<depth>(std::array{from.re, from.im}, std::array{to.re, to.im}, flip);
            } else {
                run_some<depth>(std::array{from.re}, std::array{to.re}, flip);
                run_some<depth>(std::array{from.im}, std::array{to.im}, flip);
            }
        });
    }

private:
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;
    static_assert(lanes <= LaneGroups::max_lanes);

    template <int depth, std::size_t parts>
    void run_some(std::array<Real*, parts> from, std::array<Real*, parts> to, std::size_t flip) const {
        constexpr std::size_t count = std::size_t(1) << depth;
        const LaneGroups& groups = *groups_;
        LaneMask<Real> other[depth + 1];
        for (int j = 0; j < depth; ++j) other[j] = other_[j];
        std::size_t to_first = 0;
        for (const std::uint32_t first : groups.first) {
            const std::size_t source = first ^ flip, row = source & ~(lanes - 1), lane = source & (lanes - 1);
            V v[parts][count];
            unrolled<count>([&](auto c) QDIST_INLINE {
                // The first row of a group changes nothing.
                const std::size_t at = c ? row ^ groups.rows[c].from : row;
                const LaneOrder<Real>& order = before_[c ? lane ^ groups.rows[c].before : lane];
                unrolled<parts>([&](auto p) QDIST_INLINE { v[p][c] = order.of(load(from[p] + at)); });
            });
            if constexpr (depth > 0)
                unrolled<std::size_t(depth)>([&](auto j) QDIST_INLINE {
                    unrolled<count / 2 * parts>([&](auto k) QDIST_INLINE {
                        constexpr std::size_t p = k % parts, bit = std::size_t(1) << j;
                        constexpr std::size_t a = k / parts / bit * 2 * bit + k / parts % bit, b = a + bit;
                        const V x = v[p][a], y = v[p][b];
                        v[p][a] = other[j] ? y : x, v[p][b] = other[j] ? x : y;
                    });
                });
            if (groups.permutes_again)
                unrolled<count>([&](auto c) QDIST_INLINE {
                    unrolled<parts>([&](auto p) QDIST_INLINE { v[p][c] = after_[groups.rows[c].after].of(v[p][c]); });
                });
            unrolled<count>([&](auto c) QDIST_INLINE {
                const std::size_t at = c ? to_first ^ groups.rows[c].to : to_first;
                unrolled<parts>([&](auto p) QDIST_INLINE { store<Real>(to[p] + at, v[p][c]); });
            });
            to_first = next_within(to_first, groups.others);
        }
    }

    std::optional<LaneGroups> groups_;
    std::array<LaneMask<Real>, lanes> other_{};      // for each bit of a row in its group: lanes that take the other one's
    AlignedVector<LaneOrder<Real>> before_, after_;  // for each XOR of the lanes
};

}  // namespace qdist
