// Pauli rotations that flip the same bits, as one rotation of each pair of amplitudes.
//
// A string P_k that flips the bits x and has the signs of the parity of z_k mixes amplitude i with i ^ x alone. Strings with
// the same x and the same parity of Ys are multiples of one 2 x 2 matrix on each pair, so that
//     prod_k exp(-i t_k/2 P_k) = exp(-i a/2 P),   a(i) = sum_k t_k s_k (-1)^|z_k & i|
// where s_k is a sign of the string. The angle a depends on the pattern of i alone: the parities of a basis of the z_k. The
// patterns on which a is zero, 14 of 16 in a double excitation, are passed over.
//
// With an even number of Ys the matrix is (c, -is; -is, c), with an odd one (c, s; -s, c): i first, c and s of a/2 there.
// Without flips it is a phase, c - is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "gates/angles.hpp"
#include "tile/tiles.hpp"

namespace qdist {

// A parity of an index: of some of a tile's bits and of some outside of the tile.
struct Parity {
    std::size_t near, far;

    bool is_zero() const { return !near && !far; }
    Parity operator^(const Parity& other) const { return {near ^ other.near, far ^ other.far}; }
};

// The most parities by which the angles of a block are told apart: its tables have 2^most entries.
inline constexpr int most_parities = 8;

template <class Real>
class Rotations {
public:
    struct String {
        Parity z;
        Affine angle;
    };
    // What a string's angle changes by with each parameter.
    using ByParameter = std::map<int, double>;

    // x: the tile's bits that are flipped; near, far: values that bits must have where it works. slopes: of each string's angle.
    // Refuses strings of which some have an odd number of Ys and others an even one.
    Rotations(int t, std::size_t x, std::vector<String> strings, Bits near, Bits far, const std::vector<ByParameter>& slopes);

    // Computes the angles of all patterns. factor: what the result is multiplied by, also when it is undone; for one string.
    void set(const double* angles, double factor = 1);

    bool is_unconditional() const { return !near_.mask && !far_.mask; }
    // The values that bits outside the tile must have where it works.
    Bits far() const { return far_; }
    bool is_one_string() const { return strings_.size() == 1; }
    // Whether an angle depends on a parameter.
    bool is_trainable() const { return is_trainable_; }
    // For kernels of several blocks: whether it mixes whole rows, which are the tile's vectors, everywhere; the bits that it
    // flips; whether it has an odd number of Ys, and whether it rotates at least half of the patterns, or all.
    bool mixes_rows() const { return is_unconditional() && x_ && !(x_ & (lanes - 1)); }
    std::size_t flips() const { return x_; }
    bool is_odd() const { return odd_; }
    bool moves_much() const { return 2 * num_moved_ >= num_patterns(); }
    bool moves_all() const { return num_moved_ == num_patterns(); }
    // Pattern by pattern, those of a row's lanes. A pattern is the exclusive or of a row's and of what is outside of the tile.
    std::pair<const Real*, const Real*> cosines_and_sines() const { return {cosine_.data(), sine_.data()}; }
    std::size_t near_pattern(std::size_t element) const;
    std::size_t far_pattern(std::size_t base) const;

    // What it, or undoing it, multiplies the norm by: the root mean square over all patterns.
    double scale() const;

    // base: the index of the tile's first element.
    void apply(Tile<Real> tile, std::size_t base) const;
    // Undoes it on ket and bra, and adds Im <bra|P|ket> of each pattern and lane to sums; not where no parameter changes the
    // pattern's angle.
    void undo(const TilePair<Real>& tiles, std::size_t base, double* sums) const;

    std::size_t num_sums() const { return is_trainable_ ? lanes << basis_.size() : 0; }
    std::size_t num_results() const { return is_trainable_ ? num_patterns() : 0; }
    // Adds what the sums are for each pattern.
    void collect(const double* sums, double* results) const;
    // Adds 2 Re <bra|d ket> to the derivatives by the angles: right once they are summed up for a parameter, since what
    // cancels there is left out.
    void finish(const double* results, double* gradient) const;

private:
    static constexpr std::size_t lanes = Simd<Real>::lanes;

    // Rows, which are the tile's vectors, with one pattern: numbers first .. last of rows_.
    struct Group {
        std::size_t pattern, first, last;
    };

    std::size_t num_patterns() const { return std::size_t(1) << basis_.size(); }
    void find_basis();
    void find_groups();
    void note_slopes(const std::vector<ByParameter>& slopes);
    // The sign that string k has on a pattern.
    bool is_negative(std::size_t k, std::size_t pattern) const {
        return parity(coordinates_[k] & pattern) != Index(negative_[k]);
    }
    // From a number for each set of parities to the sums of these, signed by them, on all patterns; and back, but for a factor.
    void transform(std::vector<double>& numbers) const;
    bool holds_in_lane(std::size_t lane) const { return !((lane ^ near_.value) & near_.mask & (lanes - 1)); }

    template <class F>
    void with_shape(F f) const;

    int t_;
    std::size_t x_;
    std::vector<String> strings_;
    Bits near_, far_;
    bool odd_;  // whether the strings have an odd number of Ys
    bool is_trainable_ = false;
    std::vector<Parity> basis_;
    std::vector<std::size_t> coordinates_;  // of each string's z in the basis
    std::vector<char> negative_;            // the string's sign on pattern 0
    std::vector<std::size_t> lane_pattern_;
    std::vector<Group> groups_;
    std::vector<std::uint32_t> rows_;  // first elements
    // Of each pattern that rows and bits outside of the tile have: c and s of all lanes, whether anything is to be rotated, and
    // whether a parameter changes an angle.
    AlignedVector<Real> cosine_, sine_;
    std::vector<char> moves_, depends_;
    std::size_t num_moved_ = 0;
    double scale_ = 1;
};

extern template class Rotations<float>;
extern template class Rotations<double>;

}  // namespace qdist
