// Real rotations of single bits above the lanes, up to three of different bits in one pass over a tile.
//
// x0' = c x0 - s x1, x1' = s x0 + c x1 is done as x0 - t x1 and x1 + t x0 with t = s/c: half the arithmetic. The factor c
// that is left out is the same everywhere, so that another block can bring it in (program/matrix_setter.hpp).
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include "base/simd.hpp"

namespace qdist {

struct Turn {
    int bit;
    double tangent;
};

// At most this many in a pass, on one state and on ket and bra together: the vectors of more do not fit the registers.
inline constexpr int max_turns = 3, max_turns_of_both = 2;

template <class Real>
class Turns {
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;

public:
    // Turns real or imaginary parts x of a tile of 2^t elements.
    static void apply(int t, const Turn* turns, int count, Real* x) {
        with_constant<max_turns>(count - 1, [&](auto M) { apply_some<decltype(M)::value + 1>(t, turns, x); });
    }

    // Turns ket and bra, and adds sum(bra1 ket0 - bra0 ket1), as it was before, to each turn's sum. With `ends`, the ket is
    // then zero where a turned bit is not: those parts of both are left as they were, which is of no use.
    static void apply_both(int t, const Turn* turns, int count, bool ends, Real* ket, Real* bra, double* const* sums) {
        with_constant<max_turns_of_both>(count - 1, [&](auto M) {
            if (ends)
                apply_both_some<decltype(M)::value + 1, true>(t, turns, ket, bra, sums);
            else
                apply_both_some<decltype(M)::value + 1, false>(t, turns, ket, bra, sums);
        });
    }

private:
    // The elements to start from: those with zeros at the turned bits, a run of neighbours at a time.
    template <int M, class F>
    static void each(int t, const Turn* turns, F&& f) {
        std::array<int, M> bits;
        for (int j = 0; j < M; ++j) bits[j] = turns[j].bit;
        std::sort(bits.begin(), bits.end());
        const std::size_t length = std::size_t(1) << bits[0], count = std::size_t(1) << (t - M);
        for (std::size_t r = 0; r < count; r += length) {
            std::size_t first = r;
            for (int b : bits) first = insert_zero(first, b);
            f(first, length);
        }
    }

    // The distance of each of the 2^M vectors that are turned into each other from the first.
    template <int M>
    static std::array<std::size_t, 1 << M> offsets(const Turn* turns) {
        std::array<std::size_t, 1 << M> o{};
        for (int p = 0; p < 1 << M; ++p)
            for (int j = 0; j < M; ++j)
                if (p >> j & 1) o[p] |= std::size_t(1) << turns[j].bit;
        return o;
    }

    template <int M>
    static void apply_some(int t, const Turn* turns, Real* x) {
        const auto o = offsets<M>(turns);
        V tangent[M];
        for (int j = 0; j < M; ++j) tangent[j] = splat(Real(turns[j].tangent));
        each<M>(t, turns, [&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V v[1 << M];
#pragma GCC unroll 8
                for (int p = 0; p < 1 << M; ++p) v[p] = load(x + i + o[p]);
#pragma GCC unroll 3
                for (int j = 0; j < M; ++j) turn<M>(v, j, tangent[j]);
#pragma GCC unroll 8
                for (int p = 0; p < 1 << M; ++p) store<Real>(x + i + o[p], v[p]);
            }
        });
    }

    template <int M, bool ends>
    static void apply_both_some(int t, const Turn* turns, Real* ket, Real* bra, double* const* sums) {
        const auto o = offsets<M>(turns);
        V tangent[M], sum[M] = {};
        for (int j = 0; j < M; ++j) tangent[j] = splat(Real(turns[j].tangent));
        // So many vectors are added before they become doubles.
        constexpr int together = 16;
        int pending = 0;
        const auto flush = [&] {
            for (int j = 0; j < M; ++j) {
                double total = 0;
                for (std::size_t l = 0; l < lanes; ++l) total += sum[j][l];
                *sums[j] += total;
                sum[j] = V{};
            }
            pending = 0;
        };
        each<M>(t, turns, [&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V k[1 << M], b[1 << M];
#pragma GCC unroll 8
                for (int p = 0; p < 1 << M; ++p) k[p] = load(ket + i + o[p]), b[p] = load(bra + i + o[p]);
#pragma GCC unroll 3
                for (int j = 0; j < M; ++j) {
                    // With `ends`, parts where a bit before j is set are done with.
                    const int step = ends ? 1 << j : 1;
#pragma GCC unroll 8
                    for (int p = 0; p < 1 << M; p += step)
                        if (!(p >> j & 1)) {
                            sum[j] += b[p | 1 << j] * k[p];
                            sum[j] -= b[p] * k[p | 1 << j];
                        }
                    turn<M>(k, j, tangent[j]);
                    turn<M>(b, j, tangent[j]);
                }
#pragma GCC unroll 8
                for (int p = 0; p < (ends ? 1 : 1 << M); ++p) store<Real>(ket + i + o[p], k[p]), store<Real>(bra + i + o[p], b[p]);
                if (++pending == together) flush();
            }
        });
        flush();
    }

    template <int M>
    static void turn(V* v, int j, V tangent) {
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
