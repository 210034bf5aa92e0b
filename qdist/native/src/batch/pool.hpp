// Threads that help with a job, if they get a core in time.
//
// A caller takes pieces of its job one by one, and so does every thread of the pool that wakes up meanwhile. When none are
// left, the caller waits for those that are under way and for nothing else: a thread that other processes kept from running
// has nothing to do any more. An OpenMP region would wait until each of its threads had been on a core.
#pragma once
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

namespace qdist::batch {

class Pool {
public:
    // Takes the number of the next piece; `count` or more when none are left.
    using Next = std::function<std::size_t()>;

    // One for all of the process. It is never destroyed: its threads sleep until the process ends.
    static Pool& instance() {
        static Pool* const pool = new Pool;
        // A forked child has none of the threads.
        static const int registered = pthread_atfork(nullptr, nullptr, [] { new (pool) Pool; });
        (void)registered;
        return *pool;
    }

    // Calls body(next) in this thread, and in up to threads - 1 others, to run pieces 0 .. count - 1. What a body throws is
    // thrown here, when all have ended. A second caller at the same time runs its job alone.
    void run(int threads, std::size_t count, const std::function<void(const Next&)>& body) {
        std::unique_lock<std::mutex> alone(callers_, std::try_to_lock);
        std::atomic<std::size_t> piece = 0;
        const Next next = [&] { return piece.fetch_add(1, std::memory_order_relaxed); };
        if (threads <= 1 || !alone.owns_lock()) return body(next);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            while (started_ < threads - 1) {
                std::thread(&Pool::help, this).detach();
                ++started_;
            }
            body_ = &body, next_ = &next, wanted_ = threads - 1, active_ = 0, failure_ = nullptr;
        }
        if (threads == 2)
            work_.notify_one();
        else
            work_.notify_all();
        std::exception_ptr failure;
        try {
            body(next);
        } catch (...) {
            failure = std::current_exception();
        }
        std::unique_lock<std::mutex> lock(mutex_);
        // Nobody joins from now on.
        wanted_ = 0;
        done_.wait(lock, [&] { return active_ == 0; });
        if (!failure) failure = failure_;
        lock.unlock();
        if (failure) std::rethrow_exception(failure);
    }

private:
    Pool() = default;

    void help() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (true) {
            work_.wait(lock, [&] { return wanted_ > 0; });
            --wanted_;
            ++active_;
            const auto* const body = body_;
            const Next* const next = next_;
            lock.unlock();
            std::exception_ptr failure;
            try {
                (*body)(*next);
            } catch (...) {
                failure = std::current_exception();
            }
            lock.lock();
            if (failure) failure_ = failure;
            if (--active_ == 0) done_.notify_one();
        }
    }

    std::mutex callers_, mutex_;
    std::condition_variable work_, done_;
    const std::function<void(const Next&)>* body_ = nullptr;
    const Next* next_ = nullptr;
    int started_ = 0, wanted_ = 0, active_ = 0;
    std::exception_ptr failure_;
};

}  // namespace qdist::batch
