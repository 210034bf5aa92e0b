// Angles of a row program: affine maps of the parameters, some of which differ from row to row, and their half's cosine and
// sine.
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "batch/walk.hpp"
#include "gates/angles.hpp"

namespace qdist::batch {

// cos(x / 2) and sin(x / 2) of `count` numbers of at most 4 pi, within 2e-16: loops without branches, which compilers
// vectorise.
inline void half_turns(const double* x, double* cosine, double* sine, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
        // x / 2 = quarter * pi/2 + r, where pi/2 is the sum of two doubles.
        const double half = 0.5 * x[k], shifted = half * 0x1.45f306dc9c883p-1 + 0x1.8p52;
        const double quarter = shifted - 0x1.8p52;
        const double r = (half - quarter * 0x1.921fb54442d18p+0) - quarter * 0x1.1a62633145c07p-54;
        const double z = r * r;
        const double s = r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800 + z * (1.0 / 6227020800.0 - z / 1307674368000.0))))));
        const double c = 1 + z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 + z * (1.0 / 479001600 - z / 87178291200.0))))));
        // quarter modulo 4: odd ones exchange cosine and sine; 1 and 2 negate the cosine, 2 and 3 the sine.
        const double turn = quarter - 4 * std::floor(quarter * 0.25);
        const bool odd = turn == 1 || turn == 3;
        cosine[k] = (turn == 1 || turn == 2 ? -1.0 : 1.0) * (odd ? s : c);
        sine[k] = (turn >= 2 ? -1.0 : 1.0) * (odd ? c : s);
    }
}

// One coefficient of an affine map: of output number `to`.
struct Entry {
    int to, from;
    double coefficient;
};

// Slots, the circuit's angles, are affine in the parameters; angles, of which the operations are made, are affine in the
// slots. The first `per_row` parameters are given for each row, the others once for all: a slot or an angle that depends on any
// of the former is of its row.
class Angles {
public:
    Angles(std::vector<double> slot_constants, std::vector<Entry> slot_entries, std::vector<double> constants, std::vector<Entry> entries, int per_row)
        : slots_(std::move(slot_constants)), angles_(std::move(constants)), per_row_(per_row) {
        for (double& c : slots_.constants) c = reduced(c);
        for (const Entry& e : slot_entries) {
            slots_.add(e, e.from < per_row);
            slots_.depends[e.to] = 1;
        }
        slots_.number();
        for (const Entry& e : entries) {
            angles_.add(e, slots_.of_row[e.from]);
            if (slots_.depends[e.from]) angles_.depends[e.to] = 1;
        }
        angles_.number();
    }

    std::size_t size() const { return angles_.constants.size(); }
    std::size_t num_slots() const { return slots_.constants.size(); }
    bool of_row(int angle) const { return angles_.of_row[angle]; }
    // Whether it depends on any parameter.
    bool depends(int angle) const { return angles_.depends[angle]; }
    // Its number among those of rows.
    int place(int angle) const { return angles_.place[angle]; }
    std::size_t num_row() const { return angles_.num_row; }
    std::size_t num_row_slots() const { return slots_.num_row; }

    // What the constants and the shared parameters give: one number a slot, and one an angle.
    void shared(const double* parameters, double* slots, double* angles) const {
        std::copy(slots_.constants.begin(), slots_.constants.end(), slots);
        for (const Entry& e : slots_.shared) add_product(e.coefficient, parameters[e.from - per_row_], slots[e.to]);
        std::copy(angles_.constants.begin(), angles_.constants.end(), angles);
        // A slot of rows has no value yet.
        for (const Entry& e : angles_.shared) angles[e.to] += e.coefficient * slots[e.from];
        for (std::size_t a = 0; a < size(); ++a) angles[a] = angles_.of_row[a] ? angles[a] : reduced(angles[a]);
    }

    // The angles of rows, for `count` <= lanes rows of parameters: lane r of number place(angle). Lanes without a row get
    // what the shared parameters give. room: lanes numbers for each slot of rows.
    void lanes(const double* parameters, std::size_t count, std::size_t lanes, const double* slots, const double* angles, double* room, double* out) const {
        for (std::size_t k = 0; k < num_slots(); ++k)
            if (slots_.of_row[k]) std::fill_n(room + slots_.place[k] * lanes, lanes, slots[k]);
        for (const Entry& e : slots_.row) {
            double* const to = room + std::size_t(slots_.place[e.to]) * lanes;
            for (std::size_t r = 0; r < count; ++r) add_product(e.coefficient, parameters[r * per_row_ + e.from], to[r]);
        }
        for (std::size_t a = 0; a < size(); ++a)
            if (angles_.of_row[a]) std::fill_n(out + angles_.place[a] * lanes, lanes, angles[a]);
        for (const Entry& e : angles_.row) {
            const double* const from = room + std::size_t(slots_.place[e.from]) * lanes;
            double* const to = out + std::size_t(angles_.place[e.to]) * lanes;
            for (std::size_t r = 0; r < lanes; ++r) to[r] += e.coefficient * from[r];
        }
        for (std::size_t k = 0; k < num_row() * lanes; ++k) out[k] = reduced(out[k]);
    }

    // Derivatives by the parameters of rows, given those by the angles of rows (as `lanes` orders them): added. room: as for
    // `lanes`.
    void add_row_gradient(const double* by_angle, std::size_t count, std::size_t lanes, double* room, double* gradient) const {
        std::fill_n(room, num_row_slots() * lanes, 0.0);
        for (const Entry& e : angles_.row) {
            const double* const from = by_angle + std::size_t(angles_.place[e.to]) * lanes;
            double* const to = room + std::size_t(slots_.place[e.from]) * lanes;
            for (std::size_t r = 0; r < lanes; ++r) to[r] += e.coefficient * from[r];
        }
        for (const Entry& e : slots_.row) {
            const double* const from = room + std::size_t(slots_.place[e.to]) * lanes;
            for (std::size_t r = 0; r < count; ++r) gradient[r * per_row_ + e.from] += e.coefficient * from[r];
        }
    }

    // Derivatives by the shared parameters, given those by all angles, summed over rows: added.
    void add_shared_gradient(const double* by_angle, double* gradient) const {
        std::vector<double> by_slot(num_slots());
        for (const auto* entries : {&angles_.shared, &angles_.row})
            for (const Entry& e : *entries) by_slot[e.from] += e.coefficient * by_angle[e.to];
        for (const Entry& e : slots_.shared) gradient[e.from - per_row_] += e.coefficient * by_slot[e.to];
    }

private:
    // An affine map, some of whose outputs are of rows: by entries from what is of rows, and from what is not.
    struct Map {
        explicit Map(std::vector<double> c) : constants(std::move(c)), of_row(constants.size()), depends(constants.size()), place(constants.size()) {}

        void add(const Entry& entry, bool from_row) {
            if (from_row) of_row[entry.to] = 1;
            (from_row ? row : shared).push_back(entry);
        }
        void number() {
            for (std::size_t k = 0; k < place.size(); ++k)
                if (of_row[k]) place[k] = int(num_row++);
        }

        std::vector<double> constants;
        std::vector<Entry> row, shared;
        std::vector<char> of_row, depends;
        std::vector<int> place;
        std::size_t num_row = 0;
    };

    Map slots_, angles_;
    int per_row_;
};

// Cosine and sine of half an angle, one of each lane.
template <class Real>
struct Turn {
    Vec<Real> cosine, sine;
};

// An angle that all rows have, and whether it turns all amplitudes.
struct SharedAngle {
    int number;
    bool everywhere;
};

// The turns by angles that all rows have, in the order of the circuit. In single precision a rounded turn scales the amplitudes by
// a factor within 6e-8 of one, the same in every run; where gates are repeated that adds up. So the next turn is divided by it
// before it is rounded. Undone in the other order, turns even out in the same way.
template <class Real>
inline void shared_turns(const double* angles, const std::vector<SharedAngle>& which, Turn<Real>* turns, std::vector<double>& room) {
    const std::size_t count = which.size();
    room.resize(3 * count);
    for (std::size_t k = 0; k < count; ++k) room[k] = angles[which[k].number];
    double *const cosine = room.data() + count, *const sine = cosine + count;
    half_turns(room.data(), cosine, sine, count);
    double scale = 1;
    for (std::size_t k = 0; k < count; ++k) {
        const double by = which[k].everywhere ? 1 / scale : 1;
        const Real c = Real(by * cosine[k]), s = Real(by * sine[k]);
        if (std::is_same_v<Real, float> && which[k].everywhere) scale = std::sqrt(double(c) * c + double(s) * s) * scale;
        turns[which[k].number] = {splat(c), splat(s)};
    }
}

}  // namespace qdist::batch
