// Kernels that make the bra of an adjoint sweep. A shard has 2^bits amplitudes, and `first` is the index of its first one,
// by bit position, in the whole state.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <complex>

#include "base/bits.hpp"
#include "base/checks.hpp"
#include "pauli/apply.hpp"
#include "pauli/plan.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Real>
void add_weighted(Array<const std::complex<Real>> ket, qdist::Index first, const std::vector<int>& positions,
                  Array<const double> weights, Array<std::complex<Real>> bra) {
    const std::size_t size = ket.size();
    qdist::checked_bits(size);
    qdist::check_first(first, size);
    qdist::check_size(bra.size(), size, "the bra");
    qdist::check_positions(positions, qdist::max_index_bits);
    qdist::check_size(weights.size(), std::size_t(1) << positions.size(), "weights");
    const std::complex<Real>* in = ket.data();
    const double* w = weights.data();
    std::complex<Real>* out = bra.data();
    nb::gil_scoped_release release;
    // What a run of neighbours adds to the place in `weights`, looked up instead of gathered bit by bit.
    constexpr int low = 8;
    const auto place = [&](qdist::Index index) {
        std::size_t at = 0;
        for (std::size_t k = 0; k < positions.size(); ++k) at |= std::size_t(index >> positions[k] & 1) << k;
        return at;
    };
    const std::size_t run = std::min<std::size_t>(size, std::size_t(1) << low);
    std::vector<std::size_t> inside(run);
    for (std::size_t i = 0; i < run; ++i) inside[i] = place(i);
#pragma omp parallel for schedule(static) if (size > 16384)
    for (std::ptrdiff_t start = 0; start < std::ptrdiff_t(size); start += run) {
        const std::size_t outside = place(first + start);
        for (std::size_t i = 0; i < run; ++i) out[start + i] += Real(w[outside | inside[i]]) * in[start + i];
    }
}

template <class T>
using Batch = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Real>
void apply_batch(qdist::PauliPlan& plan, Batch<const std::complex<Real>> kets, Batch<const double> weights,
                 Batch<std::complex<Real>> bras, Batch<double> values) {
    const std::size_t batch = kets.shape(0), size = kets.shape(1), count = plan.observables;
    if (size < qdist::lanes) qdist::refuse("a row must have at least 8 amplitudes; got " + std::to_string(size));
    qdist::check_size(size, std::size_t(1) << plan.lift.own, "a row of kets");
    qdist::check_size(bras.shape(1), size, "a row of bras");
    for (std::size_t rows : {bras.shape(0), weights.shape(0), values.shape(0)}) qdist::check_size(rows, batch, "the batch");
    qdist::check_size(weights.shape(1), count, "a row of weights");
    qdist::check_size(values.shape(1), count, "a row of values");
    qdist::check_apart(kets.data(), bras.data(), kets.size() * sizeof(std::complex<Real>), "kets and bras");
    const Real* in = reinterpret_cast<const Real*>(kets.data());
    Real* out = reinterpret_cast<Real*>(bras.data());
    const double* w = weights.data();
    double* v = values.data();
    nb::gil_scoped_release release;
#pragma omp parallel for schedule(static) if (batch > 1)
    for (std::ptrdiff_t b = 0; b < std::ptrdiff_t(batch); ++b)
        qdist::apply_pauli_sum(plan, in + 2 * b * size, 0, w + b * count, true, out + 2 * b * size, v + b * count);
}

template <class Real>
void bind(nb::module_& m) {
    m.def("apply_batch", &apply_batch<Real>, "plan"_a, nb::arg("kets").noconvert(), nb::arg("weights").noconvert(),
          nb::arg("bras").noconvert(), nb::arg("values").noconvert(),
          "For each row: bra = sum of weights[k] O_k ket, and the observables' values added to `values`. Whole states of "
          "at least 8 amplitudes.");
    m.def("add_weighted", &add_weighted<Real>, nb::arg("ket").noconvert(), "first"_a, "positions"_a,
          nb::arg("weights").noconvert(), nb::arg("bra").noconvert(),
          "bra[i] += weights[j] ket[i], where bit k of j is the bit at positions[k] of i.");
}

}  // namespace

void bind_adjoint(nb::module_& m) {
    bind<float>(m);
    bind<double>(m);
}
