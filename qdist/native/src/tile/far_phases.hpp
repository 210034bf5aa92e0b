// The phases of a diagonal that bits outside of a tile bring: a factor of the whole tile, and one where each of its own bits
// is 1.
//
// A product b_f b_a of a bit f outside of the tile and a bit a inside is b_a or nothing, as f is 1 or 0 there. So on a tile all
// such products together are sum_a lambda_a b_a, and their phases a product of as many factors as the tile has bits, however
// many products there are. The factors of an element's column bits and of its row bits are tables of their own, 2^columns and
// 2^rows numbers made by doubling.
#pragma once
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "gates/formulas.hpp"

namespace qdist {

template <class Real>
class FarPhases {
public:
    // The factors of one tile, in a buffer that the thread keeps until it makes those of the next.
    struct Factors {
        const Complex* rows = nullptr;
        const Real *column_re = nullptr, *column_im = nullptr;
        bool has_columns = false;  // whether those of the columns are not all one
    };

    FarPhases() = default;
    // Of tiles of 2^t elements, in rows of 2^columns.
    FarPhases(int t, int columns) : t_(t), columns_(columns) {}

    // A term of the polynomial: the angle where bit `far` of the index is 1 and bit `first` is too. That is a bit of the tile, or
    // t + a bit of the index; `far` itself for the bit alone.
    void add(int first, int far, double angle) {
        if (first >= t_ && first - t_ != far) {
            both_.push_back({Index(1) << (first - t_) | Index(1) << far, cis(angle)});
            return;
        }
        auto found = std::find_if(bits_.begin(), bits_.end(), [=](const Bit& b) { return b.position == far; });
        if (found == bits_.end()) found = bits_.insert(found, {far, std::vector<Complex>(t_ + 1, 1)});
        found->factor[first < t_ ? first : t_] *= cis(angle);
        columns_change_ = columns_change_ || first < columns_;
    }

    bool empty() const { return bits_.empty() && both_.empty(); }

    // base: the index of the tile's first element. Nothing to read where it is empty().
    Factors at(std::size_t base) const {
        if (empty()) return {};
        // The factor of each bit of the tile, and of all of it.
        std::array<Complex, max_bits + 1> own;
        own.fill(1);
        for (const Bit& bit : bits_)
            if (base >> bit.position & 1)
                for (int a = 0; a <= t_; ++a) own[a] = times(own[a], bit.factor[a]);
        for (const auto& [mask, factor] : both_)
            if ((base & mask) == mask) own[t_] = times(own[t_], factor);
        Room& room = thread_room();
        room.rows.resize(std::size_t(1) << (t_ - columns_));
        room.rows[0] = own[t_];
        double_up(&own[columns_], t_ - columns_, room.rows.data());
        if (columns_change_) {
            const std::size_t width = std::size_t(1) << columns_;
            room.columns.resize(width);
            room.re.resize(width);
            room.im.resize(width);
            room.columns[0] = 1;
            double_up(own.data(), columns_, room.columns.data());
            for (std::size_t i = 0; i < width; ++i) {
                room.re[i] = Real(room.columns[i].real());
                room.im[i] = Real(room.columns[i].imag());
            }
        }
        return {room.rows.data(), room.re.data(), room.im.data(), columns_change_};
    }

private:
    static constexpr int max_bits = 62;

    struct Bit {
        int position;                 // in the index
        std::vector<Complex> factor;  // where it is 1: of each bit of the tile, and of all of it
    };
    struct Room {
        std::vector<Complex> rows, columns;
        AlignedVector<Real> re, im;
    };
    static Room& thread_room() {
        thread_local Room room;
        return room;
    }

    // From the number of setting 0 to those of all settings of `bits` bits, each of which brings a factor.
    static void double_up(const Complex* factor, int bits, Complex* numbers) {
        for (int b = 0; b < bits; ++b)
            for (std::size_t k = 0, size = std::size_t(1) << b; k < size; ++k) numbers[size + k] = times(numbers[k], factor[b]);
    }

    int t_ = 0, columns_ = 0;
    bool columns_change_ = false;
    std::vector<Bit> bits_;
    std::vector<std::pair<Index, Complex>> both_;  // bits outside of the tile, and the factor where all are 1
};

}  // namespace qdist
