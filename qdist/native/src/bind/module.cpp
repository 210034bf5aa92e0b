// The native module. Every kernel releases the GIL while it runs.
#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#endif

#include "base/checks.hpp"
#include "bind/arrays.hpp"
#include "calls/direct_call.hpp"

void bind_batch(nb::module_& m);
void bind_calls(nb::module_& m);
void bind_exchange(nb::module_& m);
void bind_matrices(nb::module_& m);
void bind_measure(nb::module_& m);
void bind_pauli(nb::module_& m);
void bind_program_double(nb::module_& m);
void bind_program_single(nb::module_& m);
void bind_search(nb::module_& m);
void bind_tensor(nb::module_& m);

namespace {

// An OpenMP runtime keeps its threads for the next parallel region. A forked child inherits the record of them but not
// the threads, and would wait for them for ever. So the threads of the one that forks end before it does: parent and
// child each start new ones when they next need them.
void end_threads_before_forks() {
#ifdef _OPENMP
    static const int registered = pthread_atfork([] { omp_pause_resource_all(omp_pause_soft); }, nullptr, nullptr);
    (void)registered;
#endif
}

int max_threads() {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

void set_threads(int threads) {
    // More than a machine can start end the process.
    qdist::check_range(threads, 1, 1024, "the number of threads");
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
}

}  // namespace

NB_MODULE(QDIST_MODULE, m) {
    m.attr("variant") = QDIST_VARIANT;
    end_threads_before_forks();
    m.def("direct_call", &qdist::direct_call, "context"_a,
          "A function of (x, out) that checks both, notes the call and runs primitive(x, out); it returns out, or None "
          "where the arrays are no plain case. context: (op, comm, primitive, active, count, array_type, rows, bools, "
          "table, op_code, reduction_code, settle).");
    bind_batch(m);
    bind_calls(m);
    bind_exchange(m);
    bind_matrices(m);
    bind_measure(m);
    bind_pauli(m);
    bind_program_single(m);
    bind_program_double(m);
    bind_search(m);
    bind_tensor(m);
    m.def("max_threads", &max_threads, "Threads that the next kernel will use.");
    m.def("set_threads", &set_threads, "threads"_a, "Sets the threads of the kernels that follow.");
}
