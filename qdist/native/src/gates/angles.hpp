// Angles modulo 4 pi. Gates know an angle a through the cosine and sine of a, a/2 or 2a alone, so that turns of 4 pi change
// nothing; but a sum that holds large angles is rounded to their last place, 1e-7 of a radian beside 1e9.
#pragma once
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace qdist {

// 4 pi as the sum of two doubles.
inline constexpr double period = 0x1.921fb54442d18p+3, period_rest = 0x1.1a62633145c07p-51;

// The angle modulo 4 pi, within 1e-15; angles of up to 4 pi as they are.
inline double reduced(double angle) {
    if (std::abs(angle) <= period) return angle;
    if (std::abs(angle) < 0x1p50) {
        // The first fma loses nothing but the last place of a number below 4 pi, because all above that cancels.
        const double turns = std::nearbyint(angle / period);
        return std::fma(-turns, period_rest, std::fma(-turns, period, angle));
    }
    return 2 * std::atan2(std::sin(angle / 2), std::cos(angle / 2));
}

// coefficient * value modulo 4 pi, without the rounding error of the product.
inline double reduced_product(double coefficient, double value) {
    const double product = coefficient * value;
    if (std::abs(product) <= period) return product;
    return reduced(product) + std::fma(coefficient, value, -product);
}

// Adds coefficient * value to an angle, modulo 4 pi.
inline void add_product(double coefficient, double value, double& angle) {
    angle = reduced(angle + reduced_product(coefficient, value));
}

// Numbers of angles.
using Slots = std::set<int>;

// value = constant + sum of coefficient * angle
struct Affine {
    double constant = 0;
    std::vector<std::pair<int, double>> terms;

    bool reads(const Slots& slots) const {
        return std::any_of(terms.begin(), terms.end(), [&](const auto& term) { return slots.contains(term.first); });
    }

    // Modulo 4 pi.
    double at(const double* angles) const {
        double sum = reduced(constant);
        for (const auto& [slot, coefficient] : terms) sum = reduced(sum + reduced_product(coefficient, angles[slot]));
        return sum;
    }
};

}  // namespace qdist
