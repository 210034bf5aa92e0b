// Checks of the gates that are handed to a scheduler or to the search.
#pragma once
#include <span>

#include "base/checks.hpp"
#include "search/commute.hpp"

namespace qdist {

// As many masks of each kind. What is mixed is among the qubits; what is commuted with may be others: on several ranks,
// far controls and diagonals.
inline void check_masks(std::span<const Mask> mixes, std::span<const Mask> x_like, std::span<const Mask> z_like) {
    check_size(x_like.size(), mixes.size(), "x_like");
    check_size(z_like.size(), mixes.size(), "z_like");
}

inline void check_actions(std::span<const Mask> mixes, std::span<const Mask> x_like, std::span<const Mask> z_like, int num_qubits, int close) {
    check_masks(mixes, x_like, z_like);
    check_range(num_qubits, 0, 64, "the number of qubits");
    check_range(close, 0, 64, "the number of close qubits");
    for (Mask mask : mixes) check_mask(mask, num_qubits, "a gate's qubits");
}

}  // namespace qdist
