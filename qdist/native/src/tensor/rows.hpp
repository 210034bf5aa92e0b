// Softmax, cross entropy and layer norm of rows of numbers, their derivatives, and sums of rows: a row is read from memory once.
//
// Loops over a row are reductions that OpenMP's `simd` lets compilers split into lanes. NaNs reach the whole row.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace qdist {

// e^x for x <= 0, to about an ulp; what would be subnormal is 0. 2^n e^r with n the integer nearest to x / log 2: a sum with
// 1.5 * 2^(digits of the mantissa) has n in its lowest bits, from where it moves to the exponent.
inline float exponential(float x) {
    const float held = x < -87.0f ? -87.0f : x, shifted = held * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const float r = (held - n * 0.693359375f) + n * 2.12194440e-4f;
    float sum = 1.98412698e-4f;
    for (float c : {1.38888889e-3f, 8.33333333e-3f, 4.16666667e-2f, 1.66666667e-1f, 0.5f, 1.0f, 1.0f}) sum = sum * r + c;
    const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127u) << 23);
    return x < -87.0f ? 0.0f : sum * power;
}
inline double exponential(double x) {
    const double held = x < -708.0 ? -708.0 : x, shifted = held * 1.4426950408889634 + 6755399441055744.0;
    const double n = shifted - 6755399441055744.0;
    const double r = (held - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double sum = 1.6059043836821613e-10;
    for (double c : {2.0876756987868099e-9, 2.5052108385441720e-8, 2.7557319223985893e-7, 2.7557319223985888e-6,
                     2.4801587301587302e-5, 1.9841269841269841e-4, 1.3888888888888889e-3, 8.3333333333333332e-3,
                     4.1666666666666664e-2, 1.6666666666666666e-1, 0.5, 1.0, 1.0})
        sum = sum * r + c;
    const double power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023u) << 52);
    return x < -708.0 ? 0.0 : sum * power;
}

// out = e^(scale a - top) of a row, with top the largest scale a, and returns their sum. All of -inf gives zeros.
template <class Real>
Real exponentials(std::size_t width, const Real* a, Real scale, Real* out, Real& top) {
    top = -std::numeric_limits<Real>::infinity();
#pragma omp simd reduction(max : top)
    for (std::size_t k = 0; k < width; ++k) top = std::max(top, scale * a[k]);
    if (top == -std::numeric_limits<Real>::infinity()) top = 0;
    Real total = 0;
    const Real most = top;
#pragma omp simd reduction(+ : total)
    for (std::size_t k = 0; k < width; ++k) {
        out[k] = exponential(scale * a[k] - most);
        total += out[k];
    }
    return total;
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
        Real along = 0;
#pragma omp simd reduction(+ : along)
        for (std::size_t k = 0; k < width; ++k) along += g[k] * y[k];
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

}  // namespace qdist
