// A program of one precision behind the face of any. Each is compiled in a source of its own, for compilers that run in
// parallel.
#pragma once
#include "program/program.hpp"

#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bind/any_program.hpp"
#include "program/adjoint.hpp"
#include "tile/dense.hpp"
#include "tile/diagonal.hpp"
#include "tile/permutation.hpp"
#include "tile/rotations.hpp"

namespace bindings {

template <class Real>
class ProgramOf final : public AnyProgram {
    // Programs in single precision have no bindings for states in double precision.
    template <class Stored>
    static constexpr bool takes = sizeof(Stored) <= sizeof(Real);
    [[noreturn]] static void refuse_state() { throw std::logic_error("a program computes in less precision than the state's"); }

public:
    explicit ProgramOf(int num_bits) : program_(num_bits) {}

    int num_bits() const override { return program_.num_bits(); }
    std::size_t num_stages() const override { return program_.num_stages(); }
    int stage_bits() const override { return program_.stage_bits(); }
    int tile_bits() const override { return program_.tile_bits(); }
    std::size_t num_angles() const override { return program_.num_angles(); }
    bool is_trainable() const override { return program_.is_trainable(); }
    void need_angles(int count) override { program_.need_angles(count); }
    void check_angles(std::size_t count) const override { program_.check_angles(count); }
    void check_bound() const override { program_.check_bound(); }

    void begin_stage(std::vector<int> positions, bool is_unitary) override {
        program_.begin_stage(std::move(positions), is_unitary);
    }
    void expect_blocks(std::size_t count) override { program_.expect_blocks(count); }

    void add_dense(std::vector<int> targets, Bits near, Bits far, std::vector<Factor> factors) override {
        Dense<Real> dense(tile_bits(), std::move(targets), near.mask, near.value);
        program_.add(DenseBlock<Real>(std::move(dense), far, std::move(factors), program_.trainable()));
    }

    void add_pair(std::vector<int> targets, const PairNumbers& numbers) override {
        Dense<Real> dense(tile_bits(), std::move(targets), 0, 0);
        DenseBlock<Real> block(std::move(dense), {}, {{Source{Formula::constant, {}, PairSteps(numbers).matrix()}, {0, 1}}}, program_.trainable());
        block.pair.emplace(block.dense.shape(), numbers);
        program_.add(std::move(block));
    }

    void add_diagonal(const std::vector<TermData>& terms, const std::vector<WideData>& wides) override {
        std::vector<typename Diagonal<Real>::Term> t;
        std::vector<typename Diagonal<Real>::Wide> w;
        for (const auto& [first, second, constant, slots] : terms) t.push_back({first, second, {constant, slots}});
        for (const auto& [mask, value, far_mask, far_value, constant, slots] : wides)
            w.push_back({{mask, value}, {far_mask, far_value}, {constant, slots}});
        Diagonal<Real> diagonal(tile_bits(), std::move(t), std::move(w), num_bits() >= tile_bits() + 3);
        program_.add(DiagonalBlock<Real>(tile_bits(), std::move(diagonal), program_.trainable()));
    }

    void add_permutation(std::vector<std::uint32_t> source, const std::vector<FlipData>& flips) override {
        std::vector<typename Permutation<Real>::Flip> f;
        for (const auto& [mask, value, bits] : flips) f.push_back({{mask, value}, bits});
        program_.add(Permutation<Real>(std::move(source), std::move(f)));
    }

    void add_rotations(std::size_t x, Bits near, Bits far, const std::vector<StringData>& strings) override {
        std::vector<typename Rotations<Real>::String> s;
        std::vector<std::map<int, double>> slopes;
        for (const auto& [z, far_z, slots] : strings) {
            s.push_back({{z, far_z}, {0, slots}});
            slopes.push_back(program_.slopes(s.back().angle));
        }
        program_.add(Rotations<Real>(tile_bits(), x, std::move(s), near, far, slopes));
    }

    void add_table(Places inside, Places outside, Bits near, Bits far, const std::vector<Complex>& table) override {
        program_.add(TableDiagonal<Real>(tile_bits(), std::move(inside), std::move(outside), near, far, table));
    }

    void set_affine(const std::vector<EntryData>& entries, std::vector<double> constants) override {
        std::vector<Entry> e;
        for (const auto& [slot, parameter, coefficient] : entries) e.push_back({slot, parameter, coefficient});
        program_.set_affine(std::move(e), std::move(constants));
    }

    void bind(const double* angles, std::size_t count) override { program_.bind(angles, count); }
    bool bind_parameters(const double* theta, std::size_t count) override { return program_.bind_parameters(theta, count); }

    void run_from_zero(float* state) const override { from_zero(state); }
    void run_from_zero(double* state) const override { from_zero(state); }
    Index run(float* state, std::size_t offset, Index live, std::size_t first, std::size_t last) const override {
        return stages(state, offset, live, first, last);
    }
    Index run(double* state, std::size_t offset, Index live, std::size_t first, std::size_t last) const override {
        return stages(state, offset, live, first, last);
    }
    void run_batch(float* states, const double* angles, std::size_t batch, std::size_t count) const override {
        rows(states, angles, batch, count);
    }
    void run_batch(double* states, const double* angles, std::size_t batch, std::size_t count) const override {
        rows(states, angles, batch, count);
    }
    void run_back(float* ket, float* bra, std::size_t offset, Index live, bool recover, double shift, double* gradient) override {
        back(program_, ket, bra, offset, live, recover, shift, gradient);
    }
    void run_back(double* ket, double* bra, std::size_t offset, Index live, bool recover, double shift,
                  double* gradient) override {
        back(program_, ket, bra, offset, live, recover, shift, gradient);
    }
    void run_back_batch(float* kets, float* bras, const double* angles, std::size_t batch, std::size_t count,
                        const double* shifts, double* gradients) const override {
        rows_back(kets, bras, angles, batch, count, shifts, gradients);
    }
    void run_back_batch(double* kets, double* bras, const double* angles, std::size_t batch, std::size_t count,
                        const double* shifts, double* gradients) const override {
        rows_back(kets, bras, angles, batch, count, shifts, gradients);
    }

private:
    template <class Stored>
    void from_zero(Stored* state) const {
        if constexpr (takes<Stored>)
            program_.run_from_zero(state);
        else
            refuse_state();
    }

    template <class Stored>
    Index stages(Stored* state, std::size_t offset, Index live, std::size_t first, std::size_t last) const {
        if constexpr (takes<Stored>)
            return program_.run(state, offset, live, first, last);
        else
            refuse_state();
    }

    template <class Stored>
    void rows(Stored* states, const double* angles, std::size_t batch, std::size_t count) const {
        if constexpr (takes<Stored>)
            program_.each_bound(angles, batch, count, [&](const Program<Real>& bound, std::size_t b) {
                bound.run(states + (b << (num_bits() + 1)), 0, 0, 0, bound.num_stages());
            });
        else
            refuse_state();
    }

    template <class Stored>
    static void back(Program<Real>& program, Stored* ket, Stored* bra, std::size_t offset, Index live, bool recover, double shift,
                     double* gradient) {
        if constexpr (takes<Stored>)
            qdist::run_back(program, ket, bra, offset, live, recover, shift, gradient);
        else
            refuse_state();
    }

    template <class Stored>
    void rows_back(Stored* kets, Stored* bras, const double* angles, std::size_t batch, std::size_t count, const double* shifts,
                   double* gradients) const {
        if constexpr (takes<Stored>)
            program_.each_bound(angles, batch, count, [&](Program<Real>& bound, std::size_t b) {
                const std::size_t row = b << (num_bits() + 1);
                back(bound, kets + row, bras + row, 0, 0, false, shifts[b], gradients + b * count);
            });
        else
            refuse_state();
    }

    Program<Real> program_;
};

}  // namespace bindings
