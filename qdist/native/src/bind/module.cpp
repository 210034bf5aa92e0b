// The native module. Every kernel releases the GIL while it runs.
#include "base/caches.hpp"
#include "base/checks.hpp"
#include "base/crc32.hpp"
#include "base/pool.hpp"
#include "bind/arrays.hpp"
#include "bind/unlocked.hpp"
#include "calls/direct_call.hpp"

void bind_batch(nb::module_& m);
void bind_calls(nb::module_& m);
void bind_cuda(nb::module_& m);
void bind_exchange(nb::module_& m);
void bind_forms(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_matrices(nb::module_& m);
void bind_measure(nb::module_& m);
void bind_pauli(nb::module_& m);
void bind_program(nb::module_& m);
void bind_program_double(nb::module_& m);
void bind_program_single(nb::module_& m);
void bind_search(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_xla(nb::module_& m);

namespace {

void set_threads(int threads) {
    qdist::check_range(threads, 1, qdist::most_threads, "the number of threads");
    qdist::chosen_threads = threads;
}

std::size_t set_beyond_caches(std::size_t bytes) { return qdist::beyond_caches.exchange(bytes); }

std::uint32_t crc32(const Array<const std::uint8_t>& data, std::uint32_t before) {
    const Unlocked unlocked;
    return qdist::crc32(data.data(), data.size(), before);
}

}  // namespace

NB_MODULE(QDIST_MODULE, m) {
    // What Python still holds when it ends is no leak of a user's making.
    nb::set_leak_warnings(false);
    m.attr("variant") = QDIST_VARIANT;
    m.def("direct_call", &qdist::direct_call, "context"_a,
          "A function of (x, out) that checks both, notes the call and runs primitive(x, out); it returns out, or None "
          "where the arrays are no plain case. context: (op, comm, primitive, active, count, array_type, rows, bools, "
          "table, op_code, reduction_code, settle).");
    bind_batch(m);
    bind_calls(m);
    bind_cuda(m);
    bind_exchange(m);
    bind_graph(m);
    bind_matrices(m);
    bind_measure(m);
    bind_pauli(m);
    bind_program(m);
    bind_program_single(m);
    bind_program_double(m);
    bind_forms(m);
    bind_search(m);
    bind_tensor(m);
    bind_xla(m);
    m.def("crc32", &crc32, exact("data"), "before"_a = 0, "As zlib.crc32, which takes several times as long.");
    m.def("max_threads", &qdist::max_threads, "Threads that the next kernel will use.");
    m.def("set_beyond_caches", &set_beyond_caches, "bytes"_a,
          "Sets how large a state must be to be stored past the caches, and gives what it was.");
    m.def("set_threads", &set_threads, "threads"_a, "Sets the threads of the kernels that follow.");
}
