// Gates as schedulers see them: which qubits they mix, and which other gates they may pass.
#pragma once
#include <bit>
#include <cstdint>

namespace qdist {

using Mask = std::uint64_t;

// Calls f with the number of each bit that is set.
template <class F>
void each_bit(Mask mask, F f) {
    for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

// What a gate does to qubits: it mixes some; it commutes with Z on some (controls, diagonals) and with X on some of those
// that it mixes. Gates that commute on every qubit they share may pass each other.
struct Action {
    Mask mixes, x_like, z_like;
    double weight;
};

}  // namespace qdist
