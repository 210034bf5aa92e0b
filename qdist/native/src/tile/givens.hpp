// Rotations of single bits above the lanes, real ones (RY) and imaginary ones (RX), as fast Givens rotations, and Hadamard
// gates, up to three bits in one pass over a tile.
//
// x0' = c x0 - s x1, x1' = s x0 + c x1 runs as (1, -t; t, 1) with t = s/c: half the arithmetic. The dropped cosine c is a
// factor of all amplitudes, which is multiplied into another matrix of the stage (program/matrix_setter.hpp).
//
// x0' = c x0 - is x1, x1' = -is x0 + c x1 mixes the real part of x0 with the imaginary part of x1 alone, and the imaginary part
// of x0 with the real part of x1. With several bits, numbers stay in two such planes: those with an even number of ones are real
// parts in one and imaginary parts in the other. In each plane it is a real rotation, whose sign changes with that number.
//
// A Hadamard gate runs as (1, 1; 1, -1): sums and differences alone.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "tile/tiles.hpp"

namespace qdist {

enum class GivensForm { real, imaginary, hadamard };

struct Givens {
    int bit;
    double tangent;  // where the first number is a real part
    GivensForm form = GivensForm::real;

    bool is_imaginary() const { return form == GivensForm::imaginary; }
};

// Which a matrix may run as.
struct GivensForms {
    bool real, imaginary, hadamard;
};

// At most this many in a pass, on one state and on ket and bra together: the vectors of more do not fit the registers. AArch64 has
// as many as AVX-512, but three were not tried there.
#if defined(__AVX512F__)
inline constexpr int max_givens = 3, max_givens_of_both = 3;
#else
inline constexpr int max_givens = 3, max_givens_of_both = 2;
#endif

template <class Real>
class GivensRotations {
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;

public:
    // Rotates a tile of 2^t elements. All rotations have one form.
    static void apply(int t, const Givens* rotations, int count, Tile<Real> tile) {
        with_constant<max_givens>(count - 1, [&](auto M) {
            if (rotations[0].is_imaginary()) {
                apply_some<M + 1, GivensForm::imaginary>(t, rotations, {tile.re, tile.im}, 1);
                apply_some<M + 1, GivensForm::imaginary>(t, rotations, {tile.im, tile.re}, -1);
            } else if (rotations[0].form == GivensForm::real)
                for (Real* x : {tile.re, tile.im}) apply_some<M + 1, GivensForm::real>(t, rotations, {x, x}, 1);
            else
                for (Real* x : {tile.re, tile.im}) apply_some<M + 1, GivensForm::hadamard>(t, rotations, {x, x}, 1);
        });
    }

    // Rotates ket and bra, not by Hadamard gates, and adds Im <bra|Y|ket> of the state before to each rotation's sum, Im <bra|X|ket> of imaginary ones:
    // the derivative of 2 Re <bra|ket> by the angle. With `ends`, the
    // ket is zero afterwards wherever a rotated bit is 1: those halves are not stored, since nothing reads them.
    static void apply_both(int t, const Givens* rotations, int count, bool ends, const TilePair<Real>& tiles,
                           double* const* sums) {
        with_constant<max_givens_of_both>(count - 1, [&](auto M) {
            const auto [ket, bra] = std::pair(tiles.ket, tiles.bra);
            if (rotations[0].is_imaginary()) {
                const auto rotate = ends ? apply_both_some<M + 1, true, true> : apply_both_some<M + 1, true, false>;
                rotate(t, rotations, {ket.re, ket.im}, {bra.re, bra.im}, 1, sums);
                rotate(t, rotations, {ket.im, ket.re}, {bra.im, bra.re}, -1, sums);
            } else {
                const auto rotate = ends ? apply_both_some<M + 1, false, true> : apply_both_some<M + 1, false, false>;
                rotate(t, rotations, {ket.re, ket.re}, {bra.re, bra.re}, 1, sums);
                rotate(t, rotations, {ket.im, ket.im}, {bra.im, bra.im}, 1, sums);
            }
        });
    }

private:
    // The numbers of elements whose rotated bits have an even and an odd number of ones.
    struct Plane {
        Real *even, *odd;

        Real* of(int p) const { return p_is_odd(p) ? odd : even; }
    };
    static constexpr bool p_is_odd(int p) { return std::popcount(unsigned(p)) & 1; }

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

    // sign: of the tangents.
    template <int M, GivensForm form>
    static void apply_some(int t, const Givens* rotations, Plane x, Real sign) {
        const auto o = offsets<M>(rotations);
        V tangent[M];
        for (int j = 0; j < M; ++j) tangent[j] = splat(sign * Real(rotations[j].tangent));
        runs<M>(t, rotations).each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V v[1 << M];
#pragma GCC unroll 8
                for (int p = 0; p < 1 << M; ++p) v[p] = load(x.of(p) + i + o[p]);
#pragma GCC unroll 3
                for (int j = 0; j < M; ++j)
                    if constexpr (form == GivensForm::hadamard)
                        add_and_subtract<M>(v, j);
                    else
                        rotate<M, form == GivensForm::imaginary>(v, j, tangent[j]);
#pragma GCC unroll 8
                for (int p = 0; p < 1 << M; ++p) store<Real>(x.of(p) + i + o[p], v[p]);
            }
        });
    }

    template <int M, bool imaginary, bool ends>
    static void apply_both_some(int t, const Givens* rotations, Plane ket, Plane bra, Real sign, double* const* sums) {
        const auto o = offsets<M>(rotations);
        // Two sums each, so that an addition waits for one before it half as often.
        V tangent[M], sum[M] = {}, less[M] = {};
        for (int j = 0; j < M; ++j) tangent[j] = splat(sign * Real(rotations[j].tangent));
        // Vectors summed in Real before the sum is added to a double.
        constexpr int together = 16;
        int pending = 0;
        const auto flush = [&] {
            for (int j = 0; j < M; ++j) {
                const double all = lane_sum(sum[j] - less[j]);
                *sums[j] += imaginary ? -sign * all : all;
                sum[j] = less[j] = V{};
            }
            pending = 0;
        };
        runs<M>(t, rotations).each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V k[1 << M], b[1 << M];
#pragma GCC unroll 8
                for (int p = 0; p < 1 << M; ++p) k[p] = load(ket.of(p) + i + o[p]), b[p] = load(bra.of(p) + i + o[p]);
#pragma GCC unroll 3
                for (int j = 0; j < M; ++j) {
                    // With `ends`, halves where a bit before j is 1 are no longer needed.
                    const int step = ends ? 1 << j : 1;
#pragma GCC unroll 8
                    for (int p = 0; p < 1 << M; p += step)
                        if (!(p >> j & 1)) {
                            const int first = imaginary && p_is_odd(p) ? p | 1 << j : p, second = first ^ 1 << j;
                            sum[j] += b[second] * k[first];
                            less[j] += b[first] * k[second];
                        }
                    rotate<M, imaginary>(k, j, tangent[j]);
                    rotate<M, imaginary>(b, j, tangent[j]);
                }
#pragma GCC unroll 8
                for (int p = 0; p < (ends ? 1 : 1 << M); ++p)
                    store<Real>(ket.of(p) + i + o[p], k[p]), store<Real>(bra.of(p) + i + o[p], b[p]);
                if (++pending == together) flush();
            }
        });
        flush();
    }

    template <int M>
    static void add_and_subtract(V* v, int j) {
#pragma GCC unroll 8
        for (int p = 0; p < 1 << M; ++p)
            if (!(p >> j & 1)) {
                const V zero = v[p], one = v[p | 1 << j];
                v[p] = zero + one;
                v[p | 1 << j] = zero - one;
            }
    }

    template <int M, bool imaginary>
    static void rotate(V* v, int j, V tangent) {
#pragma GCC unroll 8
        for (int p = 0; p < 1 << M; ++p)
            if (!(p >> j & 1)) {
                // The other sign is the other direction.
                const int first = imaginary && p_is_odd(p) ? p | 1 << j : p, second = first ^ 1 << j;
                const V zero = v[first], one = v[second];
                v[first] = zero - tangent * one;
                v[second] = one + tangent * zero;
            }
    }
};

}  // namespace qdist
