// Kernels that move amplitudes: between a shard and the buffers of an exchange, and within a shard.
#include "base/bits.hpp"
#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "bind/unlocked.hpp"
#include "moves/pack.hpp"
#include "moves/permute.hpp"

namespace qdist::bindings {
namespace {

// Refuses indices beyond a shard's end and a buffer of the wrong size: memory is written here.
void check(std::size_t shard, Index base, Index within, std::size_t buffer) {
    if ((base & within) || (base | within) >= shard)
        refuse("base and within must be bits of the shard's indices, and different ones");
    if (buffer != std::size_t(1) << std::popcount(within)) refuse("the buffer must hold 2**(number of bits within) amplitudes");
}

template <class Real>
void pack(Shard<Real> shard, Index base, Index within, MutableShard<Real> out) {
    check(shard.size(), base, within, out.size());
    const Unlocked unlocked;
    qdist::pack(shard.data(), base, within, out.data());
}

template <class Real>
void unpack(Shard<Real> in, MutableShard<Real> shard, Index base, Index within) {
    check(shard.size(), base, within, in.size());
    const Unlocked unlocked;
    qdist::unpack(in.data(), shard.data(), base, within);
}

template <class Real>
void swap_parts(MutableShard<Real> a, Index base_a, MutableShard<Real> b, Index base_b, Index within) {
    const std::size_t size = std::size_t(1) << std::popcount(within);
    check(a.size(), base_a, within, size);
    check(b.size(), base_b, within, size);
    const Unlocked unlocked;
    qdist::swap_parts(a.data(), base_a, b.data(), base_b, within);
}

template <class Real>
void swap_positions(MutableShard<Real> shard, const std::vector<int>& partner) {
    check_permutation(partner, shard.size());
    for (int p = 0; p < int(partner.size()); ++p)
        if (partner[partner[p]] != p) refuse("positions must be exchanged in pairs");
    const Unlocked unlocked;
    qdist::swap_positions(shard.data(), partner);
}

template <class Real>
void bind(nb::module_& m) {
    m.def("pack", &pack<Real>, exact("shard"), "base"_a, "within"_a, exact("out"),
          "out = the amplitudes at base | b, for every setting b of the bits of `within`, in order.");
    m.def("unpack", &unpack<Real>, exact("source"), exact("shard"), "base"_a, "within"_a,
          "Puts what `pack` took back into its place.");
    m.def("swap_parts", &swap_parts<Real>, exact("a"), "base_a"_a, exact("b"), "base_b"_a, "within"_a,
          "Exchanges a[base_a | bits] with b[base_b | bits], for every setting of the bits of `within`.");
    m.def("swap_positions", &swap_positions<Real>, exact("shard"), "partner"_a,
          "Exchanges bit positions p and partner[p] of the amplitudes' indices, in place.");
}

}  // namespace
}  // namespace qdist::bindings

void bind_exchange(nb::module_& m) {
    using namespace qdist::bindings;
    bind<float>(m);
    bind<double>(m);
}
