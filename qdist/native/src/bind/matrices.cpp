// The matrices of dense blocks, for executors that keep them elsewhere: the same formulas as the CPU's own blocks.
#include <utility>

#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "gates/angles.hpp"
#include "gates/formulas.hpp"
#include "gates/matrices.hpp"
#include "program/block_checks.hpp"
#include "program/matrix_setter.hpp"

namespace {

using namespace qdist;

// A list of matrices, each a product of factors on some of its bits.
class MatrixList {
public:
    // everywhere: whether it works on the whole state.
    void add(int num_bits, const std::vector<FactorData>& factors, bool everywhere) {
        check_range(num_bits, 0, max_bits, "the number of a matrix's bits");
        matrices_.push_back({num_bits, checked_factors(factors, num_bits, num_angles_), everywhere});
        size_ += std::size_t(1) << 2 * num_bits;
    }

    std::size_t size() const { return size_; }
    // How many angles the matrices read.
    std::size_t num_angles() const { return std::size_t(num_angles_); }
    static constexpr int max_bits = 15;  // 16 GiB of entries

    // single: whether they will be rounded to single precision. Then each that works everywhere makes up for what the
    // rounding of the one before it does to the norm, and the first for `scale`, by which it is multiplied elsewhere.
    void at(const double* angles, bool single, double scale, Complex* out) const {
        for (const auto& [bits, factors, everywhere] : matrices_) {
            Matrix m = product(factors, bits, angles);
            if (everywhere && single) {
                for (Complex& z : m) z /= scale;
                scale = rounding_scale<float>(m.data(), m.size());
            }
            out = std::copy(m.begin(), m.end(), out);
        }
    }

    void add_gradients(const Complex* transitions, const double* angles, double* gradient) const {
        for (const auto& [bits, factors, everywhere] : matrices_) {
            const Complex* end = transitions + (std::size_t(1) << 2 * bits);
            add_dense_gradient(bits, factors, Matrix(transitions, end), angles, gradient);
            transitions = end;
        }
    }

private:
    struct Entry {
        int bits;
        std::vector<Factor> factors;
        bool everywhere;
    };
    std::vector<Entry> matrices_;
    std::size_t size_ = 0;
    int num_angles_ = 0;
};

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

// Each row of numbers is that of a rotation: (cosine, real and imaginary part of the factor of its Pauli string).
void balance_rotations(Rows<double> numbers, Array<const bool> everywhere) {
    if (numbers.shape(1) != 3 || everywhere.size() != numbers.shape(0)) throw nb::value_error("the arrays do not fit together");
    double scale = 1;
    for (std::size_t k = 0; k < everywhere.size(); ++k) {
        if (!everywhere.data()[k]) continue;
        double* own = numbers.data() + 3 * k;
        const Complex m[2] = {own[0] /= scale, {own[1] /= scale, own[2] /= scale}};
        scale = rounding_scale<float>(m, 2);
    }
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
    m.def("balance_rotations", &balance_rotations, exact("numbers"), "everywhere"_a,
          "Scales the numbers of rotations, which run in this order, such that the norm stays when they are rounded to single "
          "precision. numbers: (cosine, real and imaginary part of the Pauli string's factor); everywhere: which of them have "
          "no conditions.");
}
