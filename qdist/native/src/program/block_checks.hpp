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
int check_factor(int formula, const std::vector<int>& slots, const std::vector<int>& bits, std::size_t entries,
                 int num_bits);

// A matrix as Python hands it in: its formula, the slots of its angles, the bits of the block it acts on, and its entries where
// the formula is a constant.
using FactorData = std::tuple<int, std::vector<int>, std::vector<int>, std::vector<Complex>>;

// Factors of a matrix on `num_bits` bits. num_angles: raised to how many angles there must be.
std::vector<Factor> checked_factors(const std::vector<FactorData>& factors, int num_bits, int& num_angles);

// The angles that a sum of multiples of angles reads: how many there must be.
int check_affine(const std::vector<std::pair<int, double>>& slots);

// Values that bits of a tile of t bits and bits beyond it must have for a block to work.
inline void check_conditions(int t, Index mask, Index value, Index far_mask, Index far_value) {
    check_condition(mask, value, t, "controls");
    check_condition(far_mask, far_value, far_bits, "far controls");
}

// A product of one or two bits, of a tile of t bits or beyond it; (-1, -1) is the constant.
void check_term(int first, int second, int t);

// Where each element of a tile comes from: a permutation.
void check_sources(const std::vector<std::uint32_t>& source, int t);

// (bit of an index, bit of a table's index) pairs, for a table of `entries` numbers.
void check_table(const std::vector<std::pair<int, int>>& bits, int count, std::size_t entries);

}  // namespace qdist
