// Gates of two kinds: how often the kind changes on the way to each gate, along gates that may not pass each other.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "actions.hpp"

namespace qdist {

inline std::vector<int> alternations(const std::vector<Action>& gates, const std::vector<bool>& kinds) {
    // The most changes so far to a gate of either kind that acts on a qubit like X, like Z, or like neither.
    using Changes = std::array<std::array<int, 64>, 2>;
    Changes plain, x, z;
    for (Changes* c : {&plain, &x, &z})
        for (auto& kind : *c) kind.fill(-1);
    std::vector<int> result(gates.size());
    for (std::size_t g = 0; g < gates.size(); ++g) {
        const Action& a = gates[g];
        const bool own = kinds[g];
        int most = 0;
        const auto see = [&](const Changes& c, int q) { most = std::max({most, c[own][q], c[!own][q] + 1}); };
        each_bit(a.mixes & ~a.x_like, [&](int q) { see(plain, q), see(x, q), see(z, q); });
        each_bit(a.x_like, [&](int q) { see(plain, q), see(z, q); });
        each_bit(a.z_like, [&](int q) { see(plain, q), see(x, q); });
        const auto note = [&](Changes& c, int q) { c[own][q] = std::max(c[own][q], most); };
        each_bit(a.mixes & ~a.x_like, [&](int q) { note(plain, q); });
        each_bit(a.x_like, [&](int q) { note(x, q); });
        each_bit(a.z_like, [&](int q) { note(z, q); });
        result[g] = most;
    }
    return result;
}

}  // namespace qdist
