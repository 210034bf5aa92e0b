// Bindings of compiled programs, of either precision.
#include "base/checks.hpp"
#include "bind/any_program.hpp"
#include "bind/unlocked.hpp"
#include "program/block_checks.hpp"

namespace bindings {
namespace {

template <class Stored>
using States = Rows<std::complex<Stored>>;

// A run of a program on a shard. live: its support before the run.
void check_run(const AnyProgram& p, std::size_t size, std::size_t offset, Index live) {
    check_size(size, std::size_t(1) << p.num_bits(), "the shard");
    check_first(offset, size);
    check_mask(live, p.num_bits(), "live");
    p.check_bound();
}

template <class Stored>
void run_from_zero(const AnyProgram& p, MutableShard<Stored> shard) {
    check_run(p, shard.size(), 0, 0);
    const Unlocked unlocked;
    p.run_from_zero(numbers(shard));
}

template <class Stored>
Index run(const AnyProgram& p, MutableShard<Stored> shard, std::size_t offset, Index live, std::size_t first, std::size_t last) {
    check_run(p, shard.size(), offset, live);
    const Unlocked unlocked;
    return p.run(numbers(shard), offset, live, first, last);
}

template <class Stored>
void run_batch(const AnyProgram& p, States<Stored> states, Rows<const double> angles) {
    const std::size_t batch = states.shape(0), count = angles.shape(1);
    check_size(states.shape(1), std::size_t(1) << p.num_bits(), "a row of states");
    check_size(angles.shape(0), batch, "the batch of angles");
    p.check_angles(count);
    const Unlocked unlocked;
    p.run_batch(numbers(states), angles.data(), batch, count);
}

template <class Stored>
void run_back(AnyProgram& p, MutableShard<Stored> ket, MutableShard<Stored> bra, std::size_t offset, Index live, bool recover,
              double shift, Array<double> gradient) {
    check_run(p, ket.size(), offset, live);
    check_size(bra.size(), ket.size(), "the bra");
    check_size(gradient.size(), p.num_angles(), "the gradient");
    check_no_overlap(ket, bra, "ket and bra");
    const Unlocked unlocked;
    p.run_back(numbers(ket), numbers(bra), offset, live, recover, shift, gradient.data());
}

template <class Stored>
void run_back_batch(const AnyProgram& p, States<Stored> kets, States<Stored> bras, Rows<const double> angles,
                    Array<const double> shifts, Rows<double> gradients) {
    const std::size_t size = std::size_t(1) << p.num_bits(), batch = kets.shape(0), count = angles.shape(1);
    check_size(kets.shape(1), size, "a row of kets");
    check_size(bras.shape(1), size, "a row of bras");
    for (std::size_t rows : {bras.shape(0), angles.shape(0), shifts.size(), gradients.shape(0)})
        check_size(rows, batch, "the batch");
    check_size(gradients.shape(1), count, "a row of gradients");
    p.check_angles(count);
    check_no_overlap(kets, bras, "kets and bras");
    const Unlocked unlocked;
    p.run_back_batch(numbers(kets), numbers(bras), angles.data(), batch, count, shifts.data(), gradients.data());
}

// What runs it on states that are stored as complex numbers of `Stored`.
template <class Stored>
void bind_runs(nb::handle program) {
    const auto def = [&](const char* name, auto function, const auto&... extra) {
        nb::cpp_function_def(function, nb::scope(program), nb::name(name), nb::is_method(), extra...);
    };
    def("run_from_zero", &run_from_zero<Stored>, exact("shard"));
    def("run", &run<Stored>, exact("shard"), "offset"_a, "live"_a, "first"_a, "last"_a);
    def("run_batch", &run_batch<Stored>, exact("states"), "angles"_a,
        "Runs once for each row of angles, on the row of states, which is |0...0> before.");
    def("run_back", &run_back<Stored>, exact("ket"), exact("bra"), "offset"_a, "live"_a, "recover"_a, "shift"_a,
        exact("gradient"),
        "Undoes the program on ket and bra - shift ket; adds 2 Re <bra|d ket> by each angle, without parts that cancel in "
        "derivatives by parameters. shift changes none of them.");
    def("run_back_batch", &run_back_batch<Stored>, exact("kets"), exact("bras"), exact("angles"), "shifts"_a, exact("gradients"),
        "run_back for rows that were run from |0...0>, each with its own angles.");
}

void add_dense(AnyProgram& p, std::vector<int> targets, std::size_t mask, std::size_t value, std::size_t far_mask,
               std::size_t far_value, const std::vector<FactorData>& factors) {
    check_positions(targets, p.stage_bits(), "targets");
    check_conditions(p.tile_bits(), mask, value, far_mask, far_value);
    for (int target : targets)
        if (mask >> target & 1) refuse("bit ", target, " is a target and a control");
    int num_angles = 0;
    std::vector<Factor> parts = checked_factors(factors, int(targets.size()), num_angles);
    p.need_angles(num_angles);
    p.add_dense(std::move(targets), {mask, value}, {far_mask, far_value}, std::move(parts));
}

void add_pair(AnyProgram& p, std::vector<int> targets, const std::vector<double>& numbers) {
    check_positions(targets, p.stage_bits(), "targets");
    check_size(targets.size(), 2, "targets");
    PairNumbers given;
    check_size(numbers.size(), given.size(), "the numbers of a pair");
    std::copy(numbers.begin(), numbers.end(), given.begin());
    p.add_pair(std::move(targets), given);
}

void add_diagonal(AnyProgram& p, const std::vector<TermData>& terms, const std::vector<WideData>& wides) {
    for (const auto& [first, second, constant, slots] : terms) {
        check_term(first, second, p.tile_bits());
        p.need_angles(check_affine(slots));
    }
    for (const auto& [mask, value, far_mask, far_value, constant, slots] : wides) {
        check_conditions(p.tile_bits(), mask, value, far_mask, far_value);
        p.need_angles(check_affine(slots));
    }
    p.add_diagonal(terms, wides);
}

void add_permutation(AnyProgram& p, std::vector<std::uint32_t> source, const std::vector<FlipData>& flips) {
    check_sources(source, p.tile_bits());
    for (const auto& [mask, value, bits] : flips) {
        check_condition(mask, value, far_bits, "the condition of a flip");
        check_mask(bits, p.tile_bits(), "a flip");
    }
    p.add_permutation(std::move(source), flips);
}

void add_rotations(AnyProgram& p, std::size_t x, std::size_t mask, std::size_t value, std::size_t far_mask,
                   std::size_t far_value, const std::vector<StringData>& strings) {
    check_mask(x, p.tile_bits(), "the flips of a rotation");
    check_conditions(p.tile_bits(), mask, value, far_mask, far_value);
    if (strings.empty()) refuse("a block of rotations has at least one string");
    for (const auto& [z, far_z, slots] : strings) {
        check_mask(z, p.tile_bits(), "the signs of a rotation");
        check_mask(far_z, far_bits, "the far signs of a rotation");
        if (mask & (x | z)) refuse("a bit is a control and a target");
        p.need_angles(check_affine(slots));
    }
    p.add_rotations(x, {mask, value}, {far_mask, far_value}, strings);
}

void add_table(AnyProgram& p, Places inside, Places outside, std::size_t mask, std::size_t value, std::size_t far_mask,
               std::size_t far_value, const std::vector<Complex>& table) {
    check_table(inside, p.tile_bits(), table.size());
    check_table(outside, far_bits, table.size());
    check_conditions(p.tile_bits(), mask, value, far_mask, far_value);
    p.add_table(std::move(inside), std::move(outside), {mask, value}, {far_mask, far_value}, table);
}

}  // namespace

void bind_runs_of_both(nb::handle program) {
    bind_runs<double>(program);
    bind_runs<float>(program);
}

}  // namespace bindings

void bind_program(nb::module_& m) {
    using namespace bindings;
    nb::class_<AnyProgram> program(m, "_Program");
    program.def_prop_ro("num_bits", &AnyProgram::num_bits)
        .def_prop_ro("num_stages", &AnyProgram::num_stages)
        .def_prop_ro("tile_bits", &AnyProgram::tile_bits)
        .def_prop_ro("is_trainable", &AnyProgram::is_trainable)
        .def("begin_stage", &AnyProgram::begin_stage, "positions"_a, "is_unitary"_a = true,
             "is_unitary: whether all of its blocks will be.")
        .def("dense", &add_dense, "targets"_a, "mask"_a, "value"_a, "far_mask"_a, "far_value"_a, "factors"_a)
        .def("pair", &add_pair, "targets"_a, "numbers"_a, "A two-qubit matrix as backends/pairs.py divides it.")
        .def("diagonal", &add_diagonal, "terms"_a, "wide"_a)
        .def("permutation", &add_permutation, "source"_a, "flips"_a)
        .def("rotations", &add_rotations, "x"_a, "mask"_a, "value"_a, "far_mask"_a, "far_value"_a, "strings"_a)
        .def("table", &add_table, "inside"_a, "outside"_a, "mask"_a, "value"_a, "far_mask"_a, "far_value"_a, "table"_a)
        .def("set_affine", &AnyProgram::set_affine, "entries"_a, "constants"_a)
        .def(
            "bind", [](AnyProgram& p, Array<const double> angles) { p.bind(angles.data(), angles.size()); }, "angles"_a)
        .def(
            "bind_parameters", [](AnyProgram& p, Array<const double> x) { return p.bind_parameters(x.data(), x.size()); },
            "theta"_a);
    bind_runs<float>(program);
}
