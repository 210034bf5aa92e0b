// The matrices of the gates that have angles, and their derivatives. The gate table (circuit/gates.py) says which gates
// there are; a test compares every row of it with these.
//
// A new formula is a line of QDIST_FORMULAS and a case of both switches, which do not compile without it (-Werror=switch).
#pragma once
#include <array>
#include <cmath>

#include "gates/matrix.hpp"

namespace qdist {

// name, number of bits, number of angles, whether the matrix is real whatever the angles are. Constants, phases, exp(i t D)
// of a diagonal D, and rotations, exp(-i t/2 G) with G^3 = G, come with numbers of their own and have any number of bits
// (matrices.hpp).
#define QDIST_FORMULAS(FORMULA)      \
    FORMULA(constant, 0, 0, false)   \
    FORMULA(rx, 1, 1, false)         \
    FORMULA(ry, 1, 1, true)          \
    FORMULA(u, 1, 3, false)          \
    FORMULA(u2, 1, 2, false)         \
    FORMULA(r, 1, 2, false)          \
    FORMULA(rxx, 2, 1, false)        \
    FORMULA(ryy, 2, 1, false)        \
    FORMULA(xx_plus_yy, 2, 2, false) \
    FORMULA(fsim, 2, 2, false)       \
    FORMULA(phased_u, 1, 4, false)   \
    FORMULA(phases, 0, 1, false)     \
    FORMULA(rotation, 0, 1, false)

#define QDIST_NAME(name, bits, angles, real) name,
enum class Formula : int { QDIST_FORMULAS(QDIST_NAME) };
#undef QDIST_NAME

struct FormulaFacts {
    const char* name;
    int bits, angles;
    bool real;
};
#define QDIST_FACTS(name, bits, angles, real) FormulaFacts{#name, bits, angles, real},
inline constexpr auto formulas = std::to_array({QDIST_FORMULAS(QDIST_FACTS)});
#undef QDIST_FACTS
inline constexpr const FormulaFacts& facts(Formula formula) { return formulas[std::size_t(formula)]; }

inline Complex cis(double angle) { return {std::cos(angle), std::sin(angle)}; }

Matrix gate_matrix(Formula formula, const double* a);

// The derivative of gate_matrix(formula, a) by a[k].
Matrix gate_derivative(Formula formula, int k, const double* a);

}  // namespace qdist
