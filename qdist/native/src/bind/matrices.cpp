// Matrices and other numbers that follow from a circuit's angles, for executors that keep them elsewhere.
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "bind/unlocked.hpp"
#include "gates/angles.hpp"
#include "gates/formulas.hpp"
#include "program/device_numbers.hpp"
#include "program/matrix_list.hpp"

namespace {

using namespace qdist;

void check_angles(const MatrixList& list, std::size_t count) {
    if (count < list.num_angles()) refuse("the matrices read ", list.num_angles(), " angles; got ", count);
}

void reduce_angles(Rows<double> rows) { std::transform(rows.data(), rows.data() + rows.size(), rows.data(), reduced); }

void add_affine(Array<const std::int64_t> slots, Array<const std::int64_t> parameters, Array<const double> coefficients,
                Rows<const double> theta, Rows<double> angles) {
    if (parameters.size() != slots.size() || coefficients.size() != slots.size() || theta.shape(0) != angles.shape(0))
        throw nb::value_error("the arrays do not fit together");
    for (std::size_t k = 0; k < slots.size(); ++k)
        if (std::size_t(slots.data()[k]) >= angles.shape(1) || std::size_t(parameters.data()[k]) >= theta.shape(1))
            throw nb::value_error("there is no such angle or parameter");
    for (std::size_t row = 0; row < theta.shape(0); ++row) {
        const double* values = theta.data() + row * theta.shape(1);
        double* own = angles.data() + row * angles.shape(1);
        for (std::size_t k = 0; k < slots.size(); ++k)
            add_product(coefficients.data()[k], values[parameters.data()[k]], own[slots.data()[k]]);
    }
}

template <class T>
std::vector<T> copied(const Array<const T>& array) {
    return {array.data(), array.data() + array.size()};
}

// Records that are integers alone.
template <class Record>
std::vector<Record> records(const Rows<const std::int64_t>& rows, const char* what) {
    static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) % sizeof(std::int64_t) == 0);
    check_size(rows.shape(1), sizeof(Record) / sizeof(std::int64_t), what);
    std::vector<Record> found(rows.shape(0));
    if (!found.empty()) std::memcpy(found.data(), rows.data(), found.size() * sizeof(Record));
    return found;
}

template <class Real, class Turn>
void device_numbers_at(const DeviceNumbers& all, Rows<const double> angles, Rows<Real> reals, Rows<Turn> turns) {
    check_size(reals.shape(1), all.num_reals(), "a row of reals");
    check_size(turns.shape(1), all.num_turns(), "a row of turns");
    check_size(reals.shape(0), angles.shape(0), "the rows of reals");
    check_size(turns.shape(0), angles.shape(0), "the rows of turns");
    if (angles.shape(1) < all.num_angles()) refuse("there must be ", all.num_angles(), " angles; got ", angles.shape(1));
    const Unlocked unlocked;
    for (std::size_t row = 0; row < angles.shape(0); ++row)
        all.at(angles.data() + row * angles.shape(1), angles.shape(1), reals.data() + row * reals.shape(1),
               turns.data() + row * turns.shape(1));
}

}  // namespace

void bind_matrices(nb::module_& m) {
    nb::class_<MatrixList>(m, "MatrixList", "Matrices to come: products of constants and of formulas of angles.")
        .def(nb::init<>())
        .def("add", &MatrixList::add, "num_bits"_a, "factors"_a, "everywhere"_a = false,
             "factors: (formula, slots, bits, constant matrix); everywhere: whether it works on the whole state")
        .def_prop_ro("size", &MatrixList::size, "Entries of all matrices together.")
        .def(
            "at",
            [](const MatrixList& list, Array<const double> angles, Array<Complex> out, bool single, double scale) {
                check_size(out.size(), list.size(), "out");
                check_angles(list, angles.size());
                list.at(angles.data(), single, scale, out.data());
            },
            "angles"_a, exact("out"), "single"_a = false, "scale"_a = 1.0,
            "Writes all matrices, row by row, one after the other. single: they will be rounded to single precision; then those "
            "that work everywhere are scaled such that the rounding errors of all, and `scale` from elsewhere, leave the norm "
            "alone.")
        .def(
            "add_gradients",
            [](const MatrixList& list, Array<const Complex> transitions, Array<const double> angles, Array<double> gradient) {
                check_size(transitions.size(), list.size(), "transitions");
                check_size(gradient.size(), angles.size(), "the gradient");
                check_angles(list, angles.size());
                list.add_gradients(transitions.data(), angles.data(), gradient.data());
            },
            "transitions"_a, "angles"_a, exact("gradient"),
            "Adds 2 Re <bra|d ket> by each angle, given the transition matrix T_qp = sum of ket_q conj(bra_p) for each matrix, "
            "as `at` writes matrices.");
    // (name, bits, angles, whether it is real) of each formula, in the order of their numbers.
    nb::list facts;
    for (const FormulaFacts& f : formulas) facts.append(nb::make_tuple(f.name, f.bits, f.angles, f.real));
    m.attr("formulas") = nb::tuple(facts);
    m.def("reduce_angles", &reduce_angles, exact("rows"),
          "Takes angles (float64) modulo 4 pi, in place; those of up to 4 pi stay.");
    m.def("add_affine", &add_affine, "slots"_a, "parameters"_a, "coefficients"_a, "theta"_a, exact("angles"),
          "Adds coefficients * theta[:, parameters] to angles[:, slots], modulo 4 pi and without the products' rounding errors.");
    using Integers = Array<const std::int64_t>;
    using Numbers = Array<const double>;
    nb::class_<DeviceNumbers>(m, "DeviceNumbers", "What a GPU's kernels read: see program/device_numbers.hpp.")
        .def(
            "__init__",
            [](DeviceNumbers* self, const MatrixList& matrices, Numbers constants, Integers to, Integers from, Numbers sign,
               Numbers offsets, Integers owner, Integers slot, Numbers coefficient, std::int64_t settings, Integers tables,
               Rows<const std::int64_t> terms, Rows<const std::int64_t> rotations, Rows<const std::int64_t> cores) {
                new (self) DeviceNumbers({matrices, copied(constants), copied(to), copied(from), copied(sign), copied(offsets),
                                          copied(owner), copied(slot), copied(coefficient), settings, copied(tables),
                                          records<DeviceNumbers::Term>(terms, "a term"),
                                          records<DeviceNumbers::Rotation>(rotations, "a rotation"),
                                          records<DeviceNumbers::Core>(cores, "a core")});
            },
            "matrices"_a, "constants"_a, "to"_a, "source"_a, "sign"_a, "offsets"_a, "owner"_a, "slot"_a, "coefficient"_a,
            "settings"_a, "tables"_a, "terms"_a, "rotations"_a, "cores"_a,
            "terms: (table, mask, value, angle); rotations: (place, angle, number of Y, whether it works everywhere); cores: "
            "(place, whether it is lean, whether it is conjugated, eight entries)")
        .def("in_single", &device_numbers_at<float, std::uint32_t>, "angles"_a, exact("reals"), exact("turns"),
             "Writes the reals and the angles in fixed point of each row of the circuit's angles.")
        .def("in_double", &device_numbers_at<double, std::uint64_t>, "angles"_a, exact("reals"), exact("turns"),
             "The same in double precision.");
}
