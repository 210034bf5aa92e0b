#include "tile/lane_groups.hpp"

#include <utility>

#include "base/bits.hpp"

namespace qdist {
namespace {

// Vectors over GF(2) in echelon form, each with what it is a combination of.
class Elimination {
public:
    // What is left of a vector, and of the combination that it is.
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

}  // namespace

bool LaneGroups::is_affine(const std::vector<std::uint32_t>& source) {
    for (std::size_t i = 1; i < source.size(); ++i) {
        const std::size_t low = i & -i;
        if (source[i] != (source[i ^ low] ^ source[low] ^ source[0])) return false;
    }
    return true;
}

LaneGroups::LaneGroups(const std::vector<std::uint32_t>& source, std::size_t lanes) {
    const auto moved = [&](std::size_t i) { return std::size_t(source[i] ^ source[0]); };
    const auto row = [=](std::size_t i) { return i & ~(lanes - 1); };
    const auto lane = [=](std::size_t i) { return i & (lanes - 1); };
    Elimination image, with_rows;  // B by lanes, which gives U; then A too, by rows
    for (std::size_t l = 1; l < lanes; l *= 2)
        if (image.add(row(moved(l)), l)) with_rows.add(row(moved(l)), 0);
    depth = int(image.size());
    // Bases of V and U that E maps to each other, and Q. Where A is not singular it is E.
    std::vector<std::size_t> to, from, after, singular;
    Elimination used;
    for (std::size_t v = lanes; v < source.size(); v *= 2) {
        const auto [left, combination] = with_rows.reduced(row(moved(v)), v);
        if (left) {
            with_rows.add(left, combination);
            others |= v;
        } else if (const std::size_t u = row(moved(combination)); used.add(u, 0)) {
            to.push_back(combination), from.push_back(u), after.push_back(0);
        } else {
            singular.push_back(combination);
        }
    }
    for (const std::size_t v : singular) {
        std::size_t l = 1;
        while (!used.add(row(moved(l)), 0)) l *= 2;
        const std::size_t u = row(moved(l));
        to.push_back(v), from.push_back(u), after.push_back(image.reduced(row(moved(v)) ^ u, 0).second);
    }
    Elimination basis;
    for (int j = 0; j < depth; ++j) basis.add(from[j], std::size_t(1) << j);
    for (std::size_t c = 0; c < std::size_t(1) << depth; ++c) {
        Row& at = rows[c];
        each_bit(c, [&](int j) {
            at.to ^= to[j], at.from ^= from[j], at.after ^= after[j];
            at.before ^= lane(moved(to[j])) ^ lane(moved(after[j]));
        });
        permutes_again = permutes_again || at.after;
    }
    for (std::size_t l = 0; l < lanes; ++l) {
        coordinates[l] = basis.reduced(row(moved(l)), 0).second;
        place[l] = lane(moved(l)) ^ rows[coordinates[l]].before;
    }
    for (std::size_t r = 0, i = 0; r < source.size() / lanes >> depth; ++r, i = next_within(i, others)) first.push_back(source[i]);
}

}  // namespace qdist
