// The Python face of compiled programs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/checks.hpp"
#include "base/simd.hpp"
#include "gates/angles.hpp"
#include "gates/formulas.hpp"
#include "program/adjoint.hpp"
#include "program/block_checks.hpp"
#include "program/program.hpp"
#include "tile/dense.hpp"
#include "tile/diagonal.hpp"
#include "tile/pauli_rotation.hpp"
#include "tile/permutation.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace qdist;

using Products = std::vector<std::pair<int, double>>;
using FactorData = std::tuple<int, std::vector<int>, std::vector<int>, std::vector<Complex>>;
using TermData = std::tuple<int, int, double, Products>;
using WideData = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, double, Products>;
using FlipData = std::tuple<std::size_t, std::size_t, std::size_t>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Gradient = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
using Batch = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A run of a program on a shard, where `start` and `live` say what may be nonzero before.
template <class Real>
void check_runs(const Program<Real>& p, std::size_t size, std::size_t offset, std::size_t start, std::size_t live) {
    check_size(size, std::size_t(1) << p.num_bits(), "the shard");
    check_first(offset, size);
    check_mask(start, p.num_bits(), "start");
    check_mask(live, p.num_bits(), "live");
    p.check_bound();
}

// What runs it on states that are stored as complex numbers of `Stored`.
template <class Real, class Stored>
void bind_runs(nb::class_<Program<Real>>& program) {
    using P = Program<Real>;
    using Shard = nb::ndarray<std::complex<Stored>, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    program
        .def("run_from_zero",
             [](const P& p, Shard shard) {
                 check_runs(p, shard.size(), 0, 0, 0);
                 auto* x = shard.data();
                 nb::gil_scoped_release release;
                 p.run_from_zero(x);
             },
             nb::arg("shard").noconvert())
        .def("run",
             [](const P& p, Shard shard, std::size_t offset, std::size_t start, std::size_t live, std::size_t first,
                std::size_t last) {
                 check_runs(p, shard.size(), offset, start, live);
                 auto* x = shard.data();
                 nb::gil_scoped_release release;
                 return p.run(x, offset, start, live, first, last);
             },
             nb::arg("shard").noconvert(), "offset"_a, "start"_a, "live"_a, "first"_a, "last"_a)
        .def("run_batch",
             [](const P& p, Batch<std::complex<Stored>> states, Batch<const double> angles, bool from_zero) {
                 check_size(states.shape(1), std::size_t(1) << p.num_bits(), "a row of states");
                 check_size(angles.shape(0), states.shape(0), "the batch of angles");
                 p.check_angles(angles.shape(1));
                 auto* x = states.data();
                 const double* a = angles.data();
                 const std::size_t batch = states.shape(0), size = states.shape(1), count = angles.shape(1);
                 nb::gil_scoped_release release;
                 p.run_batch(x, a, batch, size, count, from_zero);
             },
             nb::arg("states").noconvert(), "angles"_a, "from_zero"_a)
        .def("run_back",
             [](P& p, Shard ket, Shard bra, std::size_t offset, std::size_t start, std::size_t live, bool recover,
                double shift, Gradient gradient) {
                 check_runs(p, ket.size(), offset, start, live);
                 check_size(bra.size(), ket.size(), "the bra");
                 check_size(gradient.size(), p.num_angles(), "the gradient");
                 check_apart(ket.data(), bra.data(), ket.size() * sizeof(std::complex<Stored>), "ket and bra");
                 auto *k = ket.data(), *b = bra.data();
                 double* g = gradient.data();
                 nb::gil_scoped_release release;
                 run_back(p, k, b, offset, start, live, recover, shift, g);
             },
             nb::arg("ket").noconvert(), nb::arg("bra").noconvert(), "offset"_a, "start"_a, "live"_a, "recover"_a,
             "shift"_a, nb::arg("gradient").noconvert(),
             "Undoes the program on ket and bra - shift ket; adds 2 Re <bra|d ket> by each angle, which shift does not change.")
        .def("run_back_batch",
             [](const P& p, Batch<std::complex<Stored>> kets, Batch<std::complex<Stored>> bras, Batch<const double> angles,
                Doubles shifts, Batch<double> gradients) {
                 const std::size_t size = std::size_t(1) << p.num_bits(), batch = kets.shape(0);
                 check_size(kets.shape(1), size, "a row of kets");
                 check_size(bras.shape(1), size, "a row of bras");
                 for (std::size_t rows : {bras.shape(0), angles.shape(0), shifts.size(), gradients.shape(0)}) check_size(rows, batch, "the batch");
                 check_size(gradients.shape(1), angles.shape(1), "a row of gradients");
                 p.check_angles(angles.shape(1));
                 check_apart(kets.data(), bras.data(), kets.size() * sizeof(std::complex<Stored>), "kets and bras");
                 auto *k = kets.data(), *b = bras.data();
                 const double* a = angles.data();
                 const double* s = shifts.data();
                 double* g = gradients.data();
                 const std::size_t count = angles.shape(1);
                 nb::gil_scoped_release release;
                 run_back_batch(p, k, b, a, batch, size, count, s, g);
             },
             nb::arg("kets").noconvert(), nb::arg("bras").noconvert(), nb::arg("angles").noconvert(),
             "shifts"_a, nb::arg("gradients").noconvert(), "run_back for rows that were run from |0...0>, each with its own angles.");
}

template <class Real>
nb::class_<Program<Real>> bind_program_of(nb::module_& m, const char* name) {
    using P = Program<Real>;
    nb::class_<P> program(m, name);
    program
        .def(nb::init<int>(), "num_bits"_a)
        .def_prop_ro("num_bits", &P::num_bits)
        .def_prop_ro("num_stages", &P::num_stages)
        .def("begin_stage", &P::begin_stage, "positions"_a)
        .def_prop_ro("tile_bits", &P::tile_bits)
        .def("dense",
             [](P& p, std::vector<int> targets, std::size_t mask, std::size_t value, std::size_t far_mask,
                std::size_t far_value, const std::vector<FactorData>& factors) {
                 check_positions(targets, p.stage_bits(), "targets");
                 check_condition(mask, value, p.tile_bits(), "controls");
                 check_condition(far_mask, far_value, far_bits, "far controls");
                 for (int target : targets)
                     if (mask >> target & 1) refuse("bit " + std::to_string(target) + " is a target and a control");
                 std::vector<Factor> parts;
                 for (const auto& [formula, slots, bits, matrix] : factors) {
                     p.need_angles(check_factor(formula, slots, bits, matrix.size(), int(targets.size())));
                     parts.push_back({{Formula(formula), slots, matrix}, bits});
                 }
                 Dense<Real> dense(p.tile_bits(), std::move(targets), mask, value);
                 p.add(DenseBlock<Real>(std::move(dense), {far_mask, far_value}, std::move(parts), p.trainable()));
             },
             "targets"_a, "mask"_a, "value"_a, "far_mask"_a, "far_value"_a, "factors"_a)
        .def("diagonal",
             [](P& p, const std::vector<TermData>& terms, const std::vector<WideData>& wides) {
                 std::vector<typename Diagonal<Real>::Term> t;
                 std::vector<typename Diagonal<Real>::Wide> w;
                 for (const auto& [first, second, constant, slots] : terms) {
                     check_term(first, second, p.tile_bits());
                     p.need_angles(check_affine(slots));
                     t.push_back({first, second, {constant, slots}});
                 }
                 for (const auto& [mask, value, far_mask, far_value, constant, slots] : wides) {
                     check_condition(mask, value, p.tile_bits(), "a diagonal's bits");
                     check_condition(far_mask, far_value, far_bits, "a diagonal's far bits");
                     p.need_angles(check_affine(slots));
                     w.push_back({{mask, value}, {far_mask, far_value}, {constant, slots}});
                 }
                 Diagonal<Real> diagonal(p.tile_bits(), std::move(t), std::move(w), p.num_bits() >= p.tile_bits() + 3);
                 p.add(DiagonalBlock<Real>(p.tile_bits(), std::move(diagonal), p.trainable()));
             },
             "terms"_a, "wide"_a)
        .def("permutation",
             [](P& p, std::vector<std::uint32_t> source, const std::vector<FlipData>& flips) {
                 check_sources(source, p.tile_bits());
                 std::vector<typename Permutation<Real>::Flip> f;
                 for (const auto& [mask, value, bits] : flips) {
                     check_condition(mask, value, far_bits, "the condition of a flip");
                     check_mask(bits, p.tile_bits(), "a flip");
                     f.push_back({{mask, value}, bits});
                 }
                 p.add(Permutation<Real>(std::move(source), std::move(f)));
             },
             "source"_a, "flips"_a)
        .def("pauli_rotation",
             [](P& p, std::size_t x, std::size_t z, std::size_t far_z, int num_y, std::size_t mask, std::size_t value,
                std::size_t far_mask, std::size_t far_value, Products slots) {
                 check_mask(x, p.tile_bits(), "the flips of a rotation");
                 check_mask(z, p.tile_bits(), "the signs of a rotation");
                 check_mask(far_z, far_bits, "the far signs of a rotation");
                 check_condition(mask, value, p.tile_bits(), "controls");
                 check_condition(far_mask, far_value, far_bits, "far controls");
                 if (mask & (x | z)) refuse("a bit is a control and a target");
                 p.need_angles(check_affine(slots));
                 PauliRotation<Real> rotation(p.tile_bits(), x, z, far_z, num_y, {mask, value}, {far_mask, far_value});
                 Affine angle{0, std::move(slots)};
                 const bool is_trainable = angle.reads(p.trainable());
                 p.add(RotationBlock<Real>{rotation, std::move(angle), is_trainable});
             },
             "x"_a, "z"_a, "far_z"_a, "num_y"_a, "mask"_a, "value"_a, "far_mask"_a, "far_value"_a, "slots"_a)
        .def("table",
             [](P& p, std::vector<std::pair<int, int>> inside, std::vector<std::pair<int, int>> outside, std::size_t mask,
                std::size_t value, std::size_t far_mask, std::size_t far_value, const std::vector<Complex>& table) {
                 check_table(inside, p.tile_bits(), table.size());
                 check_table(outside, far_bits, table.size());
                 check_condition(mask, value, p.tile_bits(), "controls");
                 check_condition(far_mask, far_value, far_bits, "far controls");
                 p.add(TableDiagonal<Real>(p.tile_bits(), std::move(inside), std::move(outside), {mask, value}, {far_mask, far_value}, table));
             },
             "inside"_a, "outside"_a, "mask"_a, "value"_a, "far_mask"_a, "far_value"_a, "table"_a)
        .def("bind", [](P& p, Doubles angles) { p.bind(angles.data(), angles.size()); }, "angles"_a)
        .def_prop_ro("is_trainable", &P::is_trainable)
        .def("set_affine",
             [](P& p, const std::vector<std::tuple<int, int, double>>& entries, std::vector<double> constants) {
                 std::vector<Entry> e;
                 for (const auto& [slot, parameter, coefficient] : entries) e.push_back({slot, parameter, coefficient});
                 p.set_affine(std::move(e), std::move(constants));
             },
             "entries"_a, "constants"_a)
        .def("bind_parameters", [](P& p, Doubles theta) { return p.bind_parameters(theta.data(), theta.size()); }, "theta"_a);
    return program;
}

}  // namespace

void bind_program(nb::module_& m) {
    auto single = bind_program_of<float>(m, "Program64");
    bind_runs<float, float>(single);
    // Runs on complex64 too: tiles are computed in double, and rounded once a stage.
    auto in_double = bind_program_of<double>(m, "Program128");
    bind_runs<double, double>(in_double);
    bind_runs<double, float>(in_double);
    m.attr("lane_bits") = nb::make_tuple(Simd<float>::lane_bits, Simd<double>::lane_bits);
}
