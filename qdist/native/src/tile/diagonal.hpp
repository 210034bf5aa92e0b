// Diagonal blocks on a tile: every diagonal gate that commutes its way to one place, merged.
//
// Gates on one or two bits make the phase a quadratic polynomial of the bits,
//     phase = c + sum_a alpha_a b_a + sum_ab beta_ab b_a b_b,
// whose coefficients are affine in the program's angles. The tile is rows of 2^low elements: what its own bits bring is
// A[row] * T[class of row][column], where a class is a setting of the row bits that have a product with a column bit. Bits
// outside the tile are constant on it, so that their products with its own bring one factor for each of these
// (tile/far_phases.hpp). Wider diagonals are terms of their own.
#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include "base/bits.hpp"
#include "base/simd.hpp"
#include "gates/angles.hpp"
#include "gates/formulas.hpp"
#include "tile/far_phases.hpp"
#include "tile/transition.hpp"

namespace qdist {

// A complex factor in the tile's precision.
template <class Real>
struct Phase {
    Real re, im;
};

// f(first, length): the elements of a tile of 2^t where a condition holds, in runs as long as its lowest bit says.
template <class F>
void runs_where(Bits condition, int t, F f) {
    const std::size_t size = std::size_t(1) << t, mask = condition.mask;
    const std::size_t length = mask ? mask & ~(mask - 1) : size;
    // With ones at the condition's bits a carry goes through them.
    for (std::size_t free = 0; free < size; free = ((free | mask) + length) & ~mask) f(free | condition.value, length);
}

// Multiplies the elements i of a tile of 2^t where a condition holds by factor(i).
template <class Real, class F>
void multiply_where(Bits condition, int t, Tile<Real> tile, F factor) {
    runs_where(condition, t, [=](std::size_t first, std::size_t length) {
        Real *const re = tile.re + first, *const im = tile.im + first;
#pragma GCC ivdep
        for (std::size_t k = 0; k < length; ++k) {
            const Phase<Real> z = factor(first + k);
            const Real x = re[k], y = im[k];
            re[k] = z.re * x - z.im * y;
            im[k] = z.re * y + z.im * x;
        }
    });
}

template <class Real>
class Diagonal {
public:
    // A product of one or two bits (their product with itself is the bit); first <= second. Bits < t are the tile's, others
    // are t + a position of the shard's index. The constant has first = -1.
    struct Term {
        int first, second;
        Affine angle;
        double value = 0;  // of the angle
    };
    // A phase where bits of the tile and bits outside it have given values.
    struct Wide {
        Bits near, far;
        Affine angle;
        double value = 0;
    };

    // many_tiles: whether a factor for every element pays, which costs about as much as multiplying one tile.
    Diagonal(int t, std::vector<Term> terms, std::vector<Wide> wide, bool many_tiles)
        : t_(t), terms_(std::move(terms)), wide_(std::move(wide)), many_tiles_(many_tiles) {
        columns_ = std::min(t, std::max(t / 2, Simd<Real>::lane_bits));
        rows_only_ = wide_.empty();
        for (const Term& term : terms_) {
            const bool far = term.first >= t || term.second >= t;
            rows_only_ = rows_only_ && (term.first < 0 || term.first >= columns_);
            if (!far && term.first >= 0 && term.first < columns_ && term.second >= columns_)
                cross_ |= std::size_t(1) << term.second;
        }
        for (int b = columns_; b < t; ++b)
            if (cross_ >> b & 1) class_bits_.push_back(b - columns_);
    }

    // factor: what all amplitudes are multiplied by beside; one, unless multiplies_all().
    void set(const double* angles, double factor = 1) {
        factor_ = factor;
        for (Term& term : terms_) term.value = term.angle.at(angles);
        for (Wide& wide : wide_) wide.value = wide.angle.at(angles);
        far_ = FarPhases<Real>(t_, columns_);
        for (const Term& term : terms_)
            if (term.second >= t_) far_.add(term.first, term.second - t_, term.value);
        // A factor for every element pays only where it depends on all of its bits, and rows have no factors of their own.
        if (many_tiles_ && !rows_only_ && far_.empty())
            expand(tables(room().tables), own_);
        else
            tables(own_);
        if (!rows_only_) return;
        row_re_.resize(own_.row.size());
        row_im_.resize(own_.row.size());
        for (std::size_t r = 0; r < own_.row.size(); ++r) {
            row_re_[r] = Real(own_.row[r].real());
            row_im_[r] = Real(own_.row[r].imag());
        }
    }

    // Whether most amplitudes are multiplied by a phase.
    bool multiplies_all() const { return !terms_.empty(); }

    // What it, or undoing it, multiplies the norm by where all probabilities are the same: the rounded phases' root mean
    // square. Of phases that bits outside the tile change it is taken to be one.
    double mean_scale() const {
        if (!far_.empty() || !wide_.empty()) return factor_;
        double rows = 0;
        for (const Complex& z : own_.row) {
            const double re = Real(z.real()), im = Real(z.imag());
            rows += re * re + im * im;
        }
        const double columns = sum_of_squares(own_.re) + sum_of_squares(own_.im);
        return std::sqrt(rows / double(own_.row.size()) * columns / double(own_.re.size()));
    }

    // base: the shard's index of the tile's first element.
    void apply(Tile<Real> tile, std::size_t base) const {
        each_factor(base, [=](std::size_t i, V c, V s) { multiply(tile, i, c, s); }, [](std::size_t) {});
        for (const Wide& wide : wide_) apply_wide(tile, base, wide, wide.value);
    }

    // Undoes it on a ket and a bra. Where `w` is given, it gets Re(i conj(bra) ket) of each element, which stays the same; in
    // rows_only() that of each row's vectors is added to it, added up.
    void undo(const TilePair<Real>& tiles, std::size_t base, Real* w) const {
        const Tile<Real> ket = tiles.ket, bra = tiles.bra;
        // What w needs is loaded once: the compiler cannot know that storing w changes nothing else.
        const auto undo_and_sum = [=](std::size_t i, V c, V s) {
            const V k = load(ket.re + i), l = load(ket.im + i), a = load(bra.re + i), b = load(bra.im + i);
            store<Real>(ket.re + i, c * k + s * l);
            store<Real>(ket.im + i, c * l - s * k);
            store<Real>(bra.re + i, c * a + s * b);
            store<Real>(bra.im + i, c * b - s * a);
            store<Real>(w + i, b * k - a * l);
        };
        const auto sum = [=](std::size_t i) {
            store<Real>(w + i, load(bra.im + i) * load(ket.re + i) - load(bra.re + i) * load(ket.im + i));
        };
        const auto undo = [=](std::size_t i, V c, V s) {
            multiply(ket, i, c, -s);
            multiply(bra, i, c, -s);
        };
        if (w && rows_only_)
            undo_rows(tiles, base, w, [=](std::size_t first) {
                return [=](std::size_t column, V& k, V& l, V& a, V& b) {
                    const std::size_t i = first + column;
                    k = load(ket.re + i), l = load(ket.im + i), a = load(bra.re + i), b = load(bra.im + i);
                };
            });
        else if (w)
            each_factor(base, undo_and_sum, sum);
        else
            each_factor(base, undo, [](std::size_t) {});
        for (const Wide& wide : wide_) {
            apply_wide(ket, base, wide, -wide.value);
            apply_wide(bra, base, wide, -wide.value);
        }
    }

    // undo() in rows_only(), of what comes from elsewhere: row_at(i), where i is the first element of a row, gives a function
    // that puts what is at a column into vectors, of the ket's parts and of the bra's.
    template <class RowAt>
    void undo_rows(const TilePair<Real>& tiles, std::size_t base, Real* w, RowAt row_at) const {
        const std::size_t width = std::size_t(1) << columns_;
        const typename FarPhases<Real>::Factors far = far_.at(base);
        for (std::size_t r = 0; r < own_.row.size(); ++r) {
            const Complex a = far_.empty() ? own_.row[r] : times(own_.row[r], far.rows[r]);
            const V c = splat(Real(a.real())), s = splat(Real(a.imag()));
            Real *const ket_re = tiles.ket.re + r * width, *const ket_im = tiles.ket.im + r * width;
            Real *const bra_re = tiles.bra.re + r * width, *const bra_im = tiles.bra.im + r * width;
            const auto get = row_at(r * width);
            V sum = load(w + r * lanes);
            for (std::size_t i = 0; i < width; i += lanes) {
                V k, l, a, b;
                get(i, k, l, a, b);
                sum += b * k;
                sum -= a * l;
                store<Real>(ket_re + i, c * k + s * l);
                store<Real>(ket_im + i, c * l - s * k);
                store<Real>(bra_re + i, c * a + s * b);
                store<Real>(bra_im + i, c * b - s * a);
            }
            store<Real>(w + r * lanes, sum);
        }
    }

    const std::vector<Term>& terms() const { return terms_; }
    const std::vector<Wide>& wide() const { return wide_; }

    // Whether each row or, if not rows_only(), each element has a factor in a table, the same in all tiles.
    bool has_plain_factors() const {
        const auto is_far = [this](const Term& term) { return term.second >= t_; };
        return wide_.empty() && (rows_only_ || many_tiles_) && std::none_of(terms_.begin(), terms_.end(), is_far);
    }
    std::pair<const Real*, const Real*> factors() const {
        return rows_only_ ? std::pair{row_re_.data(), row_im_.data()} : std::pair{own_.re.data(), own_.im.data()};
    }

    // Whether phases do not depend on the lowest columns() bits of the tile: rows of so many bits have one each.
    bool rows_only() const { return rows_only_; }
    int columns() const { return columns_; }

private:
    using V = Vec<Real>;
    static constexpr std::size_t lanes = Simd<Real>::lanes;

    struct Tables {
        std::vector<Complex> row;    // A
        std::vector<int> class_of;   // of each row
        AlignedVector<Real> re, im;  // T, class by class
        std::vector<char> identity;  // whether a class's T is one everywhere
    };

    static double sum_of_squares(const AlignedVector<Real>& numbers) {
        using Doubles = Lanes<double, lanes>;
        Doubles sum = Doubles::all(0);
        double rest = 0;
        std::size_t i = 0;
        for (; i + lanes <= numbers.size(); i += lanes) {
            const Doubles some = widened(Lanes<Real, lanes>::load(&numbers[i]));
            sum = sum + some * some;
        }
        for (; i < numbers.size(); ++i) rest += double(numbers[i]) * numbers[i];
        return rest + sum.sum();
    }

    // What a thread needs to compute tables, which it keeps: allocations would take longer.
    struct Room {
        std::vector<double> single, own, row_pair, column_pair, cross;
        std::vector<Complex> step, column;
        Tables tables;
    };
    static Room& room() {
        thread_local Room room;
        return room;
    }

    // The phases of all settings of n bits, given those of single bits and of pairs: by doubling. step: room to work in.
    static void phases(int n, const double* single, const std::vector<double>& pair, std::vector<Complex>& step,
                       std::vector<Complex>& all) {
        all.resize(std::size_t(1) << n);
        step.resize(all.size());
        all[0] = 1;
        for (int b = 0; b < n; ++b) {
            // The factor that bit b brings, for all settings of the bits below it.
            const std::size_t size = std::size_t(1) << b;
            step[0] = cis(single[b]);
            bool constant = true;
            for (int a = 0; a < b; ++a) constant = constant && pair[a * n + b] == 0;
            if (constant) {
                for (std::size_t k = 0; k < size; ++k) all[size + k] = times(all[k], step[0]);
                continue;
            }
            for (int a = 0; a < b; ++a) {
                const Complex z = cis(pair[a * n + b]);
                const std::size_t have = std::size_t(1) << a;
                for (std::size_t k = 0; k < have; ++k) step[have + k] = times(step[k], z);
            }
            for (std::size_t k = 0; k < size; ++k) all[size + k] = times(all[k], step[k]);
        }
    }

    // Of the terms of the tile's own bits, in the memory of an earlier call. Returns `out`.
    const Tables& tables(Tables& out) const {
        const int columns = columns_, rows = t_ - columns_;
        auto& [single, own, row_pair, column_pair, cross, step, column, unused] = room();
        single.assign(t_, 0);
        row_pair.assign(rows * rows, 0);
        column_pair.assign(columns * columns, 0);
        cross.assign(columns * rows, 0);
        double constant = 0;
        for (const Term& term : terms_) {
            const int a = term.first, b = term.second;
            if (b >= t_) continue;
            if (a < 0)
                constant += term.value;
            else if (a == b)
                single[a] += term.value;
            else if (b < columns)
                column_pair[a * columns + b] += term.value;
            else if (a >= columns)
                row_pair[(a - columns) * rows + b - columns] += term.value;
            else
                cross[a * rows + b - columns] += term.value;
        }
        phases(rows, single.data() + columns, row_pair, step, out.row);
        const Complex c = cis(constant) * factor_;
        if (c != 1.0)
            for (Complex& z : out.row) z = times(z, c);
        const std::size_t width = std::size_t(1) << columns, classes = std::size_t(1) << class_bits_.size();
        out.class_of.assign(out.row.size(), 0);
        for (std::size_t r = 0; r < out.row.size(); ++r)
            for (std::size_t j = 0; j < class_bits_.size(); ++j)
                if (r >> class_bits_[j] & 1) out.class_of[r] |= 1 << j;
        out.re.resize(classes * width);
        out.im.resize(classes * width);
        out.identity.resize(classes);
        own.resize(columns);
        for (std::size_t k = 0; k < classes; ++k) {
            bool identity = true;
            for (int a = 0; a < columns; ++a) {
                own[a] = single[a];
                for (std::size_t j = 0; j < class_bits_.size(); ++j)
                    if (k >> j & 1) own[a] += cross[a * rows + class_bits_[j]];
                identity = identity && own[a] == 0;
            }
            for (double p : column_pair) identity = identity && p == 0;
            out.identity[k] = identity;
            if (identity) {
                std::fill_n(&out.re[k * width], width, Real(1));
                std::fill_n(&out.im[k * width], width, Real(0));
                continue;
            }
            phases(columns, own.data(), column_pair, step, column);
            for (std::size_t i = 0; i < width; ++i) {
                out.re[k * width + i] = Real(column[i].real());
                out.im[k * width + i] = Real(column[i].imag());
            }
        }
        return out;
    }

    // The same factors, one for each element: a class for each row. to: what an earlier call has made, whose memory it takes.
    void expand(const Tables& from, Tables& to) const {
        const std::size_t rows = from.row.size(), size = rows << columns_;
        to.row.assign(rows, 1);
        to.class_of.resize(rows);
        std::iota(to.class_of.begin(), to.class_of.end(), 0);
        to.re.resize(size);
        to.im.resize(size);
        to.identity.assign(rows, false);
        const auto put = [&](std::size_t i, V c, V s) { store<Real>(&to.re[i], c), store<Real>(&to.im[i], s); };
        each_own_factor(from, put, [&](std::size_t i) {
            put(i, splat(Real(1)), V{});
            to.identity[i >> columns_] = true;
        });
    }

    // Calls f(i, c, s) for each vector of the tile, which begins at element i and has the factors c + is, or one(i) where they
    // are known to be one.
    template <class F, class One>
    void each_factor(std::size_t base, F&& f, One&& one) const {
        if (far_.empty()) return each_own_factor(own_, f, one);
        const std::size_t width = std::size_t(1) << columns_;
        const typename FarPhases<Real>::Factors far = far_.at(base);
        for (std::size_t r = 0; r < own_.row.size(); ++r) {
            const std::size_t k = own_.class_of[r], first = r * width;
            const Complex a = times(own_.row[r], far.rows[r]);
            const Real *u = &own_.re[k * width], *v = &own_.im[k * width];
            const V ar = splat(Real(a.real())), ai = splat(Real(a.imag()));
            // The products of the row's factor with what the columns have.
            const auto with = [&](auto has_far, auto has_own) QDIST_INLINE {
                for (std::size_t i = 0; i < width; i += lanes) {
                    V c = ar, s = ai;
                    const auto times = [&](V re, V im) QDIST_INLINE {
                        const V product = c * re - s * im;
                        s = c * im + s * re;
                        c = product;
                    };
                    if constexpr (has_far) times(load(far.column_re + i), load(far.column_im + i));
                    if constexpr (has_own) times(load(u + i), load(v + i));
                    f(first + i, c, s);
                }
            };
            constexpr std::true_type yes;
            constexpr std::false_type no;
            if (own_.identity[k])
                far.has_columns ? with(yes, no) : with(no, no);
            else
                far.has_columns ? with(yes, yes) : with(no, yes);
        }
    }

    template <class F, class One>
    void each_own_factor(const Tables& tables, F&& f, One&& one) const {
        const std::size_t width = std::size_t(1) << columns_;
        for (std::size_t r = 0; r < tables.row.size(); ++r) {
            const std::size_t k = tables.class_of[r], first = r * width;
            const Complex a = tables.row[r];
            const Real *u = &tables.re[k * width], *v = &tables.im[k * width];
            const V ar = splat(Real(a.real())), ai = splat(Real(a.imag()));
            if (tables.identity[k] && a == 1.0)
                for (std::size_t i = 0; i < width; i += lanes) one(first + i);
            else if (tables.identity[k])
                for (std::size_t i = 0; i < width; i += lanes) f(first + i, ar, ai);
            else if (a == 1.0)
                for (std::size_t i = 0; i < width; i += lanes) f(first + i, load(u + i), load(v + i));
            else
                for (std::size_t i = 0; i < width; i += lanes) {
                    const V c = load(u + i), s = load(v + i);
                    f(first + i, ar * c - ai * s, ar * s + ai * c);
                }
        }
    }

    static void multiply(Tile<Real> tile, std::size_t i, V c, V s) {
        const V p = load(tile.re + i), q = load(tile.im + i);
        store<Real>(tile.re + i, c * p - s * q);
        store<Real>(tile.im + i, c * q + s * p);
    }

    void apply_wide(Tile<Real> tile, std::size_t base, const Wide& w, double angle) const {
        const Complex z = cis(angle);
        const Phase<Real> factor{Real(z.real()), Real(z.imag())};
        if (w.far.holds(base)) multiply_where(w.near, t_, tile, [=](std::size_t) { return factor; });
    }

    int t_, columns_;
    std::vector<Term> terms_;
    std::vector<Wide> wide_;
    bool many_tiles_, rows_only_;
    std::size_t cross_ = 0;
    std::vector<int> class_bits_;
    Tables own_;
    std::vector<Real> row_re_, row_im_;  // rows_only(): of each row
    FarPhases<Real> far_;
    double factor_ = 1;
};

// A diagonal given entry by entry, on bits inside and outside the tile, under controls.
template <class Real>
class TableDiagonal {
public:
    // inside, outside: (bit of the tile or of the shard's index, bit of the table's index)
    TableDiagonal(int t, std::vector<std::pair<int, int>> inside, std::vector<std::pair<int, int>> outside, Bits near, Bits far,
                  const std::vector<Complex>& table)
        : t_(t), inside_(std::move(inside)), outside_(std::move(outside)), near_(near), far_(far) {
        for (Complex z : table) {
            re_.push_back(Real(z.real()));
            im_.push_back(Real(z.imag()));
        }
    }

    void apply(Tile<Real> tile, std::size_t base) const { multiply(tile, base, 1); }
    void undo(Tile<Real> tile, std::size_t base) const { multiply(tile, base, -1); }

private:
    // sign: 1, or -1 for the conjugate.
    void multiply(Tile<Real> tile, std::size_t base, Real sign) const {
        if (!far_.holds(base)) return;
        const auto place = [](std::size_t index, const auto& pairs) {
            std::size_t at = 0;
            for (const auto& [bit, k] : pairs) at |= (index >> bit & 1) << k;
            return at;
        };
        const std::size_t fixed = place(base, outside_);
        multiply_where(near_, t_, tile, [&](std::size_t i) {
            const std::size_t at = fixed | place(i, inside_);
            return Phase<Real>{re_[at], sign * im_[at]};
        });
    }

    int t_;
    std::vector<std::pair<int, int>> inside_, outside_;
    Bits near_, far_;
    std::vector<Real> re_, im_;
};

}  // namespace qdist
