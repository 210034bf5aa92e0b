// The kernels of rotations with the same flips; a source of its own, since there is one for every permutation of lanes.
#include "tile/rotations.hpp"

#include <cmath>
#include <utility>

#include "base/checks.hpp"

namespace qdist {

namespace {

// Angles below this share of the strings' are what rounding leaves of angles that cancel.
constexpr double rounding = 0x1p-50;

template <class Real>
struct Amplitude {
    Vec<Real> re, im;
};

template <class Real>
QDIST_INLINE inline Amplitude<Real> get(Tile<Real> tile, std::size_t i) {
    return {load(tile.re + i), load(tile.im + i)};
}
template <class Real>
QDIST_INLINE inline void put(Tile<Real> tile, std::size_t i, Amplitude<Real> z) {
    store<Real>(tile.re + i, z.re);
    store<Real>(tile.im + i, z.im);
}

// Element i of a pair, with its partner. The largest product, mostly the cosine's, comes last: as part of an FMA it is not
// rounded by itself. s: the sine of the element's own pattern, whose sign an odd number of Ys changes in the partner's.
template <bool odd, class Real>
QDIST_INLINE inline Amplitude<Real> turned(Amplitude<Real> z, Amplitude<Real> partner, Vec<Real> c, Vec<Real> s) {
    if constexpr (odd) return {s * partner.re + c * z.re, s * partner.im + c * z.im};
    return {s * partner.im + c * z.re, c * z.im - s * partner.re};
}

// Im conj(bra) P ket, or the part of it that i and its partner have.
template <bool odd, class Real>
QDIST_INLINE inline Vec<Real> overlap(Amplitude<Real> bra, Amplitude<Real> ket) {
    if constexpr (odd) return bra.re * ket.re + bra.im * ket.im;
    return bra.re * ket.im - bra.im * ket.re;
}

// What a kernel works on, as constants: X, how the lanes of a row are permuted; whether rows go in pairs, with the row that
// flips of higher bits lead to; whether the number of Ys is odd.
template <class Real, std::size_t X, bool pairs, bool odd>
struct RotationKernel {
    using V = Vec<Real>;
    using Z = Amplitude<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;

    QDIST_INLINE static Z permuted(Z z) { return {lane_xor<X>(z.re), lane_xor<X>(z.im)}; }

    QDIST_INLINE static void rotate(Tile<Real> tile, std::size_t i, std::size_t flip, V c, V s, Z z, Z partner) {
        put(tile, i, turned<odd, Real>(z, partner, c, s));
        if constexpr (pairs) put(tile, i ^ flip, permuted(turned<odd, Real>(partner, z, c, odd ? -s : s)));
    }

    static void apply(Tile<Real> tile, const std::uint32_t* row, const std::uint32_t* last, std::size_t flip, V c, V s) {
        for (; row != last; ++row) {
            const Z z = get(tile, *row);
            rotate(tile, *row, flip, c, s, z, permuted(pairs ? get(tile, *row ^ flip) : z));
        }
    }

    static void undo(const TilePair<Real>& tiles, const std::uint32_t* row, const std::uint32_t* last, std::size_t flip, V c, V s,
                     double* sums) {
        // Rows summed in Real before the sum is added to doubles.
        constexpr std::ptrdiff_t together = 64;
        while (row != last) {
            V sum{};
            for (const auto* end = row + std::min(together, last - row); row != end; ++row) {
                const std::size_t i = *row;
                const Z k = get(tiles.ket, i), b = get(tiles.bra, i);
                const Z l = permuted(pairs ? get(tiles.ket, i ^ flip) : k);
                const Z a = permuted(pairs ? get(tiles.bra, i ^ flip) : b);
                sum += overlap<odd, Real>(b, l);
                if constexpr (pairs) sum = odd ? sum - overlap<odd, Real>(a, k) : sum + overlap<odd, Real>(a, k);
                rotate(tiles.ket, i, flip, c, -s, k, l);
                rotate(tiles.bra, i, flip, c, -s, b, a);
            }
            if (sums) add_lanes<Real>(sum, sums);
        }
    }
};

}  // namespace

template <class Real>
Rotations<Real>::Rotations(int t, std::size_t x, std::vector<String> strings, Bits near, Bits far,
                           const std::vector<ByParameter>& slopes)
    : t_(t), x_(x), strings_(std::move(strings)), near_(near), far_(far) {
    odd_ = parity(x & strings_[0].z.near);
    for (const String& s : strings_) {
        const int num_y = std::popcount(x & s.z.near);
        if ((num_y & 1) != int(odd_)) refuse("rotations of one block must commute: all have an odd number of Ys, or none has");
        negative_.push_back((num_y & 3) == 1 || (num_y & 3) == 2);
    }
    find_basis();
    for (std::size_t lane = 0; lane < lanes; ++lane) lane_pattern_.push_back(near_pattern(lane));
    find_groups();
    note_slopes(slopes);
    cosine_.resize(num_patterns() * lanes);
    sine_.resize(num_patterns() * lanes);
    moves_.resize(num_patterns());
}

// Gaussian elimination over GF(2): a string's z is the sum of the basis elements at its coordinates.
template <class Real>
void Rotations<Real>::find_basis() {
    const auto top = [](const Parity& p) { return p.far ? 64 + std::bit_width(p.far) : std::bit_width(p.near); };
    std::vector<std::pair<Parity, std::size_t>> reduced;  // with the coordinates of each
    for (const String& string : strings_) {
        Parity rest = string.z;
        std::size_t coordinates = 0;
        for (const auto& [element, own] : reduced)
            if (top(rest ^ element) < top(rest)) rest = rest ^ element, coordinates ^= own;
        if (!rest.is_zero()) {
            if (basis_.size() == most_parities) refuse("the rotations of a block have more than ", most_parities, " parities");
            const std::size_t own = std::size_t(1) << basis_.size();
            // The new basis element is the string's own z; what is reduced has coordinates in both.
            reduced.push_back({rest, coordinates ^ own});
            std::sort(reduced.begin(), reduced.end(), [&](const auto& a, const auto& b) { return top(a.first) > top(b.first); });
            basis_.push_back(string.z);
            coordinates = own;
        }
        coordinates_.push_back(coordinates);
    }
}

template <class Real>
std::size_t Rotations<Real>::near_pattern(std::size_t element) const {
    std::size_t pattern = 0;
    for (std::size_t b = 0; b < basis_.size(); ++b) pattern |= parity(basis_[b].near & element) << b;
    return pattern;
}

template <class Real>
std::size_t Rotations<Real>::far_pattern(std::size_t base) const {
    std::size_t pattern = 0;
    for (std::size_t b = 0; b < basis_.size(); ++b) pattern |= parity(basis_[b].far & base) << b;
    return pattern;
}

template <class Real>
void Rotations<Real>::find_groups() {
    const std::size_t above = x_ & ~(lanes - 1), top = std::bit_floor(above);
    const Bits rows{near_.mask & ~(lanes - 1), near_.value & ~(lanes - 1)};
    std::vector<std::vector<std::uint32_t>> found(num_patterns());
    for (std::size_t i = 0; i < std::size_t(1) << t_; i += lanes)
        if (!(i & top) && rows.holds(i)) found[near_pattern(i)].push_back(std::uint32_t(i));
    for (std::size_t p = 0; p < found.size(); ++p) {
        if (found[p].empty()) continue;
        groups_.push_back({p, rows_.size(), rows_.size() + found[p].size()});
        rows_.insert(rows_.end(), found[p].begin(), found[p].end());
    }
}

template <class Real>
void Rotations<Real>::note_slopes(const std::vector<ByParameter>& slopes) {
    std::vector<char> changes(num_patterns());
    for (std::size_t p = 0; p < num_patterns(); ++p) {
        std::map<int, std::pair<double, double>> sums;  // signed, and of absolute values
        for (std::size_t k = 0; k < slopes.size(); ++k)
            for (const auto& [parameter, slope] : slopes[k]) {
                auto& [sum, size] = sums[parameter];
                sum += is_negative(k, p) ? -slope : slope;
                size += std::abs(slope);
            }
        for (const auto& [parameter, sum] : sums) changes[p] = changes[p] || std::abs(sum.first) > rounding * sum.second;
        is_trainable_ = is_trainable_ || changes[p];
    }
    depends_.resize(num_patterns());
    for (std::size_t p = 0; p < num_patterns(); ++p)
        for (std::size_t lane = 0; lane < lanes; ++lane)
            depends_[p] = depends_[p] || (holds_in_lane(lane) && changes[p ^ lane_pattern_[lane]]);
}

template <class Real>
void Rotations<Real>::transform(std::vector<double>& numbers) const {
    // Walsh-Hadamard transform.
    for (std::size_t step = 1; step < numbers.size(); step *= 2)
        for (std::size_t p = 0; p < numbers.size(); ++p)
            if (!(p & step)) {
                const double a = numbers[p], b = numbers[p | step];
                numbers[p] = a + b;
                numbers[p | step] = a - b;
            }
}

template <class Real>
void Rotations<Real>::set(const double* angles, double factor) {
    const std::size_t count = num_patterns();
    std::vector<double> half(count);
    double size = 0;
    for (std::size_t k = 0; k < strings_.size(); ++k) {
        const double angle = strings_[k].angle.at(angles) / 2;
        half[coordinates_[k]] += negative_[k] ? -angle : angle;
        size += std::abs(angle);
    }
    transform(half);
    std::vector<Real> c(count, 1), s(count, 0);
    scale_ = 0;
    for (std::size_t p = 0; p < count; ++p) {
        if (std::abs(half[p]) > rounding * size) {
            c[p] = Real(factor * std::cos(half[p]));
            s[p] = Real(factor * std::sin(half[p]));
        } else if (is_one_string())
            c[p] = Real(factor);
        scale_ += (double(c[p]) * c[p] + double(s[p]) * s[p]) / double(count);
    }
    scale_ = std::sqrt(scale_);
    for (std::size_t p = 0; p < count; ++p) {
        moves_[p] = false;
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const bool works = holds_in_lane(lane);
            const std::size_t own = p ^ lane_pattern_[lane];
            cosine_[p * lanes + lane] = works ? c[own] : 1;
            sine_[p * lanes + lane] = works ? s[own] : 0;
            moves_[p] = moves_[p] || (works && (c[own] != 1 || s[own] != 0));
        }
    }
    num_moved_ = std::size_t(std::count(moves_.begin(), moves_.end(), true));
}

template <class Real>
double Rotations<Real>::scale() const {
    return scale_;
}

// Calls f with the kernel for its flips.
template <class Real>
template <class F>
void Rotations<Real>::with_shape(F f) const {
    with_constant<lanes>(int(x_ & (lanes - 1)), [&](auto X) {
        const auto with = [&]<bool pairs>() {
            if (odd_)
                f(RotationKernel<Real, X, pairs, true>());
            else
                f(RotationKernel<Real, X, pairs, false>());
        };
        if (x_ & ~(lanes - 1))
            with.template operator()<true>();
        else
            with.template operator()<false>();
    });
}

template <class Real>
void Rotations<Real>::apply(Tile<Real> tile, std::size_t base) const {
    if (!far_.holds(base)) return;
    const std::size_t far = far_pattern(base), flip = x_ & ~(lanes - 1);
    with_shape([&](auto kernel) {
        for (const Group& g : groups_) {
            const std::size_t p = g.pattern ^ far;
            if (!moves_[p]) continue;
            kernel.apply(tile, &rows_[g.first], rows_.data() + g.last, flip, load(&cosine_[p * lanes]), load(&sine_[p * lanes]));
        }
    });
}

template <class Real>
void Rotations<Real>::undo(const TilePair<Real>& tiles, std::size_t base, double* sums) const {
    if (!far_.holds(base)) return;
    const std::size_t far = far_pattern(base), flip = x_ & ~(lanes - 1);
    with_shape([&](auto kernel) {
        for (const Group& g : groups_) {
            const std::size_t p = g.pattern ^ far;
            if (!moves_[p] && !depends_[p]) continue;
            kernel.undo(tiles, &rows_[g.first], rows_.data() + g.last, flip, load(&cosine_[p * lanes]), load(&sine_[p * lanes]),
                        depends_[p] ? sums + p * lanes : nullptr);
        }
    });
}

template <class Real>
void Rotations<Real>::collect(const double* sums, double* results) const {
    if (!is_trainable_) return;
    for (std::size_t p = 0; p < num_patterns(); ++p) {
        if (!depends_[p]) continue;
        for (std::size_t lane = 0; lane < lanes; ++lane)
            if (holds_in_lane(lane)) results[p ^ lane_pattern_[lane]] += sums[p * lanes + lane];
    }
}

template <class Real>
void Rotations<Real>::finish(const double* results, double* gradient) const {
    if (!is_trainable_) return;
    std::vector<double> by_parities(results, results + num_patterns());
    transform(by_parities);
    for (std::size_t k = 0; k < strings_.size(); ++k) {
        // 2 Re <bra| -i/2 P |ket> = Im <bra|P|ket>
        const double overlap = by_parities[coordinates_[k]] * (negative_[k] ? -1 : 1);
        for (const auto& [slot, coefficient] : strings_[k].angle.terms) gradient[slot] += coefficient * overlap;
    }
}

template class Rotations<float>;
template class Rotations<double>;

}  // namespace qdist
