// The Python face of the search for few exchanges.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "narrow.hpp"
#include "search.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace qdist;

using Masks = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Found = std::tuple<std::vector<Mask>, std::vector<int>, std::int64_t>;

Found search(Masks mixes, Masks x_like, Masks z_like, int num_qubits, int close, std::optional<Mask> start, std::int64_t limit) {
    std::vector<Action> gates(mixes.size());
    for (std::size_t g = 0; g < gates.size(); ++g) {
        gates[g] = {mixes.data()[g], x_like.data()[g], z_like.data()[g], 0};
        if (std::popcount(gates[g].mixes) > close) throw nb::value_error("a gate mixes more qubits than are close");
    }
    nb::gil_scoped_release release;
    // Most of the work goes into fewer exchanges, the rest into smaller ones.
    Search fewest(gates, close, start, limit - limit / 4);
    std::vector<Mask> sets = fewest.run();
    if (start) sets.insert(sets.begin(), *start);
    Stages stages(gates, num_qubits, close, std::move(sets), start.has_value());
    stages.narrow(limit / 4);
    return {stages.sets(), stages.when(), fewest.work() + stages.work()};
}

}  // namespace

void bind_search(nb::module_& m) {
    m.def("search", &search, "mixes"_a, "x_like"_a, "z_like"_a, "num_qubits"_a, "close"_a, "start"_a.none(), "limit"_a,
          "Few stages in which all gates can run: (close qubits of each as a mask, stage of each gate, work done).");
}
