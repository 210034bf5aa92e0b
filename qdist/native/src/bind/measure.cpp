// Kernels that read or collapse a state. A shard has 2^bits amplitudes, and `first` is the index of its first one, by
// bit position, in the whole state. What is summed is added to `out`, so that several shards can share a result.
#include "base/bits.hpp"
#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "bind/unlocked.hpp"
#include "measure/inner.hpp"
#include "measure/probabilities.hpp"
#include "measure/project.hpp"
#include "measure/sampling.hpp"
#include "moves/permute.hpp"

namespace qdist::bindings {
namespace {

using Positions = std::vector<int>;

// The bits of a shard, which begins at place `first` of the whole state.
int bits_of(std::size_t size, Index first) {
    const int bits = checked_bits(size);
    check_first(first, size, Lift(bits).bits - bits);
    return bits;
}

template <class Real>
void add_probabilities(Shard<Real> shard, Index first, Positions positions, Array<double> out) {
    const Lift lift(bits_of(shard.size(), first));
    check_positions(positions, max_index_bits - (lift.bits - lift.own));
    check_size(out.size(), std::size_t(1) << positions.size(), "out");
    const Padded<Real> padded(shard);
    for (int& position : positions) position = lift.position(position);
    const Unlocked unlocked;
    qdist::add_probabilities(padded.data(), lift.bits, lift.mask(first), positions, out.data());
}

template <class Real>
void add_weighted(Shard<Real> ket, Index first, const Positions& positions, Array<const double> weights, MutableShard<Real> bra) {
    bits_of(ket.size(), first);
    check_size(bra.size(), ket.size(), "the bra");
    check_positions(positions, max_index_bits);
    check_size(weights.size(), std::size_t(1) << positions.size(), "weights");
    const Unlocked unlocked;
    qdist::add_weighted(ket.data(), ket.size(), first, positions, weights.data(), bra.data());
}

template <class Real>
void add_leaves(Shard<Real> shard, Index first, Array<const std::int64_t> bases, const Positions& positions,
                Array<double> trees) {
    const int bits = bits_of(shard.size(), first);
    check_positions(positions, max_index_bits);
    check_range(std::int64_t(positions.size()), 0, max_index_bits - 1, "the depth of a tree");
    check_size(trees.size(), bases.size() << (positions.size() + 1), "trees");
    const Unlocked unlocked;
    qdist::add_leaves(numbers(shard), bits, first, span_of(bases), positions, trees.data());
}

void descend(Array<double> trees, int depth, Array<const std::int64_t> row, Array<const std::int64_t> shot, Index key, int level,
             Array<std::int64_t> out) {
    check_range(depth, 0, max_index_bits - 1, "depth");
    // A shot has 64 random numbers.
    check_range(level, 0, 64 - depth, "level");
    check_size(shot.size(), row.size(), "shot");
    check_size(out.size(), row.size(), "out");
    const std::size_t rows = trees.size() >> (depth + 1);
    check_size(trees.size(), rows << (depth + 1), "trees");
    const Unlocked unlocked;
    for (std::int64_t r : span_of(row)) check_range(r, 0, std::int64_t(rows) - 1, "the number of a tree");
    sum_trees(trees.data(), rows, depth);
    qdist::descend(trees.data(), depth, span_of(row), span_of(shot), key, level, out.data());
}

template <class Real>
void permuted_copy(Shard<Real> source, const Positions& positions, MutableShard<Real> out) {
    check_permutation(positions, source.size());
    check_size(out.size(), source.size(), "out");
    check_no_overlap(source, out, "source and out");
    const Unlocked unlocked;
    qdist::permuted_copy(source.data(), positions, out.data());
}

template <class Real>
double squared_norm(Shard<Real> shard) {
    const Unlocked unlocked;
    return qdist::inner<true>(numbers(shard), numbers(shard), shard.size()).real();
}

template <class Real>
std::complex<double> inner(Shard<Real> bra, Shard<Real> ket) {
    check_size(ket.size(), bra.size(), "the ket");
    const Unlocked unlocked;
    return qdist::inner<false>(numbers(bra), numbers(ket), bra.size());
}

template <class Real>
std::complex<double> permuted_inner(Shard<Real> bra, Shard<Real> ket, const Positions& positions) {
    check_permutation(positions, bra.size());
    check_size(ket.size(), bra.size(), "the ket");
    const Unlocked unlocked;
    return qdist::permuted_inner(numbers(bra), numbers(ket), positions);
}

template <class Real>
void project(MutableShard<Real> shard, Index first, Index mask, Index value, double scale) {
    const int bits = bits_of(shard.size(), first);
    check_condition(mask, value, max_index_bits, "the projection");
    const Unlocked unlocked;
    qdist::project(numbers(shard), bits, first, mask, value, Real(scale));
}

template <class Real>
void reset_bit(MutableShard<Real> shard, int position, bool outcome, double scale) {
    const int bits = bits_of(shard.size(), 0);
    check_range(position, 0, bits - 1, "position");
    const Unlocked unlocked;
    qdist::reset_bit(numbers(shard), bits, position, outcome, Real(scale));
}

template <class Real>
void bind(nb::module_& m) {
    m.def("add_probabilities", &add_probabilities<Real>, exact("shard"), "first"_a, "positions"_a, exact("out"),
          "Adds |amplitude|^2 to out, indexed with the bit at positions[0] as bit 0. out: float64, 2**len(positions).");
    m.def("add_weighted", &add_weighted<Real>, exact("ket"), "first"_a, "positions"_a, exact("weights"), exact("bra"),
          "bra[i] += weights[j] ket[i], where bit k of j is the bit at positions[k] of i.");
    m.def("add_leaves", &add_leaves<Real>, exact("shard"), "first"_a, exact("bases"), "positions"_a, exact("trees"),
          "Adds |amplitude|^2 of the indices base | bits at positions to the leaves of each base's tree.");
    m.def("permuted_copy", &permuted_copy<Real>, exact("source"), "positions"_a, exact("out"),
          "out[i] = source[j], where bit k of i is the bit at positions[k] of j.");
    m.def("squared_norm", &squared_norm<Real>, exact("shard"), "Sum of |amplitude|^2, accumulated in double.");
    m.def("inner", &inner<Real>, exact("bra"), exact("ket"), "sum of conj(bra[i]) ket[i], accumulated in double.");
    m.def("permuted_inner", &permuted_inner<Real>, exact("bra"), exact("ket"), "positions"_a,
          "sum of conj(bra[i]) ket[j], where bit k of i is the bit at positions[k] of j.");
    m.def("project", &project<Real>, exact("shard"), "first"_a, "mask"_a, "value"_a, "scale"_a,
          "Scales the amplitudes whose index has the bits `value` under `mask`; the others become 0.");
    m.def("reset_bit", &reset_bit<Real>, exact("shard"), "position"_a, "outcome"_a, "scale"_a,
          "Moves the amplitudes whose bit at `position` is `outcome` to where it is 0, scaled; the others become 0.");
}

}  // namespace
}  // namespace qdist::bindings

void bind_measure(nb::module_& m) {
    using namespace qdist::bindings;
    bind<float>(m);
    bind<double>(m);
    m.def("descend", &descend, exact("trees"), "depth"_a, exact("row"), exact("shot"), "key"_a, "level"_a, exact("out"),
          "Sums the trees, then walks each shot down the tree of its row; out is the leaf where it ends.");
}
