// Threads that help with a job, if they get a core in time.
//
// A job is a number of pieces. Every thread has a range of them of its own, the same in job after job, so that what it reads
// is in its cache already; then it takes what others have left of theirs. When none are left, the caller waits for those
// that are under way and for nothing else: a thread that other processes kept from running has nothing to do any more. An
// OpenMP region would wait until each of its threads had been on a core.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace qdist {

inline constexpr int most_threads = 1024;

// OMP_NUM_THREADS, or the cores that this process may use.
inline int default_threads() {
    static const int found = [] {
        if (const char* given = std::getenv("OMP_NUM_THREADS"))
            if (const long number = std::strtol(given, nullptr, 10); number > 0) return int(std::min<long>(number, most_threads));
#ifdef __linux__
        cpu_set_t cores;
        if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
#endif
        return std::max(1, int(std::thread::hardware_concurrency()));
    }();
    return found;
}

// What a thread of the process has set for itself; 0: nothing.
inline thread_local int chosen_threads = 0;

// Threads that the next job of this thread may use.
inline int max_threads() { return chosen_threads ? chosen_threads : default_threads(); }

class Pool {
    struct alignas(64) Range {
        std::atomic<std::size_t> next{0};
        std::size_t last = 0;
    };

public:
    // What one thread takes of a job.
    class Pieces {
    public:
        static constexpr std::size_t none = ~std::size_t(0);

        std::size_t next() {
            for (; left_ > 0; --left_, own_ = own_ + 1 < threads_ ? own_ + 1 : 0) {
                Range& range = ranges_[own_];
                // Looked at first: a range that is used up is written no more.
                if (range.next.load(std::memory_order_relaxed) >= range.last) continue;
                if (const std::size_t piece = range.next.fetch_add(1, std::memory_order_relaxed); piece < range.last) return piece;
            }
            return none;
        }

    private:
        friend Pool;
        Pieces(Range* ranges, int threads, int own) : ranges_(ranges), threads_(threads), left_(threads), own_(own) {}

        Range* ranges_;
        int threads_, left_, own_;
    };

    // One for all of the process. It is never destroyed: its threads sleep until the process ends.
    static Pool& instance() {
        static Pool* const pool = new Pool;
        // A forked child has none of the threads.
        static const int registered = pthread_atfork(nullptr, nullptr, [] { new (pool) Pool; });
        (void)registered;
        return *pool;
    }

    // Calls body(pieces) in this thread, and in up to threads - 1 others, which take pieces 0 .. count - 1. What a body
    // throws is thrown here, when all have ended. A second caller at the same time runs its job alone, and so does a body
    // that has a job of its own.
    template <class Body>
    void run(int threads, std::size_t count, const Body& body) {
        threads = int(std::min<std::size_t>(std::min(threads, most_threads), count));
        std::unique_lock<std::mutex> alone(callers_, std::defer_lock);
        if (threads <= 1 || inside_ || !alone.try_lock()) {
            Range all;
            all.last = count;
            Pieces pieces(&all, 1, 0);
            return body(pieces);
        }
        start(threads - 1);
        if (ranges_.size() < std::size_t(threads)) ranges_ = std::vector<Range>(threads);
        for (int t = 0; t < threads; ++t) {
            ranges_[t].next.store(count * t / threads, std::memory_order_relaxed);
            ranges_[t].last = count * (t + 1) / threads;
        }
        body_ = &body, failure_ = nullptr;
        call_ = [](const void* f, Pieces& pieces) { (*static_cast<const Body*>(f))(pieces); };
        gate_.store((gate_.load() & epochs) + one_epoch + open + std::uint64_t(threads) * one_thread);
        if (asleep_.load() > 0) {
            { std::lock_guard<std::mutex> lock(mutex_); }
            work_.notify_all();
        }
        std::exception_ptr failure = attempt(0, threads);
        // Nobody joins from now on.
        gate_.fetch_and(~open);
        if (!spin([&] { return !(gate_.load(std::memory_order_acquire) & active); })) {
            std::unique_lock<std::mutex> lock(mutex_);
            caller_sleeps_.store(true);
            done_.wait(lock, [&] { return !(gate_.load() & active); });
            caller_sleeps_.store(false);
        }
        if (!failure) failure = failure_;
        alone.unlock();
        if (failure) std::rethrow_exception(failure);
    }

private:
    // The gate of jobs: how many there were, whether one may be joined, by threads of which numbers, and how many have.
    static constexpr std::uint64_t active = 0xffff, one_thread = 1 << 16, open = std::uint64_t(1) << 31,
                                   one_epoch = std::uint64_t(1) << 32, epochs = ~(one_epoch - 1);

    // How long a thread looks for what it waits for before it sleeps: longer than between the jobs of a run.
    static constexpr std::chrono::microseconds patience{100};

    Pool() = default;

    static void relax() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }

    template <class Holds>
    static bool spin(Holds holds) {
        const auto end = std::chrono::steady_clock::now() + patience;
        do
            for (int k = 0; k < 32; ++k, relax())
                if (holds()) return true;
        while (std::chrono::steady_clock::now() < end);
        return false;
    }

    // As many threads as can be had: a job needs none of them.
    void start(int wanted) {
        if (started_ >= wanted) return;
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            for (; started_ < wanted; ++started_) std::thread(&Pool::help, this, started_ + 1).detach();
        } catch (const std::system_error&) {
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    std::exception_ptr attempt(int number, int threads) {
        Pieces pieces(ranges_.data(), threads, number);
        inside_ = true;
        std::exception_ptr failure;
        try {
            call_(body_, pieces);
        } catch (...) {
            failure = std::current_exception();
        }
        inside_ = false;
        return failure;
    }

    void help(int number) {
        std::uint64_t last = 0;
        while (true) {
            std::uint64_t gate = 0;
            const auto calls = [&] {
                gate = gate_.load();
                return (gate & open) && (gate & epochs) != last && number < int((gate & (open - 1)) / one_thread);
            };
            if (!spin(calls)) {
                std::unique_lock<std::mutex> lock(mutex_);
                ++asleep_;
                work_.wait(lock, calls);
                --asleep_;
            }
            last = gate & epochs;
            bool joined = false;
            while (!joined && (gate & open) && (gate & epochs) == last) joined = gate_.compare_exchange_weak(gate, gate + 1);
            if (!joined) continue;
            if (const std::exception_ptr failure = attempt(number, int((gate & (open - 1)) / one_thread))) {
                std::lock_guard<std::mutex> lock(mutex_);
                failure_ = failure;
            }
            const std::uint64_t before = gate_.fetch_sub(1);
            if (!(before & open) && (before & active) == 1 && caller_sleeps_.load()) {
                std::lock_guard<std::mutex> lock(mutex_);
                done_.notify_one();
            }
        }
    }

    // Whether this thread is in the middle of a job.
    static inline thread_local bool inside_ = false;

    std::mutex callers_, mutex_;
    std::condition_variable work_, done_;
    std::atomic<std::uint64_t> gate_{0};
    std::atomic<int> asleep_{0};
    std::atomic<bool> caller_sleeps_{false};
    std::vector<Range> ranges_;
    const void* body_ = nullptr;
    void (*call_)(const void*, Pieces&) = nullptr;
    std::exception_ptr failure_;
    int started_ = 0;
};

// Calls work(own, k) for k = 0 .. count - 1, on this thread's number of threads; `own` is what make() gives each of them.
template <class Make, class Work>
void each_on_threads(std::size_t count, Make make, Work work) {
    Pool::instance().run(max_threads(), count, [&](Pool::Pieces& pieces) {
        auto own = make();
        for (std::size_t k = pieces.next(); k != Pool::Pieces::none; k = pieces.next()) work(own, k);
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
