// Checks of the gates that are handed to a scheduler or to the search.
#pragma once
#include <span>

#include "actions.hpp"
#include "checks.hpp"

namespace qdist {

// As many masks of each kind, all of the qubits that there are.
inline void check_masks(std::span<const Mask> mixes, std::span<const Mask> x_like, std::span<const Mask> z_like) {
    check_size(x_like.size(), mixes.size(), "x_like");
    check_size(z_like.size(), mixes.size(), "z_like");
}

inline void check_actions(std::span<const Mask> mixes, std::span<const Mask> x_like, std::span<const Mask> z_like, int num_qubits, int close) {
    check_masks(mixes, x_like, z_like);
    check_range(num_qubits, 0, 64, "the number of qubits");
    check_range(close, 0, 64, "the number of close qubits");
    // Conditions and phases may be of qubits beyond those that are scheduled: of shards on other ranks.
    for (auto masks : {mixes, x_like})
        for (Mask mask : masks) check_mask(mask, num_qubits, "a gate's qubits");
}

}  // namespace qdist
