// The Python face of row programs: batches of small circuits, a vector's lane a row. plan/rows/records.py describes the
// records.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <complex>

#include "base/checks.hpp"
#include "batch/numbers.hpp"
#include "batch/outputs.hpp"
#include "batch/row_program.hpp"
#include "bind/unlocked.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace qdist;
namespace rows = qdist::batch;

template <class T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Table = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
// Real numbers of a caller, in single or double precision, read and written as they are.
using RealArray = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using RealTable = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstRealArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstRealTable = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = Array<const std::int64_t>;
using Records = Table<const std::int64_t>;

// A row of records with a fixed number of fields.
struct Fields {
    Fields(const Records& records, std::size_t count, const char* what) : data(records.data()), size(records.shape(0)), width(count) {
        if (records.shape(1) != count) refuse(std::string(what) + " must have " + std::to_string(count) + " fields; got " + std::to_string(records.shape(1)));
    }
    const std::int64_t* operator[](std::size_t k) const { return data + k * width; }

    const std::int64_t* data;
    std::size_t size, width;
};

// A state's index must fit the walks' tables, and a block of rows memory.
constexpr int most_qubits = 20;

void check_pool(std::int64_t first, std::int64_t count, std::size_t size, const char* what) {
    check_range(first, 0, std::int64_t(size), what);
    check_range(count, 0, std::int64_t(size) - first, what);
}

rows::Walk checked_walk(Index base, std::span<const std::int64_t> columns, int bits, int most, const char* what) {
    check_range(std::int64_t(columns.size()), 0, most, what);
    check_mask(base, bits, what);
    for (std::int64_t column : columns) check_mask(Index(column), bits, what);
    return {base, columns};
}

std::vector<rows::Entry> checked_entries(const Records& records, const Array<const double>& coefficients, std::int64_t to, std::int64_t from) {
    const Fields e(records, 2, "entries");
    check_size(coefficients.size(), e.size, "coefficients");
    std::vector<rows::Entry> found;
    for (std::size_t k = 0; k < e.size; ++k) {
        check_range(e[k][0], 0, to - 1, "what an entry is added to");
        check_range(e[k][1], 0, from - 1, "what an entry is of");
        found.push_back({int(e[k][0]), int(e[k][1]), coefficients.data()[k]});
    }
    return found;
}

// What a row program is made of, as it is handed in; in the order of the arguments.
struct Given {
    int n, per_row, num_shared;
    Array<const double> slot_constants;
    Records slot_entries;
    Array<const double> slot_coefficients, constants;
    Records entries;
    Array<const double> coefficients;
    Records start, operations, rotations, terms;
    Integers targets;
    Array<const std::complex<double>> matrices;
    Integers walks, columns, logical;
    int phase;
};

// The same, checked: whatever the precision.
struct Parts {
    rows::Angles angles;
    std::vector<rows::Factor> start;
    std::vector<rows::Operation> operations;
    rows::Walk order;
};

Parts checked_parts(const Given& given) {
    const auto& [n, per_row, num_shared, slot_constants, slot_entries, slot_coefficients, constants, entries, coefficients, start, operations, rotations,
                 terms, targets, matrices, walks, columns, logical, phase] = given;
    check_range(n, 1, most_qubits, "the number of qubits");
    check_range(per_row, 0, (std::int64_t(1) << 31) - 2, "the number of parameters of a row");
    check_range(num_shared, 0, (std::int64_t(1) << 31) - 2 - per_row, "the number of shared parameters");
    const std::int64_t num_angles = std::int64_t(constants.size());
    const auto angle = [&](std::int64_t a) { return check_range(a, 0, num_angles - 1, "the number of an angle"), int(a); };
    const auto vector = [](const Array<const double>& x) { return std::vector<double>(x.data(), x.data() + x.size()); };
    const std::int64_t num_slots = std::int64_t(slot_constants.size()), num_parameters = std::int64_t(per_row) + num_shared;
    rows::Angles angles(vector(slot_constants), checked_entries(slot_entries, slot_coefficients, num_slots, num_parameters), vector(constants),
                        checked_entries(entries, coefficients, num_angles, num_slots), per_row);
    std::vector<rows::Factor> factors;
    const Fields f(start, 3, "start");
    for (std::size_t k = 0; k < f.size; ++k) {
        check_range(f[k][0], 0, n - 1, "a qubit of the start");
        check_range(f[k][1], 0, 2, "an axis of the start");
        factors.push_back({int(f[k][0]), int(f[k][1]), angle(f[k][2])});
    }
    const Fields o(operations, 3, "operations"), r(rotations, 3, "rotations"), t(terms, 2, "terms");
    // Walk k: its base, and where its columns begin; they end where those of the next begin.
    check_size(walks.size() % 2, 0, "walks without pairs");
    const std::size_t num_walks = walks.size() / 2;
    const auto walk = [&](std::size_t k, int bits, int most) {
        check_range(std::int64_t(k), 0, std::int64_t(num_walks) - 1, "the number of a walk");
        const std::int64_t first = walks.data()[2 * k + 1], last = k + 1 < num_walks ? walks.data()[2 * k + 3] : std::int64_t(columns.size());
        check_pool(first, last - first, columns.size(), "the columns of a walk");
        return checked_walk(Index(walks.data()[2 * k]), {columns.data() + first, std::size_t(last - first)}, bits, most, "a walk");
    };
    std::vector<rows::Operation> found;
    std::size_t next_walk = 0, next_number = 0;
    for (std::size_t k = 0; k < o.size; ++k) {
        const std::int64_t kind = o[k][0], first = o[k][1], count = o[k][2];
        if (kind == 0) {
            check_pool(first, count, r.size, "the rotations of a group");
            check_range(count, 1, rows::most_rotations, "the number of a group's rotations");
            rows::Group group{walk(next_walk++, n + 1, n + 1 - int(count)), {}};
            for (std::int64_t j = first; j < first + count; ++j) {
                check_mask(Index(r[j][0]), n + 1, "a direction");
                check_mask(Index(r[j][1]), n + 1, "a functional");
                group.rotations.push_back({Index(r[j][0]), Index(r[j][1]), angle(r[j][2])});
            }
            found.push_back(std::move(group));
        } else if (kind == 1) {
            check_pool(first, count, t.size, "the terms of a diagonal");
            rows::Diagonal diagonal;
            for (std::int64_t j = first; j < first + count; ++j) {
                check_mask(Index(t[j][0]), n, "the mask of a term");
                if (angles.of_row(angle(t[j][1]))) refuse("the angle of a diagonal must be the same for all rows; got angle " + std::to_string(t[j][1]));
                diagonal.terms.push_back({Index(t[j][0]), int(t[j][1])});
            }
            found.push_back(std::move(diagonal));
        } else if (kind == 2) {
            check_pool(first, count, targets.size(), "the targets of a matrix");
            check_range(count, 1, std::min(n, rows::most_dense_bits), "the number of a matrix's targets");
            rows::Constant constant{walk(next_walk++, n, n - int(count)), {0}, {}, {}};
            const std::size_t small = std::size_t(1) << count;
            for (std::int64_t j = first; j < first + count; ++j) {
                const Index target = Index(targets.data()[j]);
                check_mask(target, n, "a target");
                for (std::size_t i = 0, size = constant.offset.size(); i < size; ++i) constant.offset.push_back(constant.offset[i] ^ target);
            }
            check_pool(std::int64_t(next_number), std::int64_t(small * small), matrices.size(), "the matrices");
            constant.matrix.assign(matrices.data() + next_number, matrices.data() + next_number + small * small);
            next_number += small * small;
            constant.inverse.resize(small * small);
            for (std::size_t p = 0; p < small; ++p)
                for (std::size_t q = 0; q < small; ++q) constant.inverse[q * small + p] = std::conj(constant.matrix[p * small + q]);
            found.push_back(std::move(constant));
        } else
            refuse("an operation's kind must be 0, 1 or 2; got " + std::to_string(kind));
    }
    check_size(next_walk, num_walks, "walks of the operations");
    check_size(logical.size(), std::size_t(n) + 1, "the logical order");
    rows::Walk order = checked_walk(Index(logical.data()[0]), {logical.data() + 1, std::size_t(n)}, n, n, "the logical order");
    check_range(phase, -1, num_angles - 1, "the angle of the global phase");
    return {std::move(angles), std::move(factors), std::move(found), std::move(order)};
}

template <class Real>
void make(rows::RowProgram<Real>* self, int n, int per_row, int num_shared, Array<const double> slot_constants, Records slot_entries,
          Array<const double> slot_coefficients, Array<const double> constants, Records entries, Array<const double> coefficients,
          Records start, Records operations, Records rotations, Records terms, Integers targets, Array<const std::complex<double>> matrices, Integers walks,
          Integers columns, Integers logical, int phase) {
    Parts parts = checked_parts({n, per_row, num_shared, slot_constants, slot_entries, slot_coefficients, constants, entries, coefficients, start, operations,
                                 rotations, terms, targets, matrices, walks, columns, logical, phase});
    new (self) rows::RowProgram<Real>(n, per_row, num_shared, std::move(parts.angles), std::move(parts.start), std::move(parts.operations),
                                      std::move(parts.order), phase);
}

rows::Outputs made_outputs(int n, int num_outputs, Records strings, Array<const double> coefficients, Records marginals) {
    check_range(n, 1, most_qubits, "the number of qubits");
    check_range(num_outputs, 0, std::int64_t(1) << 40, "the number of outputs");
    const Fields s(strings, 4, "strings");
    check_size(coefficients.size(), s.size, "coefficients");
    std::vector<rows::PauliTerm> terms;
    for (std::size_t k = 0; k < s.size; ++k) {
        check_mask(Index(s[k][0]), n, "the flips of a string");
        check_mask(Index(s[k][1]), n, "the mask of a string");
        check_range(s[k][2], 0, s[k][0] ? 1 : 0, "whether a string's part is imaginary");
        check_range(s[k][3], 0, std::int64_t(num_outputs) - 1, "the number of an output");
        terms.push_back({Index(s[k][0]), Index(s[k][1]), s[k][2] != 0, int(s[k][3]), coefficients.data()[k]});
    }
    const Fields m(marginals, std::size_t(n) + 3, "marginals");
    std::vector<rows::Marginal> found;
    for (std::size_t k = 0; k < m.size; ++k) {
        check_range(m[k][1], 0, n, "the number of a marginal's qubits");
        check_range(m[k][0], 0, std::int64_t(num_outputs) - (std::int64_t(1) << m[k][1]), "the first output of a marginal");
        found.push_back({int(m[k][0]), int(m[k][1]), checked_walk(Index(m[k][2]), {m[k] + 3, std::size_t(n)}, n, n, "the order of a marginal")});
    }
    return {n, num_outputs, terms, std::move(found)};
}

template <class Any>
rows::Numbers numbers_of(const Any& array, const char* what) {
    const bool wide = array.dtype() == nb::dtype<double>();
    if (!wide && array.dtype() != nb::dtype<float>()) refuse(std::string(what) + " must be float32 or float64");
    return {const_cast<void*>(static_cast<const void*>(array.data())), wide};
}

// The rows and shared values of a call.
template <class Real, class Rows, class Values>
void check_values(const rows::RowProgram<Real>& p, const Rows& row_values, const Values& shared) {
    check_size(row_values.shape(1), p.per_row(), "a row of parameters");
    check_size(shared.size(), p.num_shared(), "the shared parameters");
}

inline bool all_finite(const double* x, std::size_t size) { return std::all_of(x, x + size, [](double v) { return std::isfinite(v); }); }

// Row blocks are read with aligned loads.
template <class Real>
Real* checked_kets(const std::optional<Array<Real>>& kets, std::size_t size) {
    if (!kets) return nullptr;
    check_size(kets->size(), size, "the kets");
    if (size && reinterpret_cast<std::uintptr_t>(kets->data()) % AlignedAllocator<Real>::alignment) refuse("the kets must be aligned to 64 bytes");
    return kets->data();
}

template <class Real, class Stored>
bool states(const rows::RowProgram<Real>& p, Table<const double> row_values, Array<const double> shared, Table<std::complex<Stored>> out) {
    check_values(p, row_values, shared);
    const std::size_t batch = row_values.shape(0);
    check_size(out.shape(0), batch, "the batch of states");
    check_size(out.shape(1), std::size_t(1) << p.num_bits(), "a state");
    const double *x = row_values.data(), *w = shared.data();
    auto* const to = out.data();
    const Unlocked unlocked;
    if (!all_finite(x, batch * p.per_row()) || !all_finite(w, p.num_shared())) return false;
    p.states(x, w, batch, to);
    return true;
}

template <class Any>
rows::Numbers checked_columns(const Any& columns, std::size_t batch, const rows::Outputs& outputs, const char* what) {
    check_size(columns.shape(0), batch, what);
    check_size(columns.shape(1), std::size_t(outputs.count()), what);
    return numbers_of(columns, what);
}

template <class Real>
bool forward(const rows::RowProgram<Real>& p, rows::Numbers row_values, rows::Numbers shared, std::size_t batch, const rows::Outputs& outputs,
             const std::optional<Array<Real>>& kets, rows::Numbers values) {
    check_size(std::size_t(outputs.num_bits()), std::size_t(p.num_bits()), "outputs for the program's qubits");
    Real* const k = checked_kets(kets, p.kept_size(batch));
    const Unlocked unlocked;
    const rows::Read x(row_values, batch * p.per_row()), w(shared, p.num_shared());
    if (!all_finite(x.data(), batch * p.per_row()) || !all_finite(w.data(), p.num_shared())) return false;
    rows::Written v(values, batch * outputs.count());
    p.forward(x.data(), w.data(), batch, outputs, k, v.data());
    return true;
}

template <class Real>
bool backward(const rows::RowProgram<Real>& p, rows::Numbers row_values, rows::Numbers shared, std::size_t batch, const rows::Outputs& outputs,
              const std::optional<Array<Real>>& kets, rows::Numbers values, rows::Numbers cotangents, rows::Numbers row_gradient, rows::Numbers shared_gradient) {
    check_size(std::size_t(outputs.num_bits()), std::size_t(p.num_bits()), "outputs for the program's qubits");
    Real* const k = checked_kets(kets, p.kept_size(batch));
    const Unlocked unlocked;
    const std::size_t count = batch * outputs.count();
    const rows::Read x(row_values, batch * p.per_row()), w(shared, p.num_shared()), g(cotangents, count);
    if (!all_finite(x.data(), batch * p.per_row()) || !all_finite(w.data(), p.num_shared())) return false;
    rows::Written v(values, count, k != nullptr), by_row(row_gradient, batch * p.per_row()), by_shared(shared_gradient, p.num_shared());
    p.backward(x.data(), w.data(), batch, outputs, k, v.data(), g.data(), by_row.data(), by_shared.data());
    return true;
}

template <class Real>
void bind_rows(nb::module_& m, const char* name) {
    using P = rows::RowProgram<Real>;
    using Kets = Array<Real>;
    nb::class_<P> program(m, name);
    program
        .def("__init__", &make<Real>, "num_qubits"_a, "per_row"_a, "num_shared"_a, nb::arg("slot_constants").noconvert(),
             nb::arg("slot_entries").noconvert(), nb::arg("slot_coefficients").noconvert(), nb::arg("constants").noconvert(), nb::arg("entries").noconvert(),
             nb::arg("coefficients").noconvert(), nb::arg("start").noconvert(), nb::arg("operations").noconvert(), nb::arg("rotations").noconvert(),
             nb::arg("terms").noconvert(), nb::arg("targets").noconvert(), nb::arg("matrices").noconvert(), nb::arg("walks").noconvert(),
             nb::arg("columns").noconvert(), nb::arg("logical").noconvert(), "phase"_a)
        .def("kept_size", [](const P& p, std::size_t batch) { return check_range(std::int64_t(batch), 0, std::int64_t(1) << 40, "the batch"), p.kept_size(batch); }, "batch"_a,
             "Numbers of the array in which `forward` leaves the states of so many rows.")
        .def("forward",
             [](const P& p, ConstRealTable row_values, ConstRealArray shared, const rows::Outputs& outputs, std::optional<Kets> kets, RealTable values) {
                 check_values(p, row_values, shared);
                 return forward(p, numbers_of(row_values, "rows"), numbers_of(shared, "shared parameters"), row_values.shape(0), outputs, kets,
                                checked_columns(values, row_values.shape(0), outputs, "values"));
             },
             nb::arg("row_values").noconvert(), nb::arg("shared").noconvert(), "outputs"_a, nb::arg("kets").noconvert().none(), nb::arg("values").noconvert(),
             "The outputs of every row; False, and nothing done, if a parameter is not finite. kets: where the states are left for `backward`. Parameters and "
             "values are float32 or float64.")
        .def("backward",
             [](const P& p, ConstRealTable row_values, ConstRealArray shared, const rows::Outputs& outputs, std::optional<Kets> kets, RealTable values, ConstRealTable cotangents,
                std::optional<RealTable> row_gradient, std::optional<RealArray> shared_gradient) {
                 check_values(p, row_values, shared);
                 const std::size_t batch = row_values.shape(0);
                 if (row_gradient) {
                     check_size(row_gradient->shape(0), batch, "the batch of gradients");
                     check_size(row_gradient->shape(1), p.per_row(), "a row of gradients");
                 }
                 if (shared_gradient) check_size(shared_gradient->size(), p.num_shared(), "the shared gradient");
                 return backward(p, numbers_of(row_values, "rows"), numbers_of(shared, "shared parameters"), batch, outputs, kets,
                                 checked_columns(values, batch, outputs, "values"), checked_columns(cotangents, batch, outputs, "cotangents"),
                                 row_gradient ? numbers_of(*row_gradient, "gradients") : rows::Numbers{},
                                 shared_gradient ? numbers_of(*shared_gradient, "gradients") : rows::Numbers{});
             },
             nb::arg("row_values").noconvert(), nb::arg("shared").noconvert(), "outputs"_a, nb::arg("kets").noconvert().none(), nb::arg("values").noconvert(),
             nb::arg("cotangents").noconvert(), nb::arg("row_gradient").noconvert().none(), nb::arg("shared_gradient").noconvert().none(),
             "Sets the vector-Jacobian product by the parameters of rows and by the shared ones. kets: those that `forward` left, with its values; they are "
             "overwritten. Without them the circuit runs first, and values are set.");
    program.def("states", &states<Real, float>, nb::arg("row_values").noconvert(), nb::arg("shared").noconvert(), nb::arg("out").noconvert(),
                "The state of every row, in logical order; False, and nothing done, if a parameter is not finite.");
    program.def("states", &states<Real, double>, nb::arg("row_values").noconvert(), nb::arg("shared").noconvert(), nb::arg("out").noconvert());
}

}  // namespace

void bind_batch(nb::module_& m) {
    nb::class_<rows::Outputs>(m, "RowOutputs")
        .def("__init__",
             [](rows::Outputs* self, int n, int num_outputs, Records strings, Array<const double> coefficients, Records marginals) {
                 new (self) rows::Outputs(made_outputs(n, num_outputs, strings, coefficients, marginals));
             },
             "num_qubits"_a, "num_outputs"_a, nb::arg("strings").noconvert(), nb::arg("coefficients").noconvert(), nb::arg("marginals").noconvert())
        .def_prop_ro("count", &rows::Outputs::count);
    bind_rows<float>(m, "RowProgram64");
    bind_rows<double>(m, "RowProgram128");
}
