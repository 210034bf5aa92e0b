// A circuit for the rows of a batch: a start, operations, and the runs of row blocks, one a vector's lanes wide.
//
// What the records mean, and how they are made, is in plan/rows/records.py: the same on every device.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <variant>
#include <vector>

#include "base/pool.hpp"
#include "base/subnormals.hpp"
#include "batch/angles.hpp"
#include "batch/dense.hpp"
#include "batch/diagonal.hpp"
#include "batch/outputs.hpp"
#include "batch/rotations.hpp"
#include "batch/start.hpp"
#include "batch/walk.hpp"

namespace qdist::batch {

// Phases that all rows share; table: its place among the diagonals.
struct Diagonal {
    std::vector<Term> terms;
    int table = 0;
};

using Operation = std::variant<Group, Diagonal, Constant>;

// Memory of a thread, kept between calls: allocating it would cost small circuits as much as running them.
template <class Real>
Real* thread_room(std::size_t numbers) {
    thread_local AlignedVector<Real> room;
    if (room.size() < numbers) room.resize(numbers);
    return room.data();
}

// Vector operations that are worth a thread: some 20 microseconds.
inline constexpr double work_of_a_thread = 5e4;

template <class Real>
class RowProgram {
public:
    static constexpr std::size_t W = rows<Real>;

    RowProgram(int n, int per_row, int num_shared, Angles angles, std::vector<Factor> start, std::vector<Operation> operations, Walk logical, int phase)
        : n_(n), per_row_(per_row), num_shared_(num_shared), angles_(std::move(angles)), start_(std::move(start)), operations_(std::move(operations)), logical_(std::move(logical)), phase_(phase) {
        for (Operation& operation : operations_)
            if (auto* diagonal = std::get_if<Diagonal>(&operation)) diagonal->table = num_tables_++;
        const auto use = [&](int angle, bool everywhere) {
            if (!angles_.of_row(angle)) shared_turns_.push_back({angle, everywhere});
        };
        for (const Factor& f : start_) use(f.angle, true);
        for (const Operation& operation : operations_)
            if (const auto* group = std::get_if<Group>(&operation))
                for (const Rotation& rotation : group->rotations) use(rotation.angle, group->walk.bits + int(group->rotations.size()) == n_ + 1);
    }

    int num_bits() const { return n_; }
    std::size_t per_row() const { return per_row_; }
    std::size_t num_shared() const { return num_shared_; }

    // Numbers that the states of so many rows take in the layout of row blocks.
    std::size_t kept_size(std::size_t batch) const { return blocks(batch) * state_size(); }

    // The outputs of every row: values[row * outputs + k]. kets: memory of kept_size numbers for the states, or null.
    void forward(const double* row_values, const double* shared, std::size_t batch, const Outputs& outputs, Real* kets, double* values) const {
        const Shared common(*this, shared);
        run_blocks(batch, 1, [&](std::size_t block, Room& room) {
            const std::size_t first = block * W, count = std::min(W, batch - first);
            Real* const ket = kets ? kets + block * state_size() : room.ket;
            run(common, row_values + first * per_row_, count, room, ket);
            read(outputs, ket, room, count, values + first * outputs.count());
        });
    }

    // The vector-Jacobian product with cotangents[row * outputs + k]; values as `forward` gives them, and set where `kets` is
    // null, which runs the circuit too. Adds derivatives by the parameters of rows (if not null) and by the shared ones.
    void backward(const double* row_values, const double* shared, std::size_t batch, const Outputs& outputs, Real* kets, double* values,
                  const double* cotangents, double* row_gradient, double* shared_gradient) const {
        const Shared common(*this, shared);
        Wanted wanted(*this, row_gradient != nullptr, shared_gradient != nullptr);
        // One row a block, added up in their order: the result does not depend on the threads.
        std::vector<double> by_angle(blocks(batch) * angles_.size());
        run_blocks(batch, 3, [&](std::size_t block, Room& room) {
            const std::size_t first = block * W, count = std::min(W, batch - first), outs = outputs.count();
            Real* const ket = kets ? kets + block * state_size() : room.ket;
            if (kets)
                bind(common, row_values + first * per_row_, count, room);
            else {
                run(common, row_values + first * per_row_, count, room, ket);
                read(outputs, ket, room, count, values + first * outs);
            }
            room.cotangents.assign(outs * W, 0);
            double shift[W] = {};
            for (std::size_t r = 0; r < count; ++r)
                for (std::size_t k = 0; k < outs; ++k) {
                    const double g = cotangents[(first + r) * outs + k];
                    room.cotangents[k * W + r] = g;
                    shift[r] += g * values[(first + r) * outs + k];
                }
            outputs.pull_back(ket, room.cotangents.data(), shift, room.bra, room.work);
            room.by_row.assign(angles_.num_row() * W, 0);
            sweep_back(common, wanted, room, ket, by_angle.data() + block * angles_.size());
            if (row_gradient) angles_.add_row_gradient(room.by_row.data(), count, W, room.slots.data(), row_gradient + first * per_row_);
        });
        if (shared_gradient)
            for (std::size_t block = 0; block < blocks(batch); ++block) angles_.add_shared_gradient(by_angle.data() + block * angles_.size(), shared_gradient);
    }

    // The state of every row, in logical order.
    template <class Stored>
    void states(const double* row_values, const double* shared, std::size_t batch, std::complex<Stored>* out) const {
        const Shared common(*this, shared);
        run_blocks(batch, 1, [&](std::size_t block, Room& room) {
            const std::size_t first = block * W, count = std::min(W, batch - first), size = std::size_t(1) << n_;
            run(common, row_values + first * per_row_, count, room, room.ket);
            double phases[W], cosine[W], sine[W];
            std::fill_n(phases, W, phase_ < 0 ? 0.0 : common.angles[phase_]);
            if (phase_ >= 0 && angles_.of_row(phase_)) std::copy_n(room.angles.data() + angles_.place(phase_) * W, W, phases);
            half_turns(phases, cosine, sine, W);
            std::size_t s = 0;
            for (const std::uint32_t high : logical_.outer)
                for (const std::uint32_t low : logical_.inner) {
                    const Real *const re = room.ket + std::size_t(high ^ low) * W, *const im = re + size * W;
                    for (std::size_t r = 0; r < count; ++r)
                        out[(first + r) * size + s] = {Stored(re[r] * cosine[r] + im[r] * sine[r]), Stored(im[r] * cosine[r] - re[r] * sine[r])};
                    ++s;
                }
        });
    }

private:
    std::size_t state_size() const { return W << (n_ + 1); }
    static std::size_t blocks(std::size_t batch) { return (batch + W - 1) / W; }

    // What all rows have in common: angles of shared parameters, their turns, and tables of phases.
    struct Shared {
        Shared(const RowProgram& p, const double* parameters) : slots(p.angles_.num_slots()), angles(p.angles_.size()), turns(p.angles_.size()), tables(std::size_t(2 * p.num_tables_) << p.n_) {
            std::vector<double> room;
            p.angles_.shared(parameters, slots.data(), angles.data());
            shared_turns(angles.data(), p.shared_turns_, turns.data(), room);
            for (const Operation& operation : p.operations_)
                if (const auto* diagonal = std::get_if<Diagonal>(&operation))
                    fill_phases(diagonal->terms, angles.data(), std::size_t(1) << p.n_, tables.data() + (std::size_t(2 * diagonal->table) << p.n_), room);
        }
        const Real* table(const RowProgram& p, const Diagonal& diagonal) const { return tables.data() + (std::size_t(2 * diagonal.table) << p.n_); }

        std::vector<double> slots, angles;
        std::vector<Turn<Real>, AlignedAllocator<Turn<Real>>> turns;
        AlignedVector<Real> tables;
    };

    // Which derivatives are wanted, and where the sweep back may end.
    struct Wanted {
        Wanted(const RowProgram& p, bool by_row, bool by_shared) : angle(p.angles_.size()), diagonal(p.num_tables_), first(p.operations_.size()) {
            for (std::size_t a = 0; a < angle.size(); ++a)
                angle[a] = p.angles_.depends(int(a)) && (by_shared || (by_row && p.angles_.of_row(int(a))));
            for (std::size_t k = p.operations_.size(); k-- > 0;) {
                bool here = false;
                if (const auto* group = std::get_if<Group>(&p.operations_[k]))
                    for (const Rotation& rotation : group->rotations) here = here || angle[rotation.angle];
                if (const auto* d = std::get_if<Diagonal>(&p.operations_[k])) {
                    for (const Term& term : d->terms) here = here || angle[term.angle];
                    diagonal[d->table] = here;
                }
                if (here) first = k;
            }
            for (const Factor& f : p.start_) start = start || angle[f.angle];
            if (start) first = 0;
        }
        std::vector<char> angle, diagonal;
        std::size_t first;
        bool start = false;
    };

    // Working memory of a thread. Ket and bra lie half the sets of a cache apart: a group's numbers are powers of two apart,
    // often all in one set, and those of both would be more than a set has lines.
    struct Room {
        static constexpr std::size_t skew = 32;
        explicit Room(const RowProgram& p) : turns(p.angles_.size()), qubits(p.n_), slots(p.angles_.num_row_slots() * W), angles(3 * p.angles_.num_row() * W) {
            ket = thread_room<Real>(3 * p.state_size() + 2 * skew * W);
            bra = ket + p.state_size() + skew * W;
            work = bra + p.state_size() + skew * W;
        }
        Real *ket, *bra, *work;
        std::vector<Turn<Real>, AlignedAllocator<Turn<Real>>> turns;
        std::vector<Qubit<Real>, AlignedAllocator<Qubit<Real>>> qubits;
        std::vector<double> slots, angles, values, cotangents, by_row, phases;
        std::vector<LaneSums<Real>> sums;
    };

    // Threads over row blocks, as many as the work is worth.
    template <class Work>
    void run_blocks(std::size_t batch, int runs, Work work) const {
        const std::size_t count = blocks(batch);
        const double total = double(count) * runs * double(operations_.size() + 2) * 8 * double(std::size_t(1) << n_);
        const int threads = std::min(max_threads(), int(std::min(total / work_of_a_thread, double(most_threads))));
        run_on_threads(threads, count, [&](Pieces& pieces) {
            const FlushedSubnormals flushed;
            Room room(*this);
            for (std::size_t block = pieces.next(); block != Pieces::none; block = pieces.next()) work(block, room);
        });
    }

    // The turns of a block's rows.
    void bind(const Shared& common, const double* row_values, std::size_t count, Room& room) const {
        std::copy(common.turns.begin(), common.turns.end(), room.turns.begin());
        const std::size_t numbers = angles_.num_row() * W;
        double *const angles = room.angles.data(), *const cosine = angles + numbers, *const sine = cosine + numbers;
        angles_.lanes(row_values, count, W, common.slots.data(), common.angles.data(), room.slots.data(), angles);
        half_turns(angles, cosine, sine, numbers);
        for (std::size_t a = 0; a < angles_.size(); ++a)
            if (angles_.of_row(int(a)))
                for (std::size_t r = 0; r < W; ++r) {
                    room.turns[a].cosine[r] = Real(cosine[angles_.place(int(a)) * W + r]);
                    room.turns[a].sine[r] = Real(sine[angles_.place(int(a)) * W + r]);
                }
    }

    void run(const Shared& common, const double* row_values, std::size_t count, Room& room, Real* ket) const {
        const std::size_t size = std::size_t(1) << n_;
        bind(common, row_values, count, room);
        start_qubits(start_, room.turns.data(), n_, room.qubits.data());
        start_state(room.qubits.data(), n_, ket);
        for (const Operation& operation : operations_) {
            if (const auto* group = std::get_if<Group>(&operation))
                rotate(*group, room.turns.data(), ket);
            else if (const auto* diagonal = std::get_if<Diagonal>(&operation))
                multiply_phases(common.table(*this, *diagonal), size, ket);
            else {
                const auto& constant = std::get<Constant>(operation);
                multiply_constant(constant, constant.matrix, size, ket);
            }
        }
    }

    void read(const Outputs& outputs, const Real* ket, Room& room, std::size_t count, double* values) const {
        room.values.resize(std::size_t(outputs.count()) * W);
        outputs.values(ket, room.work, room.values.data(), room.sums);
        for (std::size_t r = 0; r < count; ++r)
            for (int k = 0; k < outputs.count(); ++k) values[r * outputs.count() + k] = room.values[k * W + r];
    }

    void sweep_back(const Shared& common, const Wanted& wanted, Room& room, Real* ket, double* by_angle) const {
        const std::size_t size = std::size_t(1) << n_;
        const auto note = [&](int angle, const LaneSums<Real>& sums) {
            if (!wanted.angle[angle]) return;
            by_angle[angle] += sums.total();
            if (!angles_.of_row(angle)) return;
            double* const to = room.by_row.data() + std::size_t(angles_.place(angle)) * W;
            for (std::size_t r = 0; r < W; ++r) to[r] += sums.lane[r];
        };
        for (std::size_t k = operations_.size(); k-- > wanted.first;) {
            const Operation& operation = operations_[k];
            if (const auto* group = std::get_if<Group>(&operation)) {
                LaneSums<Real> sums[most_rotations];
                bool any = false;
                for (const Rotation& rotation : group->rotations) any = any || wanted.angle[rotation.angle];
                undo(*group, room.turns.data(), ket, room.bra, any, sums);
                for (std::size_t j = 0; j < group->rotations.size(); ++j) note(group->rotations[j].angle, sums[j]);
            } else if (const auto* diagonal = std::get_if<Diagonal>(&operation)) {
                const bool sums = wanted.diagonal[diagonal->table];
                if (sums) room.phases.assign(size, 0);
                undo_phases(common.table(*this, *diagonal), size, ket, room.bra, sums ? room.phases.data() : nullptr);
                if (sums) walsh_transform(room.phases.data(), size);
                for (const Term& term : diagonal->terms)
                    if (wanted.angle[term.angle]) by_angle[term.angle] += room.phases[term.mask];
            } else {
                const auto& constant = std::get<Constant>(operation);
                multiply_constant(constant, constant.inverse, size, ket);
                multiply_constant(constant, constant.inverse, size, room.bra);
            }
        }
        if (!wanted.start) return;
        start_qubits(start_, room.turns.data(), n_, room.qubits.data());
        start_gradient(start_, room.turns.data(), room.qubits.data(), n_, room.bra, ket, [&](const Factor& factor, Vec<Real> lanes) {
            LaneSums<Real> sums;
            sums.add(lanes);
            note(factor.angle, sums);
        });
    }

    int n_, per_row_, num_shared_;
    Angles angles_;
    std::vector<Factor> start_;
    std::vector<Operation> operations_;
    Walk logical_;
    int phase_, num_tables_ = 0;
    std::vector<SharedAngle> shared_turns_;
};

}  // namespace qdist::batch
