// Matrices of single bits inside a vector, several bits in one pass over a tile: real ones, as of RY, and those whose diagonal
// is real and the rest imaginary, as of RX.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include "base/simd.hpp"
#include "tile/tiles.hpp"

namespace qdist {

template <class Real>
struct LaneMatrix {
    int bit;
    bool is_imaginary;
    // For each lane: what it is multiplied by, and what, times i if it is imaginary, the lane with the bit flipped is.
    const Real *own, *other;
};

template <class Real>
class LaneMatrices {
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;

public:
    static constexpr bool available = LaneOrder<Real>::available;
    // Of how many different bits at once.
    static constexpr int most = Simd<Real>::lane_bits;

    // All matrices are imaginary or none is. size: of what is not zero in the tile.
    static void apply(std::size_t size, const LaneMatrix<Real>* matrices, int count, Tile<Real> tile) {
        with_constant<most>(count - 1, [&](auto less) {
            matrices->is_imaginary ? apply_some<less + 1, true>(size, matrices, tile)
                                   : apply_some<less + 1, false>(size, matrices, tile);
        });
    }

    // The same on ket and bra; adds Im <bra|Y|ket> to each matrix's sum, Im <bra|X|ket> of imaginary ones. A real orthogonal
    // matrix changes at most its sign, which derivatives of the matrix take account of.
    static void apply_both(std::size_t size, const LaneMatrix<Real>* matrices, int count, const TilePair<Real>& tiles,
                           double* const* sums) {
        with_constant<most>(count - 1, [&](auto less) {
            matrices->is_imaginary ? apply_both_some<less + 1, true>(size, matrices, tiles, sums)
                                   : apply_both_some<less + 1, false>(size, matrices, tiles, sums);
        });
    }

private:
    using Order = LaneOrder<Real>;

    // The lanes with each bit flipped.
    static const Order& flip(int bit) {
        static const auto flips = []<std::size_t... b>(std::index_sequence<b...>) {
            return std::array{Order([](std::size_t l) { return l ^ std::size_t(1) << b; })...};
        }(std::make_index_sequence<most>());
        return flips[bit];
    }

    template <bool imaginary>
    QDIST_INLINE static void multiply(V own, V other, V flipped_re, V flipped_im, V& re, V& im) {
        re = imaginary ? own * re - other * flipped_im : own * re + other * flipped_re;
        im = imaginary ? own * im + other * flipped_re : own * im + other * flipped_im;
    }

    template <int count, bool imaginary>
    [[gnu::noinline]] static void apply_some(std::size_t size, const LaneMatrix<Real>* matrices, Tile<Real> tile) {
        V own[count], other[count];
        const auto flips = flips_of<count>(matrices, own, other);
        for (std::size_t i = 0; i < size; i += lanes) {
            V re = load(tile.re + i), im = load(tile.im + i);
            unrolled<count>(
                [&](auto j) QDIST_INLINE { multiply<imaginary>(own[j], other[j], flips[j].of(re), flips[j].of(im), re, im); });
            store<Real>(tile.re + i, re), store<Real>(tile.im + i, im);
        }
    }

    template <int count, bool imaginary>
    [[gnu::noinline]] static void apply_both_some(std::size_t size, const LaneMatrix<Real>* matrices, const TilePair<Real>& tiles,
                                double* const* sums) {
        V own[count], other[count], sum[count] = {};
        const auto flips = flips_of<count>(matrices, own, other);
        const Tile<Real> ket = tiles.ket, bra = tiles.bra;
        // Vectors summed in Real before the sum is added to a double.
        constexpr std::size_t together = 64 * lanes;
        for (std::size_t first = 0; first < size; first += together) {
            for (std::size_t i = first; i < std::min(first + together, size); i += lanes) {
                V k = load(ket.re + i), l = load(ket.im + i), a = load(bra.re + i), b = load(bra.im + i);
                unrolled<count>([&](auto j) QDIST_INLINE {
                    const V flipped_a = flips[j].of(a), flipped_b = flips[j].of(b);
                    sum[j] += flipped_a * (imaginary ? l : k);
                    if constexpr (imaginary)
                        sum[j] -= flipped_b * k;
                    else
                        sum[j] += flipped_b * l;
                    multiply<imaginary>(own[j], other[j], flips[j].of(k), flips[j].of(l), k, l);
                    multiply<imaginary>(own[j], other[j], flipped_a, flipped_b, a, b);
                });
                store<Real>(ket.re + i, k), store<Real>(ket.im + i, l);
                store<Real>(bra.re + i, a), store<Real>(bra.im + i, b);
            }
            for (int j = 0; j < count; ++j) {
                // Ones of the bra come with zeros of the ket in <bra|Y|ket>, and zeros with ones with the other sign.
                V signs = splat(Real(1));
                if (!imaginary)
                    for (std::size_t l = 0; l < lanes; ++l) signs[l] = l >> matrices[j].bit & 1 ? -1 : 1;
                *sums[j] += lane_sum(signs * sum[j]);
                sum[j] = V{};
            }
        }
    }

    template <int count>
    static std::array<Order, count> flips_of(const LaneMatrix<Real>* matrices, V* own, V* other) {
        for (int j = 0; j < count; ++j) own[j] = load(matrices[j].own), other[j] = load(matrices[j].other);
        return [&]<std::size_t... j>(std::index_sequence<j...>) {
            return std::array<Order, count>{flip(matrices[j].bit)...};
        }(std::make_index_sequence<count>());
    }
};

}  // namespace qdist
