// Gates of two kinds: how often the kind changes on the way to each gate, along gates that may not pass each other.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "search/commute.hpp"

namespace qdist {

inline std::vector<int> alternations(const std::vector<Action>& gates, const std::vector<bool>& kinds) {
    // The most changes on the way to a gate of either kind.
    using Changes = std::array<int, 2>;
    Frontier<Changes> frontier({-1, -1});
    std::vector<int> result(gates.size());
    for (std::size_t g = 0; g < gates.size(); ++g) {
        const bool own = kinds[g];
        int most = 0;
        frontier.before(gates[g], [&](const Changes& c) { most = std::max({most, c[own], c[!own] + 1}); });
        frontier.add(gates[g], [&](Changes& c) { c[own] = std::max(c[own], most); });
        result[g] = most;
    }
    return result;
}

}  // namespace qdist
