// The numbers of 4x4 matrices that keep parities, where a GPU's kernels run them with a third fewer multiplications.
//
// Such a matrix is two of 2 by 2, one for 00 and 11 and one for 01 and 10. A *lean* one has each of the form diag(p) S (c, -s; s, c)
// S^-1 with phases p and S = diag(1, i): turns about XX and YY, then phases. A phase without its cosine is 1 + i tangent, two
// multiplications and additions an amplitude; the real matrix has the cosines. The phase of 00 is handed on to the next matrix.
#pragma once
#include <array>
#include <cmath>
#include <complex>

namespace qdist {

class LeanNumbers {
public:
    using Complex = std::complex<double>;
    // The entries that mix 00 with 11, then those that mix 01 with 10, row by row.
    using Entries = std::array<Complex, 8>;
    static constexpr int count = 16;

    // The real matrices, then the tangents of 11, 01 and 10 behind a zero, and four zeros.
    std::array<double, count> lean(const Entries& matrix) {
        const std::array<Block, 2> blocks = {decomposed(&matrix[0]), decomposed(&matrix[4])};
        const Complex common = blocks[0].p[0];
        std::array<double, count> found{};
        for (int b = 0; b < 2; ++b) {
            const double entries[4] = {blocks[b].c, -blocks[b].s, blocks[b].s, blocks[b].c};
            for (int row = 0; row < 2; ++row) {
                const Complex phase = b + row == 0 ? Complex(1) : blocks[b].p[row] * std::conj(common);
                // So small a cosine keeps its tangent within single precision, and is right to as much.
                constexpr double smallest = 1e-15;
                const double cosine = std::abs(phase.real()) < smallest ? smallest : phase.real();
                found[8 + 2 * b + row] = phase.imag() / cosine;
                for (int column = 0; column < 2; ++column) found[4 * b + 2 * row + column] = cosine * entries[2 * row + column];
            }
        }
        handed_on_ *= common;
        return found;
    }

    // All entries of a matrix that hands on nothing.
    std::array<double, count> whole(const Entries& matrix) {
        std::array<double, count> found{};
        for (int e = 0; e < 8; ++e) {
            const Complex z = handed_on_ * matrix[e];
            found[2 * e] = z.real(), found[2 * e + 1] = z.imag();
        }
        handed_on_ = 1;
        return found;
    }

private:
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

    Complex handed_on_ = 1;
};

}  // namespace qdist
