// Chains of elementwise operations on tensors, in one pass. Loops that compilers vectorise; NaNs pass through all of them.
#pragma once
#include <cmath>
#include <cstddef>
#include <span>

namespace qdist {

// out = times * (1/2 + x P(x^2) / Q(x^2)), with x kept within the limit. Both polynomials have six coefficients, lowest first.
inline void rational(std::size_t count, const float* x, const float* times, float limit, std::span<const float> p,
                     std::span<const float> q, float* out) {
    const float p0 = p[0], p1 = p[1], p2 = p[2], p3 = p[3], p4 = p[4], p5 = p[5];
    const float q0 = q[0], q1 = q[1], q2 = q[2], q3 = q[3], q4 = q[4], q5 = q[5];
    for (std::size_t i = 0; i < count; ++i) {
        const float below = x[i] > limit ? limit : x[i], z = below < -limit ? -limit : below, t = z * z;
        const float top = ((((p5 * t + p4) * t + p3) * t + p2) * t + p1) * t + p0;
        const float bottom = ((((q5 * t + q4) * t + q3) * t + q2) * t + q1) * t + q0;
        out[i] = times[i] * (z * top / bottom + 0.5f);
    }
}

// out = a where it is positive, else 0; NaNs stay.
template <class Real>
void positive(std::size_t count, const Real* a, Real* out) {
    for (std::size_t i = 0; i < count; ++i) out[i] = a[i] <= 0 ? Real(0) : a[i];
}

// out = g where y is positive; elsewhere g times zero, so that cotangents that are not finite are seen.
template <class Real>
void times_positive(std::size_t count, const Real* g, const Real* y, Real* out) {
    for (std::size_t i = 0; i < count; ++i) out[i] = g[i] * (y[i] > 0 ? Real(1) : Real(0));
}

// A step of Adam: averages m of g and v of g^2 brought up to date, and p = keep p - rate m / (root_scale sqrt(v) + eps). Where
// decay is not zero, decay p is added to g first.
template <class Real>
void adam(std::size_t count, Real* p, const Real* g, Real* m, Real* v, double beta1, double beta2, double root_scale, double eps,
          double rate, double keep, double decay) {
    const Real b1 = Real(beta1), c1 = Real(1 - beta1), b2 = Real(beta2), c2 = Real(1 - beta2);
    const Real scale = Real(root_scale), least = Real(eps), r = Real(rate), kept = Real(keep), pulled = Real(decay);
    for (std::size_t i = 0; i < count; ++i) {
        const Real slope = pulled == 0 ? g[i] : g[i] + pulled * p[i];
        const Real mean = b1 * m[i] + c1 * slope, square = b2 * v[i] + c2 * (slope * slope);
        m[i] = mean;
        v[i] = square;
        p[i] = kept * p[i] - r * (mean / (scale * std::sqrt(square) + least));
    }
}

}  // namespace qdist
