// Sums of Pauli strings: values, products with a state, and both. A shard has 2^bits amplitudes, and `first` is the index of
// its first one, by bit position, in the whole state.
#include "base/bits.hpp"
#include "base/checks.hpp"
#include "base/pool.hpp"
#include "bind/arrays.hpp"
#include "bind/unlocked.hpp"
#include "pauli/apply.hpp"
#include "pauli/plan.hpp"

namespace qdist::bindings {
namespace {

void init_plan(PauliPlan* self, int bits, Array<const Index> x, Array<const Index> z,
               Array<const std::complex<double>> coefficients, Array<const std::int64_t> observable, int observables,
               int tile_bits, bool as_product) {
    check_range(bits, 0, max_index_bits, "bits");
    check_range(observables, 0, (std::int64_t(1) << 31) - 2, "the number of observables");
    for (std::size_t size : {z.size(), coefficients.size(), observable.size()})
        check_size(size, x.size(), "z, coefficients and observable");
    const int signs = max_index_bits - (Lift(bits).bits - bits);
    for (std::size_t k = 0; k < x.size(); ++k) {
        check_mask(x.data()[k], bits, "the flips of a string");
        check_mask(z.data()[k], signs, "the signs of a string");
        check_range(observable.data()[k], 0, observables - 1, "the number of an observable");
    }
    new (self)
        PauliPlan(bits, span_of(x), span_of(z), span_of(coefficients), span_of(observable), observables, tile_bits, as_product);
}

std::size_t num_passes(const PauliPlan& plan) { return plan.passes.size(); }

// A shard of the size that the plan is for.
void check_plan(const PauliPlan& plan, std::size_t size, Index first) {
    check_size(size, std::size_t(1) << plan.lift.own, "the shard");
    check_first(first, size, plan.lift.bits - plan.lift.own);
}

template <class Real>
void add_expectations(const PauliPlan& plan, Shard<Real> shard, Index first, Array<double> out) {
    check_plan(plan, shard.size(), first);
    check_size(out.size(), std::size_t(plan.observables), "out");
    const Padded<Real> padded(shard);
    const Unlocked unlocked;
    add_values(plan, padded.data(), plan.lift.mask(first), out.data());
}

template <class Real>
void apply(const PauliPlan& plan, Shard<Real> shard, Index first, Array<const double> weights, MutableShard<Real> out, bool add,
           std::optional<Array<double>> values) {
    check_plan(plan, shard.size(), first);
    check_size(out.size(), shard.size(), "out");
    check_size(weights.size(), std::size_t(plan.observables), "weights");
    if (values) check_size(values->size(), std::size_t(plan.observables), "values");
    check_no_overlap(shard, out, "the shard and out");
    const Padded<Real> padded(shard);
    double* results = values ? values->data() : nullptr;
    const Unlocked unlocked;
    Real row[2 * lanes] = {};
    const bool is_short = out.size() < lanes;
    if (is_short) std::copy_n(numbers(out), 2 * out.size(), row);
    apply_pauli_sum(plan, padded.data(), plan.lift.mask(first), weights.data(), !add, is_short ? row : numbers(out), results);
    if (is_short) std::copy_n(row, 2 * out.size(), numbers(out));
}

template <class Real>
void apply_batch(const PauliPlan& plan, Rows<const std::complex<Real>> kets, Rows<const double> weights,
                 Rows<std::complex<Real>> bras, Rows<double> values) {
    const std::size_t batch = kets.shape(0), size = kets.shape(1), count = plan.observables;
    if (size < lanes) refuse("a row must have at least 8 amplitudes; got ", size);
    check_size(size, std::size_t(1) << plan.lift.own, "a row of kets");
    check_size(bras.shape(1), size, "a row of bras");
    for (std::size_t rows : {bras.shape(0), weights.shape(0), values.shape(0)}) check_size(rows, batch, "the batch");
    check_size(weights.shape(1), count, "a row of weights");
    check_size(values.shape(1), count, "a row of values");
    check_no_overlap(kets, bras, "kets and bras");
    const Unlocked unlocked;
    each_on_threads(
        batch, [] { return 0; },
        [&](int, std::size_t b) {
            apply_pauli_sum(plan, numbers(kets) + 2 * b * size, 0, weights.data() + b * count, true,
                            numbers(bras) + 2 * b * size, values.data() + b * count);
        });
}

template <class Real>
void bind(nb::module_& m, nb::class_<PauliPlan>& plan) {
    plan.def("add_expectations", &add_expectations<Real>, exact("shard"), "first"_a, exact("out"),
             "Adds the observables' values in a shard to out (float64).");
    plan.def("apply", &apply<Real>, exact("shard"), "first"_a, exact("weights"), exact("out"), "add"_a, exact("values").none(),
             "out = the sum of all terms, times their observables' weights, applied to the shard; with `add` it is added "
             "to what is there. out is another array of the same size. The observables' values are added to `values`.");
    m.def("apply_batch", &apply_batch<Real>, "plan"_a, exact("kets"), exact("weights"), exact("bras"), exact("values"),
          "For each row: bra = sum of weights[k] O_k ket, and the observables' values added to `values`. Whole states of "
          "at least 8 amplitudes.");
}

}  // namespace
}  // namespace qdist::bindings

void bind_pauli(nb::module_& m) {
    using namespace qdist::bindings;
    nb::class_<qdist::PauliPlan> plan(m, "PauliPlan",
                                      "Pauli strings, by masks of bit positions, arranged in passes over a shard of "
                                      "2**bits amplitudes, in tiles of 2**tile_bits; no x mask reaches beyond the shard. "
                                      "as_product: whether the value of a single observable, with real coefficients, comes "
                                      "the way its product with a state does.");
    plan.def("__init__", &init_plan, "bits"_a, exact("x"), exact("z"), exact("coefficients"), exact("observable"),
             "observables"_a, "tile_bits"_a, "as_product"_a = false);
    plan.def_prop_ro("passes", &num_passes, "How often the plan reads the shard.");
    bind<float>(m, plan);
    bind<double>(m, plan);
}
