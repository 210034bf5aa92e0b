// As much of OpenMP's runtime as the kernels use, on plain threads, for ThreadSanitizer.
//
// ThreadSanitizer does not see the futexes by which libgomp starts threads and lets them meet, and would report every
// parallel loop as a race. Here both are calls of pthreads, which it knows: what it then reports is a race of ours.
// Loops with schedule(static) are divided by the compiler, so that no more than this is asked of a runtime.
#include <pthread.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace {

struct Team {
    unsigned size;
    pthread_barrier_t barrier;
};

thread_local Team* team = nullptr;
thread_local int number = 0, wanted = 0;

int most_threads() {
    if (wanted > 0) return wanted;
    const char* setting = std::getenv("OMP_NUM_THREADS");
    const int threads = setting ? std::atoi(setting) : 0;
    return threads > 0 ? threads : 2;
}

}  // namespace

extern "C" {

void GOMP_parallel(void (*region)(void*), void* data, unsigned threads, unsigned) {
    // A region inside of another runs on one thread, as it does with libgomp.
    Team own{team && team->size > 1 ? 1u : threads ? threads : unsigned(most_threads()), {}};
    Team* const outer = team;
    const int outer_number = number;
    pthread_barrier_init(&own.barrier, nullptr, own.size);
    const auto member = [&](int k) {
        team = &own;
        number = k;
        region(data);
    };
    std::vector<std::thread> others;
    for (unsigned k = 1; k < own.size; ++k) others.emplace_back(member, int(k));
    member(0);
    for (std::thread& other : others) other.join();
    team = outer;
    number = outer_number;
    pthread_barrier_destroy(&own.barrier);
}

void GOMP_barrier() {
    if (team && team->size > 1) pthread_barrier_wait(&team->barrier);
}

int omp_get_thread_num() { return number; }
int omp_get_num_threads() { return team ? int(team->size) : 1; }
int omp_get_max_threads() { return most_threads(); }
void omp_set_num_threads(int threads) { wanted = threads; }
int omp_pause_resource_all(int) { return 0; }
}
