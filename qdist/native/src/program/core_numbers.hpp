// The numbers of a 4x4 unitary that keeps parities, as a GPU's kernels read them (backends/cuda/sources/ops.cuh: core).
//
// It is two matrices of 2 by 2, one for 00 and 11 and one for 01 and 10. Each is diag(p) S (c, -s; s, c) S^-1 diag(1, q) with
// phases p and q and S = diag(1, i), so that rotations about XX and YY have no phases at all. A phase without its cosine is
// 1 + i tangent, two multiplications and additions an amplitude, and none where the tangent is 0; the real matrix has the cosines.
#pragma once
#include <array>
#include <cmath>
#include <complex>

namespace qdist {

class CoreNumbers {
public:
    using Complex = std::complex<double>;
    static constexpr int count = 16;

    // matrix: the entries that mix 00 with 11, then those that mix 01 with 10, row by row. The phase of 00 is handed on to the
    // next of such matrices, but by the last. Returns the real matrices, then the tangents of 00, 11, 01 and 10 after them, then those
    // of 11 and 10 before them, and two zeros.
    std::array<double, count> next(const std::array<Complex, 8>& matrix, bool last) {
        std::array<double, count> found{};
        std::array<Block, 2> blocks = {decomposed(&matrix[0]), decomposed(&matrix[4])};
        const Complex common = last ? Complex(1) : blocks[0].p[0] * handed_on_;
        for (int b = 0; b < 2; ++b) {
            auto& [p, c, s, q] = blocks[b];
            Phase after[2], before(q);
            for (int r = 0; r < 2; ++r) {
                after[r] = Phase(p[r] * handed_on_ * std::conj(common));
                found[8 + 2 * b + r] = after[r].tangent;
            }
            found[12 + b] = before.tangent;
            const double entries[4] = {c, -s, s, c};
            for (int k = 0; k < 4; ++k) found[4 * b + k] = entries[k] * after[k >> 1].cosine * (k & 1 ? before.cosine : 1);
        }
        handed_on_ = common;
        return found;
    }

private:
    struct Block {
        std::array<Complex, 2> p;
        double c, s;
        Complex q;
    };

    struct Phase {
        double cosine = 1, tangent = 0;

        Phase() = default;
        explicit Phase(Complex z) {
            // So small a cosine keeps its tangent within single precision, and is right to as much; as small a sine is none.
            constexpr double smallest = 1e-15;
            cosine = std::abs(z.real()) < smallest ? smallest : z.real();
            tangent = std::abs(z.imag()) < smallest ? 0 : z.imag() / cosine;
        }
    };

    static Block decomposed(const Complex* u) {
        constexpr double negligible = 1e-18;
        const Complex i(0, 1), v01 = i * u[1], v10 = -i * u[2];
        const double c = std::abs(u[0]), s = std::abs(v10);
        if (s < negligible) return {{u[0] / c, u[3] / c}, c, 0, 1};
        if (c < negligible) return {{-v01 / s, v10 / s}, 0, s, 1};
        const Complex p = v10 / s, q = u[3] / (c * p);
        if (q.real() < 0) return {{u[0] / c, -p}, c, -s, -q};
        return {{u[0] / c, p}, c, s, q};
    }

    Complex handed_on_ = 1;
};

}  // namespace qdist
