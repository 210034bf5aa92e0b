// Threads that help with a job, if they get a core in time.
//
// A job is a number of pieces. Every thread has a range of them of its own, the same in job after job, so that what it reads
// is in its cache already; then it takes what others have left of theirs. When none are left, the caller waits for those
// that are under way and for nothing else: a thread that other processes kept from running has nothing to do any more. An
// OpenMP region would wait until each of its threads had been on a core.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>

namespace qdist {

inline constexpr int most_threads = 1024;

// OMP_NUM_THREADS, or the cores that this process may use.
int default_threads();

// What a thread of the process has set for itself; 0: nothing.
inline thread_local int chosen_threads = 0;

// Threads that the next job of this thread may use.
inline int max_threads() { return chosen_threads ? chosen_threads : default_threads(); }

// The pieces of a job that one thread has first.
struct alignas(64) PieceRange {
    std::atomic<std::size_t> next{0};
    std::size_t last = 0;
};

// What one thread takes of a job.
class Pieces {
public:
    static constexpr std::size_t none = ~std::size_t(0);

    Pieces(PieceRange* ranges, int threads, int own) : ranges_(ranges), threads_(threads), left_(threads), own_(own) {}

    std::size_t next() {
        for (; left_ > 0; --left_, own_ = own_ + 1 < threads_ ? own_ + 1 : 0) {
            PieceRange& range = ranges_[own_];
            // Looked at first: a range that is used up is written no more.
            if (range.next.load(std::memory_order_relaxed) >= range.last) continue;
            if (const std::size_t piece = range.next.fetch_add(1, std::memory_order_relaxed); piece < range.last) return piece;
        }
        return none;
    }

private:
    PieceRange* ranges_;
    int threads_, left_, own_;
};

// A job as the pool runs it, whatever it does: compiled once, and not with every loop.
struct Job {
    const void* body;
    void (*call)(const void* body, Pieces& pieces);
};

void run_job(int threads, std::size_t count, Job job);

// Calls body(pieces) in this thread, and in up to threads - 1 others, which take pieces 0 .. count - 1. What a body throws is
// thrown here, when all have ended. A second caller at the same time runs its job alone, and so does a body that has a job
// of its own.
template <class Body>
void run_on_threads(int threads, std::size_t count, const Body& body) {
    run_job(threads, count, {&body, [](const void* f, Pieces& pieces) { (*static_cast<const Body*>(f))(pieces); }});
}

// Calls work(own, k) for k = 0 .. count - 1, on this thread's number of threads; `own` is what make() gives each of them.
template <class Make, class Work>
void each_on_threads(std::size_t count, Make make, Work work) {
    run_on_threads(max_threads(), count, [&](Pieces& pieces) {
        auto own = make();
        for (std::size_t k = pieces.next(); k != Pieces::none; k = pieces.next()) work(own, k);
    });
}

// Calls work(first, last) for ranges that make up 0 .. count: multiples of `grain` long, on threads where there are several.
template <class Work>
void ranges_on_threads(std::size_t count, std::size_t grain, Work work) {
    const std::size_t grains = (count + grain - 1) / grain, pieces = std::min<std::size_t>(grains, 64);
    each_on_threads(
        pieces, [] { return 0; },
        [&](int, std::size_t p) { work(p * grains / pieces * grain, std::min((p + 1) * grains / pieces * grain, count)); });
}

}  // namespace qdist
