// Kernels that make the bra of an adjoint sweep. A shard has 2^bits amplitudes, and `first` is the index of its first one,
// by bit position, in the whole state.
#include "base/bits.hpp"
#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "pauli/apply.hpp"
#include "pauli/plan.hpp"

namespace {

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
    const std::size_t run = std::min<std::size_t>(size, std::size_t(1) << low);
    std::vector<qdist::Index> inside(run);
    for (std::size_t i = 0; i < run; ++i) inside[i] = qdist::gathered(i, positions);
#pragma omp parallel for schedule(static) if (size > 16384)
    for (std::size_t start = 0; start < size; start += run) {
        const qdist::Index outside = qdist::gathered(first + start, positions);
        for (std::size_t i = 0; i < run; ++i) out[start + i] += Real(w[outside | inside[i]]) * in[start + i];
    }
}

template <class Real>
void apply_batch(qdist::PauliPlan& plan, Rows<const std::complex<Real>> kets, Rows<const double> weights,
                 Rows<std::complex<Real>> bras, Rows<double> values) {
    const std::size_t batch = kets.shape(0), size = kets.shape(1), count = plan.observables;
    if (size < qdist::lanes) qdist::refuse("a row must have at least 8 amplitudes; got " + std::to_string(size));
    qdist::check_size(size, std::size_t(1) << plan.lift.own, "a row of kets");
    qdist::check_size(bras.shape(1), size, "a row of bras");
    for (std::size_t rows : {bras.shape(0), weights.shape(0), values.shape(0)}) qdist::check_size(rows, batch, "the batch");
    qdist::check_size(weights.shape(1), count, "a row of weights");
    qdist::check_size(values.shape(1), count, "a row of values");
    check_no_overlap(kets, bras, "kets and bras");
    const Real* in = numbers(kets);
    Real* out = numbers(bras);
    const double* w = weights.data();
    double* v = values.data();
    nb::gil_scoped_release release;
#pragma omp parallel for schedule(static) if (batch > 1)
    for (std::size_t b = 0; b < batch; ++b)
        qdist::apply_pauli_sum(plan, in + 2 * b * size, 0, w + b * count, true, out + 2 * b * size, v + b * count);
}

template <class Real>
void bind(nb::module_& m) {
    m.def("apply_batch", &apply_batch<Real>, "plan"_a, exact("kets"), exact("weights"),
          exact("bras"), exact("values"),
          "For each row: bra = sum of weights[k] O_k ket, and the observables' values added to `values`. Whole states of "
          "at least 8 amplitudes.");
    m.def("add_weighted", &add_weighted<Real>, exact("ket"), "first"_a, "positions"_a,
          exact("weights"), exact("bra"),
          "bra[i] += weights[j] ket[i], where bit k of j is the bit at positions[k] of i.");
}

}  // namespace

void bind_adjoint(nb::module_& m) {
    bind<float>(m);
    bind<double>(m);
}
