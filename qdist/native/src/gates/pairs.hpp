// Two-qubit matrices as a real rotation of each bit and then, between phases, a real matrix that mixes 00 with 11 and one that
// mixes 01 with 10. Rotations and phases lack their cosines, which the real matrices have; backends/pairs.py says how matrices
// that follow each other become such.
#pragma once
#include <algorithm>
#include <array>

#include "gates/formulas.hpp"

namespace qdist {

// The tangents of the rotations of bit 0 and of bit 1, of the phases of 11 and of 10 before the real matrices, these for 00 and 11
// and for 01 and 10, row by row, and the tangents after them: of 11, 01 and 10. Bit 0 is named last.
using PairNumbers = std::array<double, 15>;

// The steps of a pair on its four amplitudes, by their index.
struct PairSteps {
    explicit PairSteps(const PairNumbers& n)
        : tangent{n[0], n[1]},
          before{0, 0, n[3], n[2]},
          own{n[4], n[8], n[11], n[7]},
          other{n[5], n[9], n[10], n[6]},
          after{0, n[13], n[14], n[12]} {}

    // Calls f with each number.
    template <class F>
    void each(F f) {
        std::for_each(tangent.begin(), tangent.end(), f);
        for (auto* some : {&before, &own, &other, &after}) std::for_each(some->begin(), some->end(), f);
    }

    Matrix matrix() const {
        Matrix result(16);
        for (int column = 0; column < 4; ++column) {
            Complex x[4] = {};
            x[column] = 1;
            for (int bit = 0; bit < 2; ++bit)
                for (int k = 0; k < 4; ++k) {
                    if (k >> bit & 1) continue;
                    const Complex zero = x[k], one = x[k | 1 << bit];
                    x[k] = zero - tangent[bit] * one;
                    x[k | 1 << bit] = one + tangent[bit] * zero;
                }
            for (int k = 0; k < 4; ++k) x[k] *= Complex(1, before[k]);
            for (int k = 0; k < 4; ++k) result[4 * k + column] = (own[k] * x[k] + other[k] * x[k ^ 3]) * Complex(1, after[k]);
        }
        return result;
    }

    std::array<double, 2> tangent;
    // The tangent of an amplitude's phase; what it and the one with both bits flipped are multiplied by; its phase's again.
    std::array<double, 4> before, own, other, after;
};

}  // namespace qdist
