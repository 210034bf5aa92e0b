// Forks: a child has none of the threads that its parent's kernels ran on.
#pragma once
#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#endif

namespace qdist {

// An OpenMP runtime keeps its threads for the next parallel region. A forked child inherits the record of them but not
// the threads, and would wait for them for ever. So the threads of the one that forks end before it does: parent and
// child each start new ones when they next need them.
inline void end_threads_before_forks() {
#ifdef _OPENMP
    static const int registered = pthread_atfork([] { omp_pause_resource_all(omp_pause_soft); }, nullptr, nullptr);
    (void)registered;
#endif
}

}  // namespace qdist
