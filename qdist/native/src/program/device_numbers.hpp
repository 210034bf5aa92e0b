// The numbers that a GPU's kernels read, from a circuit's angles: matrices, phase factors and phase angles in fixed point.
// backends/cuda/lowering/binding.py says what they are for.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>
#include <vector>

#include "base/checks.hpp"
#include "gates/angles.hpp"
#include "program/lean_numbers.hpp"
#include "program/matrix_list.hpp"

namespace qdist {

// Cosines and sines of angles, of which many come again: gates share parameters.
class CosinesAndSines {
public:
    struct Both {
        double angle = std::numeric_limits<double>::quiet_NaN(), cosine = 0, sine = 0;
    };
    const Both& of(double angle) {
        Both& known = known_[std::bit_cast<std::uint64_t>(angle) * 0x9e3779b97f4a7c15u >> 58];
        if (known.angle != angle) known = {angle, std::cos(angle), std::sin(angle)};
        return known;
    }

private:
    std::array<Both, 64> known_;
};

class DeviceNumbers {
public:
    using Places = std::vector<std::int64_t>;

    // A phase factor's angle, for the settings of the registers that have `value` under `mask`; a table's stand together.
    struct Term {
        std::int64_t table, mask, value, angle;
    };
    // cos(a/2), then -i sin(a/2) i^num_y; everywhere: whether it works on the whole state.
    struct Rotation {
        std::int64_t place, angle, num_y, everywhere;
    };
    // A 4x4 matrix that keeps parities (lean_numbers.hpp); from: its entries; conjugate: of each the complex conjugate.
    struct Core {
        std::int64_t place, lean, conjugate, from[8];
    };
    struct Parts {
        MatrixList matrices;
        std::vector<double> constants;      // all reals, where nothing else is written
        Places to, from;                    // reals[to] = sign * numbers of the matrices[from]
        std::vector<double> sign;
        std::vector<double> offsets;        // the angles' own: offset + sum of coefficient * circuit's angle
        Places owner, slot;
        std::vector<double> coefficient;
        std::int64_t settings;              // of the registers: entries of a phase table
        Places tables;                      // their places in reals
        std::vector<Term> terms;
        std::vector<Rotation> rotations;
        std::vector<Core> cores;  // in the order in which they run; the last is not lean
    };

    explicit DeviceNumbers(Parts parts) : p_(std::move(parts)) {
        const auto reals = std::int64_t(p_.constants.size()), own = std::int64_t(p_.offsets.size());
        check_size(p_.from.size(), p_.to.size(), "the matrices' numbers");
        check_size(p_.sign.size(), p_.to.size(), "the matrices' signs");
        check_size(p_.slot.size(), p_.owner.size(), "the circuit's angles");
        check_size(p_.coefficient.size(), p_.owner.size(), "the coefficients");
        for (std::int64_t at : p_.to) check_range(at, 0, reals - 1, "a number's place");
        for (std::int64_t at : p_.from) check_range(at, 0, std::int64_t(2 * p_.matrices.size()) - 1, "a matrix's number");
        for (std::int64_t at : p_.owner) check_range(at, 0, own - 1, "the number of an angle");
        for (std::int64_t at : p_.slot) {
            check_slot(int(std::clamp<std::int64_t>(at, -1, std::numeric_limits<int>::max())));
            num_angles_ = std::max(num_angles_, std::size_t(at) + 1);
        }
        num_angles_ = std::max(num_angles_, p_.matrices.num_angles());
        check_range(p_.settings, 1, 1 << 16, "the settings of the registers");
        if (!std::has_single_bit(std::uint64_t(p_.settings))) refuse("the settings of the registers must be a power of two; got ", p_.settings);
        for (std::int64_t at : p_.tables) check_range(at, 0, reals - 2 * p_.settings, "a phase table's place");
        for (const Term& t : p_.terms) {
            check_range(t.table, 0, std::int64_t(p_.tables.size()) - 1, "a phase table's number");
            check_range(t.angle, 0, own - 1, "the number of an angle");
        }
        for (const Rotation& r : p_.rotations) {
            check_range(r.place, 0, reals - 3, "a rotation's place");
            check_range(r.angle, 0, own - 1, "the number of an angle");
        }
        for (const Core& c : p_.cores) {
            check_range(c.place, 0, reals - LeanNumbers<double>::count, "a core's place");
            for (std::int64_t at : c.from) check_range(at, 0, std::int64_t(p_.matrices.size()) - 1, "a matrix's entry");
        }
        if (!p_.cores.empty()) check_range(p_.cores.back().lean, 0, 0, "whether the last core is lean");
    }

    std::size_t num_reals() const { return p_.constants.size(); }
    std::size_t num_turns() const { return p_.offsets.size(); }
    // How many of the circuit's angles there must be.
    std::size_t num_angles() const { return num_angles_; }

    template <class Real, class Turn>
    void at(const double* given, std::size_t count, Real* reals, Turn* turns) const {
        std::vector<double> angles(count), own(p_.offsets.size());
        std::transform(given, given + count, angles.begin(), reduced);
        for (std::size_t k = 0; k < p_.owner.size(); ++k) own[p_.owner[k]] += p_.coefficient[k] * angles[p_.slot[k]];
        for (std::size_t k = 0; k < own.size(); ++k) own[k] += p_.offsets[k];
        std::copy(p_.constants.begin(), p_.constants.end(), reals);
        const double growth = set_tables(own, reals);
        set_matrices(angles, growth, reals);
        set_rotations(own, reals);
        std::transform(own.begin(), own.end(), turns, fixed_point<Turn>);
    }

private:
    // A fraction of a full turn, modulo one.
    template <class Turn>
    static Turn fixed_point(double angle) {
        using Signed = std::make_signed_t<Turn>;
        constexpr int bits = 8 * sizeof(Turn);
        const double fraction = angle / (2 * std::numbers::pi), half = std::ldexp(1.0, bits - 1);
        const double scaled = std::nearbyint((fraction - std::nearbyint(fraction)) * std::ldexp(1.0, bits));
        // The largest number below half a turn that an integer can have.
        return Turn(Signed(std::clamp(scaled, -half, bits == 64 ? std::nextafter(half, 0) : half - 1)));
    }

    // Returns what the rounding of all tables multiplies the norm by, where all probabilities are the same.
    template <class Real>
    double set_tables(const std::vector<double>& own, Real* reals) const {
        std::vector<double> phases(p_.tables.size() * p_.settings);
        for (const Term& t : p_.terms) {
            // All settings with the value under the mask: what is free counts up, and carries pass through the mask.
            const std::int64_t free = (p_.settings - 1) & ~t.mask;
            if ((t.value & t.mask) != t.value || t.value < 0 || t.value >= p_.settings) continue;
            double* const table = phases.data() + t.table * p_.settings;
            std::int64_t s = 0;
            do {
                table[s | t.value] += own[t.angle];
                s = (s - free) & free;
            } while (s != 0);
        }
        double growth = 1;
        CosinesAndSines known;
        for (std::size_t t = 0; t < p_.tables.size(); ++t) {
            Real* to = reals + p_.tables[t];
            double squares = 0;
            for (std::int64_t s = 0; s < p_.settings; ++s, to += 2) {
                const auto& both = known.of(phases[t * p_.settings + s]);
                to[0] = Real(both.cosine);
                to[1] = Real(both.sine);
                squares += double(to[0]) * to[0] + double(to[1]) * to[1];
            }
            growth *= std::sqrt(squares / p_.settings);
        }
        return std::is_same_v<Real, float> ? growth : 1;
    }

    template <class Real>
    void set_matrices(const std::vector<double>& angles, double growth, Real* reals) const {
        std::vector<Complex> entries(p_.matrices.size());
        // Cores make up for the growth where there are any.
        p_.matrices.at(angles.data(), std::is_same_v<Real, float>, p_.cores.empty() ? growth : 1, entries.data());
        const double* numbers = reinterpret_cast<const double*>(entries.data());
        for (std::size_t k = 0; k < p_.to.size(); ++k) reals[p_.to[k]] = Real(p_.sign[k] * numbers[p_.from[k]]);
        LeanNumbers<Real> cores(growth);
        for (const Core& core : p_.cores) {
            typename LeanNumbers<Real>::Entries matrix;
            for (int e = 0; e < 8; ++e) matrix[e] = core.conjugate ? std::conj(entries[core.from[e]]) : entries[core.from[e]];
            const auto found = core.lean ? cores.lean(matrix) : cores.whole(matrix);
            std::copy(found.begin(), found.end(), reals + core.place);
        }
    }

    // In single precision each rotation that works everywhere makes up for what the rounding of the one before does to the norm.
    template <class Real>
    void set_rotations(const std::vector<double>& own, Real* reals) const {
        static constexpr std::array<Complex, 4> powers = {{{0, -1}, {1, 0}, {0, 1}, {-1, 0}}};  // -i i^num_y
        double scale = 1;
        for (const Rotation& r : p_.rotations) {
            const double half = own[r.angle] / 2;
            Complex both[2] = {std::cos(half), std::sin(half) * powers[r.num_y & 3]};
            if (r.everywhere && std::is_same_v<Real, float>) {
                for (Complex& z : both) z /= scale;
                scale = rounding_scale<float>(both, 2);
            }
            Real* const to = reals + r.place;
            to[0] = Real(both[0].real()), to[1] = Real(both[1].real()), to[2] = Real(both[1].imag());
        }
    }

    Parts p_;
    std::size_t num_angles_ = 0;
};

}  // namespace qdist
