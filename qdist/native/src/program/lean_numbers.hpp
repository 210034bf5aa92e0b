// The numbers of 4x4 matrices that keep parities, where a GPU's kernels run them with a third fewer multiplications.
//
// Such a matrix is two of 2 by 2, one for 00 and 11 and one for 01 and 10. A *lean* one has each of the form diag(p) S (c, -s; s, c)
// S^-1 with phases p and S = diag(1, i): turns about XX and YY, then phases. A phase without its cosine is 1 + i tangent, two
// multiplications and additions an amplitude; the real matrix has the cosines. The phase of 00 is handed on to the next matrix.
//
// Gates that share an angle share its rounding too, and errors of one sign add up from gate to gate. So in single precision the
// numbers of a row are not the nearest: its two entries have the right ratio, and their scale, as the tangent's phase, makes up for
// what the same row of the matrices before is off by.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "program/matrix_setter.hpp"

namespace qdist {

template <class Real>
class LeanNumbers {
public:
    using Complex = std::complex<double>;
    // The entries that mix 00 with 11, then those that mix 01 with 10, row by row.
    using Entries = std::array<Complex, 8>;
    static constexpr int count = 16;
    using Numbers = std::array<Real, count>;

    // growth: what the norm is multiplied by elsewhere, which the first matrices make up for.
    explicit LeanNumbers(double growth) { scales_.fill(growth - 1); }

    // The real matrices, then the tangents of 11, 01 and 10 behind a zero, and four zeros.
    Numbers lean(const Entries& matrix) {
        const std::array<Block, 2> blocks = {decomposed(&matrix[0]), decomposed(&matrix[4])};
        const Complex common = blocks[0].p[0];
        Numbers found{};
        for (int row = 0; row < 4; ++row) {
            const Block& block = blocks[row / 2];
            double cosine = 1;
            if (row > 0) {
                const Complex phase = block.p[row % 2] * std::conj(common);
                // So small a cosine keeps its tangent within single precision, and is right to as much.
                constexpr double smallest = 1e-15;
                cosine = std::abs(phase.real()) < smallest ? smallest : phase.real();
                const Real tangent = rounded_tangent(row, phase.imag() / cosine);
                cosine = std::copysign(1 / std::sqrt(1 + double(tangent) * tangent), cosine);
                found[8 + row] = tangent;
            }
            const double c = cosine * block.c, s = cosine * block.s;
            const auto entries = row % 2 ? rounded_row(row, s, c) : rounded_row(row, c, -s);
            found[2 * row] = entries[0], found[2 * row + 1] = entries[1];
        }
        handed_on_ *= common;
        return found;
    }

    // All entries of a matrix that hands on nothing.
    Numbers whole(const Entries& matrix) {
        Numbers found{};
        for (int row = 0; row < 4; ++row) {
            Complex own[2];
            for (int k = 0; k < 2; ++k) {
                own[k] = handed_on_ * matrix[2 * row + k] / (1 + scales_[row]);
                found[4 * row + 2 * k] = Real(own[k].real()), found[4 * row + 2 * k + 1] = Real(own[k].imag());
            }
            if (rounds) scales_[row] = rounding_scale<Real>(own, 2) - 1;
        }
        handed_on_ = 1;
        return found;
    }

private:
    static constexpr bool rounds = std::is_same_v<Real, float>;

    struct Block {
        std::array<Complex, 2> p;
        double c, s;
    };

    // Phases are read off the larger entry of each row.
    static Block decomposed(const Complex* u) {
        const Complex i(0, 1), v01 = i * u[1], v10 = -i * u[2];
        const Complex large = std::abs(u[0]) >= std::abs(v01) ? u[0] : v01, p = large / std::abs(large);
        const double c = (u[0] * std::conj(p)).real(), s = -(v01 * std::conj(p)).real();
        const Complex q = std::abs(c) >= std::abs(s) ? u[3] / c : v10 / s;
        return {{p, q / std::abs(q)}, c, s};
    }

    Real rounded_tangent(int row, double exact) {
        Real chosen = Real(exact);
        if constexpr (rounds) {
            const auto error = [&](Real t) { return phases_[row] + (t - exact) / (1 + exact * exact); };
            const Real next = std::nextafter(chosen, std::copysign(std::numeric_limits<Real>::infinity(), Real(-error(chosen))));
            if (std::abs(error(next)) < std::abs(error(chosen))) chosen = next;
            phases_[row] = error(chosen);
        }
        return chosen;
    }

    // For each float near the larger number the other one that gives the right angle: the best of these pairs.
    std::array<Real, 2> rounded_row(int row, double a, double b) {
        if constexpr (!rounds) return {a, b};
        constexpr int reach = 3;  // units in the last place
        constexpr double of_an_angle = 2;  // what its error counts, that of the scale being 1
        const bool swapped = std::abs(a) < std::abs(b);
        const double large = swapped ? b : a, small = swapped ? a : b, ratio = small / large, by = 1 / (a * a + b * b);
        const auto nearest = std::bit_cast<std::int32_t>(float(large));
        double least = std::numeric_limits<double>::infinity(), scale = 0;
        float chosen[2] = {float(a), float(b)};
        for (int k = -reach; k <= reach; ++k) {
            const float x = std::bit_cast<float>(nearest + k), y = float(x * ratio);
            const double dx = x - large, dy = y - small;
            const double angle = (large * dy - small * dx) * by, after = scales_[row] + (large * dx + small * dy) * by;
            const double error = of_an_angle * std::abs(angle) + std::abs(after);
            if (error < least) least = error, scale = after, chosen[swapped] = x, chosen[!swapped] = y;
        }
        scales_[row] = scale;
        return {Real(chosen[0]), Real(chosen[1])};
    }

    Complex handed_on_ = 1;
    // What each row is off by so far: relative, and in radians.
    std::array<double, 4> scales_, phases_{};
};

}  // namespace qdist
