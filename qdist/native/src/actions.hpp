// Gates as schedulers see them: which qubits they mix, and which other gates they may pass.
#pragma once
#include <cstdint>

namespace qdist {

using Mask = std::uint64_t;

// What a gate does to qubits: it mixes some; it commutes with Z on some (controls, diagonals) and with X on some of those
// that it mixes. Gates that commute on every qubit they share may pass each other.
struct Action {
    Mask mixes, x_like, z_like;
    double weight;
};

// Which gates are held up while the earlier ones that do not run are still to come.
struct Blocked {
    Mask any = 0, for_x = 0, for_z = 0;

    bool stops(const Action& a) const {
        return ((a.mixes & ~a.x_like) & any) || (a.x_like & for_x) || (a.z_like & for_z);
    }
    void add(const Action& a) {
        const Mask plain = a.mixes & ~a.x_like;
        any |= a.mixes | a.z_like;
        for_x |= plain | a.z_like;
        for_z |= a.mixes;
    }
};

}  // namespace qdist
