// A compiled program of either precision, as its bindings take it: these are then compiled once, and without the kernels.
#pragma once
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "bind/arrays.hpp"
#include "gates/formulas.hpp"
#include "gates/matrices.hpp"
#include "gates/pairs.hpp"

namespace bindings {

using namespace qdist;

using Products = std::vector<std::pair<int, double>>;
using TermData = std::tuple<int, int, double, Products>;
using WideData = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, double, Products>;
using FlipData = std::tuple<std::size_t, std::size_t, std::size_t>;
using StringData = std::tuple<std::size_t, std::size_t, Products>;
using EntryData = std::tuple<int, int, double>;
using Places = std::vector<std::pair<int, int>>;

class AnyProgram {
public:
    virtual ~AnyProgram() = default;

    virtual int num_bits() const = 0;
    virtual std::size_t num_stages() const = 0;
    virtual int stage_bits() const = 0;
    virtual int tile_bits() const = 0;
    virtual std::size_t num_angles() const = 0;
    virtual bool is_trainable() const = 0;
    virtual void need_angles(int count) = 0;
    virtual void check_angles(std::size_t count) const = 0;
    virtual void check_bound() const = 0;

    // What has been checked.
    virtual void begin_stage(std::vector<int> positions, bool is_unitary) = 0;
    virtual void expect_blocks(std::size_t count) = 0;
    virtual void add_dense(std::vector<int> targets, Bits near, Bits far, std::vector<Factor> factors) = 0;
    virtual void add_pair(std::vector<int> targets, const PairNumbers& numbers) = 0;
    virtual void add_diagonal(const std::vector<TermData>& terms, const std::vector<WideData>& wides) = 0;
    virtual void add_permutation(std::vector<std::uint32_t> source, const std::vector<FlipData>& flips) = 0;
    virtual void add_rotations(std::size_t x, Bits near, Bits far, const std::vector<StringData>& strings) = 0;
    virtual void add_table(Places inside, Places outside, Bits near, Bits far, const std::vector<Complex>& table) = 0;
    virtual void set_affine(const std::vector<EntryData>& entries, std::vector<double> constants) = 0;

    virtual void bind(const double* angles, std::size_t count) = 0;
    virtual bool bind_parameters(const double* theta, std::size_t count) = 0;

    // A run, or one for each row of a batch: `count` angles a row. Of states in double precision for programs in double
    // precision alone.
    virtual void run_from_zero(float* state) const = 0;
    virtual void run_from_zero(double* state) const = 0;
    virtual Index run(float* state, std::size_t offset, Index live, std::size_t first, std::size_t last) const = 0;
    virtual Index run(double* state, std::size_t offset, Index live, std::size_t first, std::size_t last) const = 0;
    virtual void run_batch(float* states, const double* angles, std::size_t batch, std::size_t count) const = 0;
    virtual void run_batch(double* states, const double* angles, std::size_t batch, std::size_t count) const = 0;
    // A ket and a bra, or rows of them, with the multiple of each ket to subtract, and where derivatives are added.
    virtual void run_back(float* ket, float* bra, std::size_t offset, Index live, bool recover, double shift,
                          double* gradient) = 0;
    virtual void run_back(double* ket, double* bra, std::size_t offset, Index live, bool recover, double shift,
                          double* gradient) = 0;
    virtual void run_back_batch(float* kets, float* bras, const double* angles, std::size_t batch, std::size_t count,
                                const double* shifts, double* gradients) const = 0;
    virtual void run_back_batch(double* kets, double* bras, const double* angles, std::size_t batch, std::size_t count,
                                const double* shifts, double* gradients) const = 0;
};

// Binds what runs a program on states in single and in double precision, as methods of a class.
void bind_runs_of_both(nb::handle program);

}  // namespace bindings
