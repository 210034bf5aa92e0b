// Real rotations (RY) of single bits above the lanes as fast Givens rotations, up to three bits in one pass over a tile.
//
// x0' = c x0 - s x1, x1' = s x0 + c x1 runs as (1, -t; t, 1) with t = s/c: half the arithmetic. The dropped cosine c is a
// factor of all amplitudes, which is multiplied into another matrix of the stage (program/matrix_setter.hpp).
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "tile/tiles.hpp"

namespace qdist {

struct Givens {
    int bit;
    double tangent;
};

// At most this many in a pass, on one state and on ket and bra together: the vectors of more do not fit the registers.
inline constexpr int max_givens = 3, max_givens_of_both = 2;

template <class Real>
class GivensRotations {
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;

public:
    // Rotates a tile of 2^t elements.
    static void apply(int t, const Givens* rotations, int count, Tile<Real> tile) {
        with_constant<max_givens>(count - 1, [&](auto M) {
            for (Real* x : {tile.re, tile.im}) apply_some<M + 1>(t, rotations, x);
        });
    }

    // Rotates ket and bra, and adds sum(bra1 ket0 - bra0 ket1) of the state before to each rotation's sum. With `ends`, the
    // ket is zero afterwards wherever a rotated bit is 1: those halves are not stored, since nothing reads them.
    static void apply_both(int t, const Givens* rotations, int count, bool ends, const TilePair<Real>& tiles,
                           double* const* sums) {
        with_constant<max_givens_of_both>(count - 1, [&](auto M) {
            const auto rotate = ends ? apply_both_some<M + 1, true> : apply_both_some<M + 1, false>;
            rotate(t, rotations, tiles.ket.re, tiles.bra.re, sums);
            rotate(t, rotations, tiles.ket.im, tiles.bra.im, sums);
        });
    }

private:
    // The elements with zeros at the rotated bits.
    template <int M>
    static Runs runs(int t, const Givens* rotations) {
        std::array<int, M> bits;
        for (int j = 0; j < M; ++j) bits[j] = rotations[j].bit;
        return Runs(t, bits, 0, Simd<Real>::lane_bits);
    }

    // The offset from the first of each of the 2^M vectors that the rotations mix.
    template <int M>
    static std::array<std::size_t, 1 << M> offsets(const Givens* rotations) {
        std::array<std::size_t, 1 << M> o{};
        for (int p = 0; p < 1 << M; ++p)
            for (int j = 0; j < M; ++j)
                if (p >> j & 1) o[p] |= std::size_t(1) << rotations[j].bit;
        return o;
    }

    template <int M>
    static void apply_some(int t, const Givens* rotations, Real* x) {
        const auto o = offsets<M>(rotations);
        V tangent[M];
        for (int j = 0; j < M; ++j) tangent[j] = splat(Real(rotations[j].tangent));
        runs<M>(t, rotations).each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V v[1 << M];
#pragma GCC unroll 8
                for (int p = 0; p < 1 << M; ++p) v[p] = load(x + i + o[p]);
#pragma GCC unroll 3
                for (int j = 0; j < M; ++j) rotate<M>(v, j, tangent[j]);
#pragma GCC unroll 8
                for (int p = 0; p < 1 << M; ++p) store<Real>(x + i + o[p], v[p]);
            }
        });
    }

    template <int M, bool ends>
    static void apply_both_some(int t, const Givens* rotations, Real* ket, Real* bra, double* const* sums) {
        const auto o = offsets<M>(rotations);
        V tangent[M], sum[M] = {};
        for (int j = 0; j < M; ++j) tangent[j] = splat(Real(rotations[j].tangent));
        // Vectors summed in Real before the sum is added to a double.
        constexpr int together = 16;
        int pending = 0;
        const auto flush = [&] {
            for (int j = 0; j < M; ++j) {
                *sums[j] += lane_sum(sum[j]);
                sum[j] = V{};
            }
            pending = 0;
        };
        runs<M>(t, rotations).each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V k[1 << M], b[1 << M];
#pragma GCC unroll 8
                for (int p = 0; p < 1 << M; ++p) k[p] = load(ket + i + o[p]), b[p] = load(bra + i + o[p]);
#pragma GCC unroll 3
                for (int j = 0; j < M; ++j) {
                    // With `ends`, halves where a bit before j is 1 are no longer needed.
                    const int step = ends ? 1 << j : 1;
#pragma GCC unroll 8
                    for (int p = 0; p < 1 << M; p += step)
                        if (!(p >> j & 1)) {
                            sum[j] += b[p | 1 << j] * k[p];
                            sum[j] -= b[p] * k[p | 1 << j];
                        }
                    rotate<M>(k, j, tangent[j]);
                    rotate<M>(b, j, tangent[j]);
                }
#pragma GCC unroll 8
                for (int p = 0; p < (ends ? 1 : 1 << M); ++p)
                    store<Real>(ket + i + o[p], k[p]), store<Real>(bra + i + o[p], b[p]);
                if (++pending == together) flush();
            }
        });
        flush();
    }

    template <int M>
    static void rotate(V* v, int j, V tangent) {
#pragma GCC unroll 8
        for (int p = 0; p < 1 << M; ++p)
            if (!(p >> j & 1)) {
                const V zero = v[p], one = v[p | 1 << j];
                v[p] = zero - tangent * one;
                v[p | 1 << j] = one + tangent * zero;
            }
    }
};

}  // namespace qdist
