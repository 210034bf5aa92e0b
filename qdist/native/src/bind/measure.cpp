// Kernels that read or collapse a state. A shard has 2^bits amplitudes, and `first` is the index of its first one, by
// bit position, in the whole state. What is summed is added to `out`, so that several shards can share a result.
#include "base/bits.hpp"
#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "measure/inner.hpp"
#include "measure/probabilities.hpp"
#include "measure/project.hpp"
#include "measure/sampling.hpp"
#include "moves/permute.hpp"
#include "pauli/apply.hpp"
#include "pauli/expectation.hpp"
#include "pauli/plan.hpp"

using qdist::Index;

namespace {

using Positions = std::vector<int>;

// The bits of a shard, which begins at place `first` of the whole state.
int bits_of(std::size_t size, Index first) {
    const int bits = qdist::checked_bits(size);
    qdist::check_first(first, size, qdist::Lift(bits).bits - bits);
    return bits;
}

// A shard's numbers, padded with zeros to a whole row of lanes where it is shorter.
template <class Real>
class Padded {
public:
    explicit Padded(const Shard<Real>& shard) : data_(numbers(shard)) {
        if (shard.size() >= qdist::lanes) return;
        std::copy(data_, data_ + 2 * shard.size(), padded_);
        data_ = padded_;
    }
    Padded(const Padded&) = delete;
    const Real* data() const { return data_; }

private:
    const Real* data_;
    Real padded_[2 * qdist::lanes] = {};
};

template <class Real>
void add_probabilities(Shard<Real> shard, Index first, Positions positions, Array<double> out) {
    const qdist::Lift lift(bits_of(shard.size(), first));
    qdist::check_positions(positions, qdist::max_index_bits - (lift.bits - lift.own));
    qdist::check_size(out.size(), std::size_t(1) << positions.size(), "out");
    const Padded<Real> padded(shard);
    for (int& position : positions) position = lift.position(position);
    nb::gil_scoped_release release;
    qdist::add_probabilities(padded.data(), lift.bits, lift.mask(first), positions, out.data());
}

template <class Real>
void add_leaves(Shard<Real> shard, Index first, Array<const std::int64_t> bases, const Positions& positions,
                Array<double> trees) {
    const int bits = bits_of(shard.size(), first);
    qdist::check_positions(positions, qdist::max_index_bits);
    qdist::check_range(std::int64_t(positions.size()), 0, qdist::max_index_bits - 1, "the depth of a tree");
    qdist::check_size(trees.size(), bases.size() << (positions.size() + 1), "trees");
    nb::gil_scoped_release release;
    qdist::add_leaves(numbers(shard), bits, first, span_of(bases),
                      positions, trees.data());
}

void descend(Array<double> trees, int depth, Array<const std::int64_t> row, Array<const std::int64_t> shot, Index key,
             int level, Array<std::int64_t> out) {
    qdist::check_range(depth, 0, qdist::max_index_bits - 1, "depth");
    // A shot has 64 random numbers.
    qdist::check_range(level, 0, 64 - depth, "level");
    qdist::check_size(shot.size(), row.size(), "shot");
    qdist::check_size(out.size(), row.size(), "out");
    const std::size_t rows = trees.size() >> (depth + 1);
    qdist::check_size(trees.size(), rows << (depth + 1), "trees");
    nb::gil_scoped_release release;
    for (std::int64_t r : span_of(row)) qdist::check_range(r, 0, std::int64_t(rows) - 1, "the number of a tree");
    qdist::sum_trees(trees.data(), rows, depth);
    qdist::descend(trees.data(), depth, span_of(row), span_of(shot), key, level, out.data());
}

template <class Real>
void permuted_copy(Shard<Real> source, const Positions& positions, MutableShard<Real> out) {
    qdist::check_permutation(positions, source.size());
    qdist::check_size(out.size(), source.size(), "out");
    check_no_overlap(source, out, "source and out");
    nb::gil_scoped_release release;
    qdist::permuted_copy(source.data(), positions, out.data());
}

template <class Real>
double squared_norm(Shard<Real> shard) {
    nb::gil_scoped_release release;
    return qdist::inner<true>(numbers(shard), numbers(shard), shard.size()).real();
}

template <class Real>
std::complex<double> inner(Shard<Real> bra, Shard<Real> ket) {
    qdist::check_size(ket.size(), bra.size(), "the ket");
    nb::gil_scoped_release release;
    return qdist::inner<false>(numbers(bra), numbers(ket),
                        bra.size());
}

template <class Real>
std::complex<double> permuted_inner(Shard<Real> bra, Shard<Real> ket, const Positions& positions) {
    qdist::check_permutation(positions, bra.size());
    qdist::check_size(ket.size(), bra.size(), "the ket");
    nb::gil_scoped_release release;
    return qdist::permuted_inner(numbers(bra), numbers(ket),
                                 positions);
}

template <class Real>
void project(MutableShard<Real> shard, Index first, Index mask, Index value, double scale) {
    const int bits = bits_of(shard.size(), first);
    qdist::check_condition(mask, value, qdist::max_index_bits, "the projection");
    nb::gil_scoped_release release;
    qdist::project(numbers(shard), bits, first, mask, value, Real(scale));
}

template <class Real>
void reset_bit(MutableShard<Real> shard, int position, bool outcome, double scale) {
    const int bits = bits_of(shard.size(), 0);
    qdist::check_range(position, 0, bits - 1, "position");
    nb::gil_scoped_release release;
    qdist::reset_bit(numbers(shard), bits, position, outcome, Real(scale));
}

// A shard of the size that the plan is for.
void check_plan(const qdist::PauliPlan& plan, std::size_t size, Index first) {
    qdist::check_size(size, std::size_t(1) << plan.lift.own, "the shard");
    qdist::check_first(first, size, plan.lift.bits - plan.lift.own);
}

template <class Real>
void add_expectations(const qdist::PauliPlan& plan, Shard<Real> shard, Index first, Array<double> out) {
    check_plan(plan, shard.size(), first);
    qdist::check_size(out.size(), std::size_t(plan.observables), "out");
    const Padded<Real> padded(shard);
    nb::gil_scoped_release release;
    qdist::add_values(plan, padded.data(), plan.lift.mask(first), out.data());
}

template <class Real>
void apply(qdist::PauliPlan& plan, Shard<Real> shard, Index first, Array<const double> weights,
           MutableShard<Real> out, bool add, std::optional<Array<double>> values) {
    check_plan(plan, shard.size(), first);
    qdist::check_size(out.size(), shard.size(), "out");
    qdist::check_size(weights.size(), std::size_t(plan.observables), "weights");
    if (values) qdist::check_size(values->size(), std::size_t(plan.observables), "values");
    check_no_overlap(shard, out, "the shard and out");
    const Padded<Real> padded(shard);
    double* results = values ? values->data() : nullptr;
    nb::gil_scoped_release release;
    auto* result = numbers(out);
    if (out.size() >= qdist::lanes) {
        qdist::apply_pauli_sum(plan, padded.data(), plan.lift.mask(first), weights.data(), !add, result, results);
    } else {
        Real whole_row[2 * qdist::lanes] = {};
        std::copy(result, result + 2 * out.size(), whole_row);
        qdist::apply_pauli_sum(plan, padded.data(), plan.lift.mask(first), weights.data(), !add, whole_row, results);
        std::copy(whole_row, whole_row + 2 * out.size(), result);
    }
}

template <class Real>
void bind(nb::module_& m, nb::class_<qdist::PauliPlan>& plan) {
    m.def("add_probabilities", &add_probabilities<Real>, exact("shard"), "first"_a, "positions"_a,
          exact("out"),
          "Adds |amplitude|^2 to out, indexed with the bit at positions[0] as bit 0. out: float64, 2**len(positions).");
    m.def("add_leaves", &add_leaves<Real>, exact("shard"), "first"_a, exact("bases"),
          "positions"_a, exact("trees"),
          "Adds |amplitude|^2 of the indices base | bits at positions to the leaves of each base's tree.");
    m.def("permuted_copy", &permuted_copy<Real>, exact("source"), "positions"_a,
          exact("out"), "out[i] = source[j], where bit k of i is the bit at positions[k] of j.");
    m.def("squared_norm", &squared_norm<Real>, exact("shard"), "Sum of |amplitude|^2, accumulated in double.");
    m.def("inner", &inner<Real>, exact("bra"), exact("ket"),
          "sum of conj(bra[i]) ket[i], accumulated in double.");
    m.def("permuted_inner", &permuted_inner<Real>, exact("bra"), exact("ket"),
          "positions"_a, "sum of conj(bra[i]) ket[j], where bit k of i is the bit at positions[k] of j.");
    m.def("project", &project<Real>, exact("shard"), "first"_a, "mask"_a, "value"_a, "scale"_a,
          "Scales the amplitudes whose index has the bits `value` under `mask`; the others become 0.");
    m.def("reset_bit", &reset_bit<Real>, exact("shard"), "position"_a, "outcome"_a, "scale"_a,
          "Moves the amplitudes whose bit at `position` is `outcome` to where it is 0, scaled; the others become 0.");
    plan.def("add_expectations", &add_expectations<Real>, exact("shard"), "first"_a,
             exact("out"), "Adds the observables' values in a shard to out (float64).");
    plan.def("apply", &apply<Real>, exact("shard"), "first"_a, exact("weights"),
             exact("out"), "add"_a, exact("values").none(),
             "out = the sum of all terms, times their observables' weights, applied to the shard; with `add` it is added "
             "to what is there. out is another array of the same size. The observables' values are added to `values`.");
}

}  // namespace

void bind_measure(nb::module_& m) {
    nb::class_<qdist::PauliPlan> plan(m, "PauliPlan",
                                      "Pauli strings, by masks of bit positions, arranged in passes over a shard of "
                                      "2**bits amplitudes, in tiles of 2**tile_bits; no x mask reaches beyond the shard. "
                                      "as_product: whether the value of a single observable, with real coefficients, comes "
                                      "the way its product with a state does.");
    plan.def(
            "__init__",
            [](qdist::PauliPlan* self, int bits, Array<const Index> x, Array<const Index> z,
               Array<const std::complex<double>> coefficients, Array<const std::int64_t> observable, int observables,
               int tile_bits, bool as_product) {
                qdist::check_range(bits, 0, qdist::max_index_bits, "bits");
                qdist::check_range(observables, 0, (std::int64_t(1) << 31) - 2, "the number of observables");
                for (std::size_t size : {z.size(), coefficients.size(), observable.size()})
                    qdist::check_size(size, x.size(), "z, coefficients and observable");
                const int signs = qdist::max_index_bits - (qdist::Lift(bits).bits - bits);
                for (std::size_t k = 0; k < x.size(); ++k) {
                    qdist::check_mask(x.data()[k], bits, "the flips of a string");
                    qdist::check_mask(z.data()[k], signs, "the signs of a string");
                    qdist::check_range(observable.data()[k], 0, observables - 1, "the number of an observable");
                }
                new (self) qdist::PauliPlan(bits, span_of(x), span_of(z), span_of(coefficients), span_of(observable),
                                            observables, tile_bits, as_product);
            },
            "bits"_a, exact("x"), exact("z"), exact("coefficients"),
            exact("observable"), "observables"_a, "tile_bits"_a, "as_product"_a = false)
        .def_prop_ro("passes", [](const qdist::PauliPlan& self) { return self.passes.size(); },
                     "How often the plan reads the shard.");
    bind<float>(m, plan);
    bind<double>(m, plan);
    m.def("descend", &descend, exact("trees"), "depth"_a, exact("row"),
          exact("shot"), "key"_a, "level"_a, exact("out"),
          "Sums the trees, then walks each shot down the tree of its row; out is the leaf where it ends.");
}
