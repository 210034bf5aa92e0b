// Bindings of compiled programs. Each precision is compiled in a source of its own, for compilers that run in parallel.
#pragma once
#include "program/program.hpp"
#include "base/checks.hpp"
#include "base/simd.hpp"
#include "bind/arrays.hpp"
#include "gates/angles.hpp"
#include "gates/formulas.hpp"
#include "program/adjoint.hpp"
#include "program/block_checks.hpp"
#include "tile/dense.hpp"
#include "tile/diagonal.hpp"
#include "tile/permutation.hpp"
#include "tile/rotations.hpp"

namespace bindings {

using namespace qdist;

using Products = std::vector<std::pair<int, double>>;
using TermData = std::tuple<int, int, double, Products>;
using WideData = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, double, Products>;
using FlipData = std::tuple<std::size_t, std::size_t, std::size_t>;
using StringData = std::tuple<std::size_t, std::size_t, Products>;
template <class Stored>
using States = Rows<std::complex<Stored>>;

// A run of a program on a shard. live: its support before the run.
template <class Real>
void check_run(const Program<Real>& p, std::size_t size, std::size_t offset, Index live) {
    check_size(size, std::size_t(1) << p.num_bits(), "the shard");
    check_first(offset, size);
    check_mask(live, p.num_bits(), "live");
    p.check_bound();
}

template <class Real, class Stored>
void run_from_zero(const Program<Real>& p, MutableShard<Stored> shard) {
    check_run(p, shard.size(), 0, 0);
    nb::gil_scoped_release release;
    p.run_from_zero(numbers(shard));
}

template <class Real, class Stored>
Index run(const Program<Real>& p, MutableShard<Stored> shard, std::size_t offset, Index live, std::size_t first,
          std::size_t last) {
    check_run(p, shard.size(), offset, live);
    nb::gil_scoped_release release;
    return p.run(numbers(shard), offset, live, first, last);
}

template <class Real, class Stored>
void run_batch(const Program<Real>& p, States<Stored> states, Rows<const double> angles) {
    const std::size_t batch = states.shape(0), size = states.shape(1);
    check_size(size, std::size_t(1) << p.num_bits(), "a row of states");
    check_size(angles.shape(0), batch, "the batch of angles");
    p.check_angles(angles.shape(1));
    nb::gil_scoped_release release;
    p.each_bound(angles.data(), batch, angles.shape(1), [&](const Program<Real>& bound, std::size_t b) {
        bound.run(numbers(states) + 2 * b * size, 0, 0, 0, bound.num_stages());
    });
}

template <class Real, class Stored>
void run_back(Program<Real>& p, MutableShard<Stored> ket, MutableShard<Stored> bra, std::size_t offset, Index live, bool recover,
              double shift, Array<double> gradient) {
    check_run(p, ket.size(), offset, live);
    check_size(bra.size(), ket.size(), "the bra");
    check_size(gradient.size(), p.num_angles(), "the gradient");
    check_no_overlap(ket, bra, "ket and bra");
    nb::gil_scoped_release release;
    qdist::run_back(p, numbers(ket), numbers(bra), offset, live, recover, shift, gradient.data());
}

template <class Real, class Stored>
void run_back_batch(const Program<Real>& p, States<Stored> kets, States<Stored> bras, Rows<const double> angles,
                    Array<const double> shifts, Rows<double> gradients) {
    const std::size_t size = std::size_t(1) << p.num_bits(), batch = kets.shape(0), count = angles.shape(1);
    check_size(kets.shape(1), size, "a row of kets");
    check_size(bras.shape(1), size, "a row of bras");
    for (std::size_t rows : {bras.shape(0), angles.shape(0), shifts.size(), gradients.shape(0)})
        check_size(rows, batch, "the batch");
    check_size(gradients.shape(1), count, "a row of gradients");
    p.check_angles(count);
    check_no_overlap(kets, bras, "kets and bras");
    nb::gil_scoped_release release;
    p.each_bound(angles.data(), batch, count, [&](Program<Real>& bound, std::size_t b) {
        const std::size_t row = 2 * b * size;
        qdist::run_back(bound, numbers(kets) + row, numbers(bras) + row, 0, 0, false, shifts.data()[b],
                        gradients.data() + b * count);
    });
}

// What runs it on states that are stored as complex numbers of `Stored`.
template <class Real, class Stored>
void bind_runs(nb::class_<Program<Real>>& program) {
    program.def("run_from_zero", &run_from_zero<Real, Stored>, exact("shard"))
        .def("run", &run<Real, Stored>, exact("shard"), "offset"_a, "live"_a, "first"_a, "last"_a)
        .def("run_batch", &run_batch<Real, Stored>, exact("states"), "angles"_a,
             "Runs once for each row of angles, on the row of states, which is |0...0> before.")
        .def("run_back", &run_back<Real, Stored>, exact("ket"), exact("bra"), "offset"_a, "live"_a, "recover"_a, "shift"_a,
             exact("gradient"),
             "Undoes the program on ket and bra - shift ket; adds 2 Re <bra|d ket> by each angle, without parts that cancel in "
             "derivatives by parameters. shift changes none of them.")
        .def("run_back_batch", &run_back_batch<Real, Stored>, exact("kets"), exact("bras"), exact("angles"), "shifts"_a,
             exact("gradients"), "run_back for rows that were run from |0...0>, each with its own angles.");
}

template <class Real>
void add_dense(Program<Real>& p, std::vector<int> targets, std::size_t mask, std::size_t value, std::size_t far_mask,
               std::size_t far_value, const std::vector<FactorData>& factors) {
    check_positions(targets, p.stage_bits(), "targets");
    check_conditions(p.tile_bits(), mask, value, far_mask, far_value);
    for (int target : targets)
        if (mask >> target & 1) refuse("bit ", target, " is a target and a control");
    int num_angles = 0;
    std::vector<Factor> parts = checked_factors(factors, int(targets.size()), num_angles);
    p.need_angles(num_angles);
    Dense<Real> dense(p.tile_bits(), std::move(targets), mask, value);
    p.add(DenseBlock<Real>(std::move(dense), {far_mask, far_value}, std::move(parts), p.trainable()));
}

template <class Real>
void add_diagonal(Program<Real>& p, const std::vector<TermData>& terms, const std::vector<WideData>& wides) {
    std::vector<typename Diagonal<Real>::Term> t;
    std::vector<typename Diagonal<Real>::Wide> w;
    for (const auto& [first, second, constant, slots] : terms) {
        check_term(first, second, p.tile_bits());
        p.need_angles(check_affine(slots));
        t.push_back({first, second, {constant, slots}});
    }
    for (const auto& [mask, value, far_mask, far_value, constant, slots] : wides) {
        check_conditions(p.tile_bits(), mask, value, far_mask, far_value);
        p.need_angles(check_affine(slots));
        w.push_back({{mask, value}, {far_mask, far_value}, {constant, slots}});
    }
    Diagonal<Real> diagonal(p.tile_bits(), std::move(t), std::move(w), p.num_bits() >= p.tile_bits() + 3);
    p.add(DiagonalBlock<Real>(p.tile_bits(), std::move(diagonal), p.trainable()));
}

template <class Real>
void add_permutation(Program<Real>& p, std::vector<std::uint32_t> source, const std::vector<FlipData>& flips) {
    check_sources(source, p.tile_bits());
    std::vector<typename Permutation<Real>::Flip> f;
    for (const auto& [mask, value, bits] : flips) {
        check_condition(mask, value, far_bits, "the condition of a flip");
        check_mask(bits, p.tile_bits(), "a flip");
        f.push_back({{mask, value}, bits});
    }
    p.add(Permutation<Real>(std::move(source), std::move(f)));
}

template <class Real>
void add_rotations(Program<Real>& p, std::size_t x, std::size_t mask, std::size_t value, std::size_t far_mask,
                   std::size_t far_value, const std::vector<StringData>& strings) {
    check_mask(x, p.tile_bits(), "the flips of a rotation");
    check_conditions(p.tile_bits(), mask, value, far_mask, far_value);
    if (strings.empty()) refuse("a block of rotations has at least one string");
    std::vector<typename Rotations<Real>::String> s;
    std::vector<std::map<int, double>> slopes;
    for (const auto& [z, far_z, slots] : strings) {
        check_mask(z, p.tile_bits(), "the signs of a rotation");
        check_mask(far_z, far_bits, "the far signs of a rotation");
        if (mask & (x | z)) refuse("a bit is a control and a target");
        p.need_angles(check_affine(slots));
        s.push_back({{z, far_z}, {0, slots}});
        slopes.push_back(p.slopes(s.back().angle));
    }
    p.add(Rotations<Real>(p.tile_bits(), x, std::move(s), {mask, value}, {far_mask, far_value}, slopes));
}

template <class Real>
void add_table(Program<Real>& p, std::vector<std::pair<int, int>> inside, std::vector<std::pair<int, int>> outside,
               std::size_t mask, std::size_t value, std::size_t far_mask, std::size_t far_value, const Matrix& table) {
    check_table(inside, p.tile_bits(), table.size());
    check_table(outside, far_bits, table.size());
    check_conditions(p.tile_bits(), mask, value, far_mask, far_value);
    const Bits near{mask, value}, far{far_mask, far_value};
    p.add(TableDiagonal<Real>(p.tile_bits(), std::move(inside), std::move(outside), near, far, table));
}

template <class Real>
void set_affine(Program<Real>& p, const std::vector<std::tuple<int, int, double>>& entries, std::vector<double> constants) {
    std::vector<Entry> e;
    for (const auto& [slot, parameter, coefficient] : entries) e.push_back({slot, parameter, coefficient});
    p.set_affine(std::move(e), std::move(constants));
}

template <class Real>
nb::class_<Program<Real>> bind_program_of(nb::module_& m, const char* name) {
    using P = Program<Real>;
    nb::class_<P> program(m, name);
    program.def(nb::init<int>(), "num_bits"_a)
        .def_prop_ro("num_bits", &P::num_bits)
        .def_prop_ro("num_stages", &P::num_stages)
        .def_prop_ro("tile_bits", &P::tile_bits)
        .def_prop_ro("is_trainable", &P::is_trainable)
        .def("begin_stage", &P::begin_stage, "positions"_a)
        .def("dense", &add_dense<Real>, "targets"_a, "mask"_a, "value"_a, "far_mask"_a, "far_value"_a, "factors"_a)
        .def("diagonal", &add_diagonal<Real>, "terms"_a, "wide"_a)
        .def("permutation", &add_permutation<Real>, "source"_a, "flips"_a)
        .def("rotations", &add_rotations<Real>, "x"_a, "mask"_a, "value"_a, "far_mask"_a, "far_value"_a, "strings"_a)
        .def("table", &add_table<Real>, "inside"_a, "outside"_a, "mask"_a, "value"_a, "far_mask"_a, "far_value"_a, "table"_a)
        .def("set_affine", &set_affine<Real>, "entries"_a, "constants"_a)
        .def(
            "bind", [](P& p, Array<const double> angles) { p.bind(angles.data(), angles.size()); }, "angles"_a)
        .def("bind_parameters", [](P& p, Array<const double> x) { return p.bind_parameters(x.data(), x.size()); }, "theta"_a);
    return program;
}

}  // namespace bindings
