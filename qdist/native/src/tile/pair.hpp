// Two-qubit matrices, divided into steps (gates/pairs.hpp), on a tile: 42 multiplications for four amplitudes, not 64.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/simd.hpp"
#include "gates/pairs.hpp"
#include "tile/dense_shape.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// A pair on two bits of a tile.
template <class Real>
class Pair {
public:
    Pair(const DenseShape<Real>& shape, const PairNumbers& numbers) : shape_(shape), given_(numbers), steps_(numbers) {}

    // What it is multiplied by. Returns the factor by which the numbers' rounding scales the norm.
    double set(double factor) {
        steps_ = given_;
        for (auto* some : {&steps_.own, &steps_.other})
            for (double& x : *some) x *= factor;
        steps_.each([](double& x) { x = Real(x); });
        if (!shape_.plain_) set_lanes();
        double norm = 0;
        for (Complex z : steps_.matrix()) norm += std::norm(z);
        return std::sqrt(norm / 4) / std::abs(factor);
    }

    void apply(Tile<Real> tile) const {
        if (shape_.plain_) return rows(tile);
        shape_.specialised([&]<int Rows, int Perms, int X1, int X2>() {
            if constexpr (Rows * Perms == 4 && Perms > 1) in_lanes<Rows, X1, X2>(tile);
        });
    }

private:
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;

    // (1, -t; t, 1)
    QDIST_INLINE static void rotate(V t, V& p, V& q) {
        const V old = p;
        p -= t * q;
        q += t * old;
    }
    // 1 + i t
    QDIST_INLINE static void turn(V t, V& re, V& im) {
        const V old = re;
        re -= t * im;
        im += t * old;
    }

    // Both bits are above the lanes.
    void rows(Tile<Real> tile) const {
        V tangent[2], before[4], own[4], other[4], after[4];
        for (int b = 0; b < 2; ++b) tangent[b] = splat(Real(steps_.tangent[b]));
        for (int k = 0; k < 4; ++k) {
            before[k] = splat(Real(steps_.before[k]));
            own[k] = splat(Real(steps_.own[k]));
            other[k] = splat(Real(steps_.other[k]));
            after[k] = splat(Real(steps_.after[k]));
        }
        std::size_t o[4];
        std::copy_n(shape_.offset_.data(), 4, o);
        // By value: numbers that are reached through a pointer are loaded again for every vector.
        shape_.runs_.each([=](std::size_t first, std::size_t length) QDIST_INLINE {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V r[4], s[4], c[4], d[4];
                unrolled<4>([&](auto k) QDIST_INLINE { r[k] = load(tile.re + i + o[k]), s[k] = load(tile.im + i + o[k]); });
                unrolled<2>([&](auto k) QDIST_INLINE {
                    rotate(tangent[0], r[2 * k], r[2 * k + 1]), rotate(tangent[0], s[2 * k], s[2 * k + 1]);
                });
                unrolled<2>([&](auto k) QDIST_INLINE {
                    rotate(tangent[1], r[k], r[k + 2]), rotate(tangent[1], s[k], s[k + 2]);
                    turn(before[k + 2], r[k + 2], s[k + 2]);
                });
                // The largest product, mostly that with the amplitude itself, comes last: as part of an FMA it is not rounded.
                unrolled<4>([&](auto k) QDIST_INLINE {
                    c[k] = other[k] * r[k ^ 3] + own[k] * r[k];
                    d[k] = other[k] * s[k ^ 3] + own[k] * s[k];
                    if constexpr (k) turn(after[k], c[k], d[k]);
                    store<Real>(tile.re + i + o[k], c[k]), store<Real>(tile.im + i + o[k], d[k]);
                });
            }
        });
    }

    // What the numbers are in each lane of each row, of which there are one or two.
    struct InLanes {
        V tangent[2];  // of a bit inside the vectors, and of the other one
        V before[2], own[2], other[2], after[2];
    };

    void set_lanes() {
        const auto fill = [&](V& v, std::size_t p, auto number) {
            for (std::size_t l = 0; l < lanes; ++l) v[l] = Real(number(shape_.index(p, l)));
        };
        const auto of = [](const std::array<double, 4>& numbers) { return [&](std::size_t k) { return numbers[k]; }; };
        // What the amplitude with the bit flipped is multiplied by.
        const auto rotation = [&](int target) {
            return [&, target](std::size_t k) { return k >> target & 1 ? steps_.tangent[target] : -steps_.tangent[target]; };
        };
        const bool two_rows = !shape_.row_targets_.empty();
        lanes_.resize(1);
        InLanes& n = lanes_[0];
        fill(n.tangent[0], 0, rotation(shape_.lane_targets_[0]));
        fill(n.tangent[1], two_rows ? 1 : 0, rotation(two_rows ? shape_.row_targets_[0] : shape_.lane_targets_[1]));
        for (std::size_t p = 0; p < shape_.offset_.size(); ++p) {
            fill(n.before[p], p, of(steps_.before));
            fill(n.own[p], p, of(steps_.own));
            fill(n.other[p], p, of(steps_.other));
            fill(n.after[p], p, of(steps_.after));
        }
    }

    // A bit inside the vectors is flipped by X1; X2 flips the other one, where it is inside too.
    template <int Rows, int X1, int X2>
    void in_lanes(Tile<Real> tile) const {
        const InLanes n = lanes_[0];
        Real *const re = tile.re, *const im = tile.im;
        const std::size_t o[2] = {0, shape_.offset_[Rows - 1]};
        shape_.runs_.each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V r[Rows], s[Rows];
                unrolled<Rows>([&](auto p) QDIST_INLINE {
                    r[p] = load(re + i + o[p]), s[p] = load(im + i + o[p]);
                    r[p] += n.tangent[0] * lane_xor<X1>(r[p]), s[p] += n.tangent[0] * lane_xor<X1>(s[p]);
                    if constexpr (Rows == 1) r[p] += n.tangent[1] * lane_xor<X2>(r[p]), s[p] += n.tangent[1] * lane_xor<X2>(s[p]);
                });
                if constexpr (Rows == 2) rotate(n.tangent[1], r[0], r[1]), rotate(n.tangent[1], s[0], s[1]);
                unrolled<Rows>([&](auto p) QDIST_INLINE { turn(n.before[p], r[p], s[p]); });
                unrolled<Rows>([&](auto p) QDIST_INLINE {
                    V c = n.other[p] * lane_xor<X1 ^ X2>(r[Rows - 1 - p]) + n.own[p] * r[p];
                    V d = n.other[p] * lane_xor<X1 ^ X2>(s[Rows - 1 - p]) + n.own[p] * s[p];
                    turn(n.after[p], c, d);
                    store<Real>(re + i + o[p], c), store<Real>(im + i + o[p], d);
                });
            }
        });
    }

    DenseShape<Real> shape_;
    PairSteps given_, steps_;
    AlignedVector<InLanes> lanes_;  // one, where a bit is inside the vectors
};

}  // namespace qdist
