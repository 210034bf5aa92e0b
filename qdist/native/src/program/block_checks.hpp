// Checks of the blocks of a program and of the factors of its matrices, when they are handed in.
#pragma once
#include <tuple>
#include <utility>
#include <vector>

#include "base/checks.hpp"
#include "gates/formulas.hpp"
#include "gates/matrices.hpp"

namespace qdist {

// Bits of the shard's index outside a tile.
inline constexpr int far_bits = max_index_bits;

inline void check_slot(int slot) { check_range(slot, 0, (std::int64_t(1) << 31) - 2, "the number of an angle"); }

// A matrix on some of `num_bits` bits: constant, or a formula of angles. Returns how many angles there must be.
inline int check_factor(int formula, const std::vector<int>& slots, const std::vector<int>& bits, std::size_t entries,
                        int num_bits) {
    check_range(formula, 0, std::int64_t(formulas.size()) - 1, "the number of a formula");
    check_positions(bits, num_bits, "a factor's bits");
    int angles = 0;
    for (int slot : slots) {
        check_slot(slot);
        angles = std::max(angles, slot + 1);
    }
    if (Formula(formula) == Formula::constant) {
        check_size(slots.size(), 0, "the angles of a constant matrix");
        check_size(entries, std::size_t(1) << 2 * bits.size(), "a constant matrix");
    } else {
        check_size(slots.size(), std::size_t(facts(Formula(formula)).angles), "the angles of a formula");
        check_size(bits.size(), std::size_t(facts(Formula(formula)).bits), "the bits of a formula");
    }
    return angles;
}

// A matrix as Python hands it in: its formula, the slots of its angles, the bits of the block it acts on, and its entries where
// the formula is a constant.
using FactorData = std::tuple<int, std::vector<int>, std::vector<int>, Matrix>;

// Factors of a matrix on `num_bits` bits. num_angles: raised to how many angles there must be.
inline std::vector<Factor> checked_factors(const std::vector<FactorData>& factors, int num_bits, int& num_angles) {
    std::vector<Factor> result;
    for (const auto& [formula, slots, bits, matrix] : factors) {
        num_angles = std::max(num_angles, check_factor(formula, slots, bits, matrix.size(), num_bits));
        result.push_back({{Formula(formula), slots, matrix}, bits});
    }
    return result;
}

// The angles that a sum of multiples of angles reads: how many there must be.
inline int check_affine(const std::vector<std::pair<int, double>>& slots) {
    int angles = 0;
    for (const auto& [slot, coefficient] : slots) {
        check_slot(slot);
        angles = std::max(angles, slot + 1);
    }
    return angles;
}

// Values that bits of a tile of t bits and bits beyond it must have for a block to work.
inline void check_conditions(int t, Index mask, Index value, Index far_mask, Index far_value) {
    check_condition(mask, value, t, "controls");
    check_condition(far_mask, far_value, far_bits, "far controls");
}

// A product of one or two bits, of a tile of t bits or beyond it; (-1, -1) is the constant.
inline void check_term(int first, int second, int t) {
    if (first == -1 && second == -1) return;
    check_range(first, 0, t + far_bits - 1, "a bit of a diagonal term");
    check_range(second, first, t + far_bits - 1, "the second bit of a diagonal term");
}

// Where each element of a tile comes from: a permutation.
inline void check_sources(const std::vector<std::uint32_t>& source, int t) {
    check_size(source.size(), std::size_t(1) << t, "the sources of a tile");
    std::vector<bool> seen(source.size());
    for (std::uint32_t s : source) {
        check_range(s, 0, std::int64_t(source.size()) - 1, "a source");
        if (seen[s]) refuse("sources must be different; got ", s, " twice");
        seen[s] = true;
    }
}

// (bit of an index, bit of a table's index) pairs, for a table of `entries` numbers.
inline void check_table(const std::vector<std::pair<int, int>>& bits, int count, std::size_t entries) {
    const int table_bits = checked_bits(entries, "a table");
    for (const auto& [bit, k] : bits) {
        check_range(bit, 0, count - 1, "a bit under a table");
        check_range(k, 0, table_bits - 1, "a bit of a table's index");
    }
}

}  // namespace qdist
