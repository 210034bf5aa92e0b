// The threads of the pool: one for all of the process.
#include "base/pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace qdist {

int default_threads() {
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

namespace {

// The core that this thread is on; -1 where the system does not say.
int this_core() {
#ifdef __linux__
    return sched_getcpu();
#else
    return -1;
#endif
}

// Keeps a helping thread off the core of the thread that it helps. Systems wake a thread on the core of the one that wakes it,
// where that has to stop for it, and may take tens of milliseconds to move it to a core that does nothing.
class OwnCore {
public:
    // Moves this thread if it is on that core, and keeps it off until it is in the way elsewhere. It stays where there is no
    // other core.
    void leave(int core) {
#ifdef __linux__
        if (core < 0 || core >= CPU_SETSIZE || this_core() != core) return;
        cpu_set_t now;
        if (sched_getaffinity(0, sizeof now, &now)) return;
        // Somebody else may have set them.
        if (!known_ || !CPU_EQUAL(&now, &left_)) allowed_ = now;
        left_ = allowed_;
        CPU_CLR(core, &left_);
        known_ = CPU_COUNT(&left_) > 0 && sched_setaffinity(0, sizeof left_, &left_) == 0;
#else
        (void)core;
#endif
    }

private:
#ifdef __linux__
    // The cores that it may use, and those without the one that it left.
    cpu_set_t allowed_, left_;
    bool known_ = false;
#endif
};

class Pool {
public:
    // One for all of the process. It is never destroyed: its threads sleep until the process ends.
    static Pool& instance() {
        static Pool* const pool = new Pool;
        // A forked child has none of the threads.
        static const int registered = pthread_atfork(nullptr, nullptr, [] { new (pool) Pool; });
        (void)registered;
        return *pool;
    }

    void run(int threads, std::size_t count, Job job) {
        threads = int(std::min<std::size_t>(std::min(threads, most_threads), count));
        std::unique_lock<std::mutex> alone(callers_, std::defer_lock);
        if (threads <= 1 || inside_ || !alone.try_lock()) {
            PieceRange all;
            all.last = count;
            Pieces pieces(&all, 1, 0);
            return job.call(job.body, pieces);
        }
        start(threads - 1);
        if (ranges_.size() < std::size_t(threads)) ranges_ = std::vector<PieceRange>(threads);
        for (int t = 0; t < threads; ++t) {
            ranges_[t].next.store(count * t / threads, std::memory_order_relaxed);
            ranges_[t].last = count * (t + 1) / threads;
        }
        job_ = job, failure_ = nullptr;
        caller_core_.store(this_core(), std::memory_order_relaxed);
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
            job_.call(job_.body, pieces);
        } catch (...) {
            failure = std::current_exception();
        }
        inside_ = false;
        return failure;
    }

    void help(int number) {
        std::uint64_t last = 0;
        OwnCore core;
        while (true) {
            std::uint64_t gate = 0;
            const auto calls = [&] {
                gate = gate_.load();
                return (gate & open) && (gate & epochs) != last && number < int((gate & (open - 1)) / one_thread);
            };
            if (!spin(calls)) {
                std::unique_lock<std::mutex> lock(mutex_);
                ++asleep_;
                while (!calls()) {
                    work_.wait(lock);
                    lock.unlock();
                    core.leave(caller_core_.load(std::memory_order_relaxed));
                    lock.lock();
                }
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
    std::atomic<int> caller_core_{-1};
    std::vector<PieceRange> ranges_;
    Job job_{};
    std::exception_ptr failure_;
    int started_ = 0;
};

}  // namespace

void run_job(int threads, std::size_t count, Job job) { Pool::instance().run(threads, count, job); }

}  // namespace qdist
