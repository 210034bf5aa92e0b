// The matrices of dense blocks, for executors that keep them elsewhere: the same formulas as the CPU's own blocks.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "block_checks.hpp"
#include "derivatives.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace qdist;

using FactorData = std::tuple<int, std::vector<int>, std::vector<int>, std::vector<Complex>>;

// A list of matrices, each a product of factors on some of its bits.
class MatrixList {
public:
    void add(int num_bits, const std::vector<FactorData>& factors) {
        check_range(num_bits, 0, max_bits, "the number of a matrix's bits");
        for (const auto& [formula, slots, bits, matrix] : factors)
            num_angles_ = std::max(num_angles_, check_factor(formula, slots, bits, matrix.size(), num_bits));
        products_.push_back({num_bits, {}});
        for (const auto& [formula, slots, bits, matrix] : factors)
            products_.back().second.push_back({{Formula(formula), slots, matrix}, bits});
        size_ += std::size_t(1) << 2 * num_bits;
    }

    std::size_t size() const { return size_; }
    // How many angles the matrices read.
    std::size_t num_angles() const { return std::size_t(num_angles_); }
    static constexpr int max_bits = 15;  // 16 GiB of entries

    void at(const double* angles, Complex* out) const {
        for (const auto& [bits, factors] : products_) {
            const std::size_t size = std::size_t(1) << bits;
            Matrix m(size * size);
            for (std::size_t k = 0; k < size; ++k) m[k * size + k] = 1;
            for (const auto& [source, places] : factors) apply_left(source.at(angles), places, m, bits);
            out = std::copy(m.begin(), m.end(), out);
        }
    }

    void add_gradients(const Complex* transitions, const double* angles, double* gradient) const {
        for (const auto& [bits, factors] : products_) {
            const Complex* end = transitions + (std::size_t(1) << 2 * bits);
            add_dense_gradient(bits, factors, Matrix(transitions, end), angles, gradient);
            transitions = end;
        }
    }

private:
    std::vector<std::pair<int, std::vector<std::pair<Source, std::vector<int>>>>> products_;
    std::size_t size_ = 0;
    int num_angles_ = 0;
};

void check_angles(const MatrixList& list, std::size_t count) {
    if (count < list.num_angles()) refuse("the matrices read " + std::to_string(list.num_angles()) + " angles; got " + std::to_string(count));
}

}  // namespace

void bind_matrices(nb::module_& m) {
    using Angles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    using Entries = nb::ndarray<Complex, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    nb::class_<MatrixList>(m, "MatrixList", "Matrices to come: products of constants and of formulas of angles.")
        .def(nb::init<>())
        .def("add", &MatrixList::add, "num_bits"_a, "factors"_a, "factors: (formula, slots, bits, constant matrix)")
        .def_prop_ro("size", &MatrixList::size, "Entries of all matrices together.")
        .def("at",
             [](const MatrixList& list, Angles angles, Entries out) {
                 check_size(out.size(), list.size(), "out");
                 check_angles(list, angles.size());
                 list.at(angles.data(), out.data());
             },
             "angles"_a, nb::arg("out").noconvert(), "Writes all matrices, row by row, one after the other.")
        .def("add_gradients",
             [](const MatrixList& list, nb::ndarray<const Complex, nb::ndim<1>, nb::c_contig, nb::device::cpu> transitions, Angles angles,
                nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> gradient) {
                 check_size(transitions.size(), list.size(), "transitions");
                 check_size(gradient.size(), angles.size(), "the gradient");
                 check_angles(list, angles.size());
                 list.add_gradients(transitions.data(), angles.data(), gradient.data());
             },
             "transitions"_a, "angles"_a, nb::arg("gradient").noconvert(),
             "Adds 2 Re <bra|d ket> by each angle, given the transition matrix T_qp = sum of ket_q conj(bra_p) for each matrix, "
             "as `at` writes matrices.");
}
