// Linear permutations of a tile's numbers, divided into what whole vectors do.
//
// Products of X, CX and SWAP are affine maps of the index over GF(2). With an index as (row, lane), number (v, l) of the result
// comes from row A v + B l and lane C v + D l. Let k be the rank of B and U its image: rows come in groups of 2^k, since the rows
// of a result that differ by V = {v : A v in U} come from source rows that differ by U. A group is permuted with one load, one or
// two permutations of lanes, k blends and one store a vector:
//   - Let E be any isomorphism from V to U and Q map V to lanes such that B Q = A + E. With m = l + Q v the source is row
//     E v + B m and lane (C + D Q) v + D m.
//   - Row u of the group, its lanes permuted: w(u, m) = source(u, (C + D Q) E^-1 (u + B m) + D m).
//   - Row v of the result has w(E v + B m, m) at lane m: a blend with another row for each bit of B m in a basis of U.
//   - Lane l is lane m = l + Q v of that: a second permutation, which only an A that is singular on V needs.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace qdist {

class LaneGroups {
public:
    static constexpr std::size_t max_lanes = 16;

    // A row of a group: where it goes and comes from, and what is XORed to its lanes before and after the blends.
    struct Row {
        std::size_t to = 0, from = 0, before = 0, after = 0;
    };

    // Number i of the result is number source[i]; an affine map of as many numbers as some vectors have.
    LaneGroups(const std::vector<std::uint32_t>& source, std::size_t lanes);

    static bool is_affine(const std::vector<std::uint32_t>& source);

    int depth = 0;                           // k
    bool permutes_again = false;             // whether lanes are permuted after the blends
    std::size_t others = 0;                  // the bits that number the groups
    std::vector<std::uint32_t> first;        // the source of each group's first number
    std::array<Row, max_lanes> rows{};       // 2^k
    std::array<std::size_t, max_lanes> place{};        // the lane that each comes from
    std::array<std::size_t, max_lanes> coordinates{};  // of the row that each comes from: bit j blends with row 2^j
};

}  // namespace qdist
