// Diagonals of a row block that are the same for all rows: amplitude s is multiplied by exp(-i/2 sum of theta_z (-1)^|z & s|)
// over masks z. The phases of all s are a Walsh-Hadamard transform of the angles, and the derivatives by all angles one of
// the sums over rows of Im(conj(bra_s) ket_s).
#pragma once
#include <vector>

#include "batch/angles.hpp"
#include "batch/walk.hpp"

namespace qdist::batch {

struct Term {
    Index mask;
    int angle;
};

// x_s = sum over z of x_z (-1)^|z & s|, in place.
inline void walsh_transform(double* x, std::size_t size) {
    for (std::size_t half = 1; half < size; half *= 2)
        for (std::size_t start = 0; start < size; start += 2 * half)
            for (std::size_t k = start; k < start + half; ++k) {
                const double a = x[k], b = x[k + half];
                x[k] = a + b;
                x[k + half] = a - b;
            }
}

// exp(-i/2 phase) for each amplitude: real parts, then imaginary parts. room: 3 * size numbers.
template <class Real>
void fill_phases(const std::vector<Term>& terms, const double* angles, std::size_t size, Real* table, std::vector<double>& room) {
    room.assign(3 * size, 0);
    for (const Term& term : terms) room[term.mask] += angles[term.angle];
    walsh_transform(room.data(), size);
    for (std::size_t s = 0; s < size; ++s) room[s] = reduced(room[s]);
    half_turns(room.data(), room.data() + size, room.data() + 2 * size, size);
    for (std::size_t s = 0; s < size; ++s) table[s] = Real(room[size + s]), table[size + s] = Real(-room[2 * size + s]);
}

template <class Real>
void multiply_phases(const Real* table, std::size_t size, Real* state) {
    constexpr std::size_t W = rows<Real>;
    for (std::size_t s = 0; s < size; ++s) {
        Real *const re = state + s * W, *const im = re + size * W;
        const Vec<Real> x = load(re), y = load(im);
        store(re, table[s] * x - table[size + s] * y);
        store(im, table[s] * y + table[size + s] * x);
    }
}

// Undoes it on ket and bra. sums: Im(conj(bra_s) ket_s) is added for each s, over all lanes, where they are wanted.
template <class Real>
void undo_phases(const Real* table, std::size_t size, Real* ket, Real* bra, double* sums) {
    constexpr std::size_t W = rows<Real>;
    for (std::size_t s = 0; s < size; ++s) {
        Real *const kr = ket + s * W, *const ki = kr + size * W, *const br = bra + s * W, *const bi = br + size * W;
        const Vec<Real> a = load(kr), b = load(ki), c = load(br), d = load(bi);
        if (sums) {
            Vec<Real> v = c * b - d * a;
            if constexpr (W >= 16) v += lane_xor<8>(v);
            if constexpr (W >= 8) v += lane_xor<4>(v);
            if constexpr (W >= 4) v += lane_xor<2>(v);
            v += lane_xor<1>(v);
            sums[s] += double(v[0]);
        }
        const Real p = table[s], q = table[size + s];
        store(kr, p * a + q * b);
        store(ki, p * b - q * a);
        store(br, p * c + q * d);
        store(bi, p * d - q * c);
    }
}

}  // namespace qdist::batch
