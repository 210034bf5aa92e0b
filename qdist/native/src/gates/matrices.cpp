// Products of small matrices, and the gradient of a product.
#include "gates/matrices.hpp"

#include <array>
#include <bit>
#include <cmath>

namespace qdist {

namespace {

// Numbers on the stack where they are few: most matrices are of one or two bits, and an allocation takes as long as a product.
template <class T>
class Few {
public:
    explicit Few(std::size_t count) : many_(count > few_.size() ? count : 0) {}

    T* data() { return many_.empty() ? few_.data() : many_.data(); }
    const T* data() const { return many_.empty() ? few_.data() : many_.data(); }

private:
    std::array<T, 16> few_;
    std::vector<T> many_;
};

// The settings of some bits of an index.
struct Settings {
    explicit Settings(const std::vector<int>& bits) : count(std::size_t(1) << bits.size()), offsets(count) {
        std::size_t* const to = offsets.data();
        to[0] = 0;
        for (std::size_t j = 0; j < bits.size(); ++j)
            for (std::size_t k = 0; k < std::size_t(1) << j; ++k) to[k | std::size_t(1) << j] = to[k] | std::size_t(1) << bits[j];
    }

    std::size_t all() const { return offsets.data()[count - 1]; }

    std::size_t count;
    Few<std::size_t> offsets;
};

// Replaces the entries of m at the settings by `a` times them, or by its conjugate. step: from an entry to the next. few: so many
// settings, 0 for any number. old: room for them.
template <bool conjugate, std::size_t few>
void multiply(const Complex* a, const Settings& settings, Complex* m, std::size_t step, Complex* old) {
    const std::size_t count = few ? few : settings.count, *const offset = settings.offsets.data();
    for (std::size_t k = 0; k < count; ++k) old[k] = m[offset[k] * step];
    for (std::size_t r = 0; r < count; ++r) {
        Complex sum = 0;
        for (std::size_t k = 0; k < count; ++k) sum += times(conjugate ? std::conj(a[r * count + k]) : a[r * count + k], old[k]);
        m[offset[r] * step] = sum;
    }
}

template <bool conjugate>
auto multiply_at(const Settings& settings) {
    return settings.count == 2   ? &multiply<conjugate, 2>
           : settings.count == 4 ? &multiply<conjugate, 4>
                                 : &multiply<conjugate, 0>;
}

// A M A^-1 of a unitary a on the bits listed.
Matrix conjugated(const Matrix& a, const std::vector<int>& bits, Matrix m, int n) {
    apply_left(a, bits, m, n);
    const std::size_t size = std::size_t(1) << n;
    const Settings settings(bits);
    const auto multiply = multiply_at<true>(settings);
    Few<Complex> old(settings.count);
    for (std::size_t row = 0; row < size; ++row)
        for (std::size_t base = 0; base < size; ++base)
            if (!(base & settings.all())) multiply(a.data(), settings, &m[row * size + base], 1, old.data());
    return m;
}

}  // namespace

void apply_left(const Matrix& a, const std::vector<int>& bits, Matrix& m, int n) {
    const std::size_t size = std::size_t(1) << n;
    const Settings settings(bits);
    const auto multiply = multiply_at<false>(settings);
    Few<Complex> old(settings.count);
    for (std::size_t base = 0; base < size; ++base)
        if (!(base & settings.all()))
            for (std::size_t column = 0; column < size; ++column)
                multiply(a.data(), settings, &m[base * size + column], size, old.data());
}

Matrix adjoint(const Matrix& m, std::size_t size) {
    Matrix t(m.size());
    for (std::size_t p = 0; p < size; ++p)
        for (std::size_t q = 0; q < size; ++q) t[q * size + p] = std::conj(m[p * size + q]);
    return t;
}

Matrix traced(const Matrix& m, const std::vector<int>& bits, int n) {
    const std::size_t size = std::size_t(1) << n;
    const Settings settings(bits);
    const std::size_t small = settings.count, *const offset = settings.offsets.data();
    Matrix out(small * small);
    for (std::size_t rest = 0; rest < size; ++rest)
        if (!(rest & settings.all()))
            for (std::size_t p = 0; p < small; ++p)
                for (std::size_t q = 0; q < small; ++q) out[p * small + q] += m[(rest | offset[p]) * size + (rest | offset[q])];
    return out;
}

Matrix product(const std::vector<Factor>& factors, int n, const double* angles) {
    const std::size_t size = std::size_t(1) << n;
    if (factors.size() == 1 && int(factors[0].bits.size()) == n && std::is_sorted(factors[0].bits.begin(), factors[0].bits.end()))
        return factors[0].source.at(angles);
    Matrix m(size * size);
    for (std::size_t k = 0; k < size; ++k) m[k * size + k] = 1;
    for (const Factor& f : factors) apply_left(f.source.at(angles), f.bits, m, n);
    return m;
}

void add_dense_gradient(int n, const std::vector<Factor>& factors, Matrix t, const double* angles, double* gradient) {
    const std::size_t size = std::size_t(1) << n;
    for (std::size_t f = factors.size(); f-- > 0;) {
        const auto& [source, bits] = factors[f];
        const std::size_t small = std::size_t(1) << bits.size();
        const Matrix u = source.at(angles);
        if (!source.slots.empty()) {
            // Tr(dU U^-1 T) = Tr(dU S) with S = U^-1 T.
            Matrix s = traced(t, bits, n);
            std::vector<int> own(bits.size());
            for (std::size_t j = 0; j < own.size(); ++j) own[j] = int(j);
            apply_left(adjoint(u, small), own, s, int(bits.size()));
            for (std::size_t k = 0; k < source.slots.size(); ++k) {
                const Matrix d = source.derivative(int(k), angles);
                double sum = 0;
                for (std::size_t p = 0; p < small; ++p)
                    for (std::size_t q = 0; q < small; ++q) sum += (d[p * small + q] * s[q * small + p]).real();
                gradient[source.slots[k]] += 2 * sum;
            }
        }
        if (f == 0) break;
        // The transition matrix before this factor: U^-1 T U.
        t = conjugated(adjoint(u, small), bits, std::move(t), n);
    }
}

Matrix after(int n, const std::vector<Factor>& factors, Matrix before, const double* angles) {
    for (const auto& [source, bits] : factors) before = conjugated(source.at(angles), bits, std::move(before), n);
    return before;
}

Entries fewest_entries(int n, const std::vector<Factor>& factors, const std::set<int>& trainable) {
    // What vanishes at angles without any pattern vanishes at all of them.
    std::vector<Factor> own = factors;
    std::vector<double> angles;
    std::vector<bool> wanted;
    for (Factor& factor : own)
        for (int& slot : factor.source.slots) {
            wanted.push_back(trainable.contains(slot));
            slot = int(angles.size());
            angles.push_back(std::fmod(0.731 + 1.618 * double(slot), 3));
        }
    const std::size_t size = std::size_t(1) << n;
    const auto flips = [&](bool before) {
        unsigned found = 0;
        for (std::size_t flip = 0; flip < size; ++flip) {
            Matrix t(size * size);
            for (std::size_t q = 0; q < size; ++q)
                t[q * size + (q ^ flip)] = {std::sin(1.3 + 2.9 * double(q)), std::cos(0.4 + 1.7 * double(q))};
            if (before) t = after(n, own, std::move(t), angles.data());
            std::vector<double> gradient(angles.size());
            add_dense_gradient(n, own, std::move(t), angles.data(), gradient.data());
            for (std::size_t k = 0; k < gradient.size(); ++k)
                if (wanted[k] && std::abs(gradient[k]) > 1e-9) found |= 1u << flip;
        }
        return found;
    };
    const unsigned first = flips(true), last = flips(false);
    const bool before = std::popcount(first) < std::popcount(last);
    return {before ? first : last, before};
}

}  // namespace qdist
