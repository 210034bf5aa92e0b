// Matrices of three and more bits of a tile, under controls.
#pragma once
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "gates/formulas.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// Bits that are inside a vector change places with others above for the time, if there are as many; else elements are gathered
// one by one.
template <class Real>
class Wide {
public:
    Wide(int t, std::vector<int> targets, std::size_t control_mask, std::size_t control_value)
        : targets_(std::move(targets)), control_mask_(control_mask), control_value_(control_value) {
        narrow(t);
    }

    // For a tile of so many bits.
    void narrow(int t) {
        t_ = t;
        places_.clear();
        std::vector<int> targets = targets_;
        std::size_t mask = control_mask_, value = control_value_, used = control_mask_;
        for (int target : targets_) used |= std::size_t(1) << target;
        int above = lane_bits;
        in_rows_ = true;
        for (int bit = 0; bit < lane_bits; ++bit) {
            if (!(used >> bit & 1)) continue;
            while (above < t_ && used >> above & 1) ++above;
            if (above >= t_) in_rows_ = false;
            if (!in_rows_) break;
            std::ranges::replace(targets, bit, above);
            mask = exchanged(mask, bit, above), value = exchanged(value, bit, above);
            places_.emplace_back(bit, above++);
        }
        if (!in_rows_) targets = targets_, mask = control_mask_, value = control_value_;
        std::vector<int> fixed = positions_of(mask);
        fixed.insert(fixed.end(), targets.begin(), targets.end());
        runs_ = Runs(t_, fixed, value, in_rows_ ? lane_bits : 0);
        offset_ = all_scattered(targets);
    }

    // The matrix, 2^k x 2^k, bit j of its index being target j.
    void set(const Matrix& m) {
        const std::size_t size = offset_.size();
        re_.resize(size * size);
        im_.resize(size * size);
        for (std::size_t p = 0; p < size; ++p)
            for (std::size_t q = 0; q < size; ++q) {
                re_[q * size + p] = Real(m[p * size + q].real());
                im_[q * size + p] = Real(m[p * size + q].imag());
            }
    }

    void apply(Tile<Real> tile) const {
        if (!in_rows_) return elements(tile);
        exchange_all(tile);
        if (offset_.size() == 8)
            rows_of<8>(tile);
        else if (offset_.size() == 16)
            rows_of<16>(tile);
        else
            rows(tile);
        exchange_all(tile);
    }

private:
    using V = Vec<Real>;
    static constexpr int lane_bits = Simd<Real>::lane_bits;
    static constexpr std::size_t lanes = Simd<Real>::lanes;

    static std::size_t exchanged(std::size_t index, int a, int b) {
        const std::size_t differ = (index >> a ^ index >> b) & 1;
        return index ^ (differ << a | differ << b);
    }

    void exchange_all(Tile<Real> tile) const {
        for (const auto& [bit, other] : places_) exchange_bits(tile.re, bit, other), exchange_bits(tile.im, bit, other);
    }

    // Exchanges an index bit inside a vector with one above.
    void exchange_bits(Real* x, int inside, int above) const {
        with_constant<lane_bits>(inside, [&](auto bit) {
            constexpr std::size_t flip = std::size_t(1) << bit;
            const std::size_t step = std::size_t(1) << above;
            Runs(t_, std::array{above}, 0, lane_bits).each([&](std::size_t first, std::size_t length) {
                for (std::size_t i = first; i < first + length; i += lanes) {
                    const V a = load(x + i), b = load(x + i + step);
                    store<Real>(x + i, shuffled<lanes>(a, b, [](std::size_t l) { return l & flip ? lanes + (l ^ flip) : l; }));
                    store<Real>(x + i + step, shuffled<lanes>(a, b, [](std::size_t l) { return l & flip ? lanes + l : l ^ flip; }));
                }
            });
        });
    }

    // Rows of a product whose sums stay in registers: AVX-512 has 32, and NEON, which has the matrix's entries there too.
#if defined(__AVX512F__)
    static constexpr int rows_at_once = 8;
#elif defined(__aarch64__)
    static constexpr int rows_at_once = 2 * lanes;
#else
    static constexpr int rows_at_once = 4;
#endif

    // Adds a column of the matrix times a vector of amplitudes to `rows` sums: those from row p on.
    template <int rows>
    QDIST_INLINE static void add_column(const Real* re, const Real* im, V r, V s, V* a, V* b) {
        const Entries<rows> c(re), d(im);
#pragma GCC unroll 8
        for (int k = 0; k < rows; ++k) a[k] += c[k] * r, b[k] += c[k] * s;
#pragma GCC unroll 8
        for (int k = 0; k < rows; ++k) a[k] -= d[k] * s, b[k] += d[k] * r;
    }

    // A vector's elements are neighbours. Its amplitudes are loaded once for every `rows_at_once` rows.
    template <int size>
    void rows_of(Tile<Real> tile) const {
        constexpr int rows = std::min(size, rows_at_once);
        std::size_t o[size];
        std::copy_n(offset_.data(), size, o);
        const Real *const c = re_.data(), *const d = im_.data();
        runs_.each([=](std::size_t first, std::size_t length) QDIST_INLINE {
            for (std::size_t i = first; i < first + length; i += lanes) {
                V after[2 * (size - rows) + 1];
                Real *const re = tile.re + i, *const im = tile.im + i;
                V a[rows], b[rows];
                for (int p = 0; p < size; p += rows) {
                    if (p) {
                        std::copy_n(a, rows, after + 2 * (p - rows));
                        std::copy_n(b, rows, after + 2 * p - rows);
                    }
                    std::fill_n(a, rows, V{});
                    std::fill_n(b, rows, V{});
                    for (int q = 0; q < size; ++q) {
                        const int at = q * size + p;
                        add_column<rows>(c + at, d + at, load(re + o[q]), load(im + o[q]), a, b);
                    }
                }
                for (int p = 0; p < size - rows; p += rows)
                    for (int k = 0; k < rows; ++k) {
                        store<Real>(re + o[p + k], after[2 * p + k]);
                        store<Real>(im + o[p + k], after[2 * p + rows + k]);
                    }
                for (int k = 0; k < rows; ++k) {
                    store<Real>(re + o[size - rows + k], a[k]);
                    store<Real>(im + o[size - rows + k], b[k]);
                }
            }
        });
    }

    // The same for any size.
    void rows(Tile<Real> tile) const {
        const std::size_t size = offset_.size();
        AlignedVector<V> before(2 * size), after(2 * size);
        runs_.each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; i += lanes) {
                for (std::size_t q = 0; q < size; ++q) {
                    before[2 * q] = load(tile.re + i + offset_[q]);
                    before[2 * q + 1] = load(tile.im + i + offset_[q]);
                }
                multiply(before.data(), after.data());
                for (std::size_t p = 0; p < size; ++p) {
                    store<Real>(tile.re + i + offset_[p], after[2 * p]);
                    store<Real>(tile.im + i + offset_[p], after[2 * p + 1]);
                }
            }
        });
    }

    // A vector's elements are gathered from wherever the other bits differ.
    void elements(Tile<Real> tile) const {
        const std::size_t size = offset_.size();
        AlignedVector<V> before(2 * size), after(2 * size);
        std::size_t at[lanes], count = 0;
        const auto flush = [&] {
            Real *const x = reinterpret_cast<Real*>(before.data()), *const y = reinterpret_cast<Real*>(after.data());
            for (std::size_t q = 0; q < size; ++q)
                for (std::size_t k = 0; k < count; ++k) {
                    x[2 * q * lanes + k] = tile.re[at[k] + offset_[q]];
                    x[(2 * q + 1) * lanes + k] = tile.im[at[k] + offset_[q]];
                }
            multiply(before.data(), after.data());
            for (std::size_t p = 0; p < size; ++p)
                for (std::size_t k = 0; k < count; ++k) {
                    tile.re[at[k] + offset_[p]] = y[2 * p * lanes + k];
                    tile.im[at[k] + offset_[p]] = y[(2 * p + 1) * lanes + k];
                }
            count = 0;
        };
        runs_.each([&](std::size_t first, std::size_t length) {
            for (std::size_t i = first; i < first + length; ++i) {
                at[count++] = i;
                if (count == lanes) flush();
            }
        });
        if (count) flush();
    }

    // The product with vectors: real parts and imaginary parts in turn.
    void multiply(const V* before, V* after) const {
        const std::size_t size = offset_.size();
        constexpr int rows = rows_at_once;
        for (std::size_t p = 0; p < size; p += rows) {
            V a[rows] = {}, b[rows] = {};
            for (std::size_t q = 0; q < size; ++q) {
                const std::size_t at = q * size + p;
                add_column<rows>(&re_[at], &im_[at], before[2 * q], before[2 * q + 1], a, b);
            }
            for (int k = 0; k < rows; ++k) after[2 * (p + k)] = a[k], after[2 * (p + k) + 1] = b[k];
        }
    }

    // Entries of a matrix that vectors are multiplied by: AArch64 multiplies by a lane of a register, others by a broadcast from
    // memory.
    template <int count>
    class Entries {
    public:
#if defined(__aarch64__)
        explicit Entries(const Real* from) {
            for (int k = 0; k < count / int(lanes); ++k) held_[k] = load(from + k * lanes);
        }
        Real operator[](int k) const { return held_[k / int(lanes)][k % int(lanes)]; }

    private:
        V held_[count / int(lanes)];
#else
        explicit Entries(const Real* from) : from_(from) {}
        Real operator[](int k) const { return from_[k]; }

    private:
        const Real* from_;
#endif
    };

    int t_ = 0;
    std::vector<int> targets_;
    std::size_t control_mask_, control_value_;
    bool in_rows_ = true;                      // no target and no control is inside a vector, or none has to stay there
    std::vector<std::pair<int, int>> places_;  // bits that are exchanged for the time
    std::vector<Index> offset_;                // of each row's vector, or element
    Runs runs_{0, {}, 0, 0};
    AlignedVector<Real> re_, im_;  // column by column
};

}  // namespace qdist
