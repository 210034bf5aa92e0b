// Softmax, cross entropy and layer norm of rows of numbers, their derivatives, and sums of rows and columns: a row is read from
// memory once.
//
// Loops over a row are reductions that OpenMP's `simd` lets compilers split into lanes. NaNs reach the whole row.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/pool.hpp"
#include "base/simd.hpp"

namespace qdist {

// e^x for vectors of x <= 0, to about an ulp; what would be subnormal is 0. 2^n e^r with n the integer nearest to x / log 2: a sum
// with 1.5 * 2^(digits of the mantissa) has n in its lowest bits, from where it moves to the exponent. NaNs stay.
template <class Real>
struct Exponential {
    static constexpr bool single = sizeof(Real) == 4;
    static constexpr int digits = single ? 23 : 52;
    static constexpr Real lowest = single ? Real(-87) : Real(-708);
    // The highest terms of the series, 1 / k! from k = 7 or 13 on; log 2 in two parts, the first of few digits.
    static constexpr int terms = single ? 7 : 13;
    static constexpr Real log2_high = single ? Real(0.693359375) : Real(0.693147180369123816490);
    static constexpr Real log2_low = single ? Real(-2.12194440e-4) : Real(1.90821492927058770002e-10);

    using V = Vec<Real>;
    using Bits = Vec<std::conditional_t<single, std::uint32_t, std::uint64_t>>;

    static V of(V x) {
        constexpr Real magic = Real(std::int64_t(3) << (digits - 1));
        const auto vanishes = x < splat(lowest);
        const V held = vanishes ? splat(lowest) : x, shifted = held * Real(1.4426950408889634) + magic, n = shifted - magic;
        const V r = (held - n * log2_high) - n * log2_low;
        V sum = splat(Real(1) / factorial(terms));
        unrolled<terms>([&](auto k) QDIST_INLINE { sum = sum * r + Real(1) / factorial(terms - 1 - k); });
        const Bits exponent = (Bits(shifted) + (single ? 127 : 1023)) << digits;
        return sum * V(exponent & ~Bits(vanishes));
    }

private:
    static constexpr Real factorial(int k) { return k < 2 ? Real(1) : k * factorial(k - 1); }
};

inline constexpr std::size_t sum_parts = 16;

template <class Real>
inline Real total_of(Real* parts) {
    for (std::size_t half = sum_parts / 2; half; half /= 2)
        for (std::size_t j = 0; j < half; ++j) parts[j] += parts[j + half];
    return parts[0];
}

// The sum of f(0) .. f(width - 1) in 16 parts, whatever vectors the machine has: one after the other, or in few lanes, rounding
// errors of a hundred numbers add up to more than their last digit.
template <class Real, class F>
inline Real sum_of(std::size_t width, F f) {
    Real sums[sum_parts] = {};
    std::size_t k = 0;
    for (; k + sum_parts <= width; k += sum_parts)
#pragma omp simd
        for (std::size_t j = 0; j < sum_parts; ++j) sums[j] += f(k + j);
    for (std::size_t j = 0; k < width; ++j, ++k) sums[j] += f(k);
    return total_of(sums);
}

// out = e^(scale a - top) of a row, with top the largest scale a, and returns their sum. All of -inf gives zeros.
template <class Real>
Real exponentials(std::size_t width, const Real* a, Real scale, Real* out, Real& top) {
    top = -std::numeric_limits<Real>::infinity();
#pragma omp simd reduction(max : top)
    for (std::size_t k = 0; k < width; ++k) top = std::max(top, scale * a[k]);
    if (top == -std::numeric_limits<Real>::infinity()) top = 0;
    // Sums in 16 parts, as below; the last ones of the row with zeros behind them.
    using V = Vec<Real>;
    constexpr std::size_t lanes = Simd<Real>::lanes;
    V sums[sum_parts / lanes] = {};
    const auto add = [&](const Real* x, Real* to) {
        for (std::size_t j = 0; j < sum_parts / lanes; ++j) {
            const V e = Exponential<Real>::of(load_unaligned<V>(x + j * lanes));
            std::memcpy(to + j * lanes, &e, sizeof e);
            sums[j] += e;
        }
    };
    Real some[sum_parts];
    for (std::size_t k = 0; k < width; k += sum_parts) {
        const std::size_t count = std::min(sum_parts, width - k);
        std::fill(some + count, some + sum_parts, -std::numeric_limits<Real>::infinity());
        for (std::size_t j = 0; j < count; ++j) some[j] = scale * a[k + j] - top;
        if (count == sum_parts) {
            add(some, out + k);
        } else {
            add(some, some);
            std::copy_n(some, count, out + k);
        }
    }
    std::memcpy(some, sums, sizeof some);
    return total_of(some);
}

// Softmax of scale * a, row by row; out may be a. With queries > 0 rows are those of attention in which query i, of so many,
// sees the keys up to i + width - queries; `first` is the number of the first row.
template <class Real>
void softmax(std::size_t rows, std::size_t width, const Real* a, Real scale, std::size_t queries, std::size_t first, Real* out) {
    for (std::size_t r = 0; r < rows; ++r, a += width, out += width) {
        std::size_t seen = width;
        if (queries) seen = std::min(width, std::size_t(std::max<std::ptrdiff_t>(0, std::ptrdiff_t((first + r) % queries) + 1 +
                                                                                      std::ptrdiff_t(width) - std::ptrdiff_t(queries))));
        Real top;
        const Real total = exponentials(seen, a, scale, out, top), inverse = total == 0 ? Real(1) : 1 / total;
        for (std::size_t k = 0; k < seen; ++k) out[k] *= inverse;
        std::fill(out + seen, out + width, Real(0));
    }
}

// out = scale y (g - <g, y>) for rows y of a softmax and their cotangents g; out may be g.
template <class Real>
void softmax_back(std::size_t rows, std::size_t width, const Real* g, const Real* y, Real scale, Real* out) {
    for (std::size_t r = 0; r < rows; ++r, g += width, y += width, out += width) {
        const Real along = sum_of<Real>(width, [=](std::size_t k) { return g[k] * y[k]; });
        for (std::size_t k = 0; k < width; ++k) out[k] = scale * y[k] * (g[k] - along);
    }
}

// loss = -log softmax(a)[target], and p = softmax(a), row by row. Targets must be below `width`.
template <class Real, class Integer>
void cross_entropy(std::size_t rows, std::size_t width, const Real* a, const Integer* targets, Real* p, Real* loss) {
    for (std::size_t r = 0; r < rows; ++r, a += width, p += width) {
        Real top;
        const Real total = exponentials(width, a, Real(1), p, top), inverse = 1 / total;
        for (std::size_t k = 0; k < width; ++k) p[k] *= inverse;
        loss[r] = std::log(total) - (a[targets[r]] - top);
    }
}

// out = g (p - 1 at the target), row by row.
template <class Real, class Integer>
void cross_entropy_back(std::size_t rows, std::size_t width, const Real* g, const Real* p, const Integer* targets, Real* out) {
    for (std::size_t r = 0; r < rows; ++r, p += width, out += width) {
        for (std::size_t k = 0; k < width; ++k) out[k] = g[r] * p[k];
        out[targets[r]] = g[r] * (p[targets[r]] - 1);
    }
}

// hat = (x - mean) rstd with rstd = 1 / sqrt(variance + eps), out = weight hat + bias (hat where both are null), row by row.
template <class Real>
void layer_norm(std::size_t rows, std::size_t width, const Real* x, const Real* weight, const Real* bias, Real eps, Real* hat,
                Real* rstd, Real* out) {
    for (std::size_t r = 0; r < rows; ++r, x += width, hat += width, out += width) {
        Real sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (std::size_t k = 0; k < width; ++k) sum += x[k];
        const Real mean = sum / Real(width);
#pragma omp simd reduction(+ : squares)
        for (std::size_t k = 0; k < width; ++k) squares += (x[k] - mean) * (x[k] - mean);
        const Real inverse = 1 / std::sqrt(squares / Real(width) + eps);
        rstd[r] = inverse;
        for (std::size_t k = 0; k < width; ++k) hat[k] = (x[k] - mean) * inverse;
        if (weight)
            for (std::size_t k = 0; k < width; ++k) out[k] = hat[k] * weight[k] + bias[k];
        else
            std::copy(hat, hat + width, out);
    }
}

// The cotangent `out` of x from that of layer_norm's output, and, added up over the rows, those of weight and bias.
template <class Real>
void layer_norm_back(std::size_t rows, std::size_t width, const Real* g, const Real* hat, const Real* rstd, const Real* weight,
                     Real* out, Real* weight_sum, Real* bias_sum) {
    for (std::size_t r = 0; r < rows; ++r, g += width, hat += width, out += width) {
        Real along = 0, sum = 0;
#pragma omp simd reduction(+ : along, sum)
        for (std::size_t k = 0; k < width; ++k) {
            const Real o = weight ? g[k] * weight[k] : g[k];
            along += o * hat[k];
            sum += o;
        }
        const Real slope = along / Real(width), mean = sum / Real(width), scale = rstd[r];
        for (std::size_t k = 0; k < width; ++k) {
            const Real o = weight ? g[k] * weight[k] : g[k];
            out[k] = (o - mean - hat[k] * slope) * scale;
        }
        for (std::size_t k = 0; k < width; ++k) {
            weight_sum[k] += g[k] * hat[k];
            bias_sum[k] += g[k];
        }
    }
}

// target row places[r] += row r of values, one after the other. Places must be below the number of target's rows.
template <class Real, class Integer>
void add_rows(std::size_t rows, std::size_t width, const Integer* places, const Real* values, Real* target) {
    for (std::size_t r = 0; r < rows; ++r, values += width) {
        Real* const sum = target + std::size_t(places[r]) * width;
#pragma omp simd
        for (std::size_t k = 0; k < width; ++k) sum[k] += values[k];
    }
}

// out = the sum of all rows, on up to so many threads, each of which has columns of its own. 64 rows at a time are added up first,
// so that rounding errors of many rows do not add up.
template <class Real>
void column_sums(int threads, std::size_t rows, std::size_t width, const Real* a, Real* out) {
    constexpr std::size_t columns = 256 / sizeof(Real), together = 64, numbers_of_a_thread = 1 << 15;
    threads = int(std::min<std::size_t>(threads, 1 + rows * width / numbers_of_a_thread));
    run_on_threads(threads, (width + columns - 1) / columns, [&](Pieces& pieces) {
        for (std::size_t q = pieces.next(); q != Pieces::none; q = pieces.next()) {
            const std::size_t first = q * columns, wide = std::min(columns, width - first);
            Real sums[columns] = {};
            for (std::size_t r = 0; r < rows; r += together) {
                Real some[columns] = {};
                for (std::size_t i = r; i < std::min(rows, r + together); ++i) {
                    const Real* const row = a + i * width + first;
                    if (wide == columns)
#pragma omp simd
                        for (std::size_t k = 0; k < columns; ++k) some[k] += row[k];
                    else
                        for (std::size_t k = 0; k < wide; ++k) some[k] += row[k];
                }
                for (std::size_t k = 0; k < columns; ++k) sums[k] += some[k];
            }
            std::copy(sums, sums + wide, out + first);
        }
    });
}

// The sums of a matrix of words along its rows and along its columns, whatever overflows; four rows at a time.
inline void word_sums(std::size_t rows, std::size_t width, const std::uint64_t* a, std::uint64_t* along, std::uint64_t* across) {
    std::fill(across, across + width, 0);
    std::size_t r = 0;
    for (; r + 4 <= rows; r += 4, a += 4 * width) {
        const std::uint64_t *const b = a + width, *const c = b + width, *const d = c + width;
        std::uint64_t sums[4] = {};
#pragma omp simd reduction(+ : sums)
        for (std::size_t k = 0; k < width; ++k) {
            sums[0] += a[k], sums[1] += b[k], sums[2] += c[k], sums[3] += d[k];
            across[k] += (a[k] + b[k]) + (c[k] + d[k]);
        }
        std::copy(sums, sums + 4, along + r);
    }
    for (; r < rows; ++r, a += width) {
        along[r] = 0;
        for (std::size_t k = 0; k < width; ++k) along[r] += a[k], across[k] += a[k];
    }
}

}  // namespace qdist
