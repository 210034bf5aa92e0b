// Linear permutations of a tile's numbers, a vector at a time.
//
// Products of X, CX and SWAP are affine maps of the index over GF(2). With an index as (row, lane), number (v, l) of the result
// comes from row A v + B l and lane C v + D l. Let k be the rank of B and U its image: rows come in groups of 2^k, since the rows
// of a result that differ by V = {v : A v in U} come from source rows that differ by U. A group is loaded, permuted and stored
// with one load, one or two permutations of lanes, k blends and one store a vector:
//   - Let E be any isomorphism from V to U and Q from V to lanes such that B Q = A + E. With m = l + Q v the source is row
//     E v + B m and lane (C + D Q) v + D m.
//   - Row u of the group, its lanes permuted: w(u, m) = source(u, (C + D Q) E^-1 (u + B m) + D m).
//   - Row v of the result has w(E v + B m, m) at lane m: a blend with another row for each bit of B m in a basis of U.
//   - Lane l is lane m = l + Q v of that: a second permutation, which is needed where A is singular on V alone.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
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
        if (!LaneOrder<Real>::available || source.size() < lanes || !is_affine(source)) return;
        const auto moved = [&](std::size_t i) { return std::size_t(source[i] ^ source[0]); };
        const auto row = [](std::size_t i) { return i & ~(lanes - 1); };
        const auto lane = [](std::size_t i) { return i & (lanes - 1); };
        // U by the lanes that B maps to it, and V.
        Elimination image, rows;
        for (std::size_t l = 1; l < lanes; l *= 2)
            if (image.add(row(moved(l)), l)) rows.add(row(moved(l)), 0);
        depth_ = int(image.size());
        std::vector<std::size_t> to, from, lane_xor;  // bases of V and U that E maps to each other, and Q
        std::vector<std::size_t> singular;
        Elimination used;
        for (std::size_t v = lanes; v < source.size(); v *= 2) {
            const auto [left, combination] = rows.reduced(row(moved(v)), v);
            if (left) {
                rows.add(left, combination);
                others_ |= v;
            } else if (const std::size_t u = row(moved(combination)); used.add(u, 0)) {
                to.push_back(combination), from.push_back(u), lane_xor.push_back(0);
            } else {
                singular.push_back(combination);
            }
        }
        for (const std::size_t v : singular)
            for (std::size_t l = 1; l < lanes; l *= 2)
                if (const std::size_t u = row(moved(l)); used.add(u, 0)) {
                    to.push_back(v), from.push_back(u), lane_xor.push_back(image.reduced(row(moved(v)) ^ u, 0).second);
                    break;
                }
        // Coordinates in the basis of U: of the rows that each lane adds, and of each row of a group.
        Elimination coordinates;
        std::vector<std::size_t> turned;
        for (int j = 0; j < depth_; ++j) {
            coordinates.add(from[j], std::size_t(1) << j);
            turned.push_back(lane(moved(to[j])) ^ lane(moved(lane_xor[j])));
        }
        for (std::size_t c = 0; c < std::size_t(1) << depth_; ++c) {
            Row& at = group_[c];
            each_bit(c, [&](int j) { at.to ^= to[j], at.from ^= from[j], at.before ^= turned[j], at.after ^= lane_xor[j]; });
            again_ = again_ || at.after;
        }
        std::array<std::size_t, lanes> place{};
        for (std::size_t l = 0; l < lanes; ++l) {
            const std::size_t c = coordinates.reduced(row(moved(l)), 0).second;
            place[l] = lane(moved(l)) ^ group_[c].before;
            for (int j = 0; j < depth_; ++j) other_[j][l] = c >> j & 1 ? -1 : 0;
        }
        for (std::size_t x = 0; x < lanes; ++x) {
            before_.push_back(LaneOrder<Real>([&](std::size_t l) { return place[l] ^ x; }));
            after_.push_back(LaneOrder<Real>([&](std::size_t l) { return l ^ x; }));
        }
        for (std::size_t r = 0, first = 0; r < source.size() / lanes >> depth_; ++r, first = next_within(first, others_))
            first_.push_back(source[first]);
    }

    bool fits() const { return !first_.empty(); }

    // flip: XORed to all sources.
    void run(Tile<Real> from, Tile<Real> to, std::size_t flip) const {
        with_constant<Simd<Real>::lane_bits + 1>(depth_, [&](auto depth) {
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

    // A row of a group: where it goes and comes from, and what is XORed to its lanes before and after the blends.
    struct Row {
        std::size_t to = 0, from = 0, before = 0, after = 0;
    };

    // Vectors over GF(2) in echelon form, each with what it is a combination of.
    class Elimination {
    public:
        // What is left of a vector, and the combination that is left of it.
        std::pair<std::size_t, std::size_t> reduced(std::size_t vector, std::size_t combination) const {
            for (const auto& [known, its] : rows_)
                if (vector & known & -known) vector ^= known, combination ^= its;
            return {vector, combination};
        }
        // Whether the vector was independent of those that are there, which it joins.
        bool add(std::size_t vector, std::size_t combination) {
            rows_.push_back(reduced(vector, combination));
            if (rows_.back().first) return true;
            rows_.pop_back();
            return false;
        }
        std::size_t size() const { return rows_.size(); }

    private:
        std::vector<std::pair<std::size_t, std::size_t>> rows_;
    };

    static bool is_affine(const std::vector<std::uint32_t>& source) {
        for (std::size_t i = 1; i < source.size(); ++i) {
            const std::size_t low = i & -i;
            if (source[i] != (source[i ^ low] ^ source[low] ^ source[0])) return false;
        }
        return true;
    }

    template <int depth, std::size_t parts>
    void run_some(std::array<Real*, parts> from, std::array<Real*, parts> to, std::size_t flip) const {
        constexpr std::size_t count = std::size_t(1) << depth;
        LaneMask<Real> other[depth + 1];
        for (int j = 0; j < depth; ++j) other[j] = other_[j];
        std::size_t first = 0;
        for (std::size_t g = 0; g < first_.size(); ++g, first = next_within(first, others_)) {
            const std::size_t source = first_[g] ^ flip, row = source & ~(lanes - 1), lane = source & (lanes - 1);
            V v[parts][count];
            unrolled<count>([&](auto c) QDIST_INLINE {
                const std::size_t at = row ^ group_[c].from;
                const LaneOrder<Real>& order = before_[lane ^ group_[c].before];
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
            if (again_)
                unrolled<count>([&](auto c) QDIST_INLINE {
                    unrolled<parts>([&](auto p) QDIST_INLINE { v[p][c] = after_[group_[c].after].of(v[p][c]); });
                });
            unrolled<count>([&](auto c) QDIST_INLINE {
                const std::size_t at = first ^ group_[c].to;
                unrolled<parts>([&](auto p) QDIST_INLINE { store<Real>(to[p] + at, v[p][c]); });
            });
        }
    }

    int depth_ = 0;
    bool again_ = false;                               // whether lanes are permuted after the blends
    std::size_t others_ = 0;                           // the bits that number the groups
    std::vector<std::uint32_t> first_;                 // the source of each group's first number
    std::array<Row, lanes> group_{};                   // 2^depth rows
    std::array<LaneMask<Real>, lanes> other_{};        // for each bit of a row in the group: lanes that take the other one's
    AlignedVector<LaneOrder<Real>> before_, after_;  // for each XOR of the lanes
};

}  // namespace qdist
