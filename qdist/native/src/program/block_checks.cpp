// Checks of the blocks of a program, when they are handed in.
#include "program/block_checks.hpp"

namespace qdist {

int check_factor(int formula, const std::vector<int>& slots, const std::vector<int>& bits, std::size_t entries,
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
        if (Formula(formula) == Formula::phases) {
            check_size(entries, std::size_t(1) << bits.size(), "a diagonal");
            return angles;
        }
        if (Formula(formula) == Formula::rotation) {
            check_size(entries, std::size_t(1) << 2 * bits.size(), "a generator");
            return angles;
        }
        check_size(bits.size(), std::size_t(facts(Formula(formula)).bits), "the bits of a formula");
    }
    return angles;
}

std::vector<Factor> checked_factors(const std::vector<FactorData>& factors, int num_bits, int& num_angles) {
    std::vector<Factor> result;
    for (const auto& [formula, slots, bits, matrix] : factors) {
        num_angles = std::max(num_angles, check_factor(formula, slots, bits, matrix.size(), num_bits));
        result.push_back({{Formula(formula), slots, Matrix(matrix.begin(), matrix.end())}, bits});
    }
    return result;
}

int check_affine(const std::vector<std::pair<int, double>>& slots) {
    int angles = 0;
    for (const auto& [slot, coefficient] : slots) {
        check_slot(slot);
        angles = std::max(angles, slot + 1);
    }
    return angles;
}

void check_term(int first, int second, int t) {
    if (first == -1 && second == -1) return;
    check_range(first, 0, t + far_bits - 1, "a bit of a diagonal term");
    check_range(second, first, t + far_bits - 1, "the second bit of a diagonal term");
}

void check_sources(const std::vector<std::uint32_t>& source, int t) {
    check_size(source.size(), std::size_t(1) << t, "the sources of a tile");
    std::vector<bool> seen(source.size());
    for (std::uint32_t s : source) {
        check_range(s, 0, std::int64_t(source.size()) - 1, "a source");
        if (seen[s]) refuse("sources must be different; got ", s, " twice");
        seen[s] = true;
    }
}

void check_table(const std::vector<std::pair<int, int>>& bits, int count, std::size_t entries) {
    const int table_bits = checked_bits(entries, "a table");
    for (const auto& [bit, k] : bits) {
        check_range(bit, 0, count - 1, "a bit under a table");
        check_range(k, 0, table_bits - 1, "a bit of a table's index");
    }
}

}  // namespace qdist
